package runtime

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/wait"
	"github.com/purecuda/purecuda/refs"
)

// LeaseHost is AllocHost from the page-locked memory that the context keeps, within the limit of
// [WithPinned]. Where a block of about that size was closed before, it makes no call of the driver and one
// allocation. What the memory holds is undefined.
//
// Close returns the memory to the pool and waits for nothing: it is leased again after the copies and
// kernels that use it. Only where a graph has used it, a stream that is captured or closed, or more than four
// streams, Close waits for the device. Each use after Close is an error of kind driver.ErrClosed,
// and Data returns nil. The garbage collector does not close it: what is forgotten counts
// until the context ends.
//
// Where the limit or the driver does not allow it, the error is of kind driver.ErrOutOfMemory.
func LeaseHost[T any](c *Context, n int) (*HostBuffer[T], error) {
	bytes, err := refs.SizeOf[T](n)
	if err != nil {
		return nil, err
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.gate.Leave()
	if err := c.state.Check(0); err != nil {
		return nil, err
	}
	lease, err := c.memory.Load().pinned.Lease(max(bytes, 1))
	if err != nil {
		return nil, errors.Join(c.lostError(), err)
	}
	b := &struct {
		HostBuffer[T]
		hostLease
		gate gate.Gate
	}{}
	b.hostLease.object = object{ctx: c, gate: &b.gate, resource: resource{leasedMemory, uint64(uintptr(lease.Pointer())), c.state.Generation()}}
	b.lease, b.bytes = lease, bytes
	b.HostBuffer = HostBuffer[T]{memory: &b.hostLease.object, ptr: lease.Pointer(), n: n}
	c.leases.add(&b.hostLease)
	return &b.HostBuffer, nil
}

// hostLease is page-locked memory that was leased by LeaseHost. Its object comes first, so that it is found
// from there.
type hostLease struct {
	object
	lease arena.Lease
	bytes uint64
	// users are the streams whose work has used it.
	users [4]atomic.Pointer[Stream]
	// doubtful says that users does not have all of them.
	doubtful atomic.Bool

	listed     bool // in the leases of the context, whose lock guards this and the links
	prev, next *hostLease
}

// hostLease is the lease that the object stands for, or nil.
func (o *object) hostLease() *hostLease {
	if o.resource.kind != leasedMemory {
		return nil
	}
	return (*hostLease)(unsafe.Pointer(o))
}

// usedOn notes that work which is about to be put on a stream uses the memory. The caller is inside
// the gate of the object. Graphs retain what is among the resources.
func (l *hostLease) usedOn(s *Stream) {
	captured := s.capture.Load() != nil
	for i := 0; i < len(l.users) && !captured; i++ {
		if l.users[i].CompareAndSwap(nil, s) || l.users[i].Load() == s {
			return
		}
	}
	l.doubtful.Store(true)
	if captured {
		l.ctx.leases.enroll(l)
	}
}

// end returns the memory to be leased after the work that uses it. It reports whether it could. Else
// the lease is among the resources, and the caller has to wait for the device. The lease is closed, so
// that there is no new work.
func (l *hostLease) end() (ended bool, err error) {
	c := l.ctx
	var marks [len(l.users)]wait.Ticket
	if !l.doubtful.Load() && c.gate.Enter() {
		defer c.gate.Leave()
		if n, ok := l.mark(&marks); ok && !c.isLost() && l.gate.Inside() == 0 {
			if !c.leases.remove(l) {
				return true, nil
			}
			return true, l.lease.ReturnAfter(marks[:n]...)
		}
	}
	c.leases.enroll(l)
	return false, nil
}

// mark marks the work on all streams that have used the memory, if that can be.
func (l *hostLease) mark(marks *[len(hostLease{}.users)]wait.Ticket) (n int, ok bool) {
	for i := range l.users {
		s := l.users[i].Load()
		if s == nil {
			break
		}
		if marks[n], ok = s.markUnlessCaptured(); !ok {
			return 0, false
		}
		n++
	}
	return n, true
}

// markUnlessCaptured marks the work on the stream, if it is open and not captured.
func (s *Stream) markUnlessCaptured() (t wait.Ticket, ok bool) {
	err := s.begin()
	if err == nil {
		defer s.end()
		if s.capture.Load() != nil {
			return t, false
		}
		t, err = s.waits.Mark()
	}
	if errors.Is(err, driver.ErrDriverCallFailed) || errors.Is(err, driver.ErrOutOfMemory) {
		s.ctx.rt.report(err)
	}
	return t, err == nil
}

// hostLeases are those of a context that are not among its resources, which costs more. There is what
// graphs retain, and what waits to be freed.
type hostLeases struct {
	mu    locks.Mutex[locks.Ledger]
	first *hostLease
	count uint64
}

func (ls *hostLeases) add(l *hostLease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.next = ls.first; l.next != nil {
		l.next.prev = l
	}
	ls.first, l.listed = l, true
	ls.count++
}

// remove takes a lease out, and reports whether it was there.
func (ls *hostLeases) remove(l *hostLease) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.unlink(l)
}

// enroll moves a lease to the resources, unless it is there or was returned.
func (ls *hostLeases) enroll(l *hostLease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.unlink(l) {
		l.ctx.resources.add(l.resource, entry{gate: l.gate, bytes: l.bytes, hostLease: l})
	}
}

// unlink is remove with ls.mu held.
func (ls *hostLeases) unlink(l *hostLease) bool {
	if !l.listed {
		return false
	}
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		ls.first = l.next
	}
	if l.next != nil {
		l.next.prev = l.prev
	}
	l.prev, l.next, l.listed = nil, nil, false
	ls.count--
	return true
}

// all are the leases, and how many of them are open.
func (ls *hostLeases) all() (all []*hostLease, open int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := ls.first; l != nil; l = l.next {
		all = append(all, l)
		if !l.gate.Closed() {
			open++
		}
	}
	return all, open
}

func (ls *hostLeases) len() uint64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.count
}

// endLeases returns the memory of all leases, which no work uses any more.
func (c *Context) endLeases() (errs []error) {
	all, _ := c.leases.all()
	for _, l := range all {
		l.gate.Close(c.state.Done())
		if c.leases.remove(l) {
			errs = append(errs, l.lease.Return())
		}
	}
	for r, e := range c.resources.entries(leasedMemory) {
		e.gate.Close(c.state.Done())
		if e, mine := c.resources.take(r); mine {
			errs = append(errs, e.hostLease.lease.Return())
		}
	}
	return errs
}
