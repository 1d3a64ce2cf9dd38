package pool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
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
	lanes  []*lane
	// skipped are the devices that are left out.
	skipped []runtime.Device
}

// within marks the contexts of the calls of a pool.
type within struct{ pool *Pool }

// newCall checks what does not depend on the machine.
func newCall(ctx context.Context, p *Pool, n int, hasFunction bool, options []Option) (*call, error) {
	switch {
	case ctx == nil || p == nil || !hasFunction:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a context, a pool and a function are needed")
	case n < 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "%d items", n)
	case ctx.Value(within{p}) != nil || p.serving():
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a call within a call of the same pool would wait for its own device: "+
			"do the work with the Worker of the outer call, or open another pool")
	}
	c := &call{pool: p, n: n, parent: ctx, config: p.defaults}
	c.setup, c.devices = nil, nil
	if err := c.apply(options); err != nil {
		return nil, err
	}
	if c.setup != nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "WithSetup is an option of Open")
	}
	return c, nil
}

// run does the items where they can be done.
func (c *call) run() (*Report, error) {
	if err := c.pool.begin(); err != nil {
		return nil, err
	}
	defer c.pool.calls.Done()
	start := time.Now()
	report, err := c.choose()
	if report != nil {
		report.Wall = time.Since(start)
	}
	return report, err
}

func (c *call) choose() (*Report, error) {
	switch {
	case c.n == 0:
		return &Report{}, nil
	case c.cpu != nil && c.n < c.sizeGate:
		return c.onCPU(fmt.Errorf("%d items are fewer than the size gate of %d", c.n, c.sizeGate))
	}
	if err := c.pool.rt.Err(); err != nil {
		if c.cpu == nil {
			return nil, err
		}
		return c.onCPU(err)
	}
	report, err := c.onGPU()
	tried := report != nil || c.pool.rt.Err() != nil // and no mistake of the caller
	if err != nil && tried && c.cpu != nil && c.parent.Err() == nil {
		return c.onCPU(err)
	}
	return report, err
}

// onCPU does the items with the fallback.
func (c *call) onCPU(why error) (*Report, error) {
	tiles, err := parallel(c.parent, c.n, c.chunk, c.itemBytes, func(ctx context.Context, lo, hi int) error {
		if me := goroutine(); me != 0 {
			c.pool.cores.Store(me, true)
			defer c.pool.cores.Delete(me)
		}
		return c.cpu(ctx, lo, hi)
	})
	if failed, ok := err.(*Error); ok {
		failed.Devices = why
	}
	return &Report{Where: OnCPU, Why: why, Tiles: tiles, Skipped: c.skipped}, err
}

// onGPU does the items on the devices. Without a report nothing was tried.
func (c *call) onGPU() (*Report, error) {
	var err error
	if c.lanes, err = c.pool.pick(c.devices); err != nil {
		return nil, err
	}
	weights, err := c.pool.weights(&c.config, c.lanes)
	if err != nil {
		return nil, err
	}
	if weights, err = c.skip(weights); err != nil {
		tiles := []TileReport{{Tile: Tile{Hi: c.n}, Ordinal: c.skipped[0].Ordinal, Cause: err}}
		return &Report{Where: OnGPU, Tiles: tiles, Skipped: c.skipped}, &Error{Tiles: tiles}
	}
	c.prepare(weights)
	c.plan.run(c.parent, c.partition(weights))
	c.plan.cancel(nil)
	tiles, err := c.plan.result()
	if err == nil {
		c.pool.learn(c.lanes, c.plan.members)
	}
	return &Report{Where: OnGPU, Tiles: tiles, Skipped: c.skipped}, err
}

// skip leaves out the devices that are known not to work, and returns the weights of the others. If
// all of them are lost, that is the error.
func (c *call) skip(weights []float64) ([]float64, error) {
	lost := func(d runtime.Device) bool { return errors.Is(d.Err, driver.ErrDeviceLost) }
	failed := func(d runtime.Device) bool { return d.Err != nil }
	devices := make([]runtime.Device, len(c.lanes))
	for i, l := range c.lanes {
		devices[i], _ = c.pool.rt.Device(l.device.Ordinal)
	}
	leaveOut := failed
	if !slices.ContainsFunc(devices, func(d runtime.Device) bool { return d.Err == nil }) {
		leaveOut = lost
	}
	var lanes []*lane
	var rest []float64
	var causes []error
	for i, d := range devices {
		if leaveOut(d) {
			c.skipped = append(c.skipped, d)
			causes = append(causes, d.Err)
			continue
		}
		lanes, rest = append(lanes, c.lanes[i]), append(rest, weights[i])
	}
	if len(lanes) == 0 {
		return nil, errors.Join(causes...)
	}
	c.lanes = lanes
	return rest, nil
}

// prepare makes the plan, with a member for each lane.
func (c *call) prepare(weights []float64) {
	c.ctx, c.plan.cancel = context.WithCancelCause(context.WithValue(c.parent, within{c.pool}, true))
	p := &c.plan
	p.least, p.chunk, p.itemBytes, p.retries = c.minPerDevice, c.chunk, c.itemBytes, c.retries
	p.ordinal = func(device int) int { return c.pool.lanes[device].device.Ordinal }
	p.wake = func(member int) { c.lanes[member].put(visit{c, member}) }
	p.hopeless = func() bool { return c.pool.rt.Err() != nil }
	p.ended = make(chan struct{})
	p.members = make([]member, len(c.lanes))
	for i, l := range c.lanes {
		p.members[i] = newMember(l.worker.index, weights[i])
	}
	p.tiles = make([]TileReport, 0, 2*len(c.lanes))
}

// partition gives each member its tile, or all to one if that is too little.
func (c *call) partition(weights []float64) []Tile {
	if c.n/len(weights) >= c.minPerDevice {
		return Partition(weights, c.n)
	}
	best := 0
	for i := range c.plan.members {
		if c.plan.members[i].weight > c.plan.members[best].weight {
			best = i
		}
	}
	return []Tile{{Device: best, Lo: 0, Hi: c.n}}
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
