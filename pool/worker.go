package pool

import (
	"context"
	"reflect"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/runtime"
)

// Worker is the device that a function of a call has to use, and a stream of it. Code that asks for
// a device in any other way, runtime.Probe for one, gets the same device in every call.
//
// A worker is used by one function at a time. It is valid until the function returns, and
// belongs to the goroutine that the function was called on.
type Worker struct {
	// State is the caller's: what WithSetup has made for this stream, or an earlier
	// function. If it has a method Close() error, that is called when the pool closes.
	// See [State] for what all streams of the device share.
	State any

	of         *device
	number     int // among the workers of the device
	device     runtime.Device
	context    *runtime.Context
	generation uint64 // of the context
	stream     *runtime.Stream
	shared     *shared

	cost     float64 // of what it does
	scatters bool    // for a Scatter
	label    string
	bytes    uint64 // reserved
	ctx      context.Context
	retried  bool
	watch    watch
	// Of a request that has succeeded:
	ran    time.Duration
	hinted bool // its cost was known
	post   post
}

// State returns the state of type T that a worker has: that of its stream, which WithSetup has
// made, or that of its device, which WithDeviceSetup has made.
func State[T any](w *Worker) (T, error) {
	w = zero.Or(w)
	if state, ok := w.State.(T); ok {
		return state, nil
	}
	shared := zero.Or(w.shared).state
	state, ok := shared.(T)
	if !ok {
		return state, driver.Errorf(driver.ErrInvalidArgument, "no state of type %v: that of the stream is %T, and that of the device is %T",
			reflect.TypeFor[T](), w.State, shared)
	}
	return state, nil
}

// Index is the place of the device in [Pool.Devices].
func (w *Worker) Index() int { return zero.Or(zero.Or(w).of).index }

// Device describes the device.
func (w *Worker) Device() runtime.Device { return zero.Or(w).device }

// Context is the device's context. It belongs to the runtime.
func (w *Worker) Context() *runtime.Context { return zero.Or(w).context }

// Stream is a stream of the device that this worker alone uses. When a function has failed,
// the pool waits for the stream; otherwise the function has to wait for what it has put
// there.
func (w *Worker) Stream() *runtime.Stream { return zero.Or(w).stream }

// Ctx is the context of the call. It also ends when another tile has failed for good.
// Long functions should look at it, and waits take it.
func (w *Worker) Ctx() context.Context { return zero.Or(w).ctx }

// Phase says that the function begins to upload, compute or download, for the report. A
// function that never says so computes. Time is that of the goroutine: for the times of
// the device's work, wait for the stream before the next mark.
func (w *Worker) Phase(p Phase) { zero.Or(w).watch.mark(p) }

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

// watch measures phases one after the other.
type watch struct {
	began, since time.Time
	phase        Phase
	spent        spent
}

func (w *watch) start() {
	now := time.Now()
	*w = watch{began: now, since: now}
}

func (w *watch) mark(p Phase) {
	now := time.Now()
	w.spent[w.phase] += now.Sub(w.since)
	w.since = now
	if p >= 0 && p < phases {
		w.phase = p
	}
}

// stop returns what was measured since start.
func (w *watch) stop() spent {
	w.mark(Compute)
	return w.spent
}
