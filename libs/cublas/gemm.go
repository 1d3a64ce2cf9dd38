package cublas

import (
	"math"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/runtime"
)

// Gemm computes c = alpha*a*b + beta*c. Of two bytes the elements are multiplied as they are and added up in float32; the result is
// of the same type or float32. c must not overlap a or b, which is an error; rows of
// c may lie between a's and b's with the same stride. With beta 0 c is not read.
func Gemm[T, C Element](h *Handle, alpha float64, a, b Matrix[T], beta float64, c Matrix[C]) error {
	return GemmBatch(h, alpha, Batch[T]{Matrix: a, Count: 1}, Batch[T]{Matrix: b, Count: 1}, beta, Batch[C]{Matrix: c, Count: 1})
}

// Batch is Count matrices of one shape, each Step elements behind the one before.
type Batch[T Stored] struct {
	Matrix[T]
	Count, Step int
}

// T is the batch of the transposed matrices.
func (b Batch[T]) T() Batch[T] {
	b.Matrix = b.Matrix.T()
	return b
}

// Check returns why the batch cannot be used: an error of kind driver.ErrInvalidArgument, or nil. name is for the error.
func (b Batch[T]) Check(name string) error {
	if b.Count < 0 || b.Count > math.MaxInt32 {
		return wrong("%s is %d matrices: want 0 to %d", name, b.Count, math.MaxInt32)
	}
	return b.checkBatch(name, b.Count, b.Step)
}

// GemmBatch is [Gemm] of each of a batch, in one call. A Step of 0 uses one a or b for all.
func GemmBatch[T, C Element](h *Handle, alpha float64, a, b Batch[T], beta float64, c Batch[C]) error {
	for _, err := range []error{a.checkBatch("a", a.Count, a.Step), b.checkBatch("b", b.Count, b.Step), c.checkBatch("c", c.Count, c.Step)} {
		if err != nil {
			return err
		}
	}
	var to overlap.Box
	var from [2]overlap.Box
	written := extent(&c)
	near := extent(&a).meets(written) || extent(&b).meets(written)
	if near {
		to, from = c.box("c"), [2]overlap.Box{a.box("a"), b.box("b")}
	}
	if c.transposed { // the transposed product is by rows
		a, b, c = b.T(), a.T(), c.T()
	}
	call, err := product(h, a.Matrix, b.Matrix, c.Rows, c.Cols, alpha, beta, typed[T](), typed[C]())
	if err != nil {
		return err
	}
	rows, cols := c.stored()
	switch {
	case a.Count != c.Count || b.Count != c.Count || c.Count < 0 || c.Count > math.MaxInt32:
		return wrong("batches of %d, %d and %d matrices: want as many of each, at most %d", a.Count, b.Count, c.Count, math.MaxInt32)
	case c.Count > 1 && c.Step < (rows-1)*c.Stride+cols:
		return wrong("the matrices of c overlap: they are %d elements apart and span %d", c.Step, (rows-1)*c.Stride+cols)
	}
	if c.Rows == 0 || c.Cols == 0 || c.Count == 0 {
		return nil
	}
	if near {
		if err := overlap.Of(to, from[:]...); err != nil {
			return err
		}
	}
	// cuBLAS reads by columns, and so sees each matrix transposed: c^T = b^T * a^T.
	call.Batch, call.A, call.B, call.C = int32(c.Count), b.operand(0), a.operand(0), c.operand(0)
	call.A.Stride, call.B.Stride, call.C.Stride = int64(b.Step), int64(a.Step), int64(c.Step)
	return h.submit("cublasGemmEx", func(at []driver.DevicePtr) Status {
		h.gemm = call
		h.gemm.A.At, h.gemm.B.At, h.gemm.C.At = call.A.At+at[2], call.B.At+at[1], call.C.At+at[3]
		return h.api.Gemm(h.raw, &h.gemm)
	}, runtime.In(a.Ref), runtime.In(b.Ref), runtime.InOut(c.Ref))
}

// GemmEach is [Gemm] of each a[i], b[i] and c[i] in one call, wherever they are. All a have one shape and one
// stride, all b and all c as well. No c may overlap another one, or one of a and b.
func GemmEach[T, C Element](h *Handle, alpha float64, a, b []Matrix[T], beta float64, c []Matrix[C]) error {
	n := len(c)
	switch {
	case len(a) != n || len(b) != n || n > math.MaxInt32/3:
		return wrong("batches of %d, %d and %d matrices: want as many of each, at most %d", len(a), len(b), n, math.MaxInt32/3)
	case n == 0:
		return nil
	case h == nil || h.s == nil:
		return wrong("GemmEach with no handle: see cublas.New")
	}
	nameA, nameB := "a", "b"
	if c[0].transposed {
		nameA, nameB = nameB, nameA
		a, b, c = transposed(b), transposed(a), transposed(c)
	}
	call, err := product(h, a[0], b[0], c[0].Rows, c[0].Cols, alpha, beta, typed[T](), typed[C]())
	if err != nil {
		return err
	}
	if c[0].Rows == 0 || c[0].Cols == 0 {
		return nil
	}
	// The device reads the addresses from the host, which a capture can record. They stay true: Submit refuses what was closed.
	host, err := runtime.LeaseHost[driver.DevicePtr](h.s.Context(), 3*n)
	if err != nil {
		return err
	}
	defer host.Close()
	uses := make([]runtime.Arg, 0, 3*n+3)
	if uses, err = addresses(host.Data()[:n], uses, nameB, b, runtime.In[T]); err != nil {
		return err
	}
	if uses, err = addresses(host.Data()[n:2*n], uses, nameA, a, runtime.In[T]); err != nil {
		return err
	}
	if uses, err = addresses(host.Data()[2*n:], uses, "c", c, runtime.InOut[C]); err != nil {
		return err
	}
	if err := overlap.Each(boxes("c", c), boxes(nameA, a), boxes(nameB, b)); err != nil {
		return err
	}
	call.Batch, call.Pointers = int32(n), true
	return h.submit("cublasGemmBatchedEx", func(at []driver.DevicePtr) Status {
		call.A, call.B, call.C = b[0].operand(0), a[0].operand(0), c[0].operand(0)
		bytes := driver.DevicePtr(8 * n)
		call.A.At, call.B.At, call.C.At = at[1], at[1]+bytes, at[1]+2*bytes
		h.gemm = call
		return h.api.Gemm(h.raw, &h.gemm)
	}, append([]runtime.Arg{host.Arg()}, uses...)...)
}

func transposed[T Stored](all []Matrix[T]) []Matrix[T] {
	turned := make([]Matrix[T], len(all))
	for i := range all {
		turned[i] = all[i].T()
	}
	return turned
}

// addresses writes the addresses of matrices, and appends what is used.
func addresses[T Stored](to []driver.DevicePtr, uses []runtime.Arg, name string, all []Matrix[T], use func(*runtime.Ref[T]) runtime.Arg) ([]runtime.Arg, error) {
	first := all[0]
	for i, m := range all {
		if err := m.Check(name); err != nil {
			return nil, err
		}
		if m.Rows != first.Rows || m.Cols != first.Cols || m.Stride != first.Stride || m.transposed != first.transposed {
			return nil, wrong("%s[%d] has another shape or stride than %s[0]", name, i, name)
		}
		at, err := m.Ref.Access()
		if err != nil {
			return nil, err
		}
		to[i] = m.operand(at).At
		uses = append(uses, use(m.Ref))
	}
	return uses, nil
}

// product is the call for a product of rows by cols, without addresses.
func product[T Stored](h *Handle, a, b Matrix[T], rows, cols int, alpha, beta float64, in, out DataType) (GemmCall, error) {
	switch {
	case a.Rows != rows || b.Cols != cols || a.Cols != b.Rows:
		return GemmCall{}, wrong("a is %d x %d, b is %d x %d and c is %d x %d: want m x k, k x n and m x n", a.Rows, a.Cols, b.Rows, b.Cols, rows, cols)
	case in != out && (out != TypeFloat32 || in == TypeFloat64):
		return GemmCall{}, wrong("products of two types: want c of the type of a and b, or float32 of a type of two bytes")
	}
	return GemmCall{TransA: b.op(), TransB: a.op(), M: int32(cols), N: int32(rows), K: int32(a.Cols), Alpha: alpha, Beta: beta, Compute: h.compute(in)}, nil
}

func typed[T Stored]() DataType {
	t, _ := typeOf[T]()
	return t
}
