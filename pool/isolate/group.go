package isolate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// Group is the children of a program, one for each device. It is safe for concurrent use.
type Group struct {
	rt      *runtime.Runtime
	config  config
	pool    *pool.Pool // gives requests to the children, which are its workers
	starter *starter
	numbers atomic.Uint64 // of calls and buffers
	output  *output
	states  states // of requests that the CPU does
	lives   sync.WaitGroup
	left    chan struct{} // closed when no process is left

	mu    sync.Mutex
	slots []*slot
	// processes are all that live, those that stand by or start as well.
	processes map[*process]bool
	keys      map[string]*session // of WithKey
	ending    bool                // the children end
	figures   Stats
}

// Open makes a group for the devices of a runtime, which is only asked what there is: no context is opened in this process. Children
// are started when requests need them; a small request at the start of a service saves the first user 0.5 s.
//
// Without usable CUDA the error is the runtime's, unless CUDA is absent and [WithFallback] does the work on the CPU. Where there
// is no isolation, the error is of kind driver.ErrUnsupported.
func Open(rt *runtime.Runtime, options ...Option) (*Group, error) {
	g := &Group{rt: rt, config: defaults(), processes: map[*process]bool{}, keys: map[string]*session{}, left: make(chan struct{})}
	if err := g.config.apply(options); err != nil {
		return nil, err
	}
	switch {
	case rt == nil:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a group needs a runtime")
	case len(g.config.buffers) > 0 || g.config.keyed:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "WithBuffers and WithKey are options of Do")
	}
	for _, err := range []error{notInChild(), registerError()} {
		if err != nil {
			return nil, err
		}
	}
	if g.config.fallback == nil || rt.Outcome() != runtime.Absent {
		if err := cmp.Or(supported(), rt.Err()); err != nil {
			return nil, err
		}
	}
	var err error
	g.pool, err = pool.Open(rt, pool.Options{Remote: g.serves, Devices: g.config.devices, Streams: g.config.streams, Queue: cmp.Or(g.config.queue, -1)})
	if err != nil {
		return nil, err
	}
	for _, d := range g.pool.Devices() {
		g.slots = append(g.slots, &slot{group: g, device: d, state: Idle})
	}
	g.states.limit = g.config.stateBytes
	g.output = &output{to: g.config.output}
	g.starter = newStarter()
	return g, nil
}

// NewBuffer makes memory that the program and its children share, of at least one byte.
func (g *Group) NewBuffer(bytes int) (*Buffer, error) {
	if g == nil || g.starter == nil || bytes < 1 {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "NewBuffer(%d) takes a group and at least one byte", bytes)
	}
	data, file, err := share(bytes)
	if err != nil {
		return nil, err
	}
	return &Buffer{number: g.numbers.Add(1), data: data, file: file, group: g}, nil
}

// forget tells the children that a buffer is closed.
func (g *Group) forget(b *Buffer) {
	g.mu.Lock()
	var all []*process
	for _, s := range g.slots {
		if s.process != nil {
			all = append(all, s.process)
		}
	}
	g.mu.Unlock()
	for _, p := range all {
		p.drop(b)
	}
}

// serves is why the child of a device takes no request now, or nil. A request starts it.
func (g *Group) serves(ordinal int, begins bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.slot(ordinal)
	switch {
	case g.ending:
		return errClosed()
	case s == nil:
		return driver.Errorf(driver.ErrInvalidArgument, "device %d was not there when the group was opened", ordinal)
	case s.state == LeftOut:
		return s.gaveUp()
	case s.state == Ready && s.process.reason() == nil:
		return nil
	case s.state == Idle && begins:
		s.start()
	}
	return pool.ErrNotReady
}

// slot is that of a device, or nil. The lock is held.
func (g *Group) slot(ordinal int) *slot {
	for _, s := range g.slots {
		if s.device.Ordinal == ordinal {
			return s
		}
	}
	return nil
}

// Close is [Group.Shutdown] with a context that never ends.
func (g *Group) Close() error { return g.Shutdown(context.Background()) }

// stopPatience is how long a child may take to end once it was asked to.
const stopPatience = 5 * time.Second

// Shutdown lets no more requests in, waits for those that were let in, and ends the children. When ctx ends first, the children
// are killed: what they were doing fails, and the error says so. It then returns after 5 s at most, also where a process cannot
// be killed, which the error names. For what the children have printed last it waits for a second, and then says how
// much was lost. It may be called again.
func (g *Group) Shutdown(ctx context.Context) error {
	if g == nil || g.starter == nil {
		return nil
	}
	if ctx == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "Shutdown takes a context, and it is nil")
	}
	var forced error
	if err := g.pool.Shutdown(ctx); err != nil {
		if forced = context.Cause(ctx); forced == nil {
			return err
		}
	}
	first, cut := g.endChildren(forced != nil)
	if first {
		go func() {
			g.lives.Wait()
			g.starter.close()
			close(g.left)
		}()
	}
	err := g.waitForChildren(ctx, forced != nil)
	if err != nil {
		return errors.Join(err, forced)
	}
	if forced == nil {
		err = g.states.close()
	}
	if forced != nil && cut > 0 {
		err = driver.Errorf(driver.ErrTimeout, "the children were killed, with %d requests that had not ended: %w", cut, forced)
	}
	if lost := g.output.flush(outputPatience); lost > 0 {
		err = errors.Join(err, driver.Errorf(driver.ErrTimeout, "the output (WithOutput) has not taken the last %d bytes of the children in %v", lost, outputPatience))
	}
	return err
}

// endChildren asks the children to end, or kills them, and tells how many requests there are. first says that nobody did before.
func (g *Group) endChildren(kill bool) (first bool, requests int) {
	for _, d := range g.pool.Stats().Devices {
		requests += d.Busy
	}
	requests += g.pool.Stats().Queued
	g.mu.Lock()
	defer g.mu.Unlock()
	first = !g.ending
	g.ending = true
	for _, s := range g.slots {
		defer g.pool.Changed(s.device.Ordinal)
		if s.timer != nil {
			s.timer.Stop()
		}
	}
	for p := range g.processes {
		serves := p.of.process == p
		if serves && p.reason() == nil {
			p.stopped = true
		}
		switch {
		case kill || !serves:
			p.kill(errClosed())
		case first:
			go p.stop()
		}
	}
	return first, requests
}

// waitForChildren waits until all processes have ended, and kills them when ctx ends.
func (g *Group) waitForChildren(ctx context.Context, killed bool) error {
	patience := stopPatience + gonePatience
	over := ctx.Done()
	if killed {
		patience, over = gonePatience, nil
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-g.left:
		return nil
	case <-limit.C:
	case <-over:
		g.endChildren(true)
		return g.waitForChildren(ctx, true)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var live []string
	for p := range g.processes {
		live = append(live, fmt.Sprintf("%d of device %d", p.cmd.Process.Pid, p.of.device.Ordinal))
	}
	slices.Sort(live)
	if len(live) == 0 {
		live = []string{"one that was being started"}
	}
	return driver.Errorf(driver.ErrTimeout, "processes were killed and have not ended %v later: %s", gonePatience, strings.Join(live, ", "))
}

// stop ends a child that has nothing to do.
func (p *process) stop() {
	if err := p.link.send(stopFrame, 0); err != nil {
		p.kill(err)
	}
	limit := time.NewTimer(stopPatience)
	defer limit.Stop()
	select {
	case <-p.gone:
	case <-limit.C:
		p.kill(driver.Errorf(driver.ErrTimeout, "it did not end %v after it was asked to", stopPatience))
	}
}

func errClosed() error { return driver.Errorf(driver.ErrClosed, "the group was closed before") }
