package cluster

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// devices run functions on what a host has.
type devices interface {
	// state is how many pieces can run now, of which functions, and what the devices are.
	state() (slots int, runs func(function string) bool, all []Device)
	// memory returns memory for the data of references, and a function that gives it back.
	memory(bytes []int64) (buffers, func(), error)
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

	mu   sync.Mutex
	free map[int][]*isolate.Buffer // by size, newest last
	kept int
}

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

// maxKept is how many buffers are kept for the next pieces: a child registers each once.
const maxKept = 64

func (c *children) memory(bytes []int64) (buffers, func(), error) {
	var b buffers
	back := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range b.shared {
			if s == nil {
				continue
			}
			if n := len(s.Bytes()); c.kept < maxKept {
				c.free[n] = append(c.free[n], s)
				c.kept++
				continue
			}
			_ = s.Close() // it returns no error
		}
	}
	for _, n := range bytes {
		c.mu.Lock()
		var s *isolate.Buffer
		if free := c.free[int(n)]; len(free) > 0 {
			s, c.free[int(n)] = free[len(free)-1], free[:len(free)-1]
			c.kept--
		}
		c.mu.Unlock()
		if s == nil {
			c.makeRoom()
			var err error
			if s, err = c.group.NewBuffer(int(n)); err != nil {
				back()
				return buffers{}, nil, err
			}
		}
		b.shared = append(b.shared, s)
		b.bytes = append(b.bytes, s.Bytes())
	}
	return b, back, nil
}

// makeRoom frees a buffer that has no use, where many are kept.
func (c *children) makeRoom() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, free := range c.free {
		if c.kept < maxKept/2 {
			return
		}
		for _, s := range free {
			_ = s.Close() // it returns no error
		}
		c.kept -= len(free)
		delete(c.free, n)
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
	for _, free := range c.free {
		for _, s := range free {
			_ = s.Close() // it returns no error
		}
	}
	c.free = map[int][]*isolate.Buffer{}
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
	if f := p.cpu[function]; f != nil {
		options.Fallback = func(ctx context.Context) (err error) {
			result, err = f(ctx, isolate.NewRequest(data, b.bytes...))
			return err
		}
	}
	report, err = p.pool.Do(ctx, func(w *pool.Worker) (err error) {
		result, err = isolate.Run(w, function, isolate.NewRequest(data, b.bytes...))
		return err
	}, options)
	if errors.Is(err, driver.ErrRequired) {
		p.required.Store(true)
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
		return &children{group: of, each: each, free: map[int][]*isolate.Buffer{}}, nil
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
