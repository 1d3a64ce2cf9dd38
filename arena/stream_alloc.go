package arena

import (
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
)

// allocate is Alloc where the first stripe has no block, or there is more to do.
func (s *Stream) allocate(class int, bytes uint64) (Block, error) {
	s.dev.calls.EnterWaiting() // until the block is in use, so that Close finds it
	defer s.dev.calls.Leave()
	b, err := s.obtain(class, bytes)
	if err != nil {
		s.dev.mu.Lock()
		s.dev.totals.failures++
		s.dev.mu.Unlock()
		return Block{}, err
	}
	return s.handOut(b, bytes)
}

// obtain finds a block for the stream.
func (s *Stream) obtain(class int, bytes uint64) (*block, error) {
	if err := s.usable(s.current()); err != nil {
		return nil, err
	}
	if s.dev.config.Exact { // blocks of a class differ in size
		return s.dev.fresh(s, class, bytes)
	}
	if b := s.steal(class, bytes); b != nil {
		return b, nil
	}
	if b, err := s.share(class, bytes); b != nil || err != nil {
		return b, err
	}
	if n := s.dev.standIns.Load(); n > 0 {
		if s.dev.pollClosed(); s.dev.standIns.Load() < n {
			if b, err := s.share(class, bytes); b != nil || err != nil {
				return b, err
			}
		}
	}
	if b := s.carve(class, splitSteps, bytes); b != nil {
		return b, nil
	}
	b, err := s.dev.fresh(s, class, bytes)
	if errors.Is(err, driver.ErrOutOfMemory) {
		if b := s.carve(class, classes, bytes); b != nil {
			return b, nil
		}
	}
	return b, err
}

// steal takes a block from any stripe of the stream.
func (s *Stream) steal(class int, bytes uint64) *block {
	for _, t := range s.stripes() {
		t.mu.Lock()
		if b := t.newest(class); b != nil && s.current() == streamOpen {
			t.allocate(b, bytes)
			t.sums.hits++
			t.mu.Unlock()
			return b
		}
		t.mu.Unlock()
	}
	return nil
}

// share takes a block that was freed on another stream and makes this one wait for its
// work, where it has not.
func (s *Stream) share(class int, bytes uint64) (*block, error) {
	d := s.dev
	b, from, ready := s.candidate(class, bytes)
	if b == nil {
		return nil, nil
	}
	if !ready {
		ordered, err := s.waitForFreed(from, b.freedAt)
		if err != nil || !ordered {
			// The block stays where it was. Without one the driver is asked, unless CUDA is
			// lost: no error of another stream's keeps this one from memory.
			b.requested.Store(bytes)
			d.putBack(from, b)
			if lost := d.lost(); lost != nil {
				return nil, lost
			}
			d.cleanup(err)
			return nil, nil
		}
	}
	d.mu.Lock()
	d.totals.shared++
	d.mu.Unlock()
	return b, nil
}

// candidate takes out a block of another stream, one that needs no waiting if there is
// one. The oldest of a list is taken: its work is the likeliest to be done.
func (s *Stream) candidate(class int, bytes uint64) (b *block, from *Stream, ready bool) {
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	var second *stripe
	var secondFrom *Stream
	for _, o := range d.all() {
		if o == s {
			continue
		}
		for _, t := range o.stripes() {
			t.mu.Lock()
			b := t.oldest(class)
			usable := b != nil && (o.current() == streamOpen || o.current() == streamClosed)
			if usable && (o.completed(b.freedAt) || b.freedAt < s.seen[o]) {
				t.allocate(b, bytes)
				t.mu.Unlock()
				return b, o, true
			}
			t.mu.Unlock()
			if usable && second == nil && o.standsFor == nil { // there is no event for all guards
				second, secondFrom = t, o
			}
		}
	}
	if second == nil {
		return nil, nil, false
	}
	second.mu.Lock()
	defer second.mu.Unlock()
	if b = second.oldest(class); b != nil {
		second.allocate(b, bytes)
	}
	return b, secondFrom, false
}

// waitForFreed makes later work on s wait for what was freed on o, if it is not done. It reports
// whether that could be had: not where a capture is in the way.
func (s *Stream) waitForFreed(o *Stream, freedAt uint64) (bool, error) {
	m, err := o.markFreed(freedAt)
	if err == errCaptured {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer s.dev.releaseMark(m)
	if m.event == 0 {
		return true, nil
	}
	if err := s.enter(); err != nil {
		return false, nil // it captures by now, is closed or lost, which asking the driver shows
	}
	defer s.leave()
	if err := s.dev.waitFor(s, m.event); err != nil {
		return false, err
	}
	s.recordWait(o, m.clock)
	return true, nil
}

// markFreed marks what was freed on the stream up to a time, if it is not done.
func (s *Stream) markFreed(freedAt uint64) (mark, error) {
	d := s.dev
	s.gate.EnterWaiting()
	defer s.gate.Leave()
	switch state := s.current(); {
	case s.completed(freedAt):
		return mark{}, nil
	case state == streamCapturing:
		return mark{}, errCaptured
	case state == streamClosed && s.guard != nil:
		done, err := s.guard.passed()
		if err != nil {
			return mark{}, err
		}
		if done {
			s.advanceDone(never)
		}
		return s.ending()
	case state == streamClosed:
		return mark{}, s.unprovenError()
	case state == streamLost:
		return mark{}, d.lost()
	}
	now := d.clock.Add(1)
	done, err := d.idle(s)
	if err != nil {
		return mark{}, err
	}
	if done {
		s.advanceDone(now)
		return mark{}, nil
	}
	return s.recorded(now)
}

// recordWait remembers that s has waited for o.
func (s *Stream) recordWait(o *Stream, clock uint64) {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.seen[o] < clock && !s.gone && !o.gone { // nobody asks for those that are gone
		s.seen[o] = clock
	}
}

// handOut makes a block the caller's. The caller is inside Device.calls.
func (s *Stream) handOut(b *block, bytes uint64) (Block, error) {
	d := s.dev
	if d.config.Zero {
		if err := d.fill(s, b, 0, bytes); err != nil {
			b.requested.Store(bytes)
			b.freedAt = d.clock.Load() // whatever it was before, s has waited for it
			d.putBack(s, b)
			return Block{}, err
		}
	}
	if d.config.Sites {
		b.callSites.allocated.record()
	}
	return b.begin(bytes), nil
}

// fresh takes a block from the driver.
func (d *Device) fresh(s *Stream, class int, bytes uint64) (*block, error) {
	size := classBytes(class)
	if d.config.Exact {
		size = bytes
	}
	var ptr driver.DevicePtr
	err := d.take(s, size, bytes, func() (op string, r driver.Result, err error) {
		ptr, op, r, err = d.allocate(s, size)
		return op, r, err
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b := &block{dev: d, ptr: ptr, size: size, class: class, freedAt: d.clock.Load()}
	d.blocks[b] = struct{}{}
	d.totals.misses++
	return b, nil
}

// take asks the driver for memory within the limit, and once more after the cache was given back if memory is short. What
// it gives is held and in use. s is for errors, and may be nil.
func (d *Device) take(s *Stream, size, bytes uint64, ask func() (op string, r driver.Result, err error)) error {
	if most := d.config.Most; most != 0 && size > most {
		e := d.errorf(driver.ErrOutOfMemory, "")
		e.Code = driver.ResultOutOfMemory // which it would return
		err := d.outOfMemory(e, s, bytes, size)
		e.Detail += fmt.Sprintf("; the device has %d in all, so the driver was not asked for it", most)
		return err
	}
	err := d.reserve(size, bytes)
	if err != nil {
		d.cleanup(d.reunite())
		err = d.reserve(size, bytes)
	}
	if err != nil {
		return err
	}
	op, r, err := ask()
	if err == nil && r == driver.ResultOutOfMemory {
		d.reclaim()
		op, r, err = ask()
	}
	d.mu.Lock()
	d.totals.reserved -= size
	if err != nil || r != driver.Success {
		d.mu.Unlock()
		switch {
		case err != nil:
			return err
		case r == driver.ResultOutOfMemory:
			return d.outOfMemory(d.binding.Fault(op, r), s, bytes, size)
		}
		return d.failed(op, r)
	}
	defer d.mu.Unlock()
	d.totals.held += size
	d.totals.heldMost = max(d.totals.heldMost, d.totals.held)
	d.retired.inUse += int64(size)
	d.retired.requested += int64(bytes)
	d.totals.allocs++
	return nil
}

// reserve sets room under the limit aside before the driver is asked, so that the limit holds
// whoever else allocates. Nothing is held yet: the driver may refuse.
func (d *Device) reserve(size, bytes uint64) error {
	d.mu.Lock()
	limit := d.config.Limit
	var victims []victim
	for limit != 0 && d.totals.held+d.totals.reserved+size > limit && size <= limit {
		v, ok := d.evict(true)
		if !ok {
			break
		}
		victims = append(victims, v)
	}
	full := limit != 0 && d.totals.held+d.totals.reserved+size > limit
	if !full {
		d.totals.reserved += size
	}
	d.mu.Unlock()
	d.cleanup(d.release(victims))
	if full {
		err := d.errorf(driver.ErrOutOfMemory, "")
		return d.outOfMemory(err, nil, bytes, size)
	}
	return nil
}
