package bench_test

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	suite "github.com/purecuda/purecuda/gpuc/internal/testdata/suites"
	"github.com/purecuda/purecuda/runtime"
)

type (
	f64  = []float64
	i32  = []int32
	u8   = []uint8
	u32  = []uint32
	u64  = []uint64
	vecs = []gpu.Float4
)

var (
	chip    = suite.Chip{Cap: 0.5, Rx: 0.1, Ry: 0.2, Rz: 0.01, Ambient: 80}
	stencil = [4]float64{-8.0 / 3, 0, 1.0 / 6, 1.0 / 12}
	blur    = func() (w [25]float32) {
		for i := range w {
			w[i] = number(i) / 25
		}
		return w
	}()
)

// filled makes a slice of numbers that f gives.
func filled[T any](n int, f func(i int) T) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = f(i)
	}
	return v
}

// below gives numbers from 0 to m-1 that look random.
func below[T int32 | uint8](n, m int) []T {
	return filled(n, func(i int) T { return T(bits(i+n) >> 32 % uint64(m)) })
}

func doubles(n int) f64 { return filled(n, func(i int) float64 { return float64(number(i + n)) }) }

// sparse gives where the rows of a sparse matrix begin: a row has up to most entries.
func sparse(rows, most int) i32 {
	v := make(i32, rows+1)
	for i := range rows {
		v[i+1] = v[i] + int32(bits(i)>>32%uint64(most+1))
	}
	return v
}

// definite gives matrices that Cholesky can take apart.
func definite(n int) [][8][8]float32 {
	v := matrices(n)
	for i := range v {
		for r := range 8 {
			for c := range r {
				v[i][r][c] = v[i][c][r]
			}
			v[i][r][r] = 9 + v[i][r][r]
		}
	}
	return v
}

// crcTable is that of CRC-32 with the polynomial of IEEE.
func crcTable() u32 {
	return filled(256, func(i int) uint32 {
		c := uint32(i)
		for range 8 {
			if c&1 != 0 {
				c = c>>1 ^ 0xEDB88320
			} else {
				c >>= 1
			}
		}
		return c
	})
}

// square is a grid with a thread for each of w*w points.
func square(w int) gpu.Shape { return shape((w+31)/32, (w+7)/8, 32, 8, 1) }

// line is a grid with a thread for each of n.
func line(n int) gpu.Shape { return shape((n+255)/256, 1, 256, 1, 1) }

var suites = []kernel{
	{"Pathfinder", 2048, func(n int) (gpu.Shape, []any) {
		cols, rows := 1024*n, 20
		return shape((cols+215)/216, 1, 256, 1, 1), []any{make(i32, cols), below[int32](cols, 10), below[int32](cols*rows, 10), cols, rows}
	}, func(t *gpu.Thread, a []any) {
		suite.Pathfinder(t, as[i32](a, 0), as[i32](a, 1), as[i32](a, 2), as[int](a, 3), as[int](a, 4))
	}, []int{0}},

	{"HotSpot", 64, func(n int) (gpu.Shape, []any) {
		w := 64 * n
		return square(w), []any{make(f32, w*w), floats(w * w), floats(w * w), w, w, runtime.Struct(&chip)}
	}, func(t *gpu.Thread, a []any) {
		suite.HotSpot(t, as[f32](a, 0), as[f32](a, 1), as[f32](a, 2), as[int](a, 3), as[int](a, 4), chip)
	}, []int{0}},

	{"Needleman", 4096, func(n int) (gpu.Shape, []any) {
		return shape(2*n, 1, 64, 1, 1), []any{make(i32, 128*n), below[uint8](128*n, 4), below[uint8](128*n+1, 4), int32(2)}
	}, func(t *gpu.Thread, a []any) {
		suite.Needleman(t, as[i32](a, 0), as[u8](a, 1), as[u8](a, 2), as[int32](a, 3))
	}, []int{0}},

	{"KMeans", 2048, func(n int) (gpu.Shape, []any) {
		points, k, dims := 512*n-3, 8, 18
		return line(points), []any{make(i32, points), floats(points * dims), floats(k * dims), points, k, dims}
	}, func(t *gpu.Thread, a []any) {
		suite.KMeans(t, as[i32](a, 0), as[f32](a, 1), as[f32](a, 2), as[int](a, 3), as[int](a, 4), as[int](a, 5))
	}, []int{0}},

	{"BFS", 1024, func(n int) (gpu.Shape, []any) {
		nodes := 1024 * n
		first := sparse(nodes, 15)
		level := filled(nodes, func(i int) int32 { return 3 + int32(bits(i)>>63)*(1<<30) })
		return line(nodes), []any{level, first, below[int32](int(first[nodes]), nodes), int32(3)}
	}, func(t *gpu.Thread, a []any) {
		suite.BFS(t, as[i32](a, 0), as[i32](a, 1), as[i32](a, 2), as[int32](a, 3))
	}, []int{0}},

	{"EP", 512, func(n int) (gpu.Shape, []any) {
		return shape(2*n, 1, 256, 1, 1), []any{make(u64, 10), uint64(271828183), 64}
	}, func(t *gpu.Thread, a []any) { suite.EP(t, as[u64](a, 0), as[uint64](a, 1), as[int](a, 2)) }, []int{0}},

	{"CG", 1024, func(n int) (gpu.Shape, []any) {
		rows := 512*n - 3
		first := sparse(rows, 40)
		entries := int(first[rows])
		return line(rows), []any{make(f64, rows), doubles(rows), doubles(entries), below[int32](entries, rows), first}
	}, func(t *gpu.Thread, a []any) {
		suite.CG(t, as[f64](a, 0), as[f64](a, 1), as[f64](a, 2), as[i32](a, 3), as[i32](a, 4))
	}, []int{0}},

	{"MG", 16, func(n int) (gpu.Shape, []any) {
		w := 16 * n
		s := shape(n, 4*n, 16, 4, 4)
		s.Grid.Z = 4 * n
		return s, []any{make(f64, w*w*w), doubles(w * w * w), doubles(w * w * w), w, runtime.Struct(&stencil)}
	}, func(t *gpu.Thread, a []any) {
		suite.MG(t, as[f64](a, 0), as[f64](a, 1), as[f64](a, 2), as[int](a, 3), stencil)
	}, []int{0}},

	{"MD", 2048, func(n int) (gpu.Shape, []any) {
		atoms, count := 256*n-3, 32
		position := filled(atoms, func(i int) gpu.Float4 {
			return gpu.Float4{X: 3 * number(3*i), Y: 3 * number(3*i+1), Z: 3 * number(3*i+2)}
		})
		neighbours := filled(atoms*count, func(i int) int32 { return int32((i%atoms + 1 + int(bits(i)>>32)%(atoms-1)) % atoms) })
		return line(atoms), []any{make(vecs, atoms), position, neighbours, atoms, count, float32(8), float32(1.5), float32(2)}
	}, func(t *gpu.Thread, a []any) {
		suite.MD(t, as[vecs](a, 0), as[vecs](a, 1), as[i32](a, 2), as[int](a, 3), as[int](a, 4), as[float32](a, 5), as[float32](a, 6), as[float32](a, 7))
	}, []int{0}},

	{"Matmul", 32, func(n int) (gpu.Shape, []any) {
		w, k := 32*n, 33*n
		return square(w), []any{make(f32, w*w), floats(w * k), floats(w * k), w, w, k}
	}, func(t *gpu.Thread, a []any) {
		suite.Matmul(t, as[f32](a, 0), as[f32](a, 1), as[f32](a, 2), as[int](a, 3), as[int](a, 4), as[int](a, 5))
	}, []int{0}},

	{"Sobel", 128, func(n int) (gpu.Shape, []any) {
		w := 64 * n
		return square(w), []any{make(u8, w*w), below[uint8](w*w, 256), w, w}
	}, func(t *gpu.Thread, a []any) {
		suite.Sobel(t, as[u8](a, 0), as[u8](a, 1), as[int](a, 2), as[int](a, 3))
	}, []int{0}},

	{"Median", 64, func(n int) (gpu.Shape, []any) {
		w := 64 * n
		return square(w), []any{make(u8, w*w), below[uint8](w*w, 256), w, w}
	}, func(t *gpu.Thread, a []any) {
		suite.Median(t, as[u8](a, 0), as[u8](a, 1), as[int](a, 2), as[int](a, 3))
	}, []int{0}},

	{"Blur", 64, func(n int) (gpu.Shape, []any) {
		w := 64 * n
		return square(w), []any{make(f32, w*w), floats(w * w), w, w, runtime.Struct(&blur)}
	}, func(t *gpu.Thread, a []any) {
		suite.Blur(t, as[f32](a, 0), as[f32](a, 1), as[int](a, 2), as[int](a, 3), blur)
	}, []int{0}},

	{"DCT", 128, func(n int) (gpu.Shape, []any) {
		w := 32 * n
		return shape(n, 4*n, 8, 8, 4), []any{make(f32, w*w), floats(w * w), w}
	}, func(t *gpu.Thread, a []any) { suite.DCT(t, as[f32](a, 0), as[f32](a, 1), as[int](a, 2)) }, []int{0}},

	{"YUV", 1 << 13, func(n int) (gpu.Shape, []any) {
		pixels := filled(4096*n-5, func(i int) suite.RGBA {
			b := bits(i)
			return suite.RGBA{R: uint8(b >> 16), G: uint8(b >> 24), B: uint8(b >> 32), A: 255}
		})
		return shape(min(2*n, 132*16), 1, 256, 1, 1), []any{make(u8, len(pixels)), make(u8, len(pixels)), make(u8, len(pixels)), pixels}
	}, func(t *gpu.Thread, a []any) {
		suite.YUV(t, as[u8](a, 0), as[u8](a, 1), as[u8](a, 2), as[[]suite.RGBA](a, 3))
	}, []int{0, 1, 2}},

	{"Permute", 1 << 14, func(n int) (gpu.Shape, []any) {
		c, h, w := 7, 10, 12
		return shape(min(2*n, 132*16), 1, 256, 1, 1), []any{make(f32, 2*n*c*h*w), floats(2 * n * c * h * w), c, h, w}
	}, func(t *gpu.Thread, a []any) {
		suite.Permute(t, as[f32](a, 0), as[f32](a, 1), as[int](a, 2), as[int](a, 3), as[int](a, 4))
	}, []int{0}},

	{"Keccak", 1 << 12, func(n int) (gpu.Shape, []any) {
		states := filled(128*n-3, func(i int) (s [25]uint64) {
			for j := range s {
				s[j] = bits(25*i + j)
			}
			return s
		})
		return line(len(states)), []any{states}
	}, func(t *gpu.Thread, a []any) { suite.Keccak(t, as[[][25]uint64](a, 0)) }, []int{0}},

	{"XXHash", 1 << 13, func(n int) (gpu.Shape, []any) {
		chunks, words := 64*n-3, 32
		return line(chunks), []any{make(u64, chunks), filled(chunks*words, bits), words}
	}, func(t *gpu.Thread, a []any) { suite.XXHash(t, as[u64](a, 0), as[u64](a, 1), as[int](a, 2)) }, []int{0}},

	{"CRC32", 1 << 12, func(n int) (gpu.Shape, []any) {
		chunks, size := 128*n-3, 256
		return line(chunks), []any{make(u32, chunks), below[uint8](chunks*size, 256), crcTable(), size}
	}, func(t *gpu.Thread, a []any) {
		suite.CRC32(t, as[u32](a, 0), as[u8](a, 1), as[u32](a, 2), as[int](a, 3))
	}, []int{0}},

	{"Curve25519", 1 << 11, func(n int) (gpu.Shape, []any) {
		x := filled(128*n-3, func(i int) suite.Element {
			return suite.Element{bits(4 * i), bits(4*i + 1), bits(4*i + 2), bits(4*i + 3)}
		})
		return line(len(x)), []any{x, 16}
	}, func(t *gpu.Thread, a []any) { suite.Curve25519(t, as[[]suite.Element](a, 0), as[int](a, 1)) }, []int{0}},

	{"Cholesky", 1 << 13, func(n int) (gpu.Shape, []any) {
		return line(64 * n), []any{make([][8][8]float32, 64*n), definite(64 * n)}
	}, func(t *gpu.Thread, a []any) {
		suite.Cholesky(t, as[[][8][8]float32](a, 0), as[[][8][8]float32](a, 1))
	}, []int{0}},

	{"Queens", 6, func(n int) (gpu.Shape, []any) {
		board := 6 + n
		return shape((board*board+31)/32, 1, 32, 1, 1), []any{make(u32, board*board), board}
	}, func(t *gpu.Thread, a []any) { suite.Queens(t, as[u32](a, 0), as[int](a, 1)) }, []int{0}},

	{"Primes", 1 << 9, func(n int) (gpu.Shape, []any) {
		return line(512 * n), []any{make(u8, 512*n), 100001}
	}, func(t *gpu.Thread, a []any) { suite.Primes(t, as[u8](a, 0), as[int](a, 1)) }, []int{0}},

	{"LBM", 32, func(n int) (gpu.Shape, []any) {
		w := 64 * n
		from := filled(9*w*w, func(i int) float32 { return 1 + float32(math.Abs(float64(number(i)))) })
		return square(w), []any{make(f32, 9*w*w), from, w, w, float32(1.2)}
	}, func(t *gpu.Thread, a []any) {
		suite.LBM(t, as[f32](a, 0), as[f32](a, 1), as[int](a, 2), as[int](a, 3), as[float32](a, 4))
	}, []int{0}},
}
