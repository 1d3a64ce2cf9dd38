package bench_test

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	k "github.com/purecuda/purecuda/gpuc/internal/testdata/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// kernel is one that is timed.
type kernel struct {
	name  string
	large int // the size to time; to compare, it is 1
	make  func(size int) (gpu.Shape, []any)
	cpu   func(t *gpu.Thread, args []any)
	outs  []int // the arguments that it writes
}

type (
	f32     = []float32
	quads   = []gpu.Uint4
	complex = []k.Complex
	matrix  = [8][8]float32
)

// as returns argument i as what it is.
func as[T any](args []any, i int) T { return args[i].(T) }

func shape(gx, gy, bx, by, bz int) gpu.Shape {
	return gpu.Shape{Grid: gpu.Dim3{X: gx, Y: gy}, Block: gpu.Dim3{X: bx, Y: by, Z: bz}}
}

// bits gives numbers that look random.
func bits(i int) uint64 {
	x := uint64(i)*0x9e3779b97f4a7c15 + 1
	x ^= x >> 29
	return x * 0xbf58476d1ce4e5b9
}

func number(i int) float32 { return float32(int32(bits(i)>>32)) / (1 << 31) }

func floats(n int) f32 {
	v := make(f32, n)
	for i := range v {
		v[i] = number(i + n)
	}
	return v
}

func words(n int) quads {
	v := make(quads, n)
	for i := range v {
		a, b := bits(2*i), bits(2*i+1)
		v[i] = gpu.Uint4{X: uint32(a), Y: uint32(a >> 32), Z: uint32(b), W: uint32(b >> 32)}
	}
	return v
}

func complexes(n int) complex {
	v := make(complex, n)
	for i := range v {
		v[i] = k.Complex{Re: number(2 * i), Im: number(2*i + 1)}
	}
	return v
}

func matrices(n int) []matrix {
	v := make([]matrix, n)
	for i := range v {
		for j := range 64 {
			v[i][j/8][j%8] = number(64*i + j)
		}
	}
	return v
}

func roots() complex {
	v := make(complex, 1024)
	for i := range v {
		sin, cos := math.Sincos(-2 * math.Pi * float64(i) / 1024)
		v[i] = k.Complex{Re: float32(cos), Im: float32(sin)}
	}
	return v
}

func view(w int) k.View {
	return k.View{X: -2, Y: -1.25, Step: 2.5 / float64(w), Width: int32(w), Height: int32(w), Limit: 1000}
}

var kernels = []kernel{
	{"Saxpy", 1 << 14, func(n int) (gpu.Shape, []any) {
		return shape(min(2*n, 132*16), 1, 256, 1, 1), []any{float32(1.5), floats(4096*n - 5), floats(4096*n - 5)}
	}, func(t *gpu.Thread, a []any) { k.Saxpy(t, as[float32](a, 0), as[f32](a, 1), as[f32](a, 2)) }, []int{2}},

	{"VecAdd", 1 << 14, func(n int) (gpu.Shape, []any) {
		return shape(16*n, 1, 256, 1, 1), []any{make(f32, 4096*n-5), floats(4096*n - 5), floats(4096 * n)}
	}, func(t *gpu.Thread, a []any) { k.VecAdd(t, as[f32](a, 0), as[f32](a, 1), as[f32](a, 2)) }, []int{0}},

	{"Stencil", 128, func(n int) (gpu.Shape, []any) {
		w := 64 * n
		return shape(w/32, w/8, 32, 8, 1), []any{make(f32, w*w), floats(w * w), w, w}
	}, func(t *gpu.Thread, a []any) {
		k.Stencil(t, as[f32](a, 0), as[f32](a, 1), as[int](a, 2), as[int](a, 3))
	}, []int{0}},

	{"Sgemm", 64, func(n int) (gpu.Shape, []any) {
		w := 32 * n
		return shape(w/16, w/16, 16, 16, 1), []any{make(f32, w*w), floats(w * w), floats(w * w), w}
	}, func(t *gpu.Thread, a []any) {
		k.Sgemm(t, as[f32](a, 0), as[f32](a, 1), as[f32](a, 2), as[int](a, 3))
	}, []int{0}},

	{"Histogram", 1 << 12, func(n int) (gpu.Shape, []any) {
		return shape(min(2*n, 132*8), 1, 256, 1, 1), []any{words(4096 * n), make([]uint64, 256)}
	}, func(t *gpu.Thread, a []any) { k.Histogram(t, as[quads](a, 0), as[[]uint64](a, 1)) }, []int{1}},

	{"Mandelbrot", 128, func(n int) (gpu.Shape, []any) {
		v := view(32 * n)
		return shape(2*n, 4*n, 16, 8, 1), []any{runtime.Struct(&v), make([]uint32, 1024*n*n)}
	}, func(t *gpu.Thread, a []any) {
		out := as[[]uint32](a, 1)
		k.Mandelbrot(t, view(int(math.Sqrt(float64(len(out))))), out)
	}, []int{1}},

	{"SHA256", 1 << 14, func(n int) (gpu.Shape, []any) {
		return shape((16*n+127)/128, 1, 128, 1, 1), []any{words(16 * n * 256), make(quads, 2*16*n), 4096}
	}, func(t *gpu.Thread, a []any) { k.SHA256(t, as[quads](a, 0), as[quads](a, 1), as[int](a, 2)) }, []int{1}},

	{"Reduce", 1 << 14, func(n int) (gpu.Shape, []any) {
		blocks := min(2*n, 132*16)
		return shape(blocks, 1, 256, 1, 1), []any{floats(4096*n - 5), make(f32, blocks)}
	}, func(t *gpu.Thread, a []any) { k.Reduce(t, as[f32](a, 0), as[f32](a, 1)) }, []int{1}},

	{"Scan", 1 << 14, func(n int) (gpu.Shape, []any) {
		return shape(4*n, 1, 256, 1, 1), []any{make(quads, 1024*n-5), words(1024*n - 5), make([]uint32, 4*n)}
	}, func(t *gpu.Thread, a []any) { k.Scan(t, as[quads](a, 0), as[quads](a, 1), as[[]uint32](a, 2)) }, []int{0, 2}},

	{"Transpose", 256, func(n int) (gpu.Shape, []any) {
		w, h := 32*n, 33*n
		return shape((w+31)/32, (h+31)/32, 32, 8, 1), []any{make(f32, w*h), floats(w * h), w, h}
	}, func(t *gpu.Thread, a []any) {
		k.Transpose(t, as[f32](a, 0), as[f32](a, 1), as[int](a, 2), as[int](a, 3))
	}, []int{0}},

	{"Products", 1 << 14, func(n int) (gpu.Shape, []any) {
		return shape(16*n, 1, 8, 8, 4), []any{make([]matrix, 64*n-3), matrices(64*n - 3), matrices(64 * n)}
	}, func(t *gpu.Thread, a []any) {
		k.Products(t, as[[]matrix](a, 0), as[[]matrix](a, 1), as[[]matrix](a, 2))
	}, []int{0}},

	{"FFT", 1 << 14, func(n int) (gpu.Shape, []any) {
		return shape(2*n, 1, 256, 1, 1), []any{make(complex, 2048*n), complexes(2048 * n), roots()}
	}, func(t *gpu.Thread, a []any) { k.FFT(t, as[complex](a, 0), as[complex](a, 1), as[complex](a, 2)) }, []int{0}},
}
