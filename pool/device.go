package pool

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/flight"
	"github.com/purecuda/purecuda/runtime"
)

// device is a GPU of a pool, with its streams. The mu of the pool guards it.
type device struct {
	pool  *Pool
	index int
	info  runtime.Device

	workers []*Worker // one for each stream, made on demand
	free    []*Worker // the most recently used one last, after those without a stream
	busy    int       // workers that are not free
	used    uint64    // counts the turns of the devices: the last one of this
	// outstanding is the cost of the requests on the device, in seconds.
	outstanding float64
	scattering  bool // a Scatter has one of the workers
	// Of a pool with Options.Remote: the last answer was ErrNotReady, a process was started, and how often Changed was called.
	away, served bool
	changes      uint64

	// The work that was done and the time that it took. Older work counts less.
	work, time float64
	speed      float64 // relative to the other devices
	quarantine quarantine
	figures    figures
	reserved   reservations

	shared *shared // of the newest generation
	unfit  error   // why none will be made
	setups flight.Group[uint64, struct{}]

	opening flight.Group[struct{}, *runtime.Context]
}

// shared is the state that the streams of a device share.
type shared struct {
	generation uint64 // of the context
	states     []any  // in the order of the setup
	users      int    // workers
}

// takeWorker takes a free worker for a request. The device has one, or room for one more.
func (d *device) takeWorker(r *request) *Worker {
	var w *Worker
	if last := len(d.free) - 1; last >= 0 {
		w, d.free = d.free[last], d.free[:last]
	} else {
		w = &Worker{pooled: d, number: len(d.workers), device: d.info}
		w.post.worker = w
		d.workers = append(d.workers, w)
	}
	w.cost, w.scatters, w.changes = r.cost, r.only != nil, d.changes
	d.scattering = d.scattering || w.scatters
	d.busy++
	d.pool.turns++
	d.used = d.pool.turns
	d.outstanding += w.cost
	w.label, w.bytes = r.label, r.bytes
	d.reserve(r.label, r.bytes)
	d.figures.requests++
	r.overflow = true // its next try is no new request
	if r.scatter != nil {
		r.scatter.leavePlace()
	}
	return w
}

// returnWorker takes a worker back.
func (d *device) returnWorker(w *Worker) {
	w.stream.SetTraceContext(context.Background()) // or it would keep what the request has
	w.hasStream = w.stream != nil
	if last := len(d.free) - 1; !w.hasStream && last >= 0 && d.free[last].hasStream {
		d.free = slices.Insert(d.free, 0, w) // those with a stream go first
	} else {
		d.free = append(d.free, w)
	}
	d.busy--
	d.outstanding -= w.cost
	d.unreserve(w.label, w.bytes)
	if d.busy == 0 {
		d.outstanding = 0 // drops rounding errors
	}
	d.scattering = d.scattering && !w.scatters
}

// hasStream reports whether any stream of the device was prepared.
func (d *device) hasStream() bool {
	return slices.ContainsFunc(d.workers, func(w *Worker) bool { return w.hasStream })
}

// learn updates the speed: work of that cost took so many seconds. Earlier work is multiplied by keep.
func (d *device) learn(cost, seconds, keep float64) {
	if cost > 0 && seconds > 0 {
		d.work, d.time = d.work*keep+cost, d.time*keep+seconds
		d.pool.updateSpeeds()
	}
}

// updateSpeeds computes speeds from measurements. The speed of a device without measurements is its
// score, scaled by the other devices.
func (p *Pool) updateSpeeds() {
	worth, speeds, scores := 1.0, 0.0, 0.0
	for _, d := range p.devices {
		if d.time > 0 {
			d.speed = d.work / d.time
			speeds += d.speed
			scores += positive(d.info.Score)
		}
	}
	if scores > 0 {
		worth = speeds / scores
	}
	for _, d := range p.devices {
		if d.time <= 0 {
			d.speed = positive(d.info.Score) * worth
		}
		d.speed = positive(d.speed)
	}
}

// equalSpeed is how much faster one of two devices of the same model may be measured and gets no more than its share of the requests.
const equalSpeed = 1.25

// after reports whether it is the turn of o, although d is faster by a ratio. Both are idle and of the same model, and only o is ready, or
// was used earlier.
func (d *device) after(o *device, ratio float64) bool {
	return ratio < equalSpeed && d.busy+o.busy == 0 && d.info.Name == o.info.Name && o.isReady() && (!d.isReady() || d.used > o.used)
}

// isReady reports whether a worker with a stream is free, or a process was started.
func (d *device) isReady() bool {
	if d.pool.remote != nil {
		return d.served
	}
	last := len(d.free) - 1
	return last >= 0 && d.free[last].hasStream
}

// positive returns x, or 1 if x is not a positive number: scores and weights of callers may be anything.
func positive(x float64) float64 {
	if x > 0 && !math.IsInf(x, 1) {
		return x
	}
	return 1
}

// open returns the context of the device, and opens it if nobody has. When ctx ends first, the others wait on, and Close waits until it is open.
func (d *device) open(ctx context.Context) (*runtime.Context, error) {
	p := d.pool
	p.mu.Lock()
	p.calls++
	p.mu.Unlock()
	c, shared, err := d.opening.Do(ctx, struct{}{}, func(context.Context) (*runtime.Context, error) {
		defer p.end()
		return p.rt.Context(d.info.Ordinal)
	})
	if shared {
		p.end()
	}
	return c, err
}

// prepare makes the stream and the states of a worker, unless it has them. It makes them again after a
// Reset of the context. If it fails, it closes what it has made. It fails also if the worker's ctx has ended meanwhile.
func (w *Worker) prepare() (err error) {
	if w.pooled.pool.remote != nil {
		return w.pooled.askRemote(true)
	}
	if w.stream != nil && w.generation == w.context.State().Generation() {
		return nil
	}
	return w.prepareStream() // its frame is large, and would make that of a new goroutine grow
}

// prepareRequest is prepare for a request, which is on the goroutine of its caller, as its function will be. So it needs no goroutine to
// ask, which would cost more than half of all allocations of an isolated request. If Options.Remote ends the goroutine, the worker is
// taken back.
func (w *Worker) prepareRequest() (err error) {
	d := w.pooled
	p := d.pool
	if p.remote == nil {
		return w.prepare()
	}
	ended := true
	defer func() {
		if ended {
			p.recordFailure(d, errUnfinished, unprepared)
			p.release(w)
		}
	}()
	err = contain.Do(func() error { return p.remote(d.info.Ordinal, true) })
	ended = false
	return err
}

func (w *Worker) prepareStream() (err error) {
	if w.stream != nil {
		_ = w.closeStream() // errors are expected: the old context is gone
	}
	p := w.pooled.pool
	if w.context, err = w.pooled.open(w.ctx); err != nil {
		return err
	}
	w.device, w.generation = w.context.Device(), w.context.State().Generation()
	if w.stream, err = w.context.NewStream(); err != nil {
		return err
	}
	if err = w.share(); err == nil {
		w.states, err = p.setUp(w, false)
	}
	if err != nil {
		return errors.Join(err, w.closeStream())
	}
	return context.Cause(w.ctx)
}

// setUp makes the states of a device or of a stream. Those that it does not make are nil. If it fails, it closes what
// it has made.
func (p *Pool) setUp(w *Worker, device bool) ([]any, error) {
	if len(p.setup) == 0 {
		return nil, nil
	}
	states := make([]any, len(p.setup))
	for i, s := range p.setup {
		if s.perDevice() != device {
			continue
		}
		var made any
		var err error
		failed := contain.Hook(func() { // it may call runtime.Goexit
			err = w.failed(w.run(func(w *Worker) (err error) {
				made, err = s.prepare(w)
				return err
			}))
		})
		if err = errors.Join(err, failed); err != nil {
			return nil, errors.Join(err, closeStates(states))
		}
		states[i] = made
	}
	return states, nil
}

// askRemote is why the process that does the work of the device cannot, or nil. See Options.Remote. It asks on a goroutine of its
// own, because the function may call runtime.Goexit. A request asks on its own: see prepareRequest.
func (d *device) askRemote(begins bool) (err error) {
	failed := contain.Hook(func() { err = contain.Sound(d.pool.remote(d.info.Ordinal, begins)) })
	return errors.Join(err, failed)
}

// remoteFault is askRemote for those who only want to know. A process that is not ready is none.
func (d *device) remoteFault() error {
	if err := d.askRemote(false); !errors.Is(err, ErrNotReady) {
		return err
	}
	return nil
}

// Changed tells a pool that Options.Remote has another answer for a device than [ErrNotReady].
func (p *Pool) Changed(ordinal int) {
	if p == nil || p.rt == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		if d.info.Ordinal == ordinal {
			d.away, d.served = false, true
			d.changes++
		}
	}
	p.dispatch()
}

// notReady takes a worker back whose device is not ready, and keeps others from it.
func (p *Pool) notReady(w *Worker) {
	d := w.pooled
	p.mu.Lock()
	d.away = d.changes == w.changes // else it has changed meanwhile
	p.mu.Unlock()
	p.putBack(w)
}

// mayStart reports whether a device whose process may have to be started gets a request. Where others start already, it does so if there
// are more requests than those.
func (d *device) mayStart(r *request) bool {
	p := d.pool
	if d.served {
		return true
	}
	wanted := p.queue.bounded
	if !r.waiting {
		wanted++
	}
	for _, o := range p.devices {
		if o.away && r.may(o) {
			wanted--
		}
	}
	return wanted > 0
}

// share gives a worker the shared state of its device. The first worker makes it, and the others wait.
func (w *Worker) share() error {
	d := w.pooled
	for d.pool.deviceSetup && !d.attach(w) {
		_, _, err := d.setups.Do(context.Background(), w.generation, func(context.Context) (struct{}, error) {
			return struct{}{}, d.setUp(w)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// attach gives a worker the shared state. It is false if there is none for the generation of the worker.
func (d *device) attach(w *Worker) bool {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	s := d.shared
	if s == nil || s.generation != w.generation {
		return false
	}
	s.users++
	w.shared = s
	return true
}

// setUp makes the shared state, on the stream of a worker.
func (d *device) setUp(w *Worker) error {
	d.pool.mu.Lock()
	made, unfit := d.shared != nil && d.shared.generation == w.generation, d.unfit
	d.pool.mu.Unlock()
	if made || unfit != nil {
		return unfit
	}
	states, err := d.pool.setUp(w, true)
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	if driver.UnfitDevice(err) {
		d.unfit = err // a worker that comes now need not ask again
	}
	if err != nil {
		return err
	}
	d.shared = &shared{generation: w.generation, states: states}
	return nil
}

// closeStream closes what prepare has made.
func (w *Worker) closeStream() error {
	errs := []error{closeStates(w.states)}
	if w.stream != nil {
		errs = append(errs, w.stream.Close())
	}
	if s := w.shared; s != nil {
		errs = append(errs, w.pooled.detach(s))
	}
	w.states, w.stream, w.shared = nil, nil, nil
	return errors.Join(errs...)
}

// detach closes the shared state after its last worker.
func (d *device) detach(s *shared) error {
	d.pool.mu.Lock()
	s.users--
	last := s.users == 0
	if last && d.shared == s {
		d.shared = nil
	}
	d.pool.mu.Unlock()
	if last {
		return closeStates(s.states)
	}
	return nil
}

// closeStates closes what setUp has made, the last one first, on a goroutine of its own: Close may call runtime.Goexit.
func closeStates(states []any) error {
	var errs []error
	for _, state := range slices.Backward(states) {
		if state, ok := state.(io.Closer); ok {
			var err error
			failed := contain.Hook(func() { err = contain.Sound(state.Close()) })
			errs = append(errs, err, failed)
		}
	}
	return errors.Join(errs...)
}

// close closes all workers. None is busy.
func (d *device) close() error {
	var errs []error
	for _, w := range d.workers {
		errs = append(errs, w.closeStream())
	}
	return errors.Join(errs...)
}

// probe tests whether the device works, and revives it if it was lost.
func (d *device) probe(ctx context.Context) error {
	if d.pool.remote != nil {
		return d.remoteFault()
	}
	if err := d.pool.rt.Revive(ctx, d.info.Ordinal); err != nil {
		return err
	}
	c, err := d.pool.rt.Context(d.info.Ordinal)
	if err != nil {
		return err
	}
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	_, err = s.Query() // Synchronize need not call the driver for a stream without work
	return errors.Join(err, s.Close())
}
