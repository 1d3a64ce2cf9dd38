package cublas

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/libs/internal/overlap"
	"github.com/purecuda/purecuda/runtime"
)

// Activation is a function of each element of a product.
type Activation int

// The activations.
const (
	None Activation = iota
	ReLU            // the larger of x and 0
	GELU            // x times a sigmoid, in the approximation with tanh
)

// Product is what [Matmul] computes: D = act(Alpha*A*B + Beta*D + Bias). Bias is added to each row. D must not overlap the rest, which is
// an error.
type Product[T Stored, D Element] struct {
	Alpha, Beta float64
	A, B        Matrix[T]
	D           Matrix[D]
	Bias        *runtime.Ref[D] // as many elements as D has columns, from a multiple of 16 bytes on, or nil
	Activation  Activation
	// ScaleA and ScaleB are one float32 each that A and B of 8 bits are multiplied by, or nil.
	ScaleA, ScaleB *runtime.Ref[float32]
}

// Matmul computes a product with what follows it in one kernel, by cuBLASLt. The way to do it is looked for at the
// first product of a shape, and kept by the handle.
//
// Types of 8 bits need compute capability 8.9 and cuBLAS 11.8. They have A by rows and B as the
// transposed view of a matrix by rows. All sides, strides and offsets are multiples of 16, and D has two or four bytes. What the device
// or the shape does not have is an error of kind driver.ErrUnsupported.
func Matmul[T Stored, D Element](h *Handle, p Product[T, D]) error {
	in, size := typeOf[T]()
	out, outSize := typeOf[D]()
	for _, err := range []error{p.A.Check("A"), p.B.Check("B"), p.D.Check("D"), p.check(h, in)} {
		if err != nil {
			return err
		}
	}
	if p.D.Rows == 0 || p.D.Cols == 0 {
		return nil
	}
	alike := in
	if size == 1 && out != TypeFloat64 {
		alike = out // of 8 bits any of the others
	}
	g, err := product(h, p.A, p.B, p.D.Rows, p.D.Cols, p.Alpha, p.Beta, alike, out)
	if err != nil {
		return err
	}
	if err := overlap.Of(p.D.box("D"), p.A.box("A"), p.B.box("B"), overlap.First("Bias", p.Bias, p.D.Cols), overlap.First("ScaleA", p.ScaleA, 1), overlap.First("ScaleB", p.ScaleB, 1)); err != nil {
		return err
	}
	shape := MatmulShape{TransA: g.TransA, TransB: g.TransB, M: g.M, N: g.N, K: g.K, A: p.B.operand(0), B: p.A.operand(0), D: p.D.operand(0),
		Compute: h.compute(in), Epilogue: map[Activation]Epilogue{None: EpilogueNone, ReLU: EpilogueReLU, GELU: EpilogueGELU}[p.Activation]}
	shape.A.At, shape.B.At, shape.D.At = 0, 0, 0
	if p.Bias != nil {
		shape.Epilogue = shape.Epilogue&^EpilogueNone | EpilogueBias
	}
	uses := []runtime.Arg{runtime.In(p.A.Ref), runtime.In(p.B.Ref), runtime.InOut(p.D.Ref)}
	place := func(known bool, use func() runtime.Arg) int {
		if !known {
			return 0
		}
		uses = append(uses, use())
		return len(uses)
	}
	bias := place(p.Bias != nil, func() runtime.Arg { return runtime.In(p.Bias) })
	scaleA := place(p.ScaleA != nil, func() runtime.Arg { return runtime.In(p.ScaleA) })
	scaleB := place(p.ScaleB != nil, func() runtime.Arg { return runtime.In(p.ScaleB) })
	return h.submit("cublasLtMatmul", func(at []driver.DevicePtr) Status {
		optional := func(i int) driver.DevicePtr {
			if i == 0 {
				return 0
			}
			return at[i]
		}
		call := MatmulCall{Alpha: p.Alpha, Beta: p.Beta, A: p.B.operand(at[2]).At, B: p.A.operand(at[1]).At, D: p.D.operand(at[3]).At,
			Bias: optional(bias), ScaleA: optional(scaleB), ScaleB: optional(scaleA), Workspace: at[0], Stream: h.s.Handle()}
		shape.AlignA, shape.AlignB, shape.AlignD = alignment(call.A, size), alignment(call.B, size), alignment(call.D, outSize)
		shape.Workspace = h.workspace.Bytes()
		plan, status := h.plans.of(h.api, h.raw, &shape)
		if status != StatusSuccess {
			return status
		}
		return plan.Run(h.raw, &call)
	}, uses...)
}

func (p Product[T, D]) check(h *Handle, in DataType) error {
	float8 := in == TypeE4M3 || in == TypeE5M2
	switch {
	case h == nil || h.s == nil:
		return wrong("Matmul with no handle: see cublas.New")
	case p.D.transposed:
		return wrong("D is a transposed view: want a matrix by rows")
	case p.Activation < None || p.Activation > GELU:
		return wrong("activation %d: want None, ReLU or GELU", p.Activation)
	case p.Bias != nil && p.Bias.Len() < p.D.Cols:
		return wrong("the bias has %d elements: want %d, one for each column of D", p.Bias.Len(), p.D.Cols)
	case p.Bias != nil && biasAlignment(p.Bias) < 16:
		return wrong("the bias begins at an address that is not a multiple of 16, which kernels of cuBLASLt need: want the beginning of an allocation, or a Slice from a multiple of 16 bytes on")
	case !float8 && (p.ScaleA != nil || p.ScaleB != nil):
		return wrong("scales are for operands of 8 bits")
	case p.ScaleA != nil && p.ScaleA.Len() < 1 || p.ScaleB != nil && p.ScaleB.Len() < 1:
		return wrong("a scale needs memory for one element")
	case !float8:
		return nil
	case p.A.transposed || !p.B.transposed:
		return wrong("of 8 bits A is by rows, and B is the transposed view of a matrix by rows")
	case typed[D]() == TypeFloat32 && p.Bias != nil:
		return wrong("of 8 bits a product in float32 has no bias")
	}
	if v, since := library.Version(h.api.Version()), (library.Since{11, 8}); v.Before(since) {
		return driver.Errorf(driver.ErrSymbolMissing, "%s", library.CUBLAS.TooOld("cublasLtMatmul of fp8", since, v))
	}
	if c := h.s.Context().Device().Capability; c.Major*10+c.Minor < 89 {
		return driver.Errorf(driver.ErrUnsupported, "fp8 needs compute capability 8.9, found %v", c)
	}
	return nil
}

// biasAlignment is the alignment of a bias. cuBLASLt does not ask for it, and some of its kernels fault below 16.
func biasAlignment[T Element](bias *runtime.Ref[T]) uint32 {
	at, _ := bias.Access() // what is wrong with it Submit says
	return alignment(at, 1)
}

// alignment is the largest power of two up to 256 that divides an address, at least the size of an element.
func alignment(at driver.DevicePtr, size int) uint32 {
	if at == 0 {
		return 256
	}
	return uint32(max(min(at&-at, 256), driver.DevicePtr(size)))
}
