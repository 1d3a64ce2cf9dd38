package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/stack"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/runtime"
)

// Scatter does n items on the devices of the pool. It cuts [0, n) into tiles and calls f for them, on
// a goroutine for each device. It returns after every f has returned.
//
// f is called at the same time for different devices, and for one tile at a time on each. A device
// does its tile in pieces, and a device that has finished takes pieces of another one. ScatterOptions.Chunk
// sets the size of the pieces. On success every item was done once.
//
// A call does all items or fails. If f fails, panics, or loses its device, and ScatterOptions.Retry
// does not help, the other devices stop. The error is an [*Error] that names every tile that is not done. A
// fallback then does all items again, and the call succeeds if the fallback does. Report.Err has
// the error of the devices. Where CUDA cannot be used and there is no fallback, the error is that of
// [runtime.Runtime.Err]. On a machine without CUDA its kind is driver.ErrDriverLibraryUnavailable.
//
// When ctx ends, no more pieces begin, and the error has ctx's cause. Work that is queued on a device
// goes on, so f must not leave it the caller's memory. In all other cases Scatter waits for the
// streams of failed tiles before it runs the fallback or returns. The report is zero if nothing
// was tried.
//
// A device that is known not to work gets no work: see [Report].Skipped.
//
// f must not call the pool itself: it would wait for its own device. Such a call is an error of kind
// driver.ErrInvalidArgument if it has [Worker.CallContext] or a context made from it, on any goroutine. With another
// context it is not detected, and waits until that context ends.
func (p *Pool) Scatter(ctx context.Context, n int, f func(*Worker, Tile) error, options ...ScatterOptions) (Report, error) {
	o, err := one(options)
	return (&scatterCall{parent: ctx, pool: p, n: n, f: f, ScatterOptions: o}).start("pool.Scatter", err)
}

// scatterCall is one call of Scatter, Map or Reduce.
type scatterCall struct {
	ScatterOptions
	pool       *Pool
	parent     context.Context // the caller's
	n          int
	f          func(*Worker, Tile) error
	marked     marked
	ctx        context.Context // the functions'
	report     Report
	scheduler  scheduler
	devices    []*device
	goroutines sync.WaitGroup // of the participants
	reason     Reason         // why not all devices take part
	// skipped are the devices that are left out.
	skipped []runtime.Device
	// Of letIn: the worker of the participant that begins first, until that has it, or else a place in the queue.
	first  *Worker
	begins int // the index of that participant
	placed bool
}

// start does the items, as a request of a name, unless its options have an error.
func (c *scatterCall) start(name string, err error) (Report, error) {
	nothing := Report{Device: driver.NoDevice}
	if err = cmp.Or(err, c.pool.check(c.parent, c.f != nil), c.check()); err != nil {
		return nothing, err
	}
	if c.n < 0 {
		return nothing, driver.Errorf(driver.ErrInvalidArgument, "%d items", c.n)
	}
	ctx, end := c.pool.rt.TraceRequest(c.parent, name)
	c.parent = ctx
	run := c.run
	if end != nil {
		run = func() (*Report, error) { return c.runTraced(end) }
	}
	report, err := run()
	if report == nil {
		return nothing, err
	}
	report.Device = driver.NoDevice
	return *report, err
}

// run does the items where they can be done.
func (c *scatterCall) run() (*Report, error) {
	if err := c.pool.beginCall(new(request)); err != nil {
		return nil, err
	}
	defer c.pool.end()
	end := c.BreakEven.begin()
	start := time.Now()
	report, err := c.choose()
	if report != nil {
		report.Wall = time.Since(start)
		c.pool.count(report.Reason)
		retries := 0
		for _, t := range report.Tiles {
			retries += t.Retries
		}
		c.pool.countRetries(retries)
	} else {
		c.pool.count(c.reason)
	}
	done := zero.Or(report)
	end(c.n, done.Where, done.Reason, err)
	return report, err
}

func (c *scatterCall) choose() (*Report, error) {
	side, err := c.BreakEven.side(c.parent, c.n, c.Fallback != nil)
	switch {
	case c.n == 0:
		return &Report{}, nil
	case err != nil:
		return nil, err
	case side == OnCPU:
		c.reason = MeasuredSlower
		return c.onCPU(errSlower)
	case side == OnGPU:
		c.Fallback = nil
	}
	if err := c.pool.rt.Err(); err != nil {
		c.reason = c.pool.unusable()
		return c.fallBack(nil, err)
	}
	report, err := c.onGPU()
	switch {
	case err == nil, report == nil && c.pool.rt.Err() == nil: // a mistake of the caller
		return report, err
	case len(c.devices) > 0:
		c.reason = Failed
	case c.reason == "":
		c.reason = c.pool.unusable()
	}
	return c.fallBack(report, err)
}

// fallBack does the items on the CPU in place of the devices, if it may. The report is the devices'.
func (c *scatterCall) fallBack(report *Report, why error) (*Report, error) {
	if c.Fallback == nil {
		return report, why
	}
	if c.parent.Err() != nil {
		if cause := context.Cause(c.parent); !errors.Is(why, cause) {
			why = errors.Join(cause, why)
		}
		return report, why
	}
	if refused := c.pool.rt.FallBack(string(c.reason), why); refused != nil {
		return report, refused
	}
	return c.onCPU(why)
}

// onCPU does the items with the fallback when it is its turn.
func (c *scatterCall) onCPU(why error) (*Report, error) {
	p := c.pool
	r := p.newRequest(c.parent)
	r.only, r.accepted, r.priority, r.overflow = &p.cpu, true, c.Priority, c.Wait || len(c.devices) > 0
	w, err := p.acquire(c.parent, r)
	p.reuse(r)
	if err != nil {
		tiles := []TileReport{{Tile: Tile{Hi: c.n}, Device: driver.NoDevice, Cause: err}}
		return &Report{Where: OnCPU, Err: why, Reason: c.reason, Tiles: tiles, Skipped: c.skipped}, &Error{Tiles: tiles, Devices: why}
	}
	if w != nil {
		defer p.release(w)
	}
	tiles, err := parallel(&marked{c.parent, turnOf{p}}, c.n, &c.ScatterOptions, c.Fallback)
	if failed, ok := err.(*Error); ok {
		failed.Devices = why
	}
	return &Report{Where: OnCPU, Err: why, Reason: c.reason, Tiles: tiles, Skipped: c.skipped}, err
}

// onGPU does the items on the devices. It returns no report if nothing was tried.
func (c *scatterCall) onGPU() (*Report, error) {
	devices, err := c.pool.selectDevices(c.Devices)
	if err != nil {
		return nil, err
	}
	c.devices = devices
	if c.Suits != nil {
		if c.devices, c.skipped, err = pick(devices, c.Suits); err != nil {
			c.reason = unsuited(err)
		}
	}
	if err == nil {
		err = c.skipFailed()
	}
	if err != nil {
		tiles := []TileReport{{Tile: Tile{Hi: c.n}, Device: driver.NoDevice, Cause: err}}
		if len(c.skipped) > 0 {
			tiles[0].Device = c.skipped[0].Ordinal
		}
		return &Report{Where: OnGPU, Reason: c.reason, Tiles: tiles, Skipped: c.skipped}, &Error{Tiles: tiles}
	}
	c.prepare()
	if err := c.pool.letIn(c); err != nil {
		c.scheduler.cancel(nil)
		return nil, err
	}
	c.scheduler.run(c.parent)
	c.scheduler.cancel(nil)
	c.goroutines.Wait()
	c.pool.leave(c)
	c.skipUnusable()
	done, err := c.scheduler.result()
	if err == nil {
		c.pool.learn(c.devices, c.scheduler.participants)
	}
	c.report = Report{Where: OnGPU, Reason: c.reason, Tiles: done, Skipped: c.skipped}
	return &c.report, err
}

// skipFailed removes the devices that are known not to work. It fails if all devices are lost or quarantined.
func (c *scatterCall) skipFailed() error {
	type bad struct {
		index   int
		state   runtime.Device
		leftOut bool
	}
	var failed []bad
	for i, d := range c.devices {
		if state, leftOut := c.pool.state(d); state.Err != nil {
			failed = append(failed, bad{i, state, leftOut})
		}
	}
	working := len(failed) < len(c.devices)
	failed = slices.DeleteFunc(failed, func(b bad) bool {
		return !b.leftOut && !working && !errors.Is(b.state.Err, driver.ErrDeviceLost)
	})
	if len(failed) == 0 {
		return nil
	}
	var causes []error
	skipped := map[int]bool{}
	for _, b := range failed {
		skipped[b.index] = true
		c.skipped = append(c.skipped, b.state)
		causes = append(causes, b.state.Err)
		if c.reason = Failed; b.leftOut {
			c.reason = Quarantined
		}
	}
	using := make([]*device, 0, len(c.devices))
	for i, d := range c.devices {
		if !skipped[i] {
			using = append(using, d)
		}
	}
	c.devices = using
	if len(using) == 0 {
		return errors.Join(causes...)
	}
	return nil
}

// skipUnusable adds the devices to those that are left out that could not be prepared.
func (c *scatterCall) skipUnusable() {
	for i, d := range c.devices {
		if err := c.scheduler.unusable[i]; err != nil {
			c.skipped = append(c.skipped, leftOut(d, err))
			if c.reason = Failed; errors.Is(err, ErrQuarantined) {
				c.reason = Quarantined
			}
		}
	}
}

// prepare makes the scheduler, with a participant for each device, and their first tiles.
func (c *scatterCall) prepare() {
	c.marked = marked{c.parent, within{c.pool}}
	c.ctx, c.scheduler.cancel = context.WithCancelCause(&c.marked)
	p := &c.scheduler
	units := p.cut(c.n, c.Chunk, c.Grain, c.ItemBytes)
	p.minPiece, p.retries = p.units(c.minItems()), c.Retry
	p.crew, p.ended = c, make(chan struct{})
	p.participants = make([]participant, len(c.devices))
	weights := make([]float64, len(c.devices))
	for i, d := range c.devices {
		weights[i] = d.info.Score
		p.participants[i] = participant{device: d.index, weight: positive(weights[i])}
	}
	p.tiles = make([]TileReport, 0, 2*len(c.devices))
	c.limitDevices(weights, units)
	p.divide(weights, units)
}

func (c *scatterCall) ordinal(device int) int { return c.pool.devices[device].info.Ordinal }
func (c *scatterCall) lost() bool             { return c.pool.rt.Err() != nil }

func (c *scatterCall) startParticipant(i int) {
	c.goroutines.Add(1)
	go c.participate(i, c.scheduler.participants[i].hi-c.scheduler.participants[i].lo)
}

// minItems returns how many items a device must have to take part.
func (c *scatterCall) minItems() int {
	switch {
	case c.MinPerDevice > 0:
		return c.MinPerDevice
	case c.Cost > 0:
		return int((costOfAPart-1)/c.Cost) + 1
	case c.ItemBytes > 0:
		return min((bytesOfAPart-1)/c.ItemBytes+1, minPerDevice)
	}
	return minPerDevice
}

// limitDevices sets the weights of the devices to zero that are not to take part: those with the least weights, if there are
// too few items for all.
func (c *scatterCall) limitDevices(weights []float64, units int) {
	most := len(weights)
	if floor := c.scheduler.minPiece; floor > 0 {
		most = min(most, max(units/floor, 1))
	}
	if min(most, units) < len(weights) && c.reason == "" {
		c.reason = TooSmall
	}
	if most == len(weights) {
		return
	}
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(counted(weights[j]), counted(weights[i])) })
	none := counted(weights[order[0]]) == 0
	for _, i := range order[:most] {
		if none {
			weights[i] = 1
		}
	}
	for _, i := range order[most:] {
		weights[i] = 0
	}
}

// participate does pieces on a device until there are none.
func (c *scatterCall) participate(index, items int) {
	defer c.goroutines.Done()
	stack.Grow()
	d := c.devices[index]
	var w *Worker
	var err error
	if index == c.begins {
		w, c.first = c.first, nil
	}
	if w == nil {
		r := c.part(d, items)
		w, err = c.pool.acquire(c.ctx, r)
		c.pool.reuse(r)
	}
	switch {
	case err == nil:
		defer c.pool.releaseAfter(w)
	case c.ctx.Err() != nil:
		return // the call is over
	}
	if !c.scheduler.enter(index) {
		return
	}
	defer c.scheduler.leave(index)
	limit := 0
	if err == nil {
		w.ctx = c.ctx
		if err = w.prepare(); err != nil {
			w.unprepared(err)
			if c.ctx.Err() != nil {
				return // the call is over
			}
			err = fmt.Errorf("preparing device %d: %w", d.info.Ordinal, err)
		} else {
			w.stream.SetTraceContext(w.ctx)
			limit, err = c.itemLimit(d.info.Ordinal)
		}
	}
	if err != nil {
		c.scheduler.recordUnusable(index, err)
		return
	}
	for {
		k, ok := c.scheduler.take(index, limit)
		if !ok {
			return
		}
		c.runPiece(w, index, k)
	}
}

// part returns the request of a participant. The caller puts it back.
func (c *scatterCall) part(d *device, units int) *request {
	r := c.pool.newRequest(c.parent)
	r.only, r.scatter, r.accepted, r.priority = d, c, true, c.Priority
	r.cost = c.Cost.Seconds() * float64(units) * float64(c.scheduler.grain)
	return r
}

// runPiece calls the caller's function for a piece.
func (c *scatterCall) runPiece(w *Worker, index int, k piece) {
	w.retried = k.retries > 0
	w.stopwatch.start()
	contain.Call(func() error {
		return w.run(func(w *Worker) error { return c.f(w, c.scheduler.tile(w.pooled.index, k)) })
	}, func(err error) {
		err = w.failed(err)
		if err != nil && c.parent.Err() == nil {
			c.pool.synchronizeFailed(w, err)
		}
		c.scheduler.record(index, k, w.stopwatch.stop(), err, driver.UnfitDevice(err))
	})
}

// itemLimit returns how many grains of items fit into the memory budget of a device.
func (c *scatterCall) itemLimit(ordinal int) (int, error) {
	if c.ItemBytes == 0 {
		return math.MaxInt, nil
	}
	budget, err := c.pool.rt.Budget(ordinal)
	if err != nil {
		return 0, err
	}
	units := budget / uint64(c.ItemBytes) / uint64(c.scheduler.grain)
	if units == 0 {
		e := driver.Errorf(driver.ErrOutOfMemory, "a piece of %d items, the least, is larger than the memory budget of %d bytes", c.scheduler.grain, budget)
		e.Device, e.Bytes = ordinal, uint64(c.ItemBytes)*uint64(c.scheduler.grain)
		return 0, e
	}
	return int(min(units, math.MaxInt)), nil
}
