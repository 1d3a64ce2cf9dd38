package cusolver

import (
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/runtime"
)

// Cholesky factors the symmetric a, of which the triangle is read: a = l*l^T for Lower, and a = u^T*u for Upper. The factor takes
// the place of the triangle; the other triangle is left as it is. For Lower, or for Upper of a transposed view, a large a is turned around and
// back, because cuSOLVER is faster then. Wait returns ErrNotPositiveDefinite with the row at which the factor ends.
func Cholesky[T cublas.Real](h *Handle, fill cublas.Fill, a cublas.Matrix[T]) (*Result, error) {
	if err := first(triangle(fill), square("a", a)); err != nil || a.Rows == 0 {
		return new(Result).unless(err)
	}
	c := &Call{Routine: Potrf, Type: typeOf[T](), Fill: memoryFill(fill, a), N: int64(a.Rows)}
	if c.Fill == cublas.Lower || a.Rows < turnedFrom {
		return h.run(c, bind(a, runtime.InOut[T], &c.A))
	}
	if a.Transposed() {
		a = a.T()
	}
	x, err := columns(h, a, true)
	if err != nil {
		return nil, err
	}
	defer x.close(h)
	c.Fill = cublas.Lower
	r, err := h.run(c, bind(x.Matrix, runtime.InOut[T], &c.A))
	if err != nil {
		return nil, err
	}
	return r.unless(x.back(h))
}

// turnedFrom is the number of rows from which the matrix is turned around where its triangle is the upper one of memory by
// columns. cuSOLVER 12.0 on an H200 takes 4.3 ms for that of 4096 rows, and 1.5 ms for the lower one; two turns take 0.13 ms.
var turnedFrom = 1024 // only tests change it

// CholeskySolve solves a*x = b with the factor of a that [Cholesky] made, and puts x in the place of b. b is turned around and
// back, if it is no transposed view and not one column without gaps.
func CholeskySolve[T cublas.Real](h *Handle, fill cublas.Fill, a, b cublas.Matrix[T]) (*Result, error) {
	c := &Call{Routine: Potrs, Fill: memoryFill(fill, a)}
	return solve(h, c, a, b, first(triangle(fill)), overlap.Box{}, bind(a, runtime.In[T], &c.A))
}

// LU factors a: the rows of a transposed view, or else the columns of a, are exchanged.
//
// By rows a*P = L*U. U has ones on its diagonal, which are not stored, and stands above L's. To get a*P, for each i, from 0
// on, column i of a and column pivots[i]-1 are exchanged. Of a transposed view P*a = L*U, as LAPACK has it: rows are
// exchanged, and L has the ones. pivots has at least as many elements as the diagonal of a. Wait returns ErrSingular with the
// place of a 0 on the diagonal.
func LU[T cublas.Real](h *Handle, a cublas.Matrix[T], pivots *runtime.Ref[int64]) (*Result, error) {
	if err := first(a.Check("a"), room("pivots", pivots, min(a.Rows, a.Cols))); err != nil || a.Rows == 0 || a.Cols == 0 {
		return new(Result).unless(err)
	}
	if err := overlap.Of(box("a", a), overlap.First("pivots", pivots, min(a.Rows, a.Cols))); err != nil {
		return nil, err
	}
	n, m := stored(a)
	c := &Call{Routine: Getrf, Type: typeOf[T](), M: int64(m), N: int64(n)}
	return h.run(c, bind(a, runtime.InOut[T], &c.A), vector(pivots, runtime.InOut[int64], c))
}

// LUSolve solves a*x = b with what [LU] made of a, and puts x in the place of b. b is turned around and back, if it is no
// transposed view and not one column without gaps. An a with a 0 on its diagonal gives infinities.
func LUSolve[T cublas.Real](h *Handle, a cublas.Matrix[T], pivots *runtime.Ref[int64], b cublas.Matrix[T]) (*Result, error) {
	c := &Call{Routine: Getrs, Trans: cublas.Transpose}
	if a.Transposed() {
		c.Trans = cublas.NoTranspose
	}
	return solve(h, c, a, b, room("pivots", pivots, a.Rows), overlap.First("pivots", pivots, a.Rows), bind(a, runtime.In[T], &c.A), vector(pivots, runtime.In[int64], c))
}

// solve runs a call with a factor of a, what is read beside it, and b, which x replaces.
func solve[T cublas.Real](h *Handle, c *Call, a, b cublas.Matrix[T], err error, beside overlap.Box, uses ...use) (*Result, error) {
	if err := first(err, square("a", a), b.Check("b")); err != nil {
		return nil, err
	}
	if a.Rows != b.Rows {
		return nil, wrong("a is %d x %d and b is %d x %d: want n x n and n x k", a.Rows, a.Cols, b.Rows, b.Cols)
	}
	if b.Rows == 0 || b.Cols == 0 {
		return new(Result), nil
	}
	if err := overlap.Of(box("b", b), box("a", a), beside); err != nil {
		return nil, err
	}
	x, err := columns(h, b, true)
	if err != nil {
		return nil, err
	}
	defer x.close(h)
	c.Type, c.N, c.K = typeOf[T](), int64(a.Rows), int64(b.Cols)
	r, err := h.run(c, append(uses, bind(x.Matrix, runtime.InOut[T], &c.B))...)
	if err != nil {
		return nil, err
	}
	return r.unless(x.back(h))
}

// memoryFill is the triangle of the memory, read by columns.
func memoryFill[T cublas.Real](fill cublas.Fill, a cublas.Matrix[T]) cublas.Fill {
	if a.Transposed() {
		return fill
	}
	return 1 - fill
}

func triangle(fill cublas.Fill) error {
	if fill != cublas.Lower && fill != cublas.Upper {
		return wrong("fill %d: want Lower or Upper", fill)
	}
	return nil
}
