package gpu

import (
	"math"
	"reflect"
	"unsafe"
)

// Element is what tensor cores multiply. Sum is what they add products up in: int32 for int8 and uint8, float64 for
// float64, and float32 for all others.
type (
	Element interface {
		Float16 | BFloat16 | TF32 | Float8E4M3 | Float8E5M2 | int8 | uint8 | float64
	}
	Sum interface{ float32 | int32 | float64 }
)

// A fragment is a small matrix that the 32 lanes of a warp hold together. Place tells which elements a lane has. A row of A
// and a column of B have 32 bytes. Those are K elements: 16 of 16 bits, 32 of 8 bits, 8 of TF32, and 4 of float64.
type (
	// FragmentA has 16 rows and K columns: 32/size elements in a lane.
	FragmentA[T Element] struct{ words [4]uint32 }
	// FragmentB has K rows and 8 columns: half as many elements in a lane.
	FragmentB[T Element] struct{ words [2]uint32 }
	// FragmentC has 16 rows and 8 columns of sums: 4 in a lane.
	FragmentC[S Sum] [4]S
)

// MMA adds the product of a and b to c. All lanes of the warp call it together: mma.sync of PTX.
//
// Sums of int8, uint8 and float64 are the same bits everywhere: integers wrap around. A float64 adds one product after
// another to c, from the first k on, each by math.FMA. For the others, the CPU adds all products from the first k on in
// float64, then c, and rounds once to float32. A GPU adds in an order of its own, and drops bits of the smaller
// terms. Then the results differ by at most MMAError times the sum of all |a*b| and of |c|.
//
// Float16, int8 and uint8 need sm_75; BFloat16, TF32 and float64 need sm_80; Float8E4M3 and Float8E5M2 need sm_89.
func MMA[T Element, S Sum](t *Thread, c *FragmentC[S], a FragmentA[T], b FragmentB[T]) {
	if want := sumOf[T](); want != reflect.TypeFor[S]() {
		fault("gpu.MMA: the sums of %v are %v, not %v", reflect.TypeFor[T](), want, reflect.TypeFor[S]())
	}
	lanes := t.exchangeWords("MMA", [6]uint32{a.words[0], a.words[1], a.words[2], a.words[3], b.words[0], b.words[1]})
	rows, cols := ofLane[T](t.Lane(), &lanes)
	k := 32 / elementSize[T]()
	for i := range c {
		row, col := rows[i>>1][:k], cols[i&1][:k]
		switch sum := any(&c[i]).(type) {
		case *float64:
			for j, x := range row {
				*sum = math.FMA(x, col[j], *sum)
			}
		case *int32:
			for j, x := range row {
				*sum += int32(x) * int32(col[j])
			}
		case *float32:
			all := 0.0
			for j, x := range row {
				all += float64(x * col[j])
			}
			*sum = float32(all + float64(*sum))
		}
	}
}

// MMAError is how far the results of MMA on two devices may differ, as a part of the sum of all |a*b| and |c|. It is 0 where
// they are the same bits.
func MMAError[T Element]() float64 {
	var v T
	switch any(v).(type) {
	case int8, uint8, float64:
		return 0
	case Float8E4M3, Float8E5M2:
		return 0x1p-9 // some devices keep 13 bits behind the point of the largest product
	}
	return 0x1p-19
}

func sumOf[T Element]() reflect.Type {
	var v T
	switch any(v).(type) {
	case int8, uint8:
		return reflect.TypeFor[int32]()
	case float64:
		return reflect.TypeFor[float64]()
	}
	return reflect.TypeFor[float32]()
}

// ofLane are the two rows of A and the two columns of B whose products a lane adds up.
func ofLane[T Element](lane int, lanes *[warpSize]*[6]uint32) (rows, cols [2][32]float64) {
	size := elementSize[T]()
	read := func(to *[32]float64, line, first, step int) {
		for k := range 32 / size {
			var bits uint64
			if size == 8 {
				w := lanes[4*line+k]
				first := first + first*(step-1) // two words each
				bits = uint64(w[first]) | uint64(w[first+1])<<32
			} else {
				bits = uint64(lanes[4*line+k*size>>2&3][first+k*size>>4*step] >> (k * size & 3 * 8))
			}
			to[k] = number(elementFrom[T](bits))
		}
	}
	g, c := lane>>2, lane&3
	for i := range 2 {
		read(&rows[i], g, i, 2)
		read(&cols[i], 2*c+i, 4, 1)
	}
	return rows, cols
}

// number is an element as a float64, exactly.
func number[T Element](v T) float64 {
	switch v := any(v).(type) {
	case Float16:
		return float64(v.Float32())
	case BFloat16:
		return float64(v.Float32())
	case TF32:
		return float64(math.Float32frombits(v.bits &^ 0x1fff))
	case Float8E4M3:
		return float64(v.Float32())
	case Float8E5M2:
		return float64(v.Float32())
	case int8:
		return float64(v)
	case uint8:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// elementSize is the number of bytes of an element, elementBits are its bits, and elementFrom is the element with these bits.
func elementSize[T any]() int {
	var v T
	return int(unsafe.Sizeof(v))
}

func elementBits[T any](v T) (bits uint64) {
	switch p := unsafe.Pointer(&v); unsafe.Sizeof(v) {
	case 1:
		return uint64(*(*uint8)(p))
	case 2:
		return uint64(*(*uint16)(p))
	case 4:
		return uint64(*(*uint32)(p))
	default:
		return *(*uint64)(p)
	}
}

func elementFrom[T any](bits uint64) (v T) {
	switch p := unsafe.Pointer(&v); unsafe.Sizeof(v) {
	case 1:
		*(*uint8)(p) = uint8(bits)
	case 2:
		*(*uint16)(p) = uint16(bits)
	case 4:
		*(*uint32)(p) = uint32(bits)
	default:
		*(*uint64)(p) = bits
	}
	return v
}

// Place is the row and the column of element i of a lane.
func (FragmentA[T]) Place(lane, i int) (row, k int) {
	size := elementSize[T]()
	if size == 8 {
		return lane>>2 + 8*i, lane & 3
	}
	word, in := i*size>>2, i*size&3
	return lane>>2 + word&1*8, (word>>1*16 + lane&3*4 + in) / size
}

// Place is the row and the column of element i of a lane.
func (FragmentB[T]) Place(lane, i int) (k, col int) {
	size := elementSize[T]()
	if size == 8 {
		return lane & 3, lane >> 2
	}
	word, in := i*size>>2, i*size&3
	return (word*16 + lane&3*4 + in) / size, lane >> 2
}

// Place is the row and the column of element i of a lane.
func (FragmentC[S]) Place(lane, i int) (row, col int) { return lane>>2 + i>>1*8, lane&3*2 + i&1 }

// At is element i of the lane.
func (a FragmentA[T]) At(i int) T {
	size := elementSize[T]()
	if size == 8 {
		return elementFrom[T](uint64(a.words[2*i]) | uint64(a.words[2*i+1])<<32)
	}
	return elementFrom[T](uint64(a.words[i*size>>2] >> (i * size & 3 * 8)))
}

// At is element i of the lane.
func (b FragmentB[T]) At(i int) T {
	size := elementSize[T]()
	if size == 8 {
		return elementFrom[T](uint64(b.words[2*i]) | uint64(b.words[2*i+1])<<32)
	}
	return elementFrom[T](uint64(b.words[i*size>>2] >> (i * size & 3 * 8)))
}

// Set changes element i of the lane.
func (a *FragmentA[T]) Set(i int, v T) {
	size, bits := elementSize[T](), elementBits(v)
	if size == 8 {
		a.words[2*i], a.words[2*i+1] = uint32(bits), uint32(bits>>32)
		return
	}
	word := i * size >> 2
	a.words[word] = within(a.words[word], uint32(bits), size, i)
}

// Set changes element i of the lane.
func (b *FragmentB[T]) Set(i int, v T) {
	size, bits := elementSize[T](), elementBits(v)
	if size == 8 {
		b.words[2*i], b.words[2*i+1] = uint32(bits), uint32(bits>>32)
		return
	}
	word := i * size >> 2
	b.words[word] = within(b.words[word], uint32(bits), size, i)
}

// within is a word with element i of its fragment replaced.
func within(word, bits uint32, size, i int) uint32 {
	mask, shift := uint32(1<<(8*size)-1), i*size&3*8
	return word&^(mask<<shift) | bits&mask<<shift
}

// LoadA loads a fragment from a slice whose rows are pitch elements apart: x[row*pitch+k].
func LoadA[T Element](t *Thread, x []T, pitch int) (a FragmentA[T]) {
	lane := t.Lane()
	for i := range 16 / elementSize[T]() {
		row, k := a.Place(lane, i)
		a.Set(i, x[row*pitch+k])
	}
	return a
}

// LoadB loads a fragment from a slice whose columns are pitch elements apart: x[col*pitch+k].
func LoadB[T Element](t *Thread, x []T, pitch int) (b FragmentB[T]) {
	lane := t.Lane()
	for i := range 8 / elementSize[T]() {
		k, col := b.Place(lane, i)
		b.Set(i, x[col*pitch+k])
	}
	return b
}

// The loads below are ldmatrix of PTX. Each lane gives the address of 16 bytes in shared memory, and the lanes divide
// what all have read. All lanes of the warp call one together. What the lanes of the warp have written before has to be ordered
// by a barrier, as for any load of another thread. float64 has no such load: its elements are wider than a word.

// LoadMatrixA loads a fragment from shared memory. A lane gives bytes 16*(lane/16) and after of row lane%16.
func LoadMatrixA[T Element](t *Thread, row *Uint4) (a FragmentA[T]) {
	a.words = t.loadMatrices("LoadMatrixA", row, elementSize[T]())
	return a
}

// LoadMatrixB loads two fragments, of 16 columns, from shared memory. A lane gives bytes 16*(lane/8%2) and after of column
// lane%8 + lane/16*8.
func LoadMatrixB[T Element](t *Thread, col *Uint4) (b [2]FragmentB[T]) {
	w := t.loadMatrices("LoadMatrixB", col, elementSize[T]())
	b[0].words, b[1].words = [2]uint32{w[0], w[1]}, [2]uint32{w[2], w[3]}
	return b
}

// LoadTransposedA is LoadMatrixA where the columns of A lie in memory one after another. A lane gives 8 rows,
// from row lane/8%2*8 on, of column lane%8 + lane/16*8.
func LoadTransposedA[T Float16 | BFloat16](t *Thread, col *Uint4) (a FragmentA[T]) {
	a.words = t.loadTransposed("LoadTransposedA", col)
	return a
}

// LoadTransposedB is LoadMatrixB where the rows of B lie in memory one after another. A lane gives 8 columns, from column
// lane/16*8 on, of row lane%16.
func LoadTransposedB[T Float16 | BFloat16](t *Thread, row *Uint4) (b [2]FragmentB[T]) {
	w := t.loadTransposed("LoadTransposedB", row)
	b[0].words, b[1].words = [2]uint32{w[0], w[1]}, [2]uint32{w[2], w[3]}
	return b
}

// loadMatrices gives a lane, of matrix j of 8 rows of 16 bytes, word lane%4 of row lane/4. Lane 8*j+i has the address of row i.
func (t *Thread) loadMatrices(op string, row *Uint4, size int) (words [4]uint32) {
	if size == 8 {
		fault("gpu.%s: the elements of float64 are wider than a word; take LoadA and LoadB", op)
	}
	lanes := t.exchangeWords(op, [6]uint32{row.X, row.Y, row.Z, row.W})
	for j := range words {
		words[j] = lanes[8*j+t.Lane()>>2][t.Lane()&3]
	}
	return words
}

// loadTransposed gives a lane, of matrix j, elements lane/4 of rows 2*(lane%4) and the next.
func (t *Thread) loadTransposed(op string, row *Uint4) (words [4]uint32) {
	lanes := t.exchangeWords(op, [6]uint32{row.X, row.Y, row.Z, row.W})
	col, at := t.Lane()>>2, t.Lane()&3*2
	for j := range words {
		for i := range 2 {
			words[j] |= lanes[8*j+at+i][col>>1] >> (col & 1 * 16) & 0xffff << (i * 16)
		}
	}
	return words
}

// exchangeWords posts what a lane brings to a function of all 32 lanes of a warp, and gives what they have posted.
func (t *Thread) exchangeWords(op string, words [6]uint32) (lanes [warpSize]*[6]uint32) {
	mine := &t.tensors().posts[(t.calls+1)&1] // exchange counts the call
	*mine = words
	slots := t.post(posted{op: op, words: mine})
	if len(slots) < warpSize {
		fault("gpu.%s: the warp has %d lanes, not 32: make the block a multiple of 32 threads", op, len(slots))
	}
	for lane, p := range slots {
		if !t.takesPart(p, op, lane) {
			fault("gpu.%s: lane %d is here while lane %d has returned", op, t.Lane(), lane)
		}
		lanes[lane] = p.words
	}
	return lanes
}

// tensor is what a thread has under way of tensor cores and of copies.
type tensor struct {
	posts  [2][6]uint32 // to functions of the warp, in turns
	copies []asyncCopy  // that have begun
	groups int          // of copies that have ended

	stores, products queue
}

func (t *Thread) tensors() *tensor {
	if t.tensor == nil {
		t.tensor = &tensor{}
	}
	return t.tensor
}
