package pool

import (
	"errors"
	"slices"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Pool keeps the devices of a machine ready for work: a goroutine, a stream and the
// caller's state for each. It is safe for concurrent use. Calls that come at the same
// time share the devices: each device does its part of one call after the other.
type Pool struct {
	rt       *runtime.Runtime
	defaults config

	mu     sync.Mutex
	lanes  []*lane // nil until CUDA was available
	closed bool
	calls  sync.WaitGroup
	cores  sync.Map // of the goroutines that run a fallback, by number
}

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
	p := &Pool{rt: rt, defaults: config{minPerDevice: minPerDevice}}
	if err := p.defaults.apply(options); err != nil {
		return nil, err
	}
	if _, err := p.open(); err != nil && rt.Err() == nil {
		return nil, err
	}
	return p, nil
}

// Devices lists the devices of the pool, in the order of [runtime.Runtime.Devices] when
// they were found, also those that do not work. There are none as long as CUDA is not available.
func (p *Pool) Devices() []runtime.Device {
	if p == nil || p.rt == nil {
		return nil
	}
	lanes, _ := p.open()
	devices := make([]runtime.Device, len(lanes))
	for i, l := range lanes {
		devices[i] = l.device
	}
	return devices
}

// open returns the lanes, and makes them once CUDA is available. Without an error there
// is one at least.
func (p *Pool) open() ([]*lane, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lanes != nil {
		return p.lanes, nil
	}
	if err := p.rt.Err(); err != nil {
		return nil, err
	}
	devices := p.rt.Devices() // also those that do not work now: they may be revived
	for _, ordinal := range p.defaults.devices {
		if !slices.ContainsFunc(devices, func(d runtime.Device) bool { return d.Ordinal == ordinal }) {
			return nil, noDevice(ordinal)
		}
	}
	for _, d := range devices {
		if len(p.defaults.devices) == 0 || slices.Contains(p.defaults.devices, d.Ordinal) {
			p.lanes = append(p.lanes, newLane(p.rt, p.defaults.setup, len(p.lanes), d))
		}
	}
	return p.lanes, nil
}

func noDevice(ordinal int) error {
	return driver.Errorf(driver.ErrInvalidArgument, "there is no device %d", ordinal)
}

// pick returns the lanes that a call uses.
func (p *Pool) pick(ordinals []int) ([]*lane, error) {
	lanes, err := p.open()
	if err != nil || len(ordinals) == 0 {
		return lanes, err
	}
	var picked []*lane
	for _, l := range lanes {
		if slices.Contains(ordinals, l.device.Ordinal) {
			picked = append(picked, l)
		}
	}
	for _, ordinal := range ordinals {
		if !slices.ContainsFunc(picked, func(l *lane) bool { return l.device.Ordinal == ordinal }) {
			return nil, noDevice(ordinal)
		}
	}
	return picked, nil
}

// weights are those of the lanes of a call.
func (p *Pool) weights(c *config, lanes []*lane) ([]float64, error) {
	if c.weights != nil {
		if len(c.weights) != len(lanes) {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "%d weights for %d devices", len(c.weights), len(lanes))
		}
		return c.weights, nil
	}
	weights := make([]float64, len(lanes))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, l := range lanes {
		weights[i] = l.device.Score
		if c.throughput {
			weights[i] = l.speed
		}
	}
	return weights, nil
}

// learn takes the speeds of a call that succeeded into account. Only their proportions
// count, because the items of another call may be larger: the speeds of the devices that
// took part keep their sum.
func (p *Pool) learn(lanes []*lane, members []member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var known, measured float64
	for i := range members {
		if rate := members[i].rate(); rate > 0 {
			known += lanes[i].speed
			measured += rate
		}
	}
	for i := range members {
		if rate := members[i].rate(); rate > 0 {
			lanes[i].speed = (lanes[i].speed + known*rate/measured) / 2
		}
	}
}

// begin lets a call in.
func (p *Pool) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return driver.Errorf(driver.ErrClosed, "the pool was closed before")
	}
	p.calls.Add(1)
	return nil
}

// Close waits for the calls that are under way, ends the goroutines and closes streams
// and states. It may be called twice. From within a function of a call it is an error of kind
// driver.ErrInvalidArgument, and closes nothing: it would wait for that call. It is not noticed
// on a goroutine that the function has started.
func (p *Pool) Close() error {
	if p == nil {
		return nil
	}
	if p.within() {
		return driver.Errorf(driver.ErrInvalidArgument, "Close within a call of the pool would wait for that call: close it after the call")
	}
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	p.calls.Wait()
	if !first {
		return nil
	}
	p.mu.Lock()
	lanes := p.lanes
	p.mu.Unlock()
	var errs []error
	for _, l := range lanes {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
