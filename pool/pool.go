package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Pool keeps the devices of a machine ready for work: their streams, and the caller's state for
// each. It is safe for concurrent use. Calls that come at the same time share the devices.
type Pool struct {
	rt       *runtime.Runtime
	defaults config
	number   uint64 // even, see spell
	streams  int    // of a device
	limit    int    // of the queue
	probes   context.Context
	cancel   context.CancelFunc // of probes
	drained  chan struct{}      // closed when the pool is closed and nothing runs
	closing  sync.Once
	requests sync.Pool // those that have ended

	mu      mutex
	devices []*device // nil until CUDA was available
	queue   queue
	crowded atomic.Bool // the queue is not empty
	typical float64     // seconds that a request takes whose cost is not known
	suspect bool        // CUDA may be lost
	calls   int         // that were let in and have not ended
	closed  bool
	figures figures

	watching bool            // watchMemory runs
	awaited  map[string]bool // labels of requests that wait for their quota, before the one that is looked at
}

// pools counts the pools of the process.
var pools atomic.Uint64

// Open makes a pool. It opens no context and starts no goroutine: each device is made
// ready by its first tile, which takes 125 ms and the setup.
//
// A pool on a machine without usable CUDA leaves all work to the fallback, until
// [runtime.Runtime.Refresh] finds a driver. The runtime stays the caller's, who closes it
// after the pool.
func Open(rt *runtime.Runtime, options ...Option) (*Pool, error) {
	if rt == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a pool needs a runtime")
	}
	p := &Pool{rt: rt, number: 2 * pools.Add(1), typical: time.Millisecond.Seconds(), drained: make(chan struct{})}
	p.mu.pool = p
	p.defaults = config{minPerDevice: minPerDevice, streams: streamsOfADevice, queue: queueLength}
	if err := p.defaults.apply(options); err != nil {
		return nil, err
	}
	p.streams, p.limit = max(p.defaults.streams, 1), p.defaults.queue
	if _, err := p.open(); err != nil && rt.Err() == nil {
		return nil, err
	}
	p.probes, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Devices lists the devices of the pool, in the order of [runtime.Runtime.Devices] when
// they were found. One that does not work, or is left out for a while, has the reason in its Err.
// There are none as long as CUDA is not available.
func (p *Pool) Devices() []runtime.Device {
	if p == nil || p.rt == nil {
		return nil
	}
	devices, _ := p.open()
	states := make([]runtime.Device, len(devices))
	for i, d := range devices {
		states[i], _ = p.state(d)
	}
	return states
}

// open returns the devices, and finds them once CUDA is available. Without an error there
// is one at least.
func (p *Pool) open() ([]*device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.find()
	return p.devices, err
}

// find is open for who holds mu. It fails also when CUDA is lost, as soon as that is noticed.
func (p *Pool) find() error {
	if p.devices != nil && !p.suspect {
		return nil
	}
	err := p.rt.Err()
	if p.suspect = err != nil; err != nil || p.devices != nil {
		return err
	}
	c := &p.defaults
	all := p.rt.Devices() // also those that do not work now: they may be revived
	for _, ordinal := range c.devices {
		if !slices.ContainsFunc(all, func(d runtime.Device) bool { return d.Ordinal == ordinal }) {
			return noDevice(ordinal)
		}
	}
	for _, info := range all {
		if (len(c.devices) == 0 || slices.Contains(c.devices, info.Ordinal)) && !slices.Contains(c.without, info.Ordinal) {
			p.devices = append(p.devices, newDevice(p, len(p.devices), info))
		}
	}
	if len(p.devices) == 0 {
		return driver.Errorf(driver.ErrInvalidArgument, "WithoutDevices%v leaves no device", c.without)
	}
	p.compare()
	return nil
}

func noDevice(ordinal int) error {
	return driver.Errorf(driver.ErrInvalidArgument, "there is no device %d", ordinal)
}

// pick returns the devices that a call uses.
func (p *Pool) pick(c *config) ([]*device, error) {
	devices, err := p.open()
	if err != nil {
		return nil, err
	}
	for _, ordinal := range c.devices {
		if !slices.ContainsFunc(devices, func(d *device) bool { return d.info.Ordinal == ordinal }) {
			return nil, noDevice(ordinal)
		}
	}
	r := request{devices: c.devices, without: c.without}
	var picked []*device
	for _, d := range devices {
		if r.may(d) {
			picked = append(picked, d)
		}
	}
	if len(picked) == 0 {
		return nil, noneLeft(&r)
	}
	return picked, nil
}

// weights are those of the devices of a call.
func (p *Pool) weights(c *config, devices []*device) ([]float64, error) {
	if c.weights != nil {
		if len(c.weights) != len(devices) {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "%d weights for %d devices", len(c.weights), len(devices))
		}
		return c.weights, nil
	}
	weights := make([]float64, len(devices))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, d := range devices {
		weights[i] = d.info.Score
		if c.throughput {
			weights[i] = d.speed
		}
	}
	return weights, nil
}

// learn takes the speeds of a call that succeeded into account. Only their proportions count, because the
// items of another call may be larger: an item costs what it took on the average.
func (p *Pool) learn(devices []*device, members []member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var items, busy float64
	for i := range members {
		items += float64(members[i].items)
		busy += members[i].busy.Seconds()
	}
	for i := range members {
		m := &members[i]
		if m.items == 0 {
			continue
		}
		devices[i].works()
		devices[i].figures.ran += m.busy
		devices[i].learn(float64(m.items)*busy/items, m.busy.Seconds(), keepOfScatter)
	}
}

// begin lets a call in.
func (p *Pool) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed()
	}
	p.calls++
	return nil
}

// letIn is begin for a call of several devices, which waits in the queue with each of them.
func (p *Pool) letIn(c *config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed()
	}
	if err := p.full(new(request)); err != nil && !c.queueWait {
		p.figures.refused++
		p.figures.requests++
		return err
	}
	p.calls++
	p.figures.requests++
	return nil
}

func (p *Pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endCall()
}

func errClosed() error { return driver.Errorf(driver.ErrClosed, "the pool was closed before") }

// Close is [Pool.Shutdown] with a context that never ends.
func (p *Pool) Close() error { return p.Shutdown(context.Background()) }

// Shutdown lets no more calls in, waits for those that were let in, also those that wait for a device, and
// closes streams and states. It may be called again, and does nothing then.
//
// When ctx ends first, the error says what still runs, and has ctx's cause. Nothing is closed then; a later
// call waits on. From within a function of a call it is an error of kind driver.ErrInvalidArgument, and
// changes nothing: it would wait for that call. It is not noticed on a goroutine that the function
// has started.
func (p *Pool) Shutdown(ctx context.Context) error {
	switch {
	case ctx == nil:
		return driver.Errorf(driver.ErrInvalidArgument, "Shutdown takes a context, and it is nil")
	case p == nil || p.rt == nil:
		return nil
	case p.within():
		return driver.Errorf(driver.ErrInvalidArgument, "Close within a call of the pool would wait for that call: close it after the call")
	}
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.stopProbes()
		if p.calls == 0 {
			close(p.drained)
		}
	}
	p.mu.Unlock()
	select {
	case <-p.drained:
	case <-ctx.Done():
		return p.stillRuns(context.Cause(ctx))
	}
	var errs []error
	p.closing.Do(func() {
		for _, d := range p.devices {
			errs = append(errs, d.close())
		}
	})
	return errors.Join(errs...)
}

// stillRuns is the error of a Shutdown whose context has ended.
func (p *Pool) stillRuns(cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var where []string
	for _, d := range p.devices {
		if d.busy > 0 {
			where = append(where, fmt.Sprintf(", %d on device %d", d.busy, d.info.Ordinal))
		}
	}
	return fmt.Errorf("the pool is not closed: %d calls have not ended%s, %d in the queue: %w", p.calls, strings.Join(where, ""), p.queue.length, cause)
}
