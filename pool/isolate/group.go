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
	absent  error // why there is no device, and the CPU does the work
	starter *starter
	numbers atomic.Uint64 // of calls and buffers
	output  *output
	lives   sync.WaitGroup
	left    chan struct{} // closed when no process is left

	mu    sync.Mutex
	slots []*slot
	// processes are all that live, those that stand by or start as well.
	processes map[*process]bool
	queue     []*request // that wait for a child, in their order
	calls     int        // that were let in and have not ended
	closed    bool       // nothing new comes in
	ending    bool       // the children end
	drained   chan struct{}
	figures   Stats
	cores     chan struct{} // one for each request that runs on the CPU
	waiting   int           // requests that want to
}

// request is one that wants a child.
type request struct {
	tried   []*slot
	only    []int // ordinals
	process *process
	err     error
	ready   chan struct{} // closed with the answer
}

// Open makes a group for the devices of a runtime, which is only asked what there is: no context is opened in this process. Children
// are started when requests need them; a small request at the start of a service saves the first user 0.5 s.
//
// Without usable CUDA the error is the runtime's, unless CUDA is absent and [WithFallback] does the work on the CPU. Where there
// is no isolation, the error is of kind driver.ErrUnsupported.
func Open(rt *runtime.Runtime, options ...Option) (*Group, error) {
	g := &Group{rt: rt, config: defaults(), processes: map[*process]bool{}, left: make(chan struct{}), drained: make(chan struct{})}
	if err := g.config.apply(options); err != nil {
		return nil, err
	}
	switch {
	case rt == nil:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a group needs a runtime")
	case len(g.config.buffers) > 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "WithBuffers is an option of Do")
	}
	for _, err := range []error{notInChild(), registerError()} {
		if err != nil {
			return nil, err
		}
	}
	if g.config.fallback != nil && rt.Outcome() == runtime.Absent {
		g.absent = rt.Err()
	} else if err := cmp.Or(supported(), rt.Err()); err != nil {
		return nil, err
	}
	devices := rt.Devices()
	for _, ordinal := range g.config.devices {
		if g.absent == nil && !slices.ContainsFunc(devices, func(d runtime.Device) bool { return d.Ordinal == ordinal }) {
			return nil, noDevice(ordinal)
		}
	}
	for _, d := range devices {
		if len(g.config.devices) == 0 || slices.Contains(g.config.devices, d.Ordinal) {
			g.slots = append(g.slots, &slot{group: g, device: d, state: Idle})
		}
	}
	g.cores = make(chan struct{}, g.config.streams*max(len(g.slots), 1))
	g.output = &output{to: g.config.output}
	g.starter = newStarter()
	return g, nil
}

func noDevice(ordinal int) error {
	return driver.Errorf(driver.ErrInvalidArgument, "there is no device %d", ordinal)
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

// acquire gets a child for a request.
func (g *Group) acquire(ctx context.Context, r *request, wait bool) (*process, error) {
	r.ready = make(chan struct{})
	g.mu.Lock()
	if g.ending {
		g.mu.Unlock()
		return nil, errClosed()
	}
	g.queue = append(g.queue, r)
	g.dispatch()
	if i := slices.Index(g.queue, r); i >= g.config.queue && !wait {
		g.queue = slices.Delete(g.queue, i, i+1)
		g.figures.Refused++
		g.mu.Unlock()
		return nil, pool.ErrQueueFull
	}
	g.mu.Unlock()
	select {
	case <-r.ready:
	case <-ctx.Done():
		g.mu.Lock()
		if i := slices.Index(g.queue, r); i >= 0 {
			g.queue = slices.Delete(g.queue, i, i+1)
			r.err = context.Cause(ctx)
			close(r.ready)
		}
		g.mu.Unlock()
		<-r.ready // what was answered first holds
	}
	return r.process, r.err
}

// dispatch gives requests that wait the children that have room, and starts children. The lock is held.
func (g *Group) dispatch() {
	g.queue = slices.DeleteFunc(g.queue, func(r *request) bool {
		best, possible := g.place(r)
		switch {
		case best != nil:
			best.busy++
			best.figures.Requests++
			r.process = best.process
		case possible:
			return false
		default:
			r.err = g.gaveUp(r)
		}
		close(r.ready)
		return true
	})
}

// place is the child with the least to do that takes a request, or nil. A device that has no child
// yet gets one where the others are busy.
func (g *Group) place(r *request) (best *slot, possible bool) {
	var idle *slot
	starting := 0
	for _, s := range g.slots {
		if !r.may(s) {
			continue
		}
		possible = possible || s.state != LeftOut
		switch {
		case s.state == Ready && s.busy < g.config.streams && (best == nil || s.busy < best.busy) && s.process.reason() == nil:
			best = s
		case s.state == Idle && idle == nil:
			idle = s
		case s.state == Starting:
			starting++
		}
	}
	if idle != nil && (best == nil && starting < len(g.queue) || best != nil && best.busy > 0) {
		idle.start()
	}
	return best, possible
}

// may tells whether a device may take the request.
func (r *request) may(s *slot) bool {
	return (len(r.only) == 0 || slices.Contains(r.only, s.device.Ordinal)) && !slices.Contains(r.tried, s)
}

// gaveUp is the error of a request that no device takes.
func (g *Group) gaveUp(r *request) error {
	var causes []error
	for _, s := range g.slots {
		if r.may(s) && s.err != nil {
			causes = append(causes, driver.Errorf(ErrChildDied, "device %d: %w", s.device.Ordinal, s.err))
		}
	}
	return driver.Errorf(ErrGaveUp, "the children of all devices have died too often (WithRestarts): %w", errors.Join(causes...))
}

// release takes a child back from a request.
func (g *Group) release(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := p.of; s.process == p {
		s.busy--
		g.dispatch()
	}
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
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		if g.calls == 0 {
			close(g.drained)
		}
	}
	g.mu.Unlock()
	var forced error
	select {
	case <-g.drained:
	case <-ctx.Done():
		forced = context.Cause(ctx)
	}
	first, cut := g.endChildren(forced != nil)
	if first {
		go func() {
			g.lives.Wait()
			g.starter.close()
			close(g.left)
		}()
	}
	if err := g.waitForChildren(ctx, forced != nil); err != nil {
		return errors.Join(err, forced)
	}
	var err error
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
	g.mu.Lock()
	defer g.mu.Unlock()
	first = !g.ending
	g.ending = true
	for _, r := range g.queue {
		r.err = errClosed()
		close(r.ready)
	}
	g.queue = nil
	for _, s := range g.slots {
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
	return first, g.calls
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
