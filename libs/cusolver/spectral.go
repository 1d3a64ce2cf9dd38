package cusolver

import (
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/runtime"
)

// Eigen computes the eigenvalues of the symmetric a, of which the triangle is read: they rise. With vectors, row i of a becomes the
// eigenvector of values[i], of length 1; of a transposed view it is column i. Else what a holds afterwards is undefined. values
// has at least as many elements as a has rows. Wait returns ErrNotConverged.
func Eigen[T cublas.Real](h *Handle, fill cublas.Fill, vectors bool, a cublas.Matrix[T], values *runtime.Ref[T]) (*Result, error) {
	if err := first(triangle(fill), square("a", a), room("values", values, a.Rows)); err != nil || a.Rows == 0 {
		return new(Result).unless(err)
	}
	if err := overlap.Of(box("a", a), overlap.First("values", values, a.Rows)); err != nil {
		return nil, err
	}
	c := &Call{Routine: Syevd, Type: typeOf[T](), Vectors: vectors, Fill: memoryFill(fill, a), N: int64(a.Rows)}
	return h.run(c, bind(a, runtime.InOut[T], &c.A), vector(values, runtime.InOut[T], c))
}

// SVD computes a = u*diag(s)*vt. a has m rows and n columns, and s at least as many elements as the smaller number k of them: the
// singular values, which fall. u is m x k or m x m, and vt is k x n or n x n; the zero Matrix is not computed. What a holds
// afterwards is undefined. Wait returns ErrNotConverged.
//
// By rows nothing is turned around where m is at most n; otherwise a, u and vt are. Of transposed views it is the other way round.
func SVD[T cublas.Real](h *Handle, a, u cublas.Matrix[T], s *runtime.Ref[T], vt cublas.Matrix[T]) (*Result, error) {
	k := min(a.Rows, a.Cols)
	jobU, errU := job("u", u, a.Rows, k, false)
	jobVT, errVT := job("vt", vt, a.Cols, k, true)
	if err := first(a.Check("a"), room("s", s, k), errU, errVT); err != nil || k == 0 {
		return new(Result).unless(err)
	}
	all := []overlap.Box{box("a", a), overlap.First("s", s, k), box("u", u), box("vt", vt)}
	for i := range all {
		if err := overlap.Of(all[i], all[i+1:]...); err != nil {
			return nil, err
		}
	}
	if a.Rows < a.Cols || a.Rows == a.Cols && !a.Transposed() { // cuSOLVER takes no wide matrix, and the memory by rows is a^T
		a, u, vt, jobU, jobVT = a.T(), vt.T(), u.T(), jobVT, jobU
	}
	c := &Call{Routine: Gesvd, Type: typeOf[T](), JobU: jobU, JobVT: jobVT, M: int64(a.Rows), N: int64(a.Cols)}
	x, err := columns(h, a, true)
	if err != nil {
		return nil, err
	}
	defer x.close(h)
	uses := []use{bind(x.Matrix, runtime.InOut[T], &c.A), vector(s, runtime.InOut[T], c)}
	c.U.LD, c.VT.LD = c.M, c.N // of what is not computed
	var outputs []byColumns[T]
	for _, o := range []struct {
		cublas.Matrix[T]
		to *Operand
	}{{u, &c.U}, {vt, &c.VT}} {
		if o.Ref == nil {
			continue
		}
		out, err := columns(h, o.Matrix, false)
		if err != nil {
			return nil, err
		}
		defer out.close(h)
		outputs, uses = append(outputs, out), append(uses, bind(out.Matrix, runtime.InOut[T], o.to))
	}
	r, err := h.run(c, uses...)
	for _, out := range outputs {
		if err == nil {
			err = out.back(h)
		}
	}
	return r.unless(err)
}

// job is what is computed of the singular vectors in m: nothing, or order numbers for each of k or of order vectors.
func job[T cublas.Real](name string, m cublas.Matrix[T], order, k int, byRows bool) (Job, error) {
	if m == (cublas.Matrix[T]{}) {
		return None, nil
	}
	length, count := m.Rows, m.Cols
	if byRows {
		length, count = count, length
	}
	switch {
	case length != order || count != k && count != order:
		return None, wrong("%s is %d x %d: want the length of a side of a, %d, for each of %d or of %d vectors", name, m.Rows, m.Cols, order, k, order)
	case count == k:
		return Thin, m.Check(name)
	}
	return All, m.Check(name)
}
