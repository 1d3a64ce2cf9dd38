package cusolver

import (
	"unsafe"

	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver/internal/layout"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/runtime"
)

// stored are the rows and columns of the memory.
func stored[T cublas.Real](m cublas.Matrix[T]) (rows, cols int) {
	if m.Transposed() {
		return m.Cols, m.Rows
	}
	return m.Rows, m.Cols
}

// span is how many elements of its Ref a matrix reaches over.
func span[T cublas.Real](m cublas.Matrix[T]) int {
	rows, cols := stored(m)
	return (rows-1)*m.Stride + cols
}

// reach is span for a batch.
func reach[T cublas.Real](b cublas.Batch[T]) int { return (b.Count-1)*b.Step + span(b.Matrix) }

// one is the batch of one matrix.
func one[T cublas.Real](m cublas.Matrix[T]) cublas.Batch[T] {
	return cublas.Batch[T]{Matrix: m, Count: 1}
}

// square is Check for a matrix with as many rows as columns.
func square[T cublas.Real](name string, m cublas.Matrix[T]) error {
	if err := m.Check(name); err != nil || m.Rows == m.Cols {
		return err
	}
	return wrong("%s is %d x %d: want n x n", name, m.Rows, m.Cols)
}

// room is why a Ref does not have n elements, or nil.
func room[T any](name string, ref *runtime.Ref[T], n int) error {
	if ref == nil {
		return wrong("%s has no memory: want %d elements", name, n)
	}
	if ref.Len() < n {
		return wrong("%s has %d elements: want %d", name, ref.Len(), n)
	}
	return nil
}

// first is the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// typeOf is the DataType of T.
func typeOf[T cublas.Real]() cublas.DataType {
	if unsafe.Sizeof(*new(T)) == 8 {
		return cublas.TypeFloat64
	}
	return cublas.TypeFloat32
}

// box is the memory of a matrix.
func box[T cublas.Real](name string, m cublas.Matrix[T]) overlap.Box { return boxes(name, one(m)) }

// boxes is the memory of a batch.
func boxes[T cublas.Real](name string, b cublas.Batch[T]) overlap.Box {
	rows, cols := stored(b.Matrix)
	return overlap.Batch(name, b.Ref, b.Offset, rows, cols, b.Stride, b.Count, b.Step)
}

// bind is the use of a matrix as an operand: its memory, by columns.
func bind[T cublas.Real](m cublas.Matrix[T], as func(*runtime.Ref[T]) runtime.Arg, to *Operand) use {
	_, cols := stored(m)
	to.LD = int64(max(m.Stride, cols, 1))
	return use{as(m.Ref), &to.At, m.Offset * int(unsafe.Sizeof(*new(T)))}
}

// vector is the use of a whole Ref.
func vector[T any](ref *runtime.Ref[T], as func(*runtime.Ref[T]) runtime.Arg, c *Call) use {
	return use{arg: as(ref), to: &c.Vector}
}

// byColumns are matrices whose memory has their columns one after the other: a transposed view.
type byColumns[T cublas.Real] struct {
	cublas.Batch[T]
	original cublas.Batch[T]
	copied   bool
}

// columns makes a matrix by columns: the view itself, or a copy, which with read has its numbers.
func columns[T cublas.Real](h *Handle, m cublas.Matrix[T], read bool) (byColumns[T], error) {
	return columnsOf(h, one(m), read)
}

// columnsOf is columns of each of a batch.
func columnsOf[T cublas.Real](h *Handle, m cublas.Batch[T], read bool) (byColumns[T], error) {
	switch {
	case h == nil || h.s == nil:
		return byColumns[T]{}, wrong("no handle: see cusolver.New")
	case m.Transposed():
		return byColumns[T]{m, m, false}, nil
	case m.Cols == 1 && m.Stride == 1: // one column without gaps
		line := m
		line.Rows, line.Cols, line.Stride = 1, m.Rows, m.Rows
		return byColumns[T]{line.T(), m, false}, nil
	}
	ref, err := copies[T](h).take(h.s, m.Rows*m.Cols*m.Count)
	if err != nil {
		return byColumns[T]{}, err
	}
	turned := cublas.Batch[T]{Matrix: cublas.Dense(ref, m.Cols, m.Rows), Count: m.Count, Step: m.Rows * m.Cols}
	if read {
		if err = turn(h, turned, m); err != nil {
			copies[T](h).put(ref)
		}
	}
	return byColumns[T]{turned.T(), m, true}, err
}

// back writes a copy where the matrices are.
func (c byColumns[T]) back(h *Handle) error {
	if !c.copied {
		return nil
	}
	return turn(h, c.original, c.Batch.T())
}

// close gives a copy back, behind its work.
func (c byColumns[T]) close(h *Handle) {
	if c.copied {
		copies[T](h).put(c.Ref)
	}
}

// turn writes the transposed of in, both by rows.
func turn[T cublas.Real](h *Handle, out, in cublas.Batch[T]) error {
	to, from := out.Ref.Slice(out.Offset, out.Offset+reach(out)), in.Ref.Slice(in.Offset, in.Offset+reach(in))
	shape := layout.Shape(in.Rows, in.Cols, in.Count)
	if to, ok := any(to).(*runtime.Ref[float64]); ok {
		return h.kernels.TransposeFloat64(h.s, shape, to, any(from).(*runtime.Ref[float64]), in.Rows, in.Cols, in.Stride, in.Step, out.Stride, out.Step)
	}
	return h.kernels.TransposeFloat32(h.s, shape, any(to).(*runtime.Ref[float32]), any(from).(*runtime.Ref[float32]), in.Rows, in.Cols, in.Stride, in.Step, out.Stride, out.Step)
}
