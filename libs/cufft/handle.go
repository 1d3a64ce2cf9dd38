package cufft

import (
	"errors"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cufft/internal/scale"
	"github.com/purecuda/purecuda/runtime"
)

// Options of [New]. The zero value is right for most.
type Options struct {
	// Plans is how many plans are kept, with their work areas; 0 means 16. A plan that makes room for another one is the one
	// that was not used for the longest time. The call then waits for the work of that one.
	Plans int
}

// Handle transforms on a stream, and keeps the plans. It is safe for concurrent use; calls with one plan run in the order in
// which they come. What needs to run at the same time needs a handle each.
type Handle struct {
	api     API
	s       *runtime.Stream
	kernels *scale.Kernels
	plans   *plans
}

// New makes a handle for a stream.
//
// It ends with the context: after Context.Reset its calls return driver.ErrRefStale, and a new one has to
// be made.
func New(api API, s *runtime.Stream, o Options) (*Handle, error) {
	switch {
	case api == nil:
		return nil, wrong("cufft.New takes a library: see Open")
	case s == nil || s.Context() == nil:
		return nil, wrong("cufft.New takes a stream that is not nil")
	case o.Plans < 0:
		return nil, wrong("Options.Plans is %d: want 0, which means 16, or more", o.Plans)
	case o.Plans == 0:
		o.Plans = 16
	}
	kernels, err := scale.Load(s.Context())
	if err != nil {
		return nil, err
	}
	return &Handle{api, s, kernels, &plans{limit: o.Plans}}, nil
}

// Close waits for the work of the handle and frees its plans. It may be called twice. A plan that a call uses at this moment is freed
// after the call, and what a graph uses after the graph.
func (h *Handle) Close() error {
	if h == nil || h.kernels == nil {
		return nil
	}
	return errors.Join(h.plans.close(), h.kernels.Close())
}

// Stream is the stream that it transforms on.
func (h *Handle) Stream() *runtime.Stream {
	if h == nil {
		return nil
	}
	return h.s
}

// Prepare makes the plan for a shape, so that the first transform does not, and may be captured. It may take seconds, and does
// nothing if there is one.
func (h *Handle) Prepare(t Type, shape Shape) error {
	x := shape.transform(t)
	if x.err != nil {
		return x.err
	}
	p, err := h.plan(&x.Description)
	if err == nil {
		h.plans.give(p)
	}
	return err
}

// plan is the plan of a description, which has to be given back.
func (h *Handle) plan(d *Description) (*plan, error) {
	if h == nil || h.plans == nil {
		return nil, wrong("%v with no handle: see cufft.New", d.Type)
	}
	p, err := h.plans.take(d)
	if err != nil {
		return nil, err
	}
	if err := p.make(h.api, h.s); err != nil {
		h.plans.forget(p)
		h.plans.give(p)
		return nil, err
	}
	return p, nil
}

// call begins a call with a shape. To check one takes longer than a look at what the last call's was.
func (h *Handle) call(s *Shape, t Type) call {
	shape := s.spell()
	if h != nil && h.plans != nil {
		if p := h.plans.newest.Load(); p != nil && p.Type == t {
			if known := p.checked.Load(); known != nil && known.spelled == shape && p.again() {
				return call{checked: known, plan: p, scale: s.Scale}
			}
		}
	}
	c := spare.Get().(*checked)
	*c = checked{shape, s.transform(t)}
	return call{checked: c, scale: s.Scale, own: true}
}

// C2C transforms complex64. in and out may be the same memory.
func C2C(h *Handle, d Direction, shape Shape, in, out *runtime.Ref[complex64]) error {
	return run(h, h.call(&shape, TypeC2C), d, in, out)
}

// R2C transforms float32 to the first half of their spectrum, n/2+1 numbers. in and out may be the same memory, with [Padded] as the
// layout of in.
func R2C(h *Handle, shape Shape, in *runtime.Ref[float32], out *runtime.Ref[complex64]) error {
	return run(h, h.call(&shape, TypeR2C), Forward, in, out)
}

// C2R transforms the first half of a spectrum, n/2+1 numbers, back to float32. What in holds afterwards is undefined. in
// and out may be the same memory, with [Padded] as the layout of out.
func C2R(h *Handle, shape Shape, in *runtime.Ref[complex64], out *runtime.Ref[float32]) error {
	return run(h, h.call(&shape, TypeC2R), Inverse, in, out)
}

// Z2Z is [C2C] for complex128.
func Z2Z(h *Handle, d Direction, shape Shape, in, out *runtime.Ref[complex128]) error {
	return run(h, h.call(&shape, TypeZ2Z), d, in, out)
}

// D2Z is [R2C] for float64.
func D2Z(h *Handle, shape Shape, in *runtime.Ref[float64], out *runtime.Ref[complex128]) error {
	return run(h, h.call(&shape, TypeD2Z), Forward, in, out)
}

// Z2D is [C2R] for float64.
func Z2D(h *Handle, shape Shape, in *runtime.Ref[complex128], out *runtime.Ref[float64]) error {
	return run(h, h.call(&shape, TypeZ2D), Inverse, in, out)
}

// run puts a transform on the stream, ordered with what it uses.
func run[In, Out any](h *Handle, x call, d Direction, in *runtime.Ref[In], out *runtime.Ref[Out]) error {
	defer x.end(h)
	if x.err != nil {
		return x.err
	}
	name := x.Type.String()
	if d != Forward && d != Inverse {
		return wrong("%s: direction %d: want Forward or Inverse", name, d)
	}
	if err := memory(&x.transform, in, out); err != nil {
		return err
	}
	if x.plan == nil {
		var err error
		if x.plan, err = h.plan(&x.Description); err != nil {
			return err
		}
		if x.plan.checked.Load() == nil {
			x.plan.checked.Store(new(*x.checked))
		}
	}
	p := x.plan
	from := runtime.In(in)
	if _, real := x.Type.real(); real {
		from = runtime.InOut(in) // cuFFT writes there
	}
	err := h.s.Submit(name, func(_ driver.Stream, at []driver.DevicePtr) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return failed(p.api, name, p.api.Exec(p.raw, p.Type, d, at[0], at[1]))
	}, from, runtime.InOut(out), runtime.InOut(p.area), p.library.Arg())
	if err != nil || !x.scale {
		return err
	}
	return divide(h, &x.transform, out)
}

// memory is why a transform cannot be of this memory, or nil.
func memory[In, Out any](x *transform, in *runtime.Ref[In], out *runtime.Ref[Out]) error {
	from, err := room(x, &x.in, in)
	if err != nil {
		return err
	}
	to, err := room(x, &x.out, out)
	if err != nil {
		return err
	}
	sizeIn, sizeOut := int64(unsafe.Sizeof(*new(In))), int64(unsafe.Sizeof(*new(Out)))
	switch endIn, endOut := from+driver.DevicePtr(x.in.span*sizeIn), to+driver.DevicePtr(x.out.span*sizeOut); {
	case from == to:
		return x.inPlace(sizeIn, sizeOut)
	case from < endOut && to < endIn:
		return wrong("%v: in is %#x to %#x and out is %#x to %#x: want the same memory, or none in common", x.Type, uint64(from), uint64(endIn), uint64(to), uint64(endOut))
	}
	return nil
}

// room is the address of a side, if it has enough elements.
func room[T any](x *transform, o *side, ref *runtime.Ref[T]) (driver.DevicePtr, error) {
	if ref == nil {
		return 0, wrong("%v: %s has no memory: the Ref is nil", x.Type, o.name)
	}
	at, err := ref.Access()
	switch {
	case err != nil:
		return 0, err
	case int64(ref.Len()) < o.span:
		return 0, wrong("%v: %s has %d elements: want %d, for N of %v, a batch of %d, and its layout", x.Type, o.name, ref.Len(), o.span, x.lengths(), x.Batch)
	case int64(at)%x.Type.complexBytes() != 0:
		return 0, wrong("%v: %s begins at %#x: cuFFT wants a multiple of %d, so that a view of real numbers begins at an even one",
			x.Type, o.name, uint64(at), x.Type.complexBytes())
	}
	return at, nil
}

// divide scales the results.
func divide[Out any](h *Handle, x *transform, out *runtime.Ref[Out]) error {
	n := 1.0
	for _, length := range x.N[:x.Rank] {
		n *= float64(length)
	}
	parts := 2
	if _, real := x.Type.real(); real {
		parts = 1
	}
	count := 1
	var lengths, steps [scale.Dims]int
	for i, r := range x.out.lines(parts) {
		lengths[i], steps[i] = r.n, r.step
		count *= r.n
	}
	if x.Type.complexBytes() == 8 {
		all, err := runtime.Cast[float32](out)
		if err != nil {
			return err
		}
		return h.kernels.ScaleFloat32(h.s, runtime.Shape1D(count, 256), all, float32(1/n), count, lengths, steps)
	}
	all, err := runtime.Cast[float64](out)
	if err != nil {
		return err
	}
	return h.kernels.ScaleFloat64(h.s, runtime.Shape1D(count, 256), all, 1/n, count, lengths, steps)
}
