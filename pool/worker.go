package pool

import (
	"context"
	"errors"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/runtime"
)

// Worker is the device that a function of a call has to use, and a stream of that device. A function
// that asks for a device in another way, as with runtime.Probe, gets the same device in every call.
//
// One function uses a worker at a time. A worker is valid until the function returns, on the goroutine
// that the function was called on.
type Worker struct {
	pooled     *device
	number     int // among the workers of the device
	device     runtime.Device
	context    *runtime.Context
	generation uint64 // of the context
	stream     *runtime.Stream
	states     []any // of the stream, in the order of the setup
	shared     *shared
	missing    error // of a State that the pool does not have
	hasStream  bool  // when it was returned; the mu of the pool guards it

	cost      float64 // of its request
	scatters  bool    // for a Scatter
	changes   uint64  // of its device when it was taken
	label     string
	bytes     uint64 // reserved
	ctx       context.Context
	retried   bool
	stopwatch stopwatch
	// After a request that has succeeded:
	ran    time.Duration
	hinted bool // the caller gave its cost
	post   post
}

// Index returns the index of the device in [Pool.Devices].
func (w *Worker) Index() int { return zero.Or(zero.Or(w).pooled).index }

// Device returns the description of the device.
func (w *Worker) Device() runtime.Device { return zero.Or(w).device }

// Context returns the CUDA context of the device. It belongs to the runtime. See [Worker.CallContext] for Go's.
func (w *Worker) Context() *runtime.Context { return zero.Or(w).context }

// Stream returns the stream of the worker, which no other worker uses. The function has to wait for the
// work that it puts on the stream. If the function fails, the pool waits for the stream. So it does where kernels that
// report failed checks were not waited for: such a check is the error of the function. A failed check that a wait of the
// function has returned is the function's to return: nobody else gets it.
func (w *Worker) Stream() *runtime.Stream { return zero.Or(w).stream }

// CallContext returns the context of the call. It also ends when another tile has failed for good. Pass it to
// waits, and check it in functions that take long.
func (w *Worker) CallContext() context.Context { return zero.Or(w).ctx }

// run calls a function of a call, and returns why it has failed: its own error, or else a check that has failed in a kernel on its
// stream. So that no other function gets the latter, run waits for launches that the function has not waited for.
func (w *Worker) run(f func(*Worker) error) error {
	if w.stream == nil {
		return f(w)
	}
	if err := w.stream.Check(w.ctx); err != nil {
		err = settle(w.ctx, err, func() error { return w.stream.Check(w.ctx) })
		if errors.Is(err, driver.ErrClosed) { // by the function before, whose error it was
			w.generation = 0
			err = w.prepare()
		}
		if err != nil {
			return err
		}
	}
	if err := f(w); err != nil {
		return err
	}
	return w.stream.Check(w.ctx)
}

// settle checks a stream until it has nothing of functions before. A Reset that was given up, or a driver that failed, may have refused
// their waits: what their kernels have reported is not the error of the next function. It returns the error of a second refusal.
func settle(ctx context.Context, err error, check func() error) error {
	refused := false
	for ; err != nil; err = check() {
		_, ofDriver := errors.AsType[*driver.Error](err)
		switch {
		case ctx.Err() != nil, ofDriver && refused:
			return err
		case ofDriver:
			refused = true
		}
	}
	return nil
}

// failed returns the error of a function, with that of a State that it has asked for in vain.
func (w *Worker) failed(err error) error {
	if w.missing == nil {
		return err
	}
	err, w.missing = join(w.missing, err), nil
	return err
}

// Phase tells the report that the function begins to upload, compute or download. A function that never
// calls it computes. The times are the goroutine's. To measure the work of the device, wait for
// the stream before the next call of Phase.
func (w *Worker) Phase(p Phase) { zero.Or(w).stopwatch.mark(p) }

// Phase is a part of the work on a tile.
type Phase int

// The phases of a tile.
const (
	Compute Phase = iota
	Upload
	Download
	phases
)

// spent is the time of each phase.
type spent [phases]time.Duration

// stopwatch measures phases one after the other.
type stopwatch struct {
	began, since time.Time
	phase        Phase
	spent        spent
}

func (w *stopwatch) start() {
	now := time.Now()
	*w = stopwatch{began: now, since: now}
}

func (w *stopwatch) mark(p Phase) {
	now := time.Now()
	w.spent[w.phase] += now.Sub(w.since)
	w.since = now
	if p >= 0 && p < phases {
		w.phase = p
	}
}

// stop returns the times since start.
func (w *stopwatch) stop() spent {
	w.mark(Compute)
	return w.spent
}
