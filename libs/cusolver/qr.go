package cusolver

import (
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/runtime"
)

// QR factors a = Q*R. R takes the place of the upper triangle of a, with its diagonal. Q stays as reflectors: below the diagonal,
// and in tau, which has at least as many elements as the diagonal. a is turned around and back, if it is no transposed view.
func QR[T cublas.Real](h *Handle, a cublas.Matrix[T], tau *runtime.Ref[T]) (*Result, error) {
	if err := first(a.Check("a"), room("tau", tau, min(a.Rows, a.Cols))); err != nil || a.Rows == 0 || a.Cols == 0 {
		return new(Result).unless(err)
	}
	if err := overlap.Of(box("a", a), overlap.First("tau", tau, min(a.Rows, a.Cols))); err != nil {
		return nil, err
	}
	x, err := columns(h, a, true)
	if err != nil {
		return nil, err
	}
	defer x.close(h)
	c := &Call{Routine: Geqrf, Type: typeOf[T](), M: int64(a.Rows), N: int64(a.Cols)}
	r, err := h.run(c, bind(x.Matrix, runtime.InOut[T], &c.A), vector(tau, runtime.InOut[T], c))
	if err != nil {
		return nil, err
	}
	return r.unless(x.back(h))
}

// ApplyQ computes c = Q*c, or c = c*Q for side Right, with the Q that [QR] left in a and tau. With cublas.Transpose it is Q^T. Q
// has as many rows and columns as a has rows. A copy of a is turned around, if it is no transposed view.
func ApplyQ[T cublas.Real](h *Handle, side cublas.Side, trans cublas.Operation, a cublas.Matrix[T], tau *runtime.Ref[T], c cublas.Matrix[T]) (*Result, error) {
	if side != cublas.Left && side != cublas.Right || trans != cublas.NoTranspose && trans != cublas.Transpose {
		return nil, wrong("side %d, operation %d: want Left or Right, NoTranspose or Transpose", side, trans)
	}
	k := min(a.Rows, a.Cols)
	if err := first(a.Check("a"), c.Check("c"), room("tau", tau, k)); err != nil {
		return nil, err
	}
	if order := map[cublas.Side]int{cublas.Left: c.Rows, cublas.Right: c.Cols}[side]; order != a.Rows {
		return nil, wrong("c is %d x %d, and Q is %d x %d", c.Rows, c.Cols, a.Rows, a.Rows)
	}
	if k == 0 || c.Rows == 0 || c.Cols == 0 {
		return new(Result), nil
	}
	if err := overlap.Of(box("c", c), box("a", a), overlap.First("tau", tau, k)); err != nil {
		return nil, err
	}
	q, err := columns(h, a.Slice(0, a.Rows, 0, k), true)
	if err != nil {
		return nil, err
	}
	defer q.close(h)
	n, m := stored(c)
	call := &Call{Routine: Ormqr, Type: typeOf[T](), Side: side, Trans: trans, M: int64(m), N: int64(n), K: int64(k)}
	if !c.Transposed() { // the memory is c^T
		call.Side, call.Trans = 1-side, 1-trans
	}
	return h.run(call, bind(q.Matrix, runtime.In[T], &call.A), vector(tau, runtime.In[T], call), bind(c, runtime.InOut[T], &call.B))
}

// LeastSquares finds the x with the smallest |a*x - b|. a has at least as many rows as columns, and b as many rows as a. x takes
// the place of the first rows of b, as many as a has columns. What is below it in a column has the norm of a*x - b.
//
// It computes QR, Q^T*b and the solution of R*x = Q^T*b, with a handle of cuBLAS of the same context. What a holds afterwards is
// undefined. Columns of a that depend on each other give infinities or large numbers.
func LeastSquares[T cublas.Real](h *Handle, blas *cublas.Handle, a, b cublas.Matrix[T]) (*Result, error) {
	if err := first(a.Check("a"), b.Check("b")); err != nil {
		return nil, err
	}
	switch {
	case a.Rows < a.Cols || a.Rows != b.Rows:
		return nil, wrong("a is %d x %d and b is %d x %d: want m x n and m x k, with m at least n", a.Rows, a.Cols, b.Rows, b.Cols)
	case blas.Stream() == nil:
		return nil, wrong("LeastSquares with no handle of cuBLAS: see cublas.New")
	case a.Cols == 0 || b.Cols == 0:
		return new(Result), nil
	}
	if err := overlap.Of(box("b", b), box("a", a)); err != nil {
		return nil, err
	}
	x, err := columns(h, a, true)
	if err != nil {
		return nil, err
	}
	defer x.close(h)
	tau, err := copies[T](h).take(h.s, a.Cols)
	if err != nil {
		return nil, err
	}
	defer copies[T](h).put(tau)
	r, err := QR(h, x.Matrix, tau)
	if err != nil {
		return nil, err
	}
	q, err := ApplyQ(h, cublas.Left, cublas.Transpose, x.Matrix, tau, b)
	if err != nil {
		return nil, err
	}
	r.waits = append(r.waits, q.waits...)
	n := a.Cols
	return r.unless(cublas.Trsm(blas, cublas.Left, cublas.Upper, cublas.NonUnit, 1, x.Slice(0, n, 0, n), b.Slice(0, n, 0, b.Cols)))
}
