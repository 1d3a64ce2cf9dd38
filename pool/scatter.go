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
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/runtime"
)

// Scatter does n items on the devices of the pool: it cuts [0, n) into tiles and calls f
// for them, on the goroutine of their device. It returns when all is done and every f has
// returned.
//
// f is called at the same time for different devices, one tile at a time for each. The
// tile of a device comes in pieces, so that a device that is done helps one that is not;
// see [WithChunk] for pieces of a fixed size. On success every item was done once.
//
// All or nothing: when f fails, panics, or loses its device, and [WithRetry] does not
// help, the others are stopped and the error is an [*Error] that names every tile that
// is not done. The fallback then does all items again, and the call succeeds if it does:
// Report.Why has the error. Where CUDA cannot be used and there is no fallback, the
// error is that of [runtime.Runtime.Err]; on a machine without CUDA its kind is
// driver.ErrDriverLibraryUnavailable.
//
// When ctx ends, no more pieces begin, and the error has ctx's cause. Work that is on a
// device by then goes on, and f must not leave it the caller's memory. In all other cases
// the streams of tiles that failed are waited for before the fallback or the end. The
// report is nil only where nothing was tried.
//
// A device that is known not to work gets no work: see [Report].Skipped.
//
// f must not use the pool itself: it would wait for its own device. That is an error of kind
// driver.ErrInvalidArgument if f passes on [Worker.Ctx] or a context made from it, on whatever
// goroutine, and with any context on the goroutine that f was called on. It is not noticed, and
// waits for ever, where f starts a goroutine that uses the pool with another context, and f
// waits for that.
func Scatter(ctx context.Context, p *Pool, n int, f func(*Worker, Tile) error, options ...Option) (*Report, error) {
	c, err := newCall(ctx, p, n, f != nil, options)
	if err != nil {
		return nil, err
	}
	if c.fallback == nil && c.mapFallback != nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "Scatter takes its fallback from WithFallback")
	}
	c.f, c.cpu = f, c.fallback
	return c.run()
}

// call is one Scatter or Map.
type call struct {
	config
	pool   *Pool
	n      int
	f      func(*Worker, Tile) error
	cpu    func(ctx context.Context, lo, hi int) error // the fallback
	parent context.Context                             // the caller's
	ctx    context.Context                             // the functions'
	plan   plan
	using  []*device
	visits sync.WaitGroup // of the devices
	reason Reason         // why not all devices do it
	// skipped are the devices that are left out.
	skipped []runtime.Device
}

// newCall checks what does not depend on the machine.
func newCall(ctx context.Context, p *Pool, n int, hasFunction bool, options []Option) (*call, error) {
	config, err := p.configure(ctx, hasFunction, options)
	switch {
	case err != nil:
		return nil, err
	case n < 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "%d items", n)
	case p.serving():
		return nil, errNested()
	}
	return &call{pool: p, n: n, parent: ctx, config: *config}, nil
}

// run does the items where they can be done.
func (c *call) run() (*Report, error) {
	if err := c.pool.letIn(&c.config); err != nil {
		return nil, err
	}
	defer c.pool.end()
	if !c.deadline.IsZero() {
		var cancel context.CancelFunc
		c.parent, cancel = context.WithDeadline(c.parent, c.deadline)
		defer cancel()
	}
	end := c.breakEven.begin()
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
	}
	done := zero.Or(report)
	end(c.n, done.Where, done.Reason, err)
	return report, err
}

func (c *call) choose() (*Report, error) {
	side, err := c.breakEven.side(c.parent, c.n, c.cpu != nil)
	switch {
	case c.n == 0:
		return &Report{}, nil
	case err != nil:
		return nil, err
	case side == OnCPU:
		c.reason = MeasuredSlower
		return c.onCPU(errSlower)
	case side == OnGPU:
		c.cpu = nil
	case c.cpu != nil && c.n < c.sizeGate:
		c.reason = BelowGate
		return c.onCPU(fmt.Errorf("%d items are fewer than the size gate of %d", c.n, c.sizeGate))
	}
	if err := c.pool.rt.Err(); err != nil {
		if c.cpu == nil {
			return nil, err
		}
		c.reason = c.pool.unusable()
		return c.onCPU(err)
	}
	report, err := c.onGPU()
	tried := report != nil || c.pool.rt.Err() != nil // and no mistake of the caller
	if err != nil && tried && c.cpu != nil && c.parent.Err() == nil {
		if len(c.using) > 0 {
			c.reason = Failed
		}
		return c.onCPU(err)
	}
	return report, err
}

// onCPU does the items with the fallback.
func (c *call) onCPU(why error) (*Report, error) {
	tiles, err := parallel(c.parent, c.n, c.chunk, c.itemBytes, func(ctx context.Context, lo, hi int) error {
		return c.pool.onCPU(func() error { return c.cpu(ctx, lo, hi) })
	})
	if failed, ok := err.(*Error); ok {
		failed.Devices = why
	}
	return &Report{Where: OnCPU, Why: why, Reason: c.reason, Tiles: tiles, Skipped: c.skipped}, err
}

// onGPU does the items on the devices. Without a report nothing was tried.
func (c *call) onGPU() (*Report, error) {
	var err error
	if c.using, err = c.pool.pick(&c.config); err != nil {
		return nil, err
	}
	weights, err := c.pool.weights(&c.config, c.using)
	if err != nil {
		return nil, err
	}
	if weights, err = c.skip(weights); err != nil {
		tiles := []TileReport{{Tile: Tile{Hi: c.n}, Ordinal: c.skipped[0].Ordinal, Cause: err}}
		return &Report{Where: OnGPU, Reason: c.reason, Tiles: tiles, Skipped: c.skipped}, &Error{Tiles: tiles}
	}
	tiles := c.prepare(weights)
	c.plan.run(c.parent, tiles)
	c.plan.cancel(nil)
	c.visits.Wait()
	done, err := c.plan.result()
	if err == nil {
		c.pool.learn(c.using, c.plan.members)
	}
	return &Report{Where: OnGPU, Reason: c.reason, Tiles: done, Skipped: c.skipped}, err
}

// skip leaves out the devices that are known not to work, and returns the weights of the others. If
// all of them are lost or quarantined, that is the error.
func (c *call) skip(weights []float64) ([]float64, error) {
	states := make([]runtime.Device, len(c.using))
	leftOut := make([]bool, len(c.using))
	working := false
	for i, d := range c.using {
		states[i], leftOut[i] = c.pool.state(d)
		working = working || states[i].Err == nil
	}
	var using []*device
	var rest []float64
	var causes []error
	for i, d := range c.using {
		if err := states[i].Err; leftOut[i] || errors.Is(err, driver.ErrDeviceLost) || working && err != nil {
			c.skipped = append(c.skipped, states[i])
			causes = append(causes, states[i].Err)
			if c.reason = Failed; leftOut[i] {
				c.reason = Quarantined
			}
			continue
		}
		using, rest = append(using, d), append(rest, weights[i])
	}
	c.using = using
	if len(using) == 0 {
		return nil, errors.Join(causes...)
	}
	return rest, nil
}

// prepare makes the plan, with a member for each device, and the tiles that they have at first.
func (c *call) prepare(weights []float64) []Tile {
	c.ctx, c.plan.cancel = context.WithCancelCause(context.WithValue(c.parent, within{c.pool}, true))
	p := &c.plan
	p.least, p.chunk, p.itemBytes, p.retries = c.floor(), c.chunk, c.itemBytes, c.retries
	p.ordinal = func(device int) int { return c.pool.devices[device].info.Ordinal }
	p.wake = func(i int) {
		items := p.members[i].hi - p.members[i].lo
		c.visits.Go(func() { c.visit(i, items) })
	}
	p.hopeless = func() bool { return c.pool.rt.Err() != nil }
	p.ended = make(chan struct{})
	p.members = make([]member, len(c.using))
	for i, d := range c.using {
		p.members[i] = newMember(d.index, weights[i])
	}
	p.tiles = make([]TileReport, 0, 2*len(c.using))
	return Partition(c.few(weights), c.n)
}

// floor is how many items a device must have to take part.
func (c *call) floor() int {
	switch {
	case c.minSet:
		return c.minPerDevice
	case c.cost > 0:
		return int((costOfAPart-1)/c.cost) + 1
	case c.itemBytes > 0:
		return min((bytesOfAPart-1)/c.itemBytes+1, minPerDevice)
	}
	return minPerDevice
}

// few keeps as many of the weights, the largest ones, as devices are to take part.
func (c *call) few(weights []float64) []float64 {
	most := len(weights)
	if floor := c.plan.least; floor > 0 {
		most = min(most, max(c.n/floor, 1))
	}
	if min(most, c.n) < len(weights) && c.reason == "" {
		c.reason = TooSmall
	}
	if most == len(weights) {
		return weights
	}
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(counted(weights[j]), counted(weights[i])) })
	few := make([]float64, len(weights))
	for _, i := range order[:most] {
		if few[i] = counted(weights[i]); counted(weights[order[0]]) == 0 {
			few[i] = 1
		}
	}
	return few
}

// counted is a weight as [Partition] counts it.
func counted(w float64) float64 {
	if w > 0 && !math.IsInf(w, 1) {
		return w
	}
	return 0
}

// visit is a device's part of the call, as long as there is something for it.
func (c *call) visit(member, items int) {
	d := c.using[member]
	r := &request{only: d, accepted: true, priority: c.priority, cost: c.cost.Seconds() * float64(items)}
	r.deadline, _ = c.parent.Deadline()
	r.post.request = r
	w, err := c.pool.acquire(c.ctx, r)
	switch {
	case err == nil:
		defer c.pool.releaseAfter(w)
	case c.ctx.Err() != nil:
		return // the call is over
	}
	if !c.plan.enter(member) {
		return
	}
	defer c.plan.leave(member)
	limit := 0
	if err == nil {
		w.ctx = c.ctx
		if err = w.prepare(); err == nil {
			limit, err = c.itemLimit(d.info.Ordinal)
		} else {
			c.pool.blame(d, err)
			err = fmt.Errorf("preparing device %d: %w", d.info.Ordinal, err)
		}
	}
	if err != nil {
		c.plan.refuse(member, err)
		return
	}
	for {
		k, ok := c.plan.take(member, limit)
		if !ok {
			return
		}
		c.do(w, member, k)
	}
}

// do calls the caller's function for a piece.
func (c *call) do(w *Worker, member int, k piece) {
	w.retried = k.retries > 0
	w.watch.start()
	contain.Call(func() error {
		return c.pool.onDevice(func() error { return c.f(w, Tile{Device: w.of.index, Lo: k.lo, Hi: k.hi}) })
	}, func(err error) {
		if err != nil && c.parent.Err() == nil {
			c.pool.fail(w, err)
		}
		c.plan.settle(member, k, w.watch.stop(), err)
	})
}

// itemLimit is how many items a device has the memory for at once.
func (c *call) itemLimit(ordinal int) (int, error) {
	if c.itemBytes == 0 {
		return math.MaxInt, nil
	}
	budget, err := c.pool.rt.Budget(ordinal)
	if err != nil {
		return 0, err
	}
	items := budget / uint64(c.itemBytes)
	if items == 0 {
		e := driver.Errorf(driver.ErrOutOfMemory, "one item is larger than the memory budget of %d bytes", budget)
		e.Device, e.Bytes = ordinal, uint64(c.itemBytes)
		return 0, e
	}
	return int(min(items, math.MaxInt)), nil
}
