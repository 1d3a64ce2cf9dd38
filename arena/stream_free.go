package arena

import (
	"github.com/purecuda/purecuda/driver"
)

// poison is what freed blocks are filled with.
const poison = 0xDB

// freeSlow is Free where it is more than putting the block on the list.
func (s *Stream) freeSlow(b Block) error {
	d := s.dev
	d.calls.EnterWaiting()
	victims, err := s.end(b)
	back := d.release(victims)
	d.calls.Leave()
	d.cleanup(back) // not the error of whoever frees b
	return err
}

// end ends the use of a block and returns those that have to be freed in the driver for it.
func (s *Stream) end(b Block) ([]victim, error) {
	d := s.dev
	state := s.current()
	if state == streamClosed && d.lost() == nil {
		return nil, s.closedError(b)
	}
	// The call site is recorded before anybody can have the block again.
	freed := new(callSite)
	if d.config.Sites {
		freed.record()
	}
	if !b.end() {
		return nil, b.stale("free")
	}
	b.block.callSites.freed.copyFrom(freed)
	var err error
	if d.config.Poison && state == streamOpen {
		err = d.fill(s, b.block, poison, b.block.size)
	}
	victims, ok := s.cache(b.block)
	if !ok {
		// The stream was closed meanwhile: nothing happened.
		b.block.version.Store(b.version)
		return nil, s.closedError(b)
	}
	return victims, err
}

func (s *Stream) closedError(b Block) error {
	if s.dev.isClosed() {
		return s.errorf(driver.ErrClosed, "free a block of an arena that is closed")
	}
	if !b.Valid() {
		return b.stale("free")
	}
	return s.errorf(driver.ErrClosed, "free a block on a stream that is closed for the arena: free it on another one")
}

// cache puts a freed block on the stream's list, or returns it as one to be freed in the driver. It
// reports whether the stream could take it.
func (s *Stream) cache(b *block) ([]victim, bool) {
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	t := s.lock()
	defer t.mu.Unlock()
	switch {
	case d.loss.Load() != nil:
		d.endUse(b)
		d.drop(b)
		d.loseBlock(b)
		return nil, true
	case s.current() == streamClosed:
		return nil, false
	}
	b.freedAt = d.clock.Load()
	size := int64(b.size)
	var victims []victim
	if s.current() == streamCapturing {
		s.freed.Store(true) // if the capture ends before the next line looks, this is no part of it
	}
	if s.current() == streamOpen && t.room < size {
		t.mu.Unlock() // the device goes through all stripes
		victims = d.makeRoom(size)
		t.mu.Lock()
		if t.room+d.room < size && b.segment == nil { // a part has to stay
			d.endUse(b)
			d.drop(b)
			return append(victims, victim{b, s}), true
		}
		// A little more than is needed, so that not every free comes here.
		grant := max(size-t.room, min(d.room, size-t.room+int64(d.config.CacheBytes/64)))
		d.room -= grant
		t.room += grant
	}
	// While the stream captures there may be more than the cache is to hold.
	t.sums.frees++
	t.free(b)
	return victims, true
}

// endUse counts a block as freed that is on no list. d.mu is held.
func (d *Device) endUse(b *block) {
	d.retired.frees++
	d.retired.inUse -= int64(b.size)
	d.retired.requested -= int64(b.requested.Load())
}
