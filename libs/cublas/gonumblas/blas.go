package gonumblas

import (
	"errors"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/blas/gonum"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/runtime"
)

// defaultBreakEven is the BreakEven where Options has none. It is an estimate for a device on PCI Express and gonum on some
// cores; measure with your own matrices.
const defaultBreakEven = 512

// concurrent is how many calls use the device at the same time; more wait.
const concurrent = 4

// Options of [New] and [Open]. The zero value is right to begin with.
type Options struct {
	// BreakEven is the size of square matrices from which the GPU is used. Others are compared by the number of their
	// multiplications. 0 means 512.
	BreakEven int
	// TF32 lets products of float32 be computed with 10 bits of fraction.
	TF32 bool
	// OnError hears of calls that the GPU could not compute, and that the CPU has computed therefore. It is called on
	// the goroutine of the call, and its panics are dropped. See also [BLAS.Err].
	OnError func(error)
}

// BLAS implements blas.Float32 and blas.Float64. It is safe for concurrent use.
type BLAS struct {
	gonum.Implementation // computes on the CPU

	api     cublas.API
	ctx     *runtime.Context
	o       Options
	turns   chan struct{} // has an element for each call that uses the device
	mu      sync.Mutex    // guards idle
	idle    []*worker     // the one that was used last is used next
	onGPU   atomic.Uint64
	failure atomic.Pointer[error]
	open    atomic.Bool // the zero value computes on the CPU
}

// worker is a stream with its handle.
type worker struct {
	s *runtime.Stream
	h *cublas.Handle
}

func (w *worker) close() error {
	if w == nil {
		return nil
	}
	return errors.Join(w.h.Close(), w.s.Close())
}

// take takes an idle worker, or nil.
func (b *BLAS) take() (w *worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.idle); n > 0 {
		w, b.idle = b.idle[n-1], b.idle[:n-1]
	}
	return w
}

// New makes a BLAS that computes in a context. Where c or api is nil the CPU computes everything.
func New(c *runtime.Context, api cublas.API, o Options) *BLAS {
	if o.BreakEven <= 0 {
		o.BreakEven = defaultBreakEven
	}
	b := &BLAS{api: api, ctx: c, o: o, turns: make(chan struct{}, concurrent)}
	b.open.Store(c != nil && api != nil)
	return b
}

// Open makes a BLAS on the best device of rt with the cuBLAS of this machine. The BLAS is never nil: where there is an
// error, which says what is missing, it computes on the CPU.
func Open(rt *runtime.Runtime, o Options) (*BLAS, error) {
	c, api, err := find(rt)
	if err != nil {
		return New(nil, nil, o), err
	}
	return New(c, api, o), nil
}

func find(rt *runtime.Runtime) (*runtime.Context, cublas.API, error) {
	if rt == nil {
		return nil, nil, driver.Errorf(driver.ErrInvalidArgument, "gonumblas.Open takes a runtime that is not nil")
	}
	backend, err := rt.Probe("gonumblas")
	if err != nil {
		return nil, nil, err
	}
	lib, err := cublas.Open()
	if err != nil {
		return nil, nil, err
	}
	c, err := rt.Context(backend.Device().Ordinal)
	return c, lib, err
}

// OnGPU is how many calls the GPU has computed.
func (b *BLAS) OnGPU() uint64 { return zero.Or(b).onGPU.Load() }

// Err is why the GPU could not compute a call the last time that it failed, or nil.
func (b *BLAS) Err() error {
	if err := zero.Or(b).failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Close frees what b has on the device, after the calls that are under way. Later calls compute on the CPU. It may be called twice.
func (b *BLAS) Close() (err error) {
	if b == nil || !b.open.Swap(false) {
		return nil
	}
	for range concurrent { // now no call is under way
		b.turns <- struct{}{}
	}
	for w := b.take(); w != nil; w = b.take() {
		err = errors.Join(err, w.close())
	}
	for range concurrent {
		<-b.turns
	}
	return err
}

// try computes with f on the device, and tells whether it did. f writes its result at its end and only then,
// so that the CPU can compute what the device could not.
func (b *BLAS) try(m, n, k int, f func(w *worker) error) bool {
	size := float64(b.o.BreakEven)
	if !b.open.Load() || float64(m)*float64(n)*float64(k) < size*size*size {
		return false
	}
	closed, err := b.compute(f)
	switch {
	case closed:
		return false
	case err == nil:
		b.onGPU.Add(1)
		return true
	}
	b.failure.Store(&err)
	_ = b.ctx.Runtime().FallBack("gonumblas", err) // says so once; gonum's interfaces have no error to return
	if b.o.OnError != nil {
		_ = contain.Do(func() error { b.o.OnError(err); return nil })
	}
	return false
}

// compute runs f when it is its turn. closed says that Close has begun.
func (b *BLAS) compute(f func(w *worker) error) (closed bool, err error) {
	b.turns <- struct{}{}
	defer func() { <-b.turns }()
	if !b.open.Load() {
		return true, nil
	}
	w := b.take()
	if w == nil {
		w, err = b.newWorker()
	}
	if err == nil {
		err = f(w)
	}
	if err != nil { // a worker that has failed may be of a context that is gone
		return false, errors.Join(err, w.close())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, w)
	return false, nil
}

func (b *BLAS) newWorker() (*worker, error) {
	s, err := b.ctx.NewStream()
	if err != nil {
		return nil, err
	}
	h, err := cublas.New(b.api, s, cublas.Options{TF32: b.o.TF32})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &worker{s, h}, nil
}
