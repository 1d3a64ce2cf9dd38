package cublas

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/runtime"
)

// Syrk computes the triangle of c = alpha*a*a^T + beta*c. The other triangle is left as it is. c must not
// overlap a, which is an error. With beta 0 c is not read.
func Syrk[T Real](h *Handle, fill Fill, alpha float64, a Matrix[T], beta float64, c Matrix[T]) error {
	if c.transposed { // the result is symmetric: only the triangle is another one
		return Syrk(h, 1-fill, alpha, a, beta, c.T())
	}
	for _, err := range []error{triangle(fill, NonUnit), a.Check("a"), c.Check("c")} {
		if err != nil {
			return err
		}
	}
	if c.Rows != c.Cols || a.Rows != c.Rows {
		return wrong("a is %d x %d and c is %d x %d: want n x k and n x n", a.Rows, a.Cols, c.Rows, c.Cols)
	}
	if c.Rows == 0 {
		return nil
	}
	if err := overlap.Of(c.box("c"), a.box("a")); err != nil {
		return err
	}
	call := SyrkCall{Fill: 1 - fill, Trans: 1 - a.op(), N: int32(a.Rows), K: int32(a.Cols), Alpha: alpha, Beta: beta}
	return h.submit("cublasSyrk", func(at []driver.DevicePtr) Status {
		call.A, call.C = a.operand(at[1]), c.operand(at[2])
		return h.api.Syrk(h.raw, &call)
	}, runtime.In(a.Ref), runtime.InOut(c.Ref))
}

// Trsm solves a*x = alpha*b, or x*a = alpha*b for side Right, and puts x in the place of b. Of a the triangle is read. a must not
// overlap b, which is an error. A diagonal with a 0 gives infinities.
func Trsm[T Real](h *Handle, side Side, fill Fill, diag Diag, alpha float64, a, b Matrix[T]) error {
	if b.transposed {
		return Trsm(h, 1-side, 1-fill, diag, alpha, a.T(), b.T())
	}
	for _, err := range []error{triangle(fill, diag), a.Check("a"), b.Check("b")} {
		if err != nil {
			return err
		}
	}
	n := b.Rows
	switch {
	case side == Right:
		n = b.Cols
	case side != Left:
		return wrong("side %d: want Left or Right", side)
	}
	if a.Rows != n || a.Cols != n {
		return wrong("a is %d x %d and b is %d x %d: want a of %d x %d", a.Rows, a.Cols, b.Rows, b.Cols, n, n)
	}
	if b.Rows == 0 || b.Cols == 0 {
		return nil
	}
	if err := overlap.Of(b.box("b"), a.box("a")); err != nil {
		return err
	}
	if a.transposed {
		fill = 1 - fill // that of the memory
	}
	call := TrsmCall{Side: 1 - side, Fill: 1 - fill, Trans: a.op(), Diag: diag, M: int32(b.Cols), N: int32(b.Rows), Alpha: alpha}
	return h.submit("cublasTrsm", func(at []driver.DevicePtr) Status {
		call.A, call.B = a.operand(at[1]), b.operand(at[2])
		return h.api.Trsm(h.raw, &call)
	}, runtime.In(a.Ref), runtime.InOut(b.Ref))
}

func triangle(fill Fill, diag Diag) error {
	if fill != Lower && fill != Upper || diag != NonUnit && diag != Unit {
		return wrong("fill %d, diagonal %d: want Lower or Upper, NonUnit or Unit", fill, diag)
	}
	return nil
}
