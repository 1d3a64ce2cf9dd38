package arena

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/wait"
)

// buffer is a page-locked buffer of a ring. The copy that has taken it from the ring owns it.
type buffer struct {
	lease  Lease
	memory []byte
	event  driver.Event
	waits  *wait.Event // for the event
	// pending says that the device may still use the memory: it does not any more once
	// the event is done.
	pending bool
	// owner is the id of the transfer whose copy is pending, or 0.
	owner uint64
	// ticket of the event, if the copy got one when it was put on the stream.
	ticket   wait.Ticket
	ticketed bool
}

func (b *buffer) pointer() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b.memory)) }

// noBuffer says that there is no page-locked memory for even one buffer.
type noBuffer struct{ cause error }

func (e *noBuffer) Error() string { return "no page-locked memory for a copy: " + e.cause.Error() }

// retryAfter is how long a ring does with the buffers that it has after it could not get more.
const retryAfter = time.Second

// ring is a bounded number of buffers.
type ring struct {
	binding *driver.Binding
	waits   *wait.Device
	pinned  *Pinned
	bytes   uint64
	limit   int
	retired *doubtful // buffers of which nobody knows whether a device uses them

	mu      locks.Mutex[locks.Pinned]
	free    []*buffer // no device uses them; the last one is the one used last
	pending []*buffer // the first is the first to be done, as far as one can tell
	made    int       // free, pending and taken
	retryAt time.Time // zero, or when making one may be tried again
	// wake has a token for a waiting take to look again. A token too many does no harm.
	wake chan struct{}
}

func (r *ring) init(b *driver.Binding, w *wait.Device, p *Pinned, bytes uint64, limit int, retired *doubtful) {
	r.binding, r.waits, r.pinned, r.bytes, r.limit, r.retired = b, w, p, bytes, limit, retired
	r.free = make([]*buffer, 0, limit)
	r.pending = make([]*buffer, 0, limit)
	r.wake = make(chan struct{}, limit)
}

func (r *ring) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made
}

// take returns a buffer that no device uses, which the caller must put back. It waits for
// one, unless ctx ends, where all are in use; with mayWait unset it returns nil instead.
// A noBuffer says that there is none, nor will be.
func (r *ring) take(ctx context.Context, t *transfer, mayWait bool) (*buffer, error) {
	for {
		if err := r.sweep(t); err != nil {
			return nil, err
		}
		b, room := r.pop(t, mayWait)
		switch {
		case b != nil && !b.pending:
			return b, nil
		case room:
			b, err := r.make()
			if b != nil || err != nil {
				return b, err
			}
		case !mayWait:
			return nil, nil
		case b != nil:
			if err := r.await(ctx, b, t); err != nil {
				r.putUnknown(ctx, b)
				if ctx.Err() != nil || isSticky(err) {
					return nil, err
				}
				r.binding.Cleanup(err) // of the copy before
				continue
			}
			return b, nil
		default:
			select {
			case <-r.wake:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
}

// sweep finds the buffers that the device is done with.
func (r *ring) sweep(t *transfer) error {
	for {
		b := r.first()
		if b == nil {
			return nil
		}
		done, err := r.poll(b, t)
		switch {
		case done:
			r.put(b)
		case err != nil:
			r.putUnknown(context.Background(), b)
			if isSticky(err) {
				return err
			}
			r.binding.Cleanup(err) // of the copy before
		default:
			r.mu.Lock()
			r.pending = slices.Insert(r.pending, 0, b)
			r.mu.Unlock()
			r.signal()
			return nil
		}
	}
}

// putUnknown ends the use of a pending buffer whose event could not be awaited. If ctx has ended,
// the buffer is pending as before. Else its event has failed and is never asked again, because the
// error may be for good: the buffer is retired until Close.
func (r *ring) putUnknown(ctx context.Context, b *buffer) {
	if ctx.Err() != nil {
		r.put(b)
		return
	}
	r.retired.add(r, b)
}

func isSticky(err error) bool {
	var failed *driver.Error
	return errors.As(err, &failed) && failed != nil && failed.Sticky
}

// first takes the oldest pending buffer out.
func (r *ring) first() *buffer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 {
		return nil
	}
	b := r.pending[0]
	r.pending = slices.Delete(r.pending, 0, 1)
	return b
}

// pop takes a free buffer out. Where there is none it reports whether one may be made; else,
// if that is of use, it takes the oldest pending one out.
//
// What a processor still has in its cache a device reads and writes at half of its rate. So a transfer takes the buffer that
// was not used for the longest time, of as many as there may be. A copy through one buffer takes the one that was used last.
func (r *ring) pop(t *transfer, pending bool) (b *buffer, room bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room = r.made < r.limit && (r.made == 0 || r.retryAt.IsZero() || time.Now().After(r.retryAt))
	if n := len(r.free); n > 0 && !(room && t != nil) {
		at := 0
		if t == nil {
			at = n - 1
		}
		b = r.free[at]
		r.free = slices.Delete(r.free, at, at+1)
		return b, false
	}
	if room {
		return nil, true
	}
	if pending && len(r.pending) > 0 {
		b = r.pending[0]
		r.pending = slices.Delete(r.pending, 0, 1)
	}
	return b, false
}

// put returns a buffer.
func (r *ring) put(b *buffer) {
	r.mu.Lock()
	if b.pending {
		r.pending = append(r.pending, b)
	} else {
		r.free = append(r.free, b)
	}
	r.mu.Unlock()
	r.signal()
}

func (r *ring) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// drop says that a taken buffer will not come back.
func (r *ring) drop() {
	r.mu.Lock()
	r.made--
	r.mu.Unlock()
	r.signal()
}

// make makes one more buffer. It returns a noBuffer where that fails and there is no other,
// and neither a buffer nor an error where there are others.
func (r *ring) make() (*buffer, error) {
	r.mu.Lock()
	if r.made >= r.limit {
		r.mu.Unlock()
		return nil, nil
	}
	r.made++
	lease := r.pinned.lease
	if r.made == 1 { // others are made to give up what they do not use for the first one only
		lease = r.pinned.Lease
	}
	r.mu.Unlock()
	b, err := r.create(lease)
	r.mu.Lock()
	if err == nil {
		r.retryAt = time.Time{}
		r.mu.Unlock()
		return b, nil
	}
	r.made--
	others := r.made > 0
	r.retryAt = time.Now().Add(retryAfter)
	r.mu.Unlock()
	r.signal() // who waits for the buffer that was not made has to look again
	if others {
		return nil, nil
	}
	return nil, &noBuffer{err}
}

func (r *ring) create(from func(uint64) (Lease, error)) (*buffer, error) {
	lease, err := from(r.bytes)
	if err != nil {
		return nil, err
	}
	b := &buffer{lease: lease, memory: lease.Bytes()}
	err = r.binding.Do(func() error {
		var result driver.Result
		b.event, result = r.binding.API.EventCreate(driver.EventDisableTiming)
		return r.binding.Failed("cuEventCreate", result)
	})
	if err != nil {
		r.binding.Cleanup(lease.Free())
		return nil, err
	}
	b.waits = r.waits.NewEvent(b.event)
	return b, nil
}

// poll asks whether the device is done with a buffer, for t or nil.
func (r *ring) poll(b *buffer, t *transfer) (done bool, err error) {
	if b.ticketed && b.ticket.Done() {
		b.pending, b.owner = false, 0
		return true, nil
	}
	switch result := r.binding.API.EventQuery(b.event); result {
	case driver.Success:
		if t != nil && b.owner == t.id {
			t.moving = true
		}
		b.pending, b.owner = false, 0
		return true, nil
	case driver.ResultNotReady:
		return false, nil
	default:
		return false, r.binding.Fault("cuEventQuery", result)
	}
}

// await waits until the device is done with a buffer. The pieces of a large copy follow on each other
// faster than a parked goroutine wakes. Once the device is at the copies of t, the driver's own wait
// is the fastest, and short. Before, it looks for a moment.
func (r *ring) await(ctx context.Context, b *buffer, t *transfer) error {
	const moment = time.Millisecond
	ticket := b.ticket
	if !b.ticketed {
		moves := func() bool { return t != nil && b.owner == t.id && t.moving }
		for start := time.Now(); b.pending && !moves() && ctx.Err() == nil && time.Since(start) < moment; goruntime.Gosched() {
			if _, err := r.poll(b, t); err != nil {
				return err
			}
		}
		if b.pending && moves() {
			if result := r.binding.API.EventSynchronize(b.event); result != driver.Success {
				return r.binding.Fault("cuEventSynchronize", result)
			}
			b.pending = false
		}
		if b.pending {
			ticket = b.waits.Mark()
		}
	}
	var err error
	if b.pending {
		err = ticket.Wait(ctx)
	}
	if err == nil {
		b.pending, b.owner = false, 0
	}
	return err
}

// trim destroys the buffers that no device uses.
func (r *ring) trim() {
	if err := r.binding.Push(); err != nil {
		return
	}
	defer r.binding.Pop()
	r.binding.Cleanup(r.sweep(nil))
	for {
		r.mu.Lock()
		unused := r.free
		r.free, r.made = nil, r.made-len(unused)
		r.mu.Unlock()
		r.signal()
		if len(unused) == 0 {
			return
		}
		for _, b := range unused {
			r.binding.Cleanup(r.destroy(b))
		}
	}
}

// destroy ends the lease of a buffer that no device uses.
func (r *ring) destroy(b *buffer) error {
	return joinErrors(r.destroyEvent(b), b.lease.Free())
}

func (r *ring) destroyEvent(b *buffer) error {
	b.waits.Close()
	if err := r.binding.Push(); err != nil {
		return err
	}
	defer r.binding.Pop()
	return r.binding.Failed("cuEventDestroy", r.binding.API.EventDestroy(b.event))
}

// close waits for the device and destroys all buffers. All are idle.
func (r *ring) close(lost bool) error {
	r.mu.Lock()
	idle := append(r.free, r.pending...)
	r.free, r.pending, r.made = nil, nil, 0
	r.mu.Unlock()
	var errs []error
	for _, b := range idle {
		if lost {
			errs = append(errs, b.lease.abandon())
			continue
		}
		errs = append(errs, r.closeOne(b))
	}
	return joinErrors(errs...)
}

func (r *ring) closeOne(b *buffer) error {
	if b.pending {
		if err := r.synchronize(b); err != nil {
			return joinErrors(err, r.destroyEvent(b), b.lease.abandon())
		}
	}
	return r.destroy(b)
}

func (r *ring) synchronize(b *buffer) error {
	if err := r.binding.Push(); err != nil {
		return err
	}
	defer r.binding.Pop()
	return r.await(context.Background(), b, nil)
}

// joinErrors is errors.Join that leaves a single error as it is.
func joinErrors(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// doubtful are buffers that a device may still use, with no event to tell.
type doubtful struct {
	mu      locks.Mutex[locks.Pinned]
	buffers []doubt
}

type doubt struct {
	*buffer
	ring *ring
}

func (d *doubtful) add(r *ring, b *buffer) {
	d.mu.Lock()
	d.buffers = append(d.buffers, doubt{b, r})
	d.mu.Unlock()
	r.drop()
}

func (d *doubtful) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.buffers)
}

// close waits for all work of the context, which proves that the buffers are free.
func (d *doubtful) close(b *driver.Binding, lost bool) error {
	d.mu.Lock()
	all := d.buffers
	d.buffers = nil
	d.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	var errs []error
	proven := false
	if !lost {
		err := b.Do(func() error { return b.Failed("cuCtxSynchronize", b.API.CtxSynchronize()) })
		errs, proven = append(errs, err), err == nil
	}
	for _, one := range all {
		switch {
		case proven:
			errs = append(errs, one.ring.destroy(one.buffer))
		case lost:
			errs = append(errs, one.lease.abandon())
		default:
			errs = append(errs, one.ring.destroyEvent(one.buffer), one.lease.abandon())
		}
	}
	return joinErrors(errs...)
}
