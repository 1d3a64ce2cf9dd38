package gpu

import (
	"reflect"
	"unsafe"
)

// What follows is for multiprocessors of compute capability 9.0 (sm_90a). They have units that copy tiles of a matrix, barriers that
// count the bytes of such copies, and products of four warps together.
//
// On the CPU a store or a product is done in the wait for it, and a copy there or at once, in turns. So a wait that is missing, or
// one that is too short, shows as wrong data.

// Tiles are matrices in memory of the device, row by row, of which CopyTile copies tiles: a tensor map. A kernel takes it as a
// parameter. A launch takes [github.com/purecuda/purecuda/runtime.Tiles] in its place.
type Tiles[T Element] struct {
	Data       []T // begins at a multiple of 16 bytes
	Rows, Cols int
	Pitch      int // elements from a row to the next, a multiple of 16 bytes
	Box        int // rows of a tile, 1 to 256
	Matrices   int // 0: one
	Stride     int // elements from a matrix to the next, a multiple of 16 bytes
}

// of are the elements of a matrix from its first on, and none where there is no such matrix.
func (m *Tiles[T]) of(matrix int32) []T {
	if matrix < 0 || int(matrix) >= max(1, m.Matrices) {
		return nil
	}
	return m.Data[int(matrix)*m.Stride:]
}

// tileCols is how many columns a tile has: 128 bytes.
func tileCols[T Element]() int { return 128 / elementSize[T]() }

// TileRow is a row of a tile in shared memory, of 128 bytes: 64 elements of 16 bits. They are in an order of the hardware's.
type TileRow[T Element] struct{ quads [8]Uint4 }

// SharedTile are rows in shared memory. Its first row lies at a multiple of 1,024 bytes, which is 8 rows, of the dynamic shared
// memory. 16 bytes of a row change places by the number of the row (the swizzle of 128 bytes), so that 8 rows of one column lie
// in all banks.
type SharedTile[T Element] []TileRow[T]

// Quad points to bytes 16*i to 16*i+15 of a row, for LoadMatrixA and its brothers too.
func (s SharedTile[T]) Quad(row, i int) *Uint4 { return &s[row].quads[i^row&7] }

// at is an element.
func (s SharedTile[T]) at(row, k int) *T {
	at := k * elementSize[T]()
	return (*T)(unsafe.Add(unsafe.Pointer(s.Quad(row, at>>4)), at&15))
}

// checked fails where the hardware would take other elements.
func (s SharedTile[T]) checked(op string, rows int) {
	if len(s) < rows {
		fault("gpu.%s: the tile has %d rows, want %d", op, len(s), rows)
	}
	if rows > 0 && uintptr(unsafe.Pointer(&s[0]))&1023 != 0 {
		fault("gpu.%s: the first row of the tile lies at no multiple of 1,024 bytes of the dynamic shared memory", op)
	}
}

// stored is how many columns of a row a store may change: 16 bytes at a time.
func (m *Tiles[T]) stored() int {
	unit := 16 / elementSize[T]()
	return (m.Cols + unit - 1) / unit * unit
}

// checked fails where a tensor map is refused, and where the last row has no memory for so many columns.
func (m *Tiles[T]) checked(op string, cols int) {
	switch {
	case m.Rows < 1 || m.Cols < 1 || m.Box < 1 || m.Box > 256:
		fault("gpu.%s: a matrix of %d x %d elements with boxes of %d rows: want 1 and more, and boxes to 256", op, m.Rows, m.Cols, m.Box)
	case m.Pitch*elementSize[T]()%16 != 0 || m.Pitch < m.Cols:
		fault("gpu.%s: the pitch is %d: want a multiple of %d, at least the %d columns", op, m.Pitch, 16/elementSize[T](), m.Cols)
	case m.Matrices < 0 || m.Matrices > 1 && (m.Stride < 1 || m.Stride*elementSize[T]()%16 != 0):
		fault("gpu.%s: %d matrices with a stride of %d: want a multiple of %d", op, m.Matrices, m.Stride, 16/elementSize[T]())
	case len(m.Data) < (max(1, m.Matrices)-1)*m.Stride+(m.Rows-1)*m.Pitch+cols:
		fault("gpu.%s: %d elements are too few for %d rows of %d with a pitch of %d, in %d matrices with a stride of %d", op, len(m.Data), m.Rows, cols, m.Pitch, max(1, m.Matrices), m.Stride)
	}
}

// CopyTile begins to copy a tile of a matrix to shared memory: Box rows from row on, and columns of 128 bytes from col on. The first matrix is 0. What
// lies outside the matrix is zero. The bytes, 128 of each row, count for b, in the phase that TxBarrier.Expect has announced them for. One thread calls it.
func CopyTile[T Element](t *Thread, to SharedTile[T], from Tiles[T], col, row, matrix int32, b *TxBarrier) {
	from.checked("CopyTile", from.Cols)
	to.checked("CopyTile", from.Box)
	data := from.of(matrix)
	t.b.late.begin(b, func() {
		for r := range from.Box {
			for c := range tileCols[T]() {
				var v T
				if y, x := int(row)+r, int(col)+c; data != nil && y >= 0 && y < from.Rows && x >= 0 && x < from.Cols {
					v = data[y*from.Pitch+x]
				}
				*to.at(r, c) = v
			}
		}
		b.change(t.b, 0, -from.Box*128)
	})
}

// StoreTile begins to store a tile from shared memory, as CopyTile copies it. The hardware stores 16 bytes at a time: where the columns
// are no multiple of that, elements behind a row change, up to the next multiple. What else lies outside the matrix stays as it is.
// One thread calls it, after a FenceShared of all who have written the tile, and a barrier. Each store is a group of its own for StoreWait.
func StoreTile[T Element](t *Thread, to Tiles[T], col, row, matrix int32, from SharedTile[T]) {
	to.checked("StoreTile", to.stored())
	from.checked("StoreTile", to.Box)
	q, data := &t.tensors().stores, to.of(matrix)
	q.begin(func() {
		for r := range to.Box {
			for c := range tileCols[T]() {
				if y, x := int(row)+r, int(col)+c; data != nil && y >= 0 && y < to.Rows && x >= 0 && x < to.stored() {
					data[y*to.Pitch+x] = *from.at(r, c)
				}
			}
		}
	})
	q.commit()
}

// FenceShared lets StoreTile and WGMMA see what this thread has written to shared memory.
func FenceShared(t *Thread) {}

// StoreWait waits until all stores of this thread but the last n have read their tiles, which may then be written again.
// A thread that stores ends with StoreWait of 0. n is a constant.
func StoreWait(t *Thread, n int) { t.tensors().stores.wait("StoreWait", n) }

// StoreMatrix rounds 16 columns of an accumulator, from col on, and writes them to shared memory, 16 rows of each warp: stmatrix. A lane
// gives the address of 8 columns, from column lane/16*8 on, of row lane%16. All lanes of the warp call it together. col is a constant.
func StoreMatrix[T Half, A Accumulator[float32]](t *Thread, row *Uint4, acc *A, col int) {
	var words [6]uint32
	copy(words[:], rounded[T]("StoreMatrix", acc, col))
	lanes := t.exchangeWords("StoreMatrix", words)
	j, i := t.Lane()>>3, t.Lane()&7
	*row = Uint4{lanes[4*i][j], lanes[4*i+1][j], lanes[4*i+2][j], lanes[4*i+3][j]}
}

// FragmentOf rounds 16 columns of an accumulator, from col on, to a fragment of the same 16 rows. col is a constant.
func FragmentOf[T Half, A Accumulator[float32]](acc *A, col int) (a FragmentA[T]) {
	copy(a.words[:], rounded[T]("FragmentOf", acc, col))
	return a
}

// rounded are 16 columns of an accumulator.
func rounded[T Half, A Accumulator[float32]](op string, acc *A, col int) []uint32 {
	if col%16 != 0 || col < 0 || col >= 2*len(sums[float32](acc)) {
		fault("gpu.%s: column %d is no multiple of 16 among the %d of the accumulator", op, col, 2*len(sums[float32](acc)))
	}
	c := sums[float32](acc)[col/2:]
	return []uint32{PackHalves[T](c[0], c[1]), PackHalves[T](c[2], c[3]), PackHalves[T](c[4], c[5]), PackHalves[T](c[6], c[7])}
}

// Accumulator is what a lane of a product of four warps holds: of 64 rows, and of twice as many columns as it has elements.
type Accumulator[S Sum] interface {
	[128]S | [96]S | [64]S | [32]S
}

// WGMMA begins a product of four warps: acc += A * transposed B, or acc = where add is false. A has 64 rows, of which the warp
// takes 16 from row warp%4*16 on. B has as many rows as acc has columns. Both have the columns of a tile: it is wgmma.m64nNk16 of
// elements of 16 bits four times, and k32 and k8 of 8 and 32 bits. There is none of float64. The four warps, from a multiple of 4 on, call it together, after a WGMMAFence.
//
// With g = lane/4 and c = lane%4, acc[i] is row 16*(warp%4)+g+8*(i>>1&1), column 8*(i>>2)+2*c+i&1. Nobody touches it, and
// nobody writes the tiles, before WGMMAWait. acc lies in registers: each index that the kernel takes of it is a constant.
// A product of 32 bytes of a row is added as [MMA] does, in sums of the same type.
func WGMMA[S Sum, A Accumulator[S], T Element](t *Thread, acc *A, a, b SharedTile[T], add bool) {
	wgmma[S](t, "WGMMA", acc, a, b, false, false, add)
}

// WGMMATurned is WGMMA for matrices of 16-bit elements that may lie as their transposes. A turned A has 64 rows, of the columns of A. A turned B
// has 64 for its first 64 rows, and the next 64 rows of the tile for the next. turnedA and turnedB are constants.
func WGMMATurned[S Sum, A Accumulator[S], T Element](t *Thread, acc *A, a, b SharedTile[T], turnedA, turnedB, add bool) {
	if elementSize[T]() != 2 {
		fault("gpu.WGMMATurned: no device has it for %v, only for elements of 16 bits", reflect.TypeFor[T]())
	}
	wgmma[S](t, "WGMMATurned", acc, a, b, turnedA, turnedB, add)
}

func wgmma[S Sum, A Accumulator[S], T Element](t *Thread, op string, acc *A, a, b SharedTile[T], turnedA, turnedB, add bool) {
	switch want := sumOf[T](); {
	case want != reflect.TypeFor[S]():
		fault("gpu.%s: the sums of %v are %v, not %v", op, reflect.TypeFor[T](), want, reflect.TypeFor[S]())
	case want == reflect.TypeFor[float64]():
		fault("gpu.%s: no device has it for float64: take gpu.MMA", op)
	}
	a.checked(op, 64)
	b.checked(op, (2*len(sums[S](acc))+63)/64*64)
	of := func(m SharedTile[T], turned bool, row, k int) T {
		if turned {
			return *m.at(row>>6*64+k, row&63)
		}
		return *m.at(row, k)
	}
	t.tensors().products.begin(func() {
		for k := 0; k < tileCols[T](); k += 32 / elementSize[T]() {
			product(t, sums[S](acc), add || k > 0, func(row, i int) T { return of(a, turnedA, t.Warp()&3*16+row, k+i) },
				func(i, col int) T { return of(b, turnedB, col, k+i) })
		}
	})
}

// WGMMARows is WGMMA for 16 columns of A that are in registers, 16 rows in each warp. B is as it is: 16 rows from row on, with
// as many columns as acc has. The next 64 columns of B lie next rows further in b. row is a multiple of 16, and next a constant.
func WGMMARows[T Half, A Accumulator[float32]](t *Thread, acc *A, a FragmentA[T], b SharedTile[T], row, next int, add bool) {
	n := 2 * len(sums[float32](acc))
	b.checked("WGMMARows", (n-1)/64*next+row+16)
	lanes := t.exchangeWords("WGMMARows", [6]uint32{a.words[0], a.words[1], a.words[2], a.words[3]})
	var words [warpSize][4]uint32
	for i, l := range lanes {
		words[i] = [4]uint32(l[:4])
	}
	t.tensors().products.begin(func() {
		product(t, sums[float32](acc), add, func(r, k int) T {
			return elementFrom[T](uint64(words[r&7*4+k>>1&3][r>>3+k>>3*2] >> (k & 1 * 16)))
		}, func(k, col int) T { return *b.at(col>>6*next+row+k, col&63) })
	})
}

func sums[S Sum, A Accumulator[S]](acc *A) []S {
	return unsafe.Slice((*S)(unsafe.Pointer(acc)), unsafe.Sizeof(*acc)/unsafe.Sizeof(*new(S)))
}

// product adds a product of 32 bytes of each row of A: all products from the first on, then the sum, in float64, rounded once. Those of
// integers are exact there.
func product[T Element, S Sum](t *Thread, acc []S, add bool, a, b func(i, j int) T) {
	g, c := t.Lane()>>2, t.Lane()&3
	var rows [2][32]float64
	depth := 32 / elementSize[T]()
	for r := range rows {
		for k := range depth {
			rows[r][k] = number(a(g+8*r, k))
		}
	}
	for i := range acc {
		if !add {
			acc[i] = 0
		}
		sum := 0.0
		for k, x := range rows[i>>1&1][:depth] {
			sum += float64(x * number(b(k, i>>2*8+2*c+i&1)))
		}
		switch to := any(&acc[i]).(type) {
		case *int32:
			*to += int32(sum)
		case *float32:
			*to = float32(sum + float64(*to))
		}
	}
}

// WGMMAFence stands before the first WGMMA, and wherever the program has touched acc since.
func WGMMAFence(t *Thread) {}

// WGMMACommit ends a group of products.
func WGMMACommit(t *Thread) { t.tensors().products.commit() }

// WGMMAWait waits for all groups but the last n. All lanes of the warp call it together: after it, none of them reads the tiles of
// those groups. n is a constant.
func WGMMAWait(t *Thread, n int) {
	t.tensors().products.wait("WGMMAWait", n)
	together(t, "WGMMAWait", 0, func(int, uint64) {})
}

// MoreRegisters gives each thread of four warps n registers: setmaxnreg. It waits until others have given up enough of those
// that the block has. The kernel says registers=N in its directive, and n is a constant, a multiple of 8 from 24 to 256.
func MoreRegisters(t *Thread, n int) {}

// FewerRegisters leaves each thread of four warps n registers.
func FewerRegisters(t *Thread, n int) {}
