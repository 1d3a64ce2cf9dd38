package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/runtime"
)

// Pool keeps the devices of a machine ready for work: their streams, and the caller's state for each
// stream. It is safe for concurrent use. Concurrent calls share the devices.
type Pool struct {
	rt       *runtime.Runtime
	setup    []Setup
	ordinals []int // of Options.Devices
	suits    func(runtime.Device) bool
	quotas   map[string]uint64
	health   nvml.API
	remote   func(ordinal int, begins bool) error
	streams  int // of a device
	limit    int // of the queue
	probes   context.Context
	cancel   context.CancelFunc // of probes
	drained  chan struct{}      // closed when the pool is closed and nothing runs
	closing  sync.Once
	requests sync.Pool // finished ones, to reuse
	errFull  error     // of calls that are refused

	deviceSetup bool // any of setup is for devices

	mu          mutex
	devices     []*device // nil until CUDA was available
	queue       queue
	queued      atomic.Bool // the queue is not empty
	places      int         // in it, of calls of several devices that none has begun
	cpu         device      // has a worker, without a stream, for each fallback that runs
	cpuQueue    queue       // for it
	typicalCost float64     // average seconds of a request without DoOptions.Cost
	mayBeLost   bool        // CUDA may be lost
	calls       int         // begun and not ended
	turns       uint64      // counts the workers that requests got
	closed      bool
	figures     figures
	turnedAway  atomic.Uint64 // calls that were refused without mu, which the figures lack
	listening   chan struct{} // nil, or closed when the goroutine of Options.Health has ended
	healthErr   error         // of that

	polling       bool            // pollMemory runs
	blockedLabels map[string]bool // labels whose quota an earlier request in the queue waits for
}

// Open makes a pool. It opens no context, and starts no goroutine without Options.Health. The first work on each device opens
// its context, which takes 125 ms and more, and runs the setup. [Pool.Prepare] does that for all devices at once, before the first
// work.
//
// On a machine without usable CUDA all work goes to the fallback, until [runtime.Runtime.Refresh] finds
// a driver. The caller closes rt, after the pool.
func Open(rt *runtime.Runtime, options ...Options) (*Pool, error) {
	o, err := one(options)
	if rt == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a pool needs a runtime")
	}
	if err = cmp.Or(err, o.check()); err != nil {
		return nil, err
	}
	p := &Pool{rt: rt, setup: slices.Clone(o.Setup), ordinals: slices.Clone(o.Devices), suits: o.Suits, quotas: maps.Clone(o.Quotas), health: o.Health, remote: o.Remote,
		streams: cmp.Or(o.Streams, streamsOfADevice), limit: max(cmp.Or(o.Queue, queueLength), 0),
		typicalCost: time.Millisecond.Seconds(), drained: make(chan struct{})}
	p.deviceSetup = slices.ContainsFunc(p.setup, Setup.perDevice)
	p.errFull = fmt.Errorf("%w: as many calls wait as may (%d): call again later, or let the call wait (Wait)", ErrQueueFull, p.limit)
	p.mu.pool, p.cpu.pool = p, p
	p.probes, p.cancel = context.WithCancel(context.Background())
	if _, err := p.openDevices(); err != nil && rt.Err() == nil {
		p.cancel()
		return nil, err
	}
	return p, nil
}

// Devices lists the devices of the pool, in the order of [runtime.Runtime.Devices] when the pool found
// them. A device that does not work, or is quarantined, has the reason in its Err. The list is empty
// until CUDA is available.
func (p *Pool) Devices() []runtime.Device {
	if p == nil || p.rt == nil {
		return nil
	}
	devices, _ := p.openDevices()
	states := make([]runtime.Device, len(devices))
	for i, d := range devices {
		states[i], _ = p.state(d)
	}
	return states
}

// openDevices returns the devices, which it finds once CUDA is available. Without an error there is at
// least one.
func (p *Pool) openDevices() ([]*device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.findDevices()
	return p.devices, err
}

// findDevices is openDevices for callers that hold mu. It fails also after CUDA is lost, if mayBeLost is set.
func (p *Pool) findDevices() error {
	if p.devices != nil && !p.mayBeLost {
		return nil
	}
	err := p.rt.Err()
	if p.mayBeLost = err != nil; err != nil || p.devices != nil {
		return err
	}
	var all []*device
	for _, info := range p.rt.Devices() { // also those that do not work now: they may be revived
		all = append(all, &device{pool: p, info: info})
	}
	if err := haveOrdinals(all, p.ordinals); err != nil {
		return err
	}
	wanted := request{devices: p.ordinals}
	all = slices.DeleteFunc(all, func(d *device) bool { return !wanted.may(d) })
	if p.suits != nil {
		if all, _, err = pick(all, p.suits); err != nil {
			return err
		}
	}
	for i, d := range all {
		d.index = i
	}
	p.devices = all
	p.updateSpeeds()
	p.startHealth()
	return nil
}

// haveOrdinals returns an error if a device that a caller names is not there.
func haveOrdinals(devices []*device, ordinals []int) error {
	for _, ordinal := range ordinals {
		if !slices.ContainsFunc(devices, func(d *device) bool { return d.info.Ordinal == ordinal }) {
			return driver.Errorf(driver.ErrInvalidArgument, "there is no device %d", ordinal)
		}
	}
	return nil
}

// selectDevices returns the devices that a call uses. The caller does not change the slice.
func (p *Pool) selectDevices(ordinals []int) ([]*device, error) {
	devices, err := p.openDevices()
	if err != nil || len(ordinals) == 0 {
		return devices, err
	}
	if err := haveOrdinals(devices, ordinals); err != nil {
		return nil, err
	}
	r := request{devices: ordinals}
	return slices.DeleteFunc(slices.Clone(devices), func(d *device) bool { return !r.may(d) }), nil
}

// learn updates the speeds of devices after a call that succeeded. Only proportions count, because the
// items of another call may be larger. The cost of an item is the average time that it took.
func (p *Pool) learn(devices []*device, participants []participant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var items, busy float64
	for i := range participants {
		items += float64(participants[i].items)
		busy += participants[i].busy.Seconds()
	}
	for i := range participants {
		m := &participants[i]
		if m.items == 0 {
			continue
		}
		devices[i].recordSuccess()
		devices[i].figures.ran += m.busy
		devices[i].learn(float64(m.items)*busy/items, m.busy.Seconds(), scatterDecay)
	}
}

// begin counts a call, unless the pool is closed.
func (p *Pool) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed()
	}
	p.calls++
	return nil
}

func (p *Pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endCall()
}

// errNested is the error of a call that a function makes with its own context.
func errNested() error {
	return driver.Errorf(driver.ErrInvalidArgument, "a call within a call of the same pool would wait for its own device: "+
		"do the work with the Worker of the outer call, or open another pool")
}

func errClosed() error { return driver.Errorf(driver.ErrClosed, "the pool was closed before") }

// Close is [Pool.Shutdown] with a context that never ends. A function of a call must not call it: it would wait for
// its own call, for ever.
func (p *Pool) Close() error { return p.Shutdown(context.Background()) }

// Shutdown refuses new calls, waits for the calls that have begun, also for those in the queue, and then
// closes streams and states. A second call does nothing.
//
// When ctx ends first, the error says what still runs, and has ctx's cause. Nothing is closed then. A
// later call waits again. Within a function of a call, Shutdown would wait for that call. With the context of
// that call it is an error of kind driver.ErrInvalidArgument, and has no effect. With another context it waits
// until that ends.
func (p *Pool) Shutdown(ctx context.Context) error {
	switch {
	case ctx == nil:
		return driver.Errorf(driver.ErrInvalidArgument, "Shutdown takes a context, and it is nil")
	case p == nil || p.rt == nil:
		return nil
	case ctx.Value(within{p}) != nil || ctx.Value(turnOf{p}) != nil:
		return driver.Errorf(driver.ErrInvalidArgument, "Shutdown within a call of the pool would wait for that call: close it after the call")
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
	if err := p.stopListening(ctx); err != nil {
		return fmt.Errorf("the pool is not closed: a call of NVML has not returned: %w", err)
	}
	var errs []error
	p.closing.Do(func() {
		for _, d := range p.devices {
			errs = append(errs, d.close())
		}
	})
	return errors.Join(errs...)
}

// stillRuns returns the error of a Shutdown whose context has ended.
func (p *Pool) stillRuns(cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var where []string
	for _, d := range p.devices {
		if d.busy > 0 {
			where = append(where, fmt.Sprintf(", %d on device %d", d.busy, d.info.Ordinal))
		}
	}
	return fmt.Errorf("the pool is not closed: %d calls have not ended%s, %d in the queue: %w", p.calls, strings.Join(where, ""), p.waiting(), cause)
}
