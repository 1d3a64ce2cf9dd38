// Package gemm has the matrix product of package kernels, on tensor cores.
package gemm

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
)

//go:generate go run -C ../../../gpuc . -arch sm_80 -checks off -launch=false ../kernels/internal/gemm

const (
	// Tile is how many rows and columns of C a block computes, and Threads how many threads it has: 4 warps with 64 x 64 each.
	Tile    = 128
	Threads = 128

	// MoveThreads is how many threads a block of Transpose and of Merge has.
	MoveThreads = 256

	// DepthBytes is how many bytes of a row of A and of B a stage has.
	DepthBytes = 64

	stages = 3
	steps  = DepthBytes / 32
	chunks = DepthBytes / 16 // of 16 bytes, in a row of a stage
	stage  = 2 * Tile * chunks
	apart  = Threads / chunks // rows between the copies of a thread
	copies = Tile / apart     // of a thread, from A and from B: as many as a warp has fragments of A
	group  = 16               // rows of blocks that run at once, so that they share what they read

	// SharedBytes is the dynamic shared memory of a block.
	SharedBytes = stages * stage * 16
)

// Product computes C = A * transposed B, of A with m rows and k columns, and B with n rows and k columns. A row of A is
// pitchA times 16 bytes, one of B pitchB, and one of C pitchC times 2 elements. C gets a zero after
// the last element of a row where n is odd.
// The grid has a block for each tile of C, along x, and a product for each place along y. Those of the next product lie strideA times 16
// bytes further in A, strideB in B, and strideC times 2 elements in C.
// A place along z has part columns of A and B. Where there are sums, they get those of each place, and Merge makes C of them. Package kernels makes the PTX for Float16 from that for BFloat16.
//
//purecuda:kernel block=128 noalias T=gpu.BFloat16
func Product[T gpu.Half](t *gpu.Thread, a, b []gpu.Uint4, c []uint32, m, n, k, pitchA, pitchB, pitchC int32, strideA, strideB, strideC int, sums [][2]float32, part int32) {
	Multiply[T](t, Halves[T]{}, a, b, c, m, n, k, pitchA, pitchB, pitchC, strideA, strideB, strideC, sums, part)
}

// Turned is how many rows and columns of a matrix a block of Transpose takes, of elements of so many bytes: 32 words of a row.
func Turned(size int) int { return 32 * 4 / size }

// TransposeBytes is its dynamic shared memory.
func TransposeBytes(size int) int { return Turned(size) * 33 * 4 }

// Transpose copies a matrix of 16-bit elements, of which in has rows by rows, to out, which has its columns by rows. Pitches and strides
// are in words of 4 bytes. The grid has a block for each tile, along x, and a matrix for each place along y. The elements after
// a row are read up to the end of its word, and those of out become zero.
//
//purecuda:kernel block=256 noalias
func Transpose(t *gpu.Thread, in, out []uint32, rows, cols, pitchIn, pitchOut int32, strideIn, strideOut int) {
	Turn[uint16](t, in, out, rows, cols, pitchIn, pitchOut, strideIn, strideOut)
}

// Turn is the body of Transpose.
func Turn[T any](t *gpu.Thread, in, out []uint32, rows, cols, pitchIn, pitchOut int32, strideIn, strideOut int) {
	size := SizeOf[T]()
	per, side := 4/size, 4/size*32 // elements of a word, and of a tile
	words := gpu.DynamicShared[[33]uint32](t)
	lane, warp, wide := int32(t.Lane()), int32(t.Warp()), (cols+side-1)/side
	row, col := int32(t.BlockX())/wide*side, int32(t.BlockX())%wide*side
	//purecuda:unroll 1
	for i := range side / 8 {
		r, word := warp+8*i, uint32(0)
		if row+r < rows && col+per*lane < cols {
			word = in[t.BlockY()*strideIn+int(row+r)*int(pitchIn)+int(col/per+lane)]
		}
		words[r][lane] = word
	}
	t.Barrier()
	//purecuda:unroll 1
	for i := range int32(4) {
		c := warp + 8*i // a word of a row
		to := t.BlockY()*strideOut + int(col+per*c)*int(pitchOut) + int(row/per+lane)
		for j := range per {
			if word := uint32(0); row+per*lane < rows && col+per*c+j < cols {
				for e := range per {
					word |= words[per*lane+e][c] >> (8 * size * j) & uint32(1<<(8*size)-1) << (8 * size * e)
				}
				out[to+int(j)*int(pitchOut)] = word
			}
		}
	}
}

// SizeOf is how many bytes an element has.
func SizeOf[T any]() int32 {
	var v T
	return int32(unsafe.Sizeof(v))
}

// Pairs makes what C has for the sums of two columns side by side, with what it has for these columns. col is the first.
type Pairs[S gpu.Sum, P any] interface {
	Columns(col int32) [2]float32
	Pair(x, y S, of [2]float32) P
}

// Bias has a number for each column, or none.
type Bias []float32

// Columns are the numbers of two columns, and 0 where there are none.
func (b Bias) Columns(col int32) [2]float32 { return [2]float32{b.Of(col), b.Of(col + 1)} }

// Of is the number of a column.
func (b Bias) Of(col int32) float32 {
	if int(col) < len(b) {
		return b[col]
	}
	return 0
}

// plain has nothing for columns.
type plain struct{}

// Columns are zeros.
func (plain) Columns(int32) (none [2]float32) { return none }

// Halves rounds sums.
type Halves[T gpu.Half] struct{ plain }

// Pair is a word of C.
func (Halves[T]) Pair(x, y float32, _ [2]float32) uint32 { return gpu.PackHalves[T](x, y) }

// Sums leaves sums as they are, for Merge.
type Sums[S gpu.Sum] struct{ plain }

// Pair is two sums.
func (Sums[S]) Pair(x, y S, _ [2]float32) [2]S { return [2]S{x, y} }

// Finished makes an element of C by a function of the sum and the bias of its column.
type Finished[S gpu.Sum, R any, F Finish[S, R]] struct {
	By F
	Bias
}

// Pair is two elements of C.
func (f Finished[S, R, F]) Pair(x, y S, of [2]float32) [2]R {
	return [2]R{f.By.Apply(x, of[0]), f.By.Apply(y, of[1])}
}

// Activated is Finished that rounds.
type Activated[T gpu.Half, F Activation] struct {
	By F
	Bias
}

// Pair is a word of C.
func (f Activated[T, F]) Pair(x, y float32, of [2]float32) uint32 {
	return gpu.PackHalves[T](f.By.Apply(x, of[0]), f.By.Apply(y, of[1]))
}

// Finish makes an element of C.
type Finish[S gpu.Sum, R any] interface {
	Apply(sum S, bias float32) R
}

// Activation changes a sum before it is rounded.
type Activation interface {
	Apply(sum, bias float32) float32
}

// Plain changes nothing.
type Plain struct{}

// Apply is sum.
func (Plain) Apply(sum, bias float32) float32 { return sum }

// Multiply is the body of Product, for elements of any size: f makes what C has of the sums of two columns side by side.
func Multiply[T gpu.Element, S gpu.Sum, P any, F Pairs[S, P]](t *gpu.Thread, f F, a, b []gpu.Uint4, c []P, m, n, k, pitchA, pitchB, pitchC int32, strideA, strideB, strideC int, sums [][2]S, part int32) {
	size := SizeOf[T]()
	per, depth := 16/size, DepthBytes/size // elements of a chunk, and of a row of a stage
	sh := gpu.DynamicShared[gpu.Uint4](t)
	lane, warp, tid := int32(t.Lane()), int32(t.Warp()), int32(t.Rank())
	row0, col0 := place(int32(t.BlockX()), (m+Tile-1)/Tile, (n+Tile-1)/Tile)
	row0, col0 = row0*Tile, col0*Tile
	warpRow, warpCol := warp/2*64, warp%2*64

	// A thread copies 16 bytes of every 32nd row. Chunks change places by the row, so that 8 rows of one chunk lie in all banks.
	r, ch := tid/chunks, tid%chunks
	to := r*chunks + ch ^ r>>1&3
	begin := int32(t.BlockZ()) * part
	deep := min(part, k-begin)
	a, b = a[t.BlockY()*strideA+int(begin/per):], b[t.BlockY()*strideB+int(begin/per):]
	from := copier{at: min(ch, (deep-1)/per), left: deep - ch*per}
	for i := range int32(copies) {
		row, col := row0+r+i*apart, col0+r+i*apart
		from.a[i], from.b[i] = a[int(min(row, m-1))*int(pitchA):], b[int(min(col, n-1))*int(pitchB):]
		if row >= m { // What rows outside give is not stored. They are rows of the other matrix, since blocks that read one row for all of them wait for each other.
			from.a[i] = from.b[i]
		} else if col >= n {
			from.b[i] = from.a[i]
		}
	}

	// What this lane loads: rows of A, and of B after it.
	laneA, xA := (warpRow+lane&15)*chunks, lane>>4^lane>>1&3
	laneB, xB := (Tile+warpCol+lane>>4<<3+lane&7)*chunks, lane>>3&1^lane>>1&3

	var acc [4][8]gpu.FragmentC[S]
	var fa [2][4]gpu.FragmentA[T]
	var fb [2][4][2]gpu.FragmentB[T]
	tiles := (deep + depth - 1) / depth
	//purecuda:unroll 1
	for s := range int32(stages) {
		into := sh[s*stage+to:]
		for i := range int32(copies) {
			from.row(t, into, i, size)
		}
		from.next(t, size)
	}
	gpu.CopyWait(t, stages-1)
	t.Barrier()
	readA, readB := sh[laneA+xA:], sh[laneB+xB:]
	for i := range int32(4) {
		fa[0][i] = gpu.LoadMatrixA[T](t, &readA[i*16*chunks])
		fb[0][i] = gpu.LoadMatrixB[T](t, &readB[i*16*chunks])
	}
	at := int32(0) // the stage that is read
	for range tiles {
		into := sh[at+to:]
		for s := range int32(steps) {
			if s == steps-1 { // All have read this stage. The next one is there, and copies take the place of this one.
				gpu.CopyWait(t, stages-2)
				t.Barrier()
				if at += stage; at == stages*stage {
					at = 0
				}
			}
			ahead := (s + 1) % steps * 2
			readA, readB := sh[at+laneA+(ahead^xA):], sh[at+laneB+(ahead^xB):]
			for i := range int32(4) {
				fa[(s+1)&1][i] = gpu.LoadMatrixA[T](t, &readA[i*16*chunks])
				fb[(s+1)&1][i] = gpu.LoadMatrixB[T](t, &readB[i*16*chunks])
			}
			for i := range int32(4) {
				for j := range 8 {
					l := j ^ int(i)&1*7 // there and back, so that B stays in its registers
					gpu.MMA(t, &acc[i][l], fa[s&1][i], fb[s&1][l/2][l&1])
				}
				if s == steps-1 { // the copies lie between the products
					from.row(t, into, i, size)
				}
			}
		}
		from.next(t, size)
	}
	gpu.CopyWait(t, 0)
	row, col := row0+warpRow+lane>>2, col0+warpCol+lane&3*2
	if len(sums) > 0 {
		wide := even(n) / 2
		store(Sums[S]{}, &acc, sums, (t.BlockZ()*t.GridDimY()+t.BlockY())*int(m)*int(wide), wide, row, col, m, n)
	} else {
		store(f, &acc, c, t.BlockY()*strideC, pitchC, row, col, m, n)
	}
}

// store writes pairs of a tile of c, of which the product begins at pair first, and the sums of the lane at row and col.
func store[S gpu.Sum, P any, F Pairs[S, P]](f F, acc *[4][8]gpu.FragmentC[S], c []P, first int, pitch, row, col, m, n int32) {
	var columns [8][2]float32
	for j := range int32(8) {
		columns[j] = f.Columns(col + 8*j)
	}
	to := c[min(len(c), first+int(row)*int(pitch)+int(col/2)):]
	down, left := m-row, n-col
	//purecuda:unroll 1
	for range 2 { // half of the sums, and the others in their place: f is there half as often
		for i := range int32(4) {
			if 8*i < down {
				for j := range int32(8) {
					if sums := &acc[i/2][j]; 8*j < left {
						to[4*j] = f.Pair(sums[i&1*2], gpu.Select(8*j+1 < left, sums[i&1*2+1], 0), columns[j])
					}
				}
			}
			to = to[min(len(to), 8*int(pitch)):]
		}
		acc[0], acc[1] = acc[2], acc[3]
		down -= 32
	}
}

// even is n, or n+1 where that is even.
func even(n int32) int32 { return (n + 1) / 2 * 2 }

// Merge adds up the sums of all parts, in their order, and writes C. The grid has a thread for each pair of elements, along x, and a
// product for each place along y. Where turned is set, sums are those of transposed C, and n is even.
//
//purecuda:kernel block=256 noalias T=gpu.BFloat16
func Merge[T gpu.Half](t *gpu.Thread, sums []float32, c []uint32, m, n, pitchC int32, strideC int, parts int32, turned bool) {
	Add(t, Halves[T]{}, sums, c, m, n, pitchC, strideC, parts, turned)
}

// Add is the body of Merge, as Multiply is that of Product. Four loads are under way at a time, of the last part again where there are fewer.
func Add[S gpu.Sum, P any, F Pairs[S, P]](t *gpu.Thread, f F, sums []S, c []P, m, n, pitchC int32, strideC int, parts int32, turned bool) {
	// Parts have few sums, so that int32 counts them. Threads side by side read numbers side by side.
	i, pairs := int32(t.GlobalX()), even(n)/2
	if i >= m*pairs {
		return
	}
	row, pair, at, one, all := i/pairs, i%pairs, 2*i, int32(1), 2*m*pairs
	if turned {
		row, pair, one = i%m, i/m, even(m)
		at, all = 2*pair*one+row, n*one
	}
	at += int32(t.BlockY()) * all
	all *= int32(t.GridDimY()) // of a part
	x, y := sums[at], sums[at+one]
	//purecuda:unroll 1
	for p := int32(1); p < parts; p += 4 {
		var some [4][2]S
		for j := range int32(4) {
			from := at + min(p+j, parts-1)*all
			some[j] = [2]S{sums[from], sums[from+one]}
		}
		for j := range int32(4) {
			if p+j < parts {
				x, y = x+some[j][0], y+some[j][1]
			}
		}
	}
	c[t.BlockY()*strideC+int(row)*int(pitchC)+int(pair)] = f.Pair(x, y, f.Columns(2*pair))
}

// copier copies what a thread has to copy of one stage after another.
type copier struct {
	a, b [copies][]gpu.Uint4 // every 32nd row
	at   int32               // of a row, or the last
	left int32               // columns of A and B from there on
}

// row begins to copy from a row of A and one of B, of elements of size bytes. What lies behind the last column is zero.
func (c *copier) row(t *gpu.Thread, into []gpu.Uint4, i, size int32) {
	bytes := int(max(0, min(16/size, c.left)) * size)
	gpu.CopyAsyncPart(t, &into[i*apart*chunks], &c.a[i][c.at], bytes)
	gpu.CopyAsyncPart(t, &into[(Tile+i*apart)*chunks], &c.b[i][c.at], bytes)
}

// next ends a stage.
func (c *copier) next(t *gpu.Thread, size int32) {
	gpu.CopyCommit(t)
	if c.left > DepthBytes/size {
		c.at += chunks
	}
	c.left -= DepthBytes / size
}

// place is the place of a block: group blocks along m, then the next along n.
func place(block, rows, cols int32) (row, col int32) {
	g := block / (group * cols) * group
	high := min(group, rows-g)
	block -= g * cols
	return g + block%high, block / high
}
