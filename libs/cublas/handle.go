package cublas

import (
	"errors"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Options of [New]. The zero value is right for most.
type Options struct {
	// Workspace is the memory of the handle in bytes, which cuBLAS uses within a call. 0 means 32 MiB from
	// compute capability 9.0 on and 4 MiB before, as NVIDIA recommends.
	Workspace int
	// TF32 lets products of float32 be computed with 10 bits of fraction, which is several times as fast.
	TF32 bool
}

// Handle computes on a stream. It is safe for concurrent use; calls of one handle run in the order in which
// they come. What needs to run at the same time needs a handle each.
type Handle struct {
	api       API
	s         *runtime.Stream
	library   *runtime.LibraryHandle
	raw       RawHandle
	workspace *runtime.Ref[byte]
	tf32      bool
	plans     *plans   // its lock is held over each call
	gemm      GemmCall // the call that is made
}

// New makes a handle for a stream, with its workspace from the memory of the context. It takes some
// milliseconds, the first one of a process up to a second.
//
// It ends with the context: after Context.Reset its calls return driver.ErrRefStale, and a new one has to
// be made.
func New(api API, s *runtime.Stream, o Options) (*Handle, error) {
	switch {
	case api == nil:
		return nil, wrong("cublas.New takes a library: see Open")
	case s == nil || s.Context() == nil:
		return nil, wrong("cublas.New takes a stream that is not nil")
	case o.Workspace < 0:
		return nil, wrong("a workspace of %d bytes: want 0 or more", o.Workspace)
	case o.Workspace == 0 && s.Context().Device().Capability.Major >= 9:
		o.Workspace = 32 << 20
	case o.Workspace == 0:
		o.Workspace = 4 << 20
	}
	workspace, err := runtime.Alloc[byte](s, o.Workspace)
	if err != nil {
		return nil, err
	}
	h := &Handle{api: api, s: s, workspace: workspace, tf32: o.TF32, plans: &plans{}}
	if err := h.open(); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *Handle) open() (err error) {
	api, plans := h.api, h.plans // what destroys must not refer to h
	h.library, err = h.s.Context().NewLibraryHandle("cublasCreate", func() (func() error, error) {
		raw, status := api.Create()
		h.raw = raw
		if status != StatusSuccess {
			return nil, failed(api, "cublasCreate_v2", status)
		}
		return func() error {
			return errors.Join(plans.destroy(api), failed(api, "cublasDestroy_v2", api.Destroy(raw)))
		}, nil
	})
	if err != nil {
		return err
	}
	h.api = in(api, h.library)
	return h.submit("cublasSetStream", func(at []driver.DevicePtr) Status {
		return h.api.SetStream(h.raw, h.s.Handle(), at[0], h.workspace.Bytes())
	})
}

// Close waits for the work of the handle and frees it. It may be called twice. What a graph uses is freed
// after the graph.
func (h *Handle) Close() error {
	if h == nil {
		return nil
	}
	return errors.Join(h.library.Close(), h.workspace.Close())
}

// Stream is the stream that it computes on.
func (h *Handle) Stream() *runtime.Stream {
	if h == nil {
		return nil
	}
	return h.s
}

// submit runs f, which calls cuBLAS, ordered with what it uses. The addresses of the uses follow that of the
// workspace.
func (h *Handle) submit(name string, f func(at []driver.DevicePtr) Status, uses ...runtime.Arg) error {
	if h == nil || h.s == nil {
		return wrong("%s with no handle: see cublas.New", name)
	}
	all := append(make([]runtime.Arg, 0, 8), runtime.InOut(h.workspace), h.library.Arg())
	return h.s.Submit(name, func(_ driver.Stream, at []driver.DevicePtr) error {
		h.plans.mu.Lock()
		defer h.plans.mu.Unlock()
		at[1] = at[0] // the second is the handle, which has no address
		return failed(h.api, name, f(at[1:]))
	}, append(all, uses...)...)
}

// compute is what products of a type are added up in.
func (h *Handle) compute(t DataType) Compute {
	switch {
	case t == TypeFloat64:
		return Compute64
	case t == TypeFloat32 && h != nil && h.tf32:
		return ComputeTF32
	}
	return Compute32
}

// plans are the ways to compute that a handle knows, the newest last. A service has few shapes: what
// exceeds the limit is asked for again.
type plans struct {
	mu    sync.Mutex
	known map[MatmulShape]MatmulPlan
	order []MatmulShape
}

// maxPlans bounds what is kept.
const maxPlans = 256

// of is the plan of a shape. p.mu is held.
func (p *plans) of(api API, h RawHandle, shape *MatmulShape) (MatmulPlan, Status) {
	if plan, ok := p.known[*shape]; ok {
		return plan, StatusSuccess
	}
	plan, status := api.PlanMatmul(h, shape)
	if status != StatusSuccess {
		return nil, status
	}
	if len(p.order) == maxPlans {
		p.known[p.order[0]].Destroy()
		delete(p.known, p.order[0])
		p.order = p.order[1:]
	}
	if p.known == nil {
		p.known = map[MatmulShape]MatmulPlan{}
	}
	p.known[*shape] = plan
	p.order = append(p.order, *shape)
	return plan, StatusSuccess
}

func (p *plans) destroy(api API) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, plan := range p.known {
		err = errors.Join(err, failed(api, "cublasLtMatmulDescDestroy", plan.Destroy()))
	}
	p.known, p.order = nil, nil
	return err
}
