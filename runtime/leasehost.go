package runtime

import (
	"errors"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/wait"
	"github.com/purecuda/purecuda/refs"
)

// LeaseHost is AllocHost from the page-locked memory that the context keeps, within the limit of
// [WithPinned]. Where a block of about that size was closed before, it makes no call of the driver and one
// allocation. What the memory holds is undefined.
//
// Close returns the memory to the pool and waits for nothing: it is leased again after the copies and
// kernels that use it. Only where a graph has used it, or a stream that is captured or closed, Close waits for the
// device. It does so too after more than four streams whose work is not known to be done. Each use after Close is
// an error of kind driver.ErrClosed, and Data returns nil. The garbage collector does not close it: what is
// forgotten counts until the context ends.
//
// Where the limit or the driver does not allow it, the error is of kind driver.ErrOutOfMemory.
func LeaseHost[T any](c *Context, n int) (*HostBuffer[T], error) {
	bytes, err := refs.SizeOf[T](n)
	if err != nil {
		return nil, err
	}
	if err := c.hold(); err != nil {
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
		object
		entry
		hostLease
	}{}
	b.hostLease.memory = lease
	b.entry = entry{kind: leasedMemory, handle: uint64(uintptr(lease.Pointer())), lease: &b.hostLease}
	b.HostBuffer = HostBuffer[T]{memory: &b.object, ptr: lease.Pointer(), n: n}
	b.object, _ = c.newObject(&b.entry)
	return &b.HostBuffer, nil
}

// hostLease is page-locked memory that was leased by LeaseHost.
type hostLease struct {
	memory arena.Lease

	mu    locks.Mutex[locks.Ledger]
	users [4]leaseUser
	// doubtful says that users does not have all streams whose work may use the memory.
	doubtful bool
}

// leaseUser is a stream whose work has used a lease.
type leaseUser struct {
	stream *Stream
	// settled says that a ticket above until covers the use.
	settled bool
	until   uint64
}

// settle notes the ticket, if the stream has had one: before that it has no numbers of its own. All uses are on the stream.
func (u *leaseUser) settle() {
	if w := u.stream.waits; !u.settled && w.Issued() > 0 {
		u.settled, u.until = true, w.Covering()
	}
}

func (u *leaseUser) done() bool { return u.settled && u.stream.waits.Passed(u.until) }

// usedOn notes that work which is about to be put on a stream uses the leased memory. It takes the place of a stream whose use is
// done, where there is no other. The caller is inside the gate of the object.
func (e *entry) usedOn(s *Stream) {
	l := e.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.capture.Load() != nil {
		l.doubtful = true
		return
	}
	alone := e.gate.Inside() == 1 // then all earlier uses are on their streams, and whoever comes waits for the lock
	var place *leaseUser
	for i := range l.users {
		u := &l.users[i]
		switch {
		case u.stream == s:
			u.settled = false
			return
		case u.stream != nil && alone:
			u.settle()
		}
		if place == nil && (u.stream == nil || alone && u.done()) {
			place = u
		}
	}
	if place == nil {
		l.doubtful = true
		return
	}
	*place = leaseUser{stream: s}
}

// endLease returns the memory to be leased after the work that uses it. It reports whether it could. Else
// the caller has to wait for the device. The lease is closed, so that there is no new work.
func (e *entry) endLease() (ended bool, err error) {
	c, l := e.ctx, e.lease
	var marks [len(hostLease{}.users)]wait.Ticket
	if !c.gate.Enter() {
		return false, nil
	}
	defer c.gate.Leave()
	n, ok := l.mark(&marks)
	if !ok || c.isLost() || e.gate.Inside() > 0 {
		return false, nil
	}
	if !c.ledger.take(e, true) {
		return true, nil
	}
	return true, l.memory.FreeAfter(marks[:n]...)
}

// mark marks the work on all streams that have used the memory, if that can be.
func (l *hostLease) mark(marks *[len(hostLease{}.users)]wait.Ticket) (n int, ok bool) {
	l.mu.Lock()
	users, doubtful := l.users, l.doubtful
	l.mu.Unlock()
	for _, u := range users {
		if doubtful || u.stream == nil {
			break
		}
		if u.done() {
			continue
		}
		if marks[n], ok = u.stream.markUnlessCaptured(); !ok {
			return 0, false
		}
		n++
	}
	return n, !doubtful
}

// markUnlessCaptured marks the work on the stream, if it is open and not captured.
func (s *Stream) markUnlessCaptured() (t wait.Ticket, ok bool) {
	err := s.call()
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

// endLeases returns the memory of all leases, which no work uses any more.
func (c *Context) endLeases() (errs []error) {
	for _, e := range c.ledger.entries(leasedMemory) {
		e.gate.Close(c.state.Done())
		if c.ledger.take(e, true) {
			errs = append(errs, e.lease.memory.Free())
		}
	}
	return errs
}
