// Package cpu has the batches of package cusolver on the CPU, for machines without a GPU or without cuSOLVER. Its functions have the same
// names, and leave the same in the same places of Go slices. They compute with gonum, in float64, on all cores.
//
//	matrices, columns := make([]float64, 1000*n*n), make([]float64, 1000*n)
//	a := cpu.Batch[float64]{Data: matrices, Rows: n, Cols: n, Stride: n, Count: 1000, Step: n * n}
//	b := cpu.Batch[float64]{Data: columns, Rows: n, Cols: 1, Stride: 1, Count: 1000, Step: n}
//	err := cpu.CholeskyBatch(ctx, cublas.Upper, a) // a *cusolver.BatchError has the matrices that failed
//	if err == nil {
//		err = cpu.CholeskySolveBatch(ctx, cublas.Upper, a, b)
//	}
//
// The functions return when all is done, and are safe for concurrent use on different memory. When ctx ends, some matrices are
// computed and others are as they were. Wrong shapes are errors of kind driver.ErrInvalidArgument.
package cpu

import (
	"fmt"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver/internal/lapack"
	"github.com/purecuda/purecuda/libs/internal/overlap"
)

// Batch is Count matrices of one shape by rows, as cublas.Batch: matrix k begins at Data[k*Step], and its rows are Stride elements
// apart.
type Batch[T cublas.Real] struct {
	Data       []T
	Rows, Cols int
	Stride     int
	Count      int
	Step       int
	// transposed says that the memory has Cols rows of Rows elements.
	transposed bool
}

// T is the batch of the transposed matrices, of the same memory.
func (b Batch[T]) T() Batch[T] {
	b.Rows, b.Cols, b.transposed = b.Cols, b.Rows, !b.transposed
	return b
}

// stored are the rows and columns of the memory.
func (b *Batch[T]) stored() (rows, cols int) {
	if b.transposed {
		return b.Cols, b.Rows
	}
	return b.Rows, b.Cols
}

// none tells whether there is nothing to compute.
func (b *Batch[T]) none() bool { return b.Rows == 0 || b.Cols == 0 || b.Count == 0 }

// check is why the batch cannot be used, or nil. What is written must not overlap itself.
func (b *Batch[T]) check(name string, written bool) error {
	rows, cols := b.stored()
	if min(b.Rows, b.Cols, b.Count, b.Step, b.Stride) < 0 {
		return wrong("%s is %d matrices of %d x %d, %d apart with a stride of %d: want none below 0", name, b.Count, b.Rows, b.Cols, b.Step, b.Stride)
	}
	if b.none() {
		return nil
	}
	if rows > 1 && b.Stride < cols {
		return wrong("%s has a stride of %d: want at least %d, the length of a row in memory", name, b.Stride, cols)
	}
	room := len(b.Data) - cols // behind the first row; no product below is larger than it
	if room < 0 || rows > 1 && b.Stride > room/(rows-1) {
		return wrong("%s is too large for its memory: matrices of %d x %d with a stride of %d, and %d elements", name, b.Rows, b.Cols, b.Stride, len(b.Data))
	}
	span := (rows-1)*b.Stride + cols
	switch room = len(b.Data) - span; {
	case b.Count > 1 && b.Step > room/(b.Count-1):
		return wrong("%s is too large for its memory: %d matrices that are %d elements apart and span %d, and %d elements", name, b.Count, b.Step, span, len(b.Data))
	case written && b.Count > 1 && b.Step < span:
		return wrong("the matrices of %s overlap: they are %d elements apart and span %d", name, b.Step, span)
	}
	return nil
}

// square is check for matrices with as many rows as columns.
func (b *Batch[T]) square(name string, written bool) error {
	if b.Rows != b.Cols {
		return wrong("the matrices of %s are %d x %d: want n x n", name, b.Rows, b.Cols)
	}
	return b.check(name, written)
}

// box is the memory of the matrices.
func (b *Batch[T]) box(name string) overlap.Box {
	if b.none() {
		return overlap.Box{}
	}
	rows, cols := b.stored()
	size := int64(unsafe.Sizeof(*new(T)))
	return overlap.Box{Name: name, At: address(b.Data), Bytes: int64(cols) * size,
		Levels: [2]overlap.Level{{N: int64(rows), Step: int64(b.Stride) * size}, {N: int64(b.Count), Step: int64(b.Step) * size}}}
}

// vector is the memory of the first n elements.
func vector[E any](name string, v []E, n int) overlap.Box {
	if n == 0 {
		return overlap.Box{}
	}
	return overlap.Box{Name: name, At: address(v), Bytes: int64(n) * int64(unsafe.Sizeof(v[0]))}
}

func address[E any](v []E) driver.DevicePtr {
	return driver.DevicePtr(uintptr(unsafe.Pointer(unsafe.SliceData(v))))
}

// operand is a batch as a routine has it. Where byMemory is set, that is the memory by columns, as on the device: the transposed
// matrices of what is by rows.
type operand[T cublas.Real] struct {
	Batch[T]
	byMemory bool
	written  bool
}

// shape of the matrices that the routine has.
func (o *operand[T]) shape() (rows, cols int) {
	if o.byMemory && !o.transposed {
		return o.Cols, o.Rows
	}
	return o.Rows, o.Cols
}

// each calls f with the elements of matrix k and their places in m.
func (o *operand[T]) each(k int, m lapack.Matrix, f func(stored *T, value *float64)) {
	rows, cols := o.stored()
	columns := o.byMemory || o.transposed // of m are the rows of the memory
	for i := range rows {
		row := o.Data[k*o.Step+i*o.Stride:][:cols]
		for j := range row {
			at := i*m.LD + j
			if columns {
				at = j*m.LD + i
			}
			f(&row[j], &m.V[at])
		}
	}
}

func (o *operand[T]) load(k int, m lapack.Matrix) {
	o.each(k, m, func(stored *T, value *float64) { *value = float64(*stored) })
}

func (o *operand[T]) store(k int, m lapack.Matrix) {
	o.each(k, m, func(stored *T, value *float64) {
		if float64(*stored) != *value {
			*stored = T(*value)
		}
	})
}

func wrong(format string, a ...any) error {
	return driver.Errorf(driver.ErrInvalidArgument, "%s", fmt.Sprintf(format, a...))
}
