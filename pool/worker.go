package pool

import (
	"context"
	"time"

	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/runtime"
)

// Worker is the device that a function of a call has to use. Code that asks for a device
// in any other way, runtime.Probe for one, gets the same device in every tile.
//
// A worker is used by one tile at a time. It is valid until the function returns, and
// belongs to the goroutine that the function was called on.
type Worker struct {
	// State is the caller's: what WithSetup has made for this device, or an earlier
	// tile. If it has a method Close() error, that is called when the pool closes.
	State any

	index      int
	device     runtime.Device
	context    *runtime.Context
	generation uint64 // of the context
	stream     *runtime.Stream

	ctx     context.Context
	retried bool
	watch   watch
}

// Index is the place of the device in [Pool.Devices].
func (w *Worker) Index() int { return zero.Or(w).index }

// Device describes the device.
func (w *Worker) Device() runtime.Device { return zero.Or(w).device }

// Context is the device's context. It belongs to the runtime.
func (w *Worker) Context() *runtime.Context { return zero.Or(w).context }

// Stream is a stream of the device that this pool alone uses. When a function has failed,
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
	phase Phase
	since time.Time
	spent spent
}

func (w *watch) start() { *w = watch{since: time.Now()} }

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
