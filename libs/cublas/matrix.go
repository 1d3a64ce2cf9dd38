package cublas

import (
	"math"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/runtime"
)

// Matrix is a view of device memory, by rows as in Go: row i begins at element Offset+i*Stride of Ref. It is a plain value, and
// the Ref belongs to whoever has allocated it.
type Matrix[T Stored] struct {
	Ref        *runtime.Ref[T]
	Offset     int
	Rows, Cols int
	Stride     int // elements from one row to the next
	// transposed says that the memory has Cols rows of Rows elements.
	transposed bool
}

// Dense is the view of a matrix without gaps.
func Dense[T Stored](ref *runtime.Ref[T], rows, cols int) Matrix[T] {
	return Matrix[T]{Ref: ref, Rows: rows, Cols: cols, Stride: cols}
}

// T is the transposed matrix, of the same memory.
func (m Matrix[T]) T() Matrix[T] {
	m.Rows, m.Cols, m.transposed = m.Cols, m.Rows, !m.transposed
	return m
}

// Slice is the part of rows i to j and columns k to l, without j and l. One that is not within m
// is an error of what uses it.
func (m Matrix[T]) Slice(i, j, k, l int) Matrix[T] {
	within := 0 <= i && i <= j && j <= m.Rows && 0 <= k && k <= l && l <= m.Cols
	row, col := i, k
	if m.transposed {
		row, col = k, i
	}
	m.Offset, m.Rows, m.Cols = m.Offset+row*m.Stride+col, j-i, l-k
	if !within {
		m.Rows = -1
	}
	return m
}

// stored are the rows and columns of the memory.
func (m Matrix[T]) stored() (rows, cols int) {
	if m.transposed {
		return m.Cols, m.Rows
	}
	return m.Rows, m.Cols
}

// op is the operation that makes of the memory, read by columns, what is read by rows.
func (m Matrix[T]) op() Operation {
	if m.transposed {
		return Transpose
	}
	return NoTranspose
}

// Transposed tells whether the memory has the columns of m one after the other, and not its rows.
func (m Matrix[T]) Transposed() bool { return m.transposed }

// Check returns why the view cannot be used: an error of kind driver.ErrInvalidArgument, or nil. name is for the error.
func (m Matrix[T]) Check(name string) error { return m.checkBatch(name, 1, 0) }

// checkBatch is Check for count matrices that are step elements apart.
func (m Matrix[T]) checkBatch(name string, count, step int) error {
	rows, cols := m.stored()
	switch {
	case m.Ref == nil:
		return wrong("%s has no memory: Ref is nil", name)
	case m.Rows < 0 || m.Cols < 0 || max(m.Rows, m.Cols, m.Stride) > math.MaxInt32:
		return wrong("%s has %d rows, %d columns and a stride of %d: want each from 0 to %d, and a Slice within its matrix", name, m.Rows, m.Cols, m.Stride, math.MaxInt32)
	case rows > 1 && m.Stride < cols:
		return wrong("%s has a stride of %d: want at least %d, the length of a row in memory", name, m.Stride, cols)
	case m.Offset < 0 || step < 0 || int64(step) > math.MaxInt64/int64(max(count, 1))-1:
		return wrong("%s begins at element %d, with steps of %d: want none below 0", name, m.Offset, step)
	case rows == 0 || cols == 0 || count == 0:
		return nil
	}
	// No product overflows: the factors are below 2^31, or were compared above.
	if last, n, at := int64(rows-1)*int64(m.Stride)+int64(cols), int64(m.Ref.Len()), int64(m.Offset); at > n || last > n-at || int64(count-1)*int64(step) > n-at-last {
		return wrong("%s is too large for its memory: %d matrices of %d x %d with a stride of %d, %d apart, behind element %d need more than the %d elements of the Ref",
			name, count, m.Rows, m.Cols, m.Stride, step, m.Offset, n)
	}
	return nil
}

// operand is the view at the address of its Ref.
func (m Matrix[T]) operand(at driver.DevicePtr) Operand {
	t, size := typeOf[T]()
	_, cols := m.stored()
	return Operand{At: at + driver.DevicePtr(m.Offset*size), Type: t, LD: int32(max(m.Stride, cols, 1))}
}

// box is the memory of a view.
func (m Matrix[T]) box(name string) overlap.Box { return Batch[T]{Matrix: m, Count: 1}.box(name) }

func (b Batch[T]) box(name string) overlap.Box {
	rows, cols := b.stored()
	return overlap.Batch(name, b.Ref, b.Offset, rows, cols, b.Stride, b.Count, b.Step)
}

// reach is where memory begins and ends.
type reach struct{ from, to driver.DevicePtr }

func (r reach) meets(o reach) bool { return r.from < o.to && o.from < r.to }

// extent is what a batch lies in: where two do not meet, their boxes need not be compared. It does not ask whether the Ref can be
// used, which the call itself says.
func extent[T Stored](b *Batch[T]) reach {
	rows, cols := b.stored()
	if rows < 1 || cols < 1 || b.Count < 1 {
		return reach{}
	}
	size := int(unsafe.Sizeof(*new(T)))
	at := b.Ref.Core().Ptr() + driver.DevicePtr(b.Offset*size)
	return reach{at, at + driver.DevicePtr(((rows-1)*b.Stride+cols+(b.Count-1)*b.Step)*size)}
}

// boxes of matrices of one shape.
func boxes[T Stored](name string, all []Matrix[T]) []overlap.Box {
	list := make([]overlap.Box, len(all))
	for i, m := range all {
		list[i] = m.box(name)
		list[i].Number = i + 1
	}
	return list
}

// Vector is a view of device memory: element i is element Offset+i*Inc of Ref.
type Vector[T Element] struct {
	Ref    *runtime.Ref[T]
	Offset int
	N      int
	Inc    int
}

// Elements is the vector of all elements of a Ref.
func Elements[T Element](ref *runtime.Ref[T]) Vector[T] {
	return Vector[T]{Ref: ref, N: ref.Len(), Inc: 1}
}

func (v Vector[T]) check(name string) error {
	switch {
	case v.Ref == nil:
		return wrong("%s has no memory: Ref is nil", name)
	case v.N < 0 || v.N > math.MaxInt32 || v.Inc < 1 || v.Inc > math.MaxInt32 || v.Offset < 0:
		return wrong("%s has %d elements, every %d-th from %d on: want 0 to %d elements, and an increment of at least 1", name, v.N, v.Inc, v.Offset, math.MaxInt32)
	case v.N == 0:
		return nil
	}
	if n := v.Ref.Len(); v.Offset >= n || (v.N-1)*v.Inc >= n-v.Offset {
		return wrong("%s is too long for its memory: %d elements, every %d-th from %d on, need more than the %d of the Ref", name, v.N, v.Inc, v.Offset, n)
	}
	return nil
}

func (v Vector[T]) box(name string) overlap.Box {
	return overlap.Batch(name, v.Ref, v.Offset, v.N, 1, v.Inc, 1, 0)
}

func (v Vector[T]) operand(at driver.DevicePtr) VectorOperand {
	t, size := typeOf[T]()
	return VectorOperand{At: at + driver.DevicePtr(v.Offset*size), Type: t, Inc: int32(v.Inc)}
}
