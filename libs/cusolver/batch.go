package cusolver

import (
	"math"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/runtime"
)

// Many matrices of 4 to 64 rows in one call. A failure of some is a [*BatchError] of the Result: the others are right. A call can be
// captured once one of its shape has run, and its Result was waited for.

// CholeskyBatch is [Cholesky] of each matrix, with nothing turned around. Wait returns a [*BatchError] that wraps
// ErrNotPositiveDefinite.
func CholeskyBatch[T cublas.Real](h *Handle, fill cublas.Fill, a cublas.Batch[T]) (*Result, error) {
	if err := first(triangle(fill), squares("a", a), written("a", a)); err != nil || a.Rows == 0 || a.Count == 0 {
		return new(Result).unless(err)
	}
	c := &Call{Routine: PotrfBatched, Type: typeOf[T](), Fill: memoryFill(fill, a.Matrix), N: int64(a.Rows)}
	return systems(h, c, a, runtime.InOut[T], nil, 1, a.Count)
}

// CholeskySolveBatch solves a*x = b for each pair of matrices, with the factors of a that [CholeskyBatch] made, and puts x in the
// place of b. b is turned around and back as in [CholeskySolve].
func CholeskySolveBatch[T cublas.Real](h *Handle, fill cublas.Fill, a, b cublas.Batch[T]) (*Result, error) {
	c := &Call{Routine: PotrsBatched, Fill: memoryFill(fill, a.Matrix)}
	return solveBatch(h, c, a, b, first(triangle(fill), squares("a", a)), b.Cols, 1)
}

// LUBatch is [LU] of each matrix, which has as many rows as columns. pivots has as many elements as the matrices have rows in all.
// Wait returns a [*BatchError] that wraps ErrSingular.
func LUBatch[T cublas.Real](h *Handle, a cublas.Batch[T], pivots *runtime.Ref[int32]) (*Result, error) {
	if err := first(squares("a", a), written("a", a), room("pivots", pivots, a.Rows*a.Count)); err != nil || a.Rows == 0 || a.Count == 0 {
		return new(Result).unless(err)
	}
	if err := overlap.Of(boxes("a", a), overlap.First("pivots", pivots, a.Rows*a.Count)); err != nil {
		return nil, err
	}
	c := &Call{Routine: GetrfBatched, Type: typeOf[T](), N: int64(a.Rows)}
	return systems(h, c, a, runtime.InOut[T], nil, 1, a.Count, vector(pivots, runtime.InOut[int32], c))
}

// LUSolveBatch solves a*x = b for each pair of matrices, with what [LUBatch] made of a, and puts x in the place of b. b is turned around
// and back as in [LUSolve]. Nothing can be wrong with the numbers: the Result is nothing to wait for.
func LUSolveBatch[T cublas.Real](h *Handle, a cublas.Batch[T], pivots *runtime.Ref[int32], b cublas.Batch[T]) (*Result, error) {
	c := &Call{Routine: GetrsBatched, Trans: cublas.Transpose}
	if a.Transposed() {
		c.Trans = cublas.NoTranspose
	}
	n := a.Rows * a.Count
	if err := first(squares("a", a), room("pivots", pivots, n)); err != nil {
		return nil, err
	}
	if err := overlap.Of(boxes("b", b), overlap.First("pivots", pivots, n)); err != nil {
		return nil, err
	}
	return solveBatch(h, c, a, b, nil, 1, 1, vector(pivots, runtime.In[int32], c))
}

// InverseBatch writes the inverse of each matrix that [LUBatch] has factored to out, whose matrices lie as those of a do: by rows, or as
// transposed views. Wait returns a [*BatchError] that wraps ErrSingular.
func InverseBatch[T cublas.Real](h *Handle, a cublas.Batch[T], pivots *runtime.Ref[int32], out cublas.Batch[T]) (*Result, error) {
	n := a.Rows * a.Count
	if err := first(squares("a", a), squares("out", out), written("out", out), room("pivots", pivots, n)); err != nil {
		return nil, err
	}
	switch {
	case a.Rows != out.Rows || a.Count != out.Count || a.Transposed() != out.Transposed():
		return nil, wrong("a is %d matrices of %d rows and out %d of %d: want as many, both by rows or both transposed views", a.Count, a.Rows, out.Count, out.Rows)
	case n == 0:
		return new(Result), nil
	}
	if err := overlap.Of(boxes("out", out), boxes("a", a), overlap.First("pivots", pivots, n)); err != nil {
		return nil, err
	}
	c := &Call{Routine: GetriBatched, Type: typeOf[T](), N: int64(a.Rows)}
	return systems(h, c, a, runtime.In[T], &out, 1, a.Count, vector(pivots, runtime.In[int32], c))
}

// LeastSquaresBatch finds the x with the smallest |a*x - b| for each pair of matrices. a has at least as many rows as columns, and b as
// many rows as a. x takes the place of the first rows of b. What a and the other rows of b hold afterwards is undefined. What is no
// transposed view is turned around, but for one column without gaps. Wait returns a [*BatchError] that wraps ErrSingular where the columns of a matrix depend on each other.
func LeastSquaresBatch[T cublas.Real](h *Handle, a, b cublas.Batch[T]) (*Result, error) {
	if err := first(a.Check("a"), written("a", a)); err != nil {
		return nil, err
	}
	if a.Rows < a.Cols {
		return nil, wrong("a is %d x %d: want at least as many rows as columns", a.Rows, a.Cols)
	}
	if a.Cols == 0 || a.Count == 0 || b.Cols == 0 {
		return new(Result).unless(b.Check("b"))
	}
	x, err := columnsOf(h, a, true)
	if err != nil {
		return nil, err
	}
	defer x.close(h)
	c := &Call{Routine: GelsBatched, M: int64(a.Rows)}
	return solveBatch(h, c, x.Batch, b, nil, 1, a.Count)
}

// EigenBatch is [Eigen] of each matrix. The matrices lie one after the other: a.Step is a.Stride for each row. values has as many
// elements as the matrices have rows in all. Wait returns a [*BatchError] that wraps ErrNotConverged.
func EigenBatch[T cublas.Real](h *Handle, fill cublas.Fill, vectors bool, a cublas.Batch[T], values *runtime.Ref[T]) (*Result, error) {
	n := a.Rows * a.Count
	if err := first(triangle(fill), squares("a", a), written("a", a), room("values", values, n)); err != nil || n == 0 {
		return new(Result).unless(err)
	}
	stride := max(a.Stride, a.Rows)
	if a.Count > 1 && a.Step != stride*a.Rows {
		return nil, wrong("the matrices of a are %d elements apart: want %d, one after the other", a.Step, stride*a.Rows)
	}
	if a.Offset+stride*n > a.Ref.Len() {
		return nil, wrong("a has %d elements behind element %d: want %d, with the gap behind the last row", a.Ref.Len()-a.Offset, a.Offset, stride*n)
	}
	if err := overlap.Of(boxes("a", a), overlap.First("values", values, n)); err != nil {
		return nil, err
	}
	c := &Call{Routine: SyevjBatched, Type: typeOf[T](), Vectors: vectors, Fill: memoryFill(fill, a.Matrix), N: int64(a.Rows), Batch: int64(a.Count)}
	return h.runBatch(c, a.Count, bind(a.Matrix, runtime.InOut[T], &c.A), vector(values, runtime.InOut[T], c))
}

// squares is Check for matrices with as many rows as columns.
func squares[T cublas.Real](name string, b cublas.Batch[T]) error {
	if err := b.Check(name); err != nil || b.Rows == b.Cols {
		return err
	}
	return wrong("the matrices of %s are %d x %d: want n x n", name, b.Rows, b.Cols)
}

// written is why a batch cannot be written: its matrices overlap.
func written[T cublas.Real](name string, b cublas.Batch[T]) error {
	if b.Count > 1 && b.Rows > 0 && b.Cols > 0 && b.Step < span(b.Matrix) {
		return wrong("the matrices of %s overlap: they are %d elements apart and span %d", name, b.Step, span(b.Matrix))
	}
	return nil
}

// solveBatch runs a call with factors of a, what is read beside them, and b, which x replaces. k is the number of systems for each
// pair, and infos that of the numbers that the call leaves behind.
func solveBatch[T cublas.Real](h *Handle, c *Call, a, b cublas.Batch[T], err error, k, infos int, uses ...use) (*Result, error) {
	if err := first(err, b.Check("b"), written("b", b)); err != nil {
		return nil, err
	}
	if a.Rows != b.Rows || a.Count != b.Count {
		return nil, wrong("a is %d matrices of %d x %d and b %d of %d x %d: want as many, with as many rows", a.Count, a.Rows, a.Cols, b.Count, b.Rows, b.Cols)
	}
	if b.Rows == 0 || b.Cols == 0 || b.Count == 0 {
		return new(Result), nil
	}
	if err := overlap.Of(boxes("b", b), boxes("a", a)); err != nil {
		return nil, err
	}
	x, err := columnsOf(h, b, true)
	if err != nil {
		return nil, err
	}
	defer x.close(h)
	c.Type, c.N, c.K = typeOf[T](), int64(a.Cols), int64(b.Cols)
	read := runtime.In[T]
	if c.Routine == GelsBatched {
		read = runtime.InOut[T]
	}
	r, err := systems(h, c, a, read, &x.Batch, k, infos, uses...)
	if err != nil {
		return nil, err
	}
	return r.unless(x.back(h))
}

// systems runs a call for the addresses of a, each k times, and of the columns of b if there is one.
func systems[T cublas.Real](h *Handle, c *Call, a cublas.Batch[T], as func(*runtime.Ref[T]) runtime.Arg, b *cublas.Batch[T], k, infos int, uses ...use) (*Result, error) {
	if h == nil || h.s == nil {
		return nil, wrong("%v with no handle: see cusolver.New", c.Routine)
	}
	size := uint64(unsafe.Sizeof(*new(T)))
	atA, err := a.Ref.Access()
	if err != nil {
		return nil, err
	}
	room, atB, stepB, column := int64(a.Count)*int64(k), driver.DevicePtr(0), uint64(0), uint64(0)
	if room > math.MaxInt32 {
		return nil, wrong("%d systems of equations: want at most %d", room, math.MaxInt32)
	}
	n := int(room)
	c.Batch = room
	uses = append(uses, bind(a.Matrix, as, &c.A)) // the address is replaced below
	if b != nil {
		if atB, err = b.Ref.Access(); err != nil {
			return nil, err
		}
		uses = append(uses, bind(b.Matrix, runtime.InOut[T], &c.B))
		stepB, column, room = uint64(b.Step)*size, uint64(c.B.LD)*size, 2*room
		atB += driver.DevicePtr(uint64(b.Offset) * size)
	}
	memory, err := h.addresses.take(h.s, int(room))
	if err != nil {
		return nil, err
	}
	defer h.addresses.put(memory)
	all := memory.Slice(0, int(room))
	err = h.kernels.Addresses(h.s, runtime.Shape1D(n, 256), all, uint64(atA)+uint64(a.Offset)*size, uint64(a.Step)*size, uint64(atB), stepB, column, a.Count, k)
	if err != nil {
		return nil, err
	}
	uses = append(uses, use{arg: runtime.In(all), to: &c.A.At})
	if b != nil {
		uses = append(uses, use{arg: runtime.In(all), to: &c.B.At, offset: 8 * n})
	}
	return h.runBatch(c, infos, uses...)
}

// runBatch is run for a call that leaves so many numbers behind.
func (h *Handle) runBatch(c *Call, infos int, uses ...use) (*Result, error) {
	if h == nil || h.s == nil {
		return nil, wrong("%v with no handle: see cusolver.New", c.Routine)
	}
	switch {
	case c.Routine == GetrsBatched: // which leaves none behind
		_, err := h.finish(c.Routine.String(), c, 0, 0, uses)
		return new(Result).unless(err)
	case infos == 1:
		return h.run(c, uses...)
	}
	info, err := h.batchInfos.take(h.s, infos)
	if err != nil {
		return nil, err
	}
	return h.runWith(c, &h.batchInfos, info, infos, uses)
}
