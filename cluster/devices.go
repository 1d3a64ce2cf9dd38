package cluster

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// devices run functions on what a host has.
type devices interface {
	// state is how many pieces can run now, of which functions, and what the devices are.
	state() (slots int, runs func(function string) bool, all []Device)
	// memory returns memory for the data of references, and a function that gives it back. idle frees what was not used for a time.
	memory(bytes []int64) (buffers, func(), error)
	idle(now time.Time)
	run(ctx context.Context, function string, data []byte, b buffers) ([]byte, pool.Report, error)
}

// buffers are memory for the data of references.
type buffers struct {
	bytes  [][]byte
	shared []*isolate.Buffer // of a group
}

// children are the devices of a group.
type children struct {
	group *isolate.Group
	each  int // slots for each device

	max int64 // bytes, of what is used and kept

	mu         sync.Mutex
	free       []keptBuffer // for the next pieces, oldest first
	kept, used int64        // bytes
	peak       int64        // the most that were used of late
	since      time.Time    // when peak began
}

type keptBuffer struct {
	*isolate.Buffer
	at time.Time // when it was used last
}

const (
	// keepFor is how long a buffer is kept that no piece uses.
	keepFor = 10 * time.Second
	// maxKept is how many are kept: each takes a descriptor here and in children.
	maxKept = 64
)

func (c *children) state() (slots int, runs func(function string) bool, all []Device) {
	for _, d := range c.group.Stats().Devices {
		device := Device{Ordinal: d.Device}
		if d.State == isolate.LeftOut || d.State == isolate.Ended {
			device.Err = string(d.State)
			if d.Err != nil {
				device.Err += ": " + d.Err.Error()
			}
		} else {
			slots += c.each
		}
		all = append(all, device)
	}
	return slots, registered(), all
}

// registered tells which functions run on a device.
func registered() func(function string) bool {
	all := isolate.Functions()
	return func(function string) bool { return slices.Contains(all, function) }
}

// memory takes buffers that were kept, which a child has mapped and registered, or makes some.
func (c *children) memory(bytes []int64) (buffers, func(), error) {
	var b buffers
	back := func() { c.giveBack(b.shared, bytes) }
	for _, n := range bytes {
		s, err := c.buffer(n)
		if err != nil {
			back()
			return buffers{}, nil, err
		}
		b.shared = append(b.shared, s)
		b.bytes = append(b.bytes, s.Bytes())
	}
	return b, back, nil
}

func (c *children) buffer(n int64) (*isolate.Buffer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range slices.Backward(c.free) {
		if int64(len(s.Bytes())) == n {
			c.free = slices.Delete(c.free, i, i+1)
			c.kept -= n
			c.use(n)
			return s.Buffer, nil
		}
	}
	c.shrink(c.max - c.used - n)
	s, err := c.group.NewBuffer(int(n))
	if err == nil {
		c.use(n)
	}
	return s, err
}

// use counts what is used. c.mu is held.
func (c *children) use(n int64) {
	c.used += n
	c.peak = max(c.peak, c.used)
}

// giveBack keeps buffers for the next pieces, not more of them than pieces used at the same time of late.
func (c *children) giveBack(all []*isolate.Buffer, bytes []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range all {
		c.used -= bytes[i]
		if s != nil {
			c.free = append(c.free, keptBuffer{s, time.Now()})
			c.kept += bytes[i]
		}
	}
	c.shrink(min(c.peak, c.max-c.used))
}

// shrink frees the oldest buffers that are kept, until so many bytes are left. c.mu is held.
func (c *children) shrink(bytes int64) {
	n := 0
	for ; n < len(c.free) && (c.kept > max(bytes, 0) || len(c.free)-n > maxKept); n++ {
		c.kept -= int64(len(c.free[n].Bytes()))
		_ = c.free[n].Close() // it returns no error
	}
	c.free = slices.Delete(c.free, 0, n)
}

func (c *children) idle(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.kept
	for _, s := range c.free {
		if now.Sub(s.at) < keepFor {
			break
		}
		left -= int64(len(s.Bytes()))
	}
	c.shrink(left)
	if now.Sub(c.since) >= keepFor {
		c.peak, c.since = c.used, now
	}
}

func (c *children) run(ctx context.Context, function string, data []byte, b buffers) ([]byte, pool.Report, error) {
	result, report, err := c.group.Do(ctx, function, data, isolate.WithQueueWait(), isolate.WithBuffers(b.shared...))
	if errors.Is(err, isolate.ErrChildDied) { // one that cannot be killed may still write to them: nobody gets them again
		for i, s := range b.shared {
			_ = s.Close() // it returns no error
			b.shared[i] = nil
		}
	}
	return result, report, err
}

func (c *children) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.max = 0 // nothing is kept any more
	c.shrink(0)
}

// pooled are the devices of a pool, or the cores where there are none.
type pooled struct {
	pool *pool.Pool
	cpu  map[string]func(ctx context.Context, r *isolate.Request) ([]byte, error)
	each int
	// required says that the policy of the runtime refuses the CPU.
	required atomic.Bool
}

func (p *pooled) state() (slots int, runs func(function string) bool, all []Device) {
	for _, d := range p.pool.Stats().Devices {
		device := Device{Ordinal: d.Device.Ordinal, Name: d.Device.Name}
		if d.Device.Err != nil {
			device.Err = d.Device.Err.Error()
		} else {
			slots += p.each
		}
		all = append(all, device)
	}
	if slots > 0 {
		return slots, registered(), all
	}
	if len(p.cpu) > 0 && !p.required.Load() {
		slots = goruntime.GOMAXPROCS(0)
	}
	return slots, func(function string) bool { return p.cpu[function] != nil }, all
}

func (p *pooled) idle(time.Time) {}

func (p *pooled) memory(bytes []int64) (buffers, func(), error) {
	const page = 64 << 10 // registered memory shares no page
	var b buffers
	for _, n := range bytes {
		b.bytes = append(b.bytes, make([]byte, n, max(n, page)))
	}
	return b, func() {}, nil
}

func (p *pooled) run(ctx context.Context, function string, data []byte, b buffers) (result []byte, report pool.Report, err error) {
	options := pool.DoOptions{Wait: true}
	var ofCPU error
	if f := p.cpu[function]; f != nil {
		options.Fallback = func(ctx context.Context) (err error) {
			result, ofCPU = f(ctx, isolate.NewRequest(data, b.bytes...))
			return ofCPU
		}
	}
	report, err = p.pool.Do(ctx, func(w *pool.Worker) (err error) {
		result, err = isolate.Run(w, function, isolate.NewRequest(data, b.bytes...))
		return err
	}, options)
	if errors.Is(err, driver.ErrRequired) {
		p.required.Store(true)
	}
	if ofCPU != nil { // without why no device did it, which hides it in a message
		err = ofCPU
	}
	return result, report, err
}

// devicesOf makes devices of a group or a pool.
func devicesOf(of any, c *config) (devices, error) {
	each := c.slots
	if each == 0 {
		each = 2
	}
	switch of := of.(type) {
	case *isolate.Group:
		if of == nil {
			break
		}
		if len(c.cpu) > 0 {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "WithCPU needs a pool: there is a group only where CUDA can be used")
		}
		return &children{group: of, each: each, max: c.memory / 4 * 3}, nil
	case *pool.Pool:
		if of == nil {
			break
		}
		return &pooled{pool: of, cpu: c.cpu, each: each}, nil
	}
	return nil, driver.Errorf(driver.ErrInvalidArgument, "Serve takes a group of isolate.Open or a pool of pool.Open, and it is nil")
}

// temporary tells whether an error says that a host can do nothing now, and nothing of the piece: no device has tried it.
func temporary(report *pool.Report, err error) bool {
	if report.Tries > 0 || report.Where == pool.OnCPU {
		return false
	}
	switch report.Reason {
	case pool.PolicyOff, pool.Absent, pool.Fault, pool.Quarantined:
		return true
	}
	return is(err, isolate.ErrGaveUp, driver.ErrClosed)
}
