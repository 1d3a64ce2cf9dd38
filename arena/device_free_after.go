package arena

import (
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// FreeAfter frees a block after all work that is queued on the streams now. The streams may be
// closed or belong to other devices. FreeAfter enqueues nothing on them, so later work is not
// delayed. What a stream captures is not work.
//
// If all that work is done, or there are no streams, the block can be allocated at once. Otherwise it
// counts as cached until the arena finds that the work is done. The arena checks some of these blocks
// at each FreeAfter, NewStream, [Stream.Close] and [Device.Trim], and when there is no other
// free block. They may exceed the limit of the cache. If an open stream can take the block,
// [Stream.Free] costs less.
//
// FreeAfter blocks no more than Free does, and does not poison. If [Stream.Close] of a stream has
// returned an error, the end of its work is unknown: FreeAfter fails, and the block stays in
// use. Other errors are as from Free.
func (d *Device) FreeAfter(b Block, streams ...*Stream) error {
	if err := d.made(); err != nil {
		return err
	}
	if b.block == nil || b.block.dev != d {
		return d.home.foreign(b)
	}
	for _, s := range streams {
		if err := s.made(); err != nil {
			return err
		}
	}
	defer lockCalls(d, streams)()
	victims, err := d.endAfter(b, streams)
	d.cleanup(d.release(victims)) // not the error of whoever frees b
	return err
}

// lockCalls keeps the device and the streams from being closed until the function
// that it returns is called.
func lockCalls(d *Device, streams []*Stream) (unlock func()) {
	devices := []*Device{d}
	for _, s := range streams {
		if !slices.Contains(devices, s.dev) {
			devices = append(devices, s.dev)
		}
	}
	enterAll(devices...)
	return func() { leaveAll(devices...) }
}

// endAfter ends the use of a block and returns those that have to be freed in the driver for it.
func (d *Device) endAfter(b Block, streams []*Stream) ([]victim, error) {
	var guards []*guard
	if d.lost() == nil {
		switch {
		case d.isClosed():
			return nil, d.errorf(driver.ErrClosed, "free a block of an arena that is closed")
		case !b.Valid():
			return nil, b.stale("free")
		}
		d.pollClosed() // so that there are no more stand-ins than have work
		var err error
		if guards, err = guardAll(streams); err != nil {
			d.releaseShared(guards)
			if d.lost() == nil {
				return nil, err
			}
		}
	}
	// The call site is recorded before anybody can have the block again.
	freed := new(callSite)
	if d.config.Sites {
		freed.record()
	}
	if !b.end() {
		d.releaseShared(guards)
		return nil, b.stale("free")
	}
	b.block.callSites.freed.copyFrom(freed)
	return d.cacheAfter(b.block, guards), nil
}

// guardAll returns guards of the work on streams that is not done; of some if it fails.
func guardAll(streams []*Stream) (guards []*guard, err error) {
	for i, s := range streams {
		if slices.Contains(streams[:i], s) {
			continue
		}
		g, err := s.guardNow()
		if err != nil && s.dev.lostAlone() {
			continue
		}
		if err != nil {
			return guards, err
		}
		if g != nil {
			guards = append(guards, g)
		}
	}
	return guards, nil
}

// guardNow is a guard of the work that is on the stream, or nil if that is done.
func (s *Stream) guardNow() (*guard, error) {
	d := s.dev
	s.gate.EnterWaiting()
	defer s.gate.Leave()
	switch state := s.current(); {
	case d.lost() != nil:
		return nil, d.lost()
	case s.completed(never - 1):
		return nil, nil
	case state == streamCapturing:
		return s.guardBefore()
	case state == streamClosed && s.guard == nil:
		return nil, s.unprovenError()
	case state == streamClosed:
		done, err := s.guard.passed()
		if err != nil || done {
			return nil, err
		}
		return s.guard, nil
	}
	now := d.clock.Add(1)
	done, err := d.idle(s)
	if err != nil {
		return nil, err
	}
	if done {
		s.advanceDone(now)
		return nil, nil
	}
	m, err := s.recorded(now)
	if err != nil {
		return nil, err
	}
	return d.newSharedGuard(m), nil
}

// guardBefore is a guard of the work that was on the stream before it was captured. The gate
// is held.
func (s *Stream) guardBefore() (*guard, error) {
	if s.before == nil {
		_, err := s.beforeCapture()
		return nil, err
	}
	done, err := s.before.passed()
	if err != nil || done {
		return nil, err
	}
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	events := &s.dev.events
	if events.shared == nil {
		events.shared = map[*guard]struct{}{}
	}
	if _, shared := events.shared[s.before]; !shared {
		events.shared[s.before] = struct{}{}
		s.before.references.Add(1)
	}
	return s.before, nil
}

// cacheAfter puts a freed block on the list of the home stream. As long as work may use the block, it
// is on the list of a stream that stands for the work. For all others that is a closed stream like any,
// which pollClosed empties when the work is done.
func (d *Device) cacheAfter(b *block, guards []*guard) []victim {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loss.Load() != nil {
		d.endUse(b)
		d.drop(b)
		d.loseBlock(b)
		return nil
	}
	b.freedAt = d.clock.Load()
	size := int64(b.size)
	victims := d.makeRoom(size)
	if d.room < size && len(guards) == 0 && b.segment == nil {
		d.endUse(b)
		d.drop(b)
		return append(victims, victim{b, d.home})
	}
	// What work may still use is kept in any case: the driver could take it only later.
	s := d.home
	if len(guards) > 0 {
		s = d.standIn(guards)
	}
	t := s.lock()
	defer t.mu.Unlock()
	d.room -= size
	t.room += size
	t.sums.frees++
	t.free(b)
	return victims
}

// standIn is the stream that stands for the work before some guards. d.mu is held.
func (d *Device) standIn(guards []*guard) *Stream {
	for _, s := range d.streams {
		if s.standsFor != nil && slices.Equal(s.standsFor, guards) {
			return s
		}
	}
	s := d.newStream(0)
	s.state.Store(int32(streamClosed))
	s.standsFor = guards
	d.streams = append(d.streams, s)
	d.standIns.Add(1)
	return s
}

// awaitGuards blocks until all work is done that a stream stands for.
func (s *Stream) awaitGuards() error {
	for _, g := range s.standsFor {
		if err := g.await(); err != nil {
			return err
		}
	}
	s.advanceDone(never)
	return nil
}

// pollStandIn takes the blocks of a stream that stands for work, if that is done. Where nobody will ever
// know they are lost. The gate is suspended.
func (d *Device) pollStandIn(s *Stream) {
	var lose func(*block)
	for _, g := range s.standsFor {
		done, err := g.passed()
		if err == nil && !done {
			return
		}
		if err != nil {
			lose = d.loseBlock
		}
	}
	d.remove(s, lose)
	d.releaseShared(s.standsFor)
}
