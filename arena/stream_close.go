package arena

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// Capture tells the arena that a capture of the stream begins, or has ended. During the capture
// Alloc fails, Free does not call the driver, and no memory passes between this stream and others.
// Memory that is freed then waits for the end of the capture, even above the limit of the cache.
// Memory that a captured graph uses must not be freed as long as the graph may run: the arena does
// not know of graphs.
//
// It does not wait for work.
func (s *Stream) Capture(on bool) {
	if s.made() != nil {
		return
	}
	d := s.dev
	d.calls.EnterWaiting()
	defer d.calls.Leave()
	s.keepOut()
	if on {
		if s.current() == streamOpen {
			// For streams that wait meanwhile for the work before the capture. An event that is recorded later
			// becomes part of the capture, and so would they.
			clock := d.clock.Add(1)
			m, err := s.recorded(clock)
			if s.beforeErr = err; err == nil {
				s.before, s.beforeClock = newGuard(d, m.event), clock
			}
		}
		if s.state.CompareAndSwap(int32(streamOpen), int32(streamCapturing)) {
			d.capturing.Add(1)
		}
		s.letIn()
		return
	}
	var before *guard
	if s.state.CompareAndSwap(int32(streamCapturing), int32(streamOpen)) {
		d.capturing.Add(-1)
		before, s.before, s.beforeErr = s.before, nil, nil
	}
	s.letIn()
	d.releaseGuard(before)
	if s.freed.Swap(false) {
		d.mu.Lock()
		d.collect()
		victims := d.makeRoom(0)
		d.mu.Unlock()
		d.cleanup(d.release(victims))
	}
}

// shut makes the stream a closed one, and reports whether it was none. Nobody frees there afterwards.
func (s *Stream) shut() bool {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.current() == streamClosed {
		return false
	}
	s.lockAll()
	s.state.Store(int32(streamClosed))
	s.unlockAll()
	return true
}

// Close ends the stream's use of the arena; call it before the stream is destroyed. All other
// streams can allocate its free blocks once its work is done. Its blocks in use stay in use: free
// them on another stream, which can still wait for this one. Close does not wait for work. Closing
// twice is harmless.
//
// If the end of the work cannot be marked, Close returns that error. The free blocks are lost then,
// and waiting for the stream fails.
func (s *Stream) Close() error {
	if s.made() != nil {
		return nil
	}
	d := s.dev
	d.calls.EnterWaiting()
	defer d.calls.Leave()
	if s.current() == streamClosed {
		return nil
	}
	d.pollClosed() // so that there are no more closed streams than have work
	s.keepOut()
	defer s.letIn()
	captured := s.current() == streamCapturing
	if !s.shut() {
		return nil
	}
	if captured {
		d.capturing.Add(-1)
	}
	if d.lost() != nil {
		d.remove(s, nil)
		return nil
	}
	if captured {
		d.releaseGuard(s.before)
		s.before = nil
		err := s.errorf(driver.ErrCaptureFailed, "the stream is closed while it captures")
		d.loseStream(s, err)
		return err
	}
	// All frees that the stream will ever have are made, and their work is on it.
	done, err := d.idle(s)
	if done {
		d.remove(s, nil)
		return nil
	}
	var m mark
	if err == nil {
		m, err = s.recorded(never)
	}
	if err != nil {
		d.loseStream(s, err)
		return err
	}
	// Also a stream without free blocks needs its guard: others may wait for its work.
	s.guard = newGuard(d, m.event)
	return nil
}

// Finished reports that the stream was closed, and that all its work was done then.
func (s *Stream) Finished() bool {
	return s.made() == nil && s.current() == streamClosed && s.completed(never-1)
}

// loseStream forgets a closed stream of whose work nobody knows when it is done. Its free
// blocks are lost. The stream's gate or Device.calls is suspended.
func (d *Device) loseStream(s *Stream, why error) {
	s.unproven = why
	d.mu.Lock()
	if d.unproven == nil {
		d.unproven = why
	}
	d.mu.Unlock()
	d.remove(s, d.loseBlock)
}

// remove forgets a closed stream. Its free blocks are out of use and go to the home
// stream, or to lose.
func (d *Device) remove(s *Stream, lose func(*block)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.gone {
		return
	}
	s.lockAll()
	defer s.unlockAll()
	if lose == nil {
		s.advanceDone(never)
	}
	s.gone = true
	if s.standsFor != nil {
		d.standIns.Add(-1)
	}
	for _, t := range s.stripes() {
		for b := t.all.oldest; b != nil; b = t.all.oldest {
			t.remove(b)
			if lose != nil {
				d.room += int64(b.size)
				d.drop(b)
				lose(b)
				continue
			}
			d.home.adopt(b)
		}
		d.room += t.room
		t.room = 0
		d.retired.add(&t.sums)
		t.sums = sums{}
	}
	d.streams = slices.DeleteFunc(d.streams, func(o *Stream) bool { return o == s })
	for _, o := range d.streams {
		delete(o.seen, s)
	}
	clear(s.seen)
}

// maxPolled is how many closed streams pollClosed asks about at a time. It is more than one, so
// that they become fewer although every stream that is made or closed may add one.
const maxPolled = 16

// pollClosed takes the blocks of closed streams whose work is done by now, and frees such ranges.
func (d *Device) pollClosed() {
	for _, s := range d.nextClosed() {
		if d.lost() != nil {
			return
		}
		if !s.turn.TryTake() {
			continue
		}
		if s.gate.TrySuspend() {
			d.pollClosedStream(s)
			s.gate.Resume()
		}
		s.turn.Give()
	}
	if d.lost() == nil {
		d.cleanup(errors.Join(d.release(d.shed()), d.freeParked(false)))
	}
}

// nextClosed are closed streams that the device still knows: others each time if there
// are many.
func (d *Device) nextClosed() (some []*Stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	from, n := d.pollFrom, len(d.streams)
	for i := 0; i < n && len(some) < maxPolled; i++ {
		d.pollFrom = (from + i + 1) % n
		if s := d.streams[(from+i)%n]; s.current() == streamClosed {
			some = append(some, s)
		}
	}
	return some
}

// pollClosedStream forgets a closed stream if its work is done. The gate is suspended.
func (d *Device) pollClosedStream(s *Stream) {
	if s.standsFor != nil {
		d.pollStandIn(s)
		return
	}
	if s.guard == nil {
		return // another goroutine was here
	}
	done, err := s.completed(never-1), error(nil)
	if !done {
		done, err = s.guard.passed()
	}
	switch {
	case done:
		d.remove(s, nil)
	case err != nil && d.lost() == nil:
		d.loseStream(s, err)
	default:
		return
	}
	s.endGuard(err)
}

// endGuard makes the result of the guard of a closed stream final, if it has one. The gate or Device.calls is
// suspended.
func (s *Stream) endGuard(err error) {
	if s.guard != nil {
		s.guard.finish(err)
		s.dev.releaseGuard(s.guard)
		s.guard = nil
	}
}

// Close waits for the work on all streams and frees all memory and the pool. The streams must still
// exist, unless they were closed. Blocks in use are freed as well, and are stale from then on. That
// is no error: [Device.Leaks] lists them.
//
// Close returns errors of the driver. It also returns an error for blocks in use whose last use cannot
// be proven finished. Such memory is lost.
//
// Later calls return driver.ErrClosed. Closing twice is harmless. After [Device.Lose]
// Close does nothing.
func (d *Device) Close() error {
	if d.made() != nil {
		return nil
	}
	if d.loss.Load() == nil {
		d.closing.Take(nil)
		defer d.closing.Give()
		d.calls.Suspend(0, nil) // calls that are under way wait for work at most
		defer d.calls.Resume()
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	streams := slices.Clone(d.streams)
	states := map[*Stream]streamState{}
	for _, s := range streams {
		s.lockAll()
		states[s] = s.current()
		s.state.Store(int32(streamClosed))
		s.unlockAll()
	}
	d.leakedAtClose = d.leaks()
	d.mu.Unlock()
	if d.loss.Load() != nil {
		return nil
	}
	var errs []error
	for _, s := range streams {
		err := d.drain(s, states[s])
		switch {
		case err == nil:
			d.remove(s, nil)
		case s.standsFor != nil:
			errs = append(errs, err)
			d.remove(s, d.loseBlock)
		default:
			errs = append(errs, err)
			d.loseStream(s, err)
		}
		s.endGuard(err)
		d.releaseShared(s.standsFor)
	}
	d.closeShared()
	errs = append(errs, d.freeAll(), d.freeRanges())
	d.closeEvents()
	errs = append(errs, endWaits(d.waits, d.config.Waits, d.lost() != nil))
	if d.pool != 0 && d.lost() == nil {
		errs = append(errs, d.outside(func() error {
			return d.failed("cuMemPoolDestroy", d.binding.API.MemPoolDestroy(d.pool))
		}))
	}
	return errors.Join(errs...)
}

// drain waits for all work of a stream that was in a state.
func (d *Device) drain(s *Stream, state streamState) error {
	switch state {
	case streamClosed:
		switch {
		case s.completed(never - 1):
			return nil
		case s.standsFor != nil:
			return s.awaitGuards()
		}
		return s.guard.await()
	case streamCapturing:
		return s.errorf(driver.ErrCaptureFailed, "the arena is closed while the stream captures")
	}
	return d.onStream("cuStreamSynchronize", func() driver.Result { return d.binding.API.StreamSynchronize(s.handle) })
}

// freeAll frees what the home stream has, and, if it is proven that no work uses them, the blocks in
// use.
func (d *Device) freeAll() error {
	d.mu.Lock()
	var back, unproven []*block
	home := d.home.first
	d.home.lockAll()
	for _, t := range d.home.stripes() {
		for b := t.all.oldest; b != nil; b = t.all.oldest {
			t.remove(b)
			d.room += int64(b.size)
		}
	}
	segments := map[*segment][]*block{}
	for _, b := range slices.Collect(maps.Keys(d.blocks)) {
		d.drop(b)
		used := b.inUse()
		if used {
			b.version.Add(1)
			home.sums.inUse -= int64(b.size)
			home.sums.requested -= int64(b.requested.Load())
		}
		g := b.segment
		switch {
		case used && d.unproven != nil:
			unproven = append(unproven, b)
			if g != nil {
				g.lost = true
			}
		case g == nil:
			back = append(back, b)
		}
		if g != nil {
			segments[g] = append(segments[g], b)
		}
	}
	d.home.unlockAll()
	lost := d.lostInUse(unproven)
	for g, parts := range segments {
		if !g.lost {
			first := slices.MinFunc(parts, func(a, b *block) int { return cmp.Compare(a.ptr, b.ptr) })
			back = append(back, &block{dev: d, ptr: first.ptr, size: g.size})
			continue
		}
		for _, b := range parts {
			if !slices.Contains(unproven, b) {
				unproven = append(unproven, b)
			}
		}
	}
	d.mu.Unlock()
	refused, kept, err := d.freeNow(back)
	d.mu.Lock()
	d.totals.frees += uint64(len(back) - len(refused) - len(kept))
	for _, b := range slices.Concat(unproven, refused, kept) {
		d.loseBlock(b)
	}
	d.mu.Unlock()
	return errors.Join(lost, err)
}

// lostInUse is the error of blocks in use that work may use for ever, or nil. d.mu is held.
func (d *Device) lostInUse(blocks []*block) error {
	if len(blocks) == 0 {
		return nil
	}
	err := d.errorf(driver.ErrDriverCallFailed,
		"%d blocks in use are lost: that no work uses them cannot be proven: %w", len(blocks), d.unproven)
	for _, b := range blocks {
		err.Bytes += b.size
	}
	return because(d.unproven, err)
}
