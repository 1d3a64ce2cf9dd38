package cublas

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/runtime"
)

// Gemv computes y = alpha*a*x + beta*y. y must not overlap a or x, which is an error. With beta 0 y is not read.
func Gemv[T Real](h *Handle, alpha float64, a Matrix[T], x Vector[T], beta float64, y Vector[T]) error {
	for _, err := range []error{a.Check("a"), x.check("x"), y.check("y")} {
		if err != nil {
			return err
		}
	}
	if a.Cols != x.N || a.Rows != y.N {
		return wrong("a is %d x %d, x has %d elements and y has %d: want m x n, n and m", a.Rows, a.Cols, x.N, y.N)
	}
	if y.N == 0 {
		return nil
	}
	if x.N == 0 { // BLAS returns without a look at beta; a product of matrices does not
		return Gemm(h, alpha, a, Matrix[T]{Ref: x.Ref, Cols: 1, Stride: 1}, beta, Matrix[T]{Ref: y.Ref, Offset: y.Offset, Rows: y.N, Cols: 1, Stride: y.Inc})
	}
	if err := overlap.Of(y.box("y"), a.box("a"), x.box("x")); err != nil {
		return err
	}
	rows, cols := a.stored()
	call := GemvCall{Trans: 1 - a.op(), M: int32(cols), N: int32(rows), Alpha: alpha, Beta: beta}
	return h.submit("cublasGemv", func(at []driver.DevicePtr) Status {
		call.A, call.X, call.Y = a.operand(at[1]), x.operand(at[2]), y.operand(at[3])
		return h.api.Gemv(h.raw, &call)
	}, runtime.In(a.Ref), runtime.In(x.Ref), runtime.InOut(y.Ref))
}

// Axpy computes y = alpha*x + y. x may be y, and must not overlap it otherwise, which is an error.
func Axpy[T Element](h *Handle, alpha float64, x, y Vector[T]) error {
	if err := pair(x, y); err != nil || x.N == 0 {
		return err
	}
	if to, from := y.box("y"), x.box("x"); to.At != from.At || x.N > 1 && x.Inc != y.Inc {
		if err := overlap.Of(to, from); err != nil {
			return err
		}
	}
	return h.submit("cublasAxpyEx", func(at []driver.DevicePtr) Status {
		return h.api.Axpy(h.raw, &VectorCall{N: int32(x.N), Alpha: alpha, X: x.operand(at[1]), Y: y.operand(at[2])})
	}, runtime.In(x.Ref), runtime.InOut(y.Ref))
}

// Dot computes result[0], the sum of the products of the elements of x and y. It stays on the device. It must not be
// an element of x or y, which is an error.
func Dot[T Element](h *Handle, x, y Vector[T], result *runtime.Ref[T]) error {
	if err := pair(x, y); err != nil {
		return err
	}
	if err := overlap.Of(overlap.First("result", result, 1), x.box("x"), y.box("y")); err != nil {
		return err
	}
	return reduce(h, "cublasDotEx", x.N, result, func(at []driver.DevicePtr) Status {
		return h.api.Dot(h.raw, &VectorCall{N: int32(x.N), X: x.operand(at[2]), Y: y.operand(at[3]), Result: at[1]})
	}, runtime.In(x.Ref), runtime.In(y.Ref))
}

// Nrm2 computes result[0], the Euclidean length of x. It stays on the device. It must not be an element of x, which is an
// error.
func Nrm2[T Element](h *Handle, x Vector[T], result *runtime.Ref[T]) error {
	if err := x.check("x"); err != nil {
		return err
	}
	if err := overlap.Of(overlap.First("result", result, 1), x.box("x")); err != nil {
		return err
	}
	return reduce(h, "cublasNrm2Ex", x.N, result, func(at []driver.DevicePtr) Status {
		return h.api.Nrm2(h.raw, &VectorCall{N: int32(x.N), X: x.operand(at[2]), Result: at[1]})
	}, runtime.In(x.Ref))
}

// Scal computes x = alpha*x.
func Scal[T Element](h *Handle, alpha float64, x Vector[T]) error {
	if err := x.check("x"); err != nil || x.N == 0 {
		return err
	}
	return h.submit("cublasScalEx", func(at []driver.DevicePtr) Status {
		return h.api.Scal(h.raw, &VectorCall{N: int32(x.N), Alpha: alpha, X: x.operand(at[1])})
	}, runtime.InOut(x.Ref))
}

// reduce submits what writes one element. Of nothing that is 0.
func reduce[T Element](h *Handle, name string, n int, result *runtime.Ref[T], f func(at []driver.DevicePtr) Status, uses ...runtime.Arg) error {
	switch {
	case result == nil || result.Len() < 1:
		return wrong("%s: the result needs memory for one element", name)
	case h == nil || h.s == nil:
		return wrong("%s with no handle: see cublas.New", name)
	case n == 0:
		one := result.Slice(0, 1)
		defer one.Close()
		return runtime.Zero(h.s, one)
	}
	return h.submit(name, f, append([]runtime.Arg{runtime.InOut(result)}, uses...)...)
}

func pair[T Element](x, y Vector[T]) error {
	if err := x.check("x"); err != nil {
		return err
	}
	if err := y.check("y"); err != nil {
		return err
	}
	if x.N != y.N {
		return wrong("x has %d elements and y has %d: want as many", x.N, y.N)
	}
	return nil
}
