package arena

import (
	"errors"
	"fmt"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// victim is a block that is to be freed in the driver, and the stream that it was freed on. It
// is counted neither as cached nor as held any more.
type victim struct {
	b *block
	s *Stream
}

// makeRoom takes blocks out of the cache until size bytes more may be cached, as far as
// that is possible without waiting. d.mu is held, no lock of a stripe is.
func (d *Device) makeRoom(size int64) (victims []victim) {
	if d.room >= size {
		return nil
	}
	d.collect()
	if uint64(size) > d.config.CacheBytes {
		return nil // it cannot fit, so nothing has to go for it
	}
	for d.room < size {
		v, ok := d.evict(false)
		if !ok {
			break
		}
		victims = append(victims, v)
	}
	return victims
}

// collect takes the room of all stripes back. d.mu is held.
func (d *Device) collect() {
	for _, s := range d.all() {
		for _, t := range s.stripes() {
			t.mu.Lock()
			d.room += t.room
			t.room = 0
			t.mu.Unlock()
		}
	}
}

// evict takes the block out of the cache that was free for longest and is no part of another one. A goroutine that
// frees at the same time may hide a few. With wait, also blocks of streams that were closed and are not done. d.mu is
// held.
func (d *Device) evict(wait bool) (victim, bool) { return d.evictFrom(d.all(), wait) }

// shed takes out of the cache what is out of use and does not fit. Blocks of FreeAfter are kept
// until then, even if it is more than the cache should hold.
func (d *Device) shed() (victims []victim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room < 0 {
		d.collect()
	}
	for d.room < 0 {
		v, ok := d.evictFrom([]*Stream{d.home}, false)
		if !ok {
			break
		}
		victims = append(victims, v)
	}
	return victims
}

func (d *Device) evictFrom(streams []*Stream, wait bool) (victim, bool) {
	for {
		var from *Stream
		var at *stripe
		var age uint64
		for _, s := range streams {
			for _, t := range s.stripes() {
				t.mu.Lock()
				b := t.oldestWhole()
				may := s.current() == streamOpen || s.current() == streamClosed && (wait || b != nil && s.completed(b.freedAt))
				if b != nil && may && (at == nil || b.freedAt < age) {
					from, at, age = s, t, b.freedAt
				}
				t.mu.Unlock()
			}
		}
		if at == nil && d.joinStreams(streams) {
			continue
		}
		if at == nil {
			return victim{}, false
		}
		at.mu.Lock()
		b := at.oldestWhole()
		if b != nil {
			at.remove(b)
			d.room += int64(b.size)
		}
		at.mu.Unlock()
		if b != nil {
			d.clock.Add(1) // what is freed from now on is younger
			d.drop(b)
			d.totals.evicted++
			return victim{b, from}, true
		}
	}
}

// cached is the sum over all streams. d.mu is held.
func (d *Device) cached() (sum int64) {
	for _, s := range d.all() {
		for _, t := range s.stripes() {
			t.mu.Lock()
			sum += t.sums.cached
			t.mu.Unlock()
		}
	}
	return sum
}

// empty evicts until at most keep bytes are cached.
func (d *Device) empty(keep uint64) (victims []victim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uint64(max(d.cached(), 0)) > keep {
		v, ok := d.evict(true)
		if !ok {
			break
		}
		victims = append(victims, v)
	}
	return victims
}

// release frees blocks in the driver, after the work of their streams. Memory is lost if nobody can
// prove that no work uses it, or if the driver does not take it. That is better than to hand it out
// again. The error is for those who asked.
func (d *Device) release(victims []victim) error {
	var errs []error
	for len(victims) > 0 {
		s := victims[0].s
		var blocks []*block
		victims = slices.DeleteFunc(victims, func(v victim) bool {
			if v.s == s {
				blocks = append(blocks, v.b)
			}
			return v.s == s
		})
		errs = append(errs, d.releaseOn(s, blocks))
	}
	return errors.Join(errs...)
}

func (d *Device) releaseOn(s *Stream, blocks []*block) error {
	refused, kept, err := d.freeOn(s, blocks)
	if err == errCaptured {
		err = nil // they go when the capture has ended
	}
	d.mu.Lock()
	d.totals.frees += uint64(len(blocks) - len(refused) - len(kept))
	for _, b := range refused {
		d.loseBlock(b)
	}
	d.restore(s, kept)
	d.mu.Unlock()
	return err
}

// freeOn frees blocks of one stream, in the way that the device has. It returns those that the driver did not take,
// and those that it was not asked about.
func (d *Device) freeOn(s *Stream, blocks []*block) (refused, kept []*block, err error) {
	if d.pool != 0 && s.enter() == nil {
		defer s.leave()
		for _, b := range blocks {
			asked, e := d.freeAsync(s, b)
			switch {
			case e == nil:
			case asked:
				refused, err = append(refused, b), e
			default:
				kept, err = append(kept, b), e
			}
		}
		return refused, kept, err
	}
	last := slices.MaxFunc(blocks, func(a, b *block) int { return int(a.freedAt - b.freedAt) })
	if err := d.awaitFreed(s, last.freedAt); err != nil {
		return nil, blocks, err
	}
	return d.freeNow(blocks)
}

// errCaptured: the stream has begun to capture meanwhile. It does not leave the package.
var errCaptured = errors.New("the stream captures")

// awaitFreed waits until what was freed on a stream up to a time is out of use.
func (d *Device) awaitFreed(s *Stream, freedAt uint64) error {
	if s.completed(freedAt) {
		return nil
	}
	if s.standsFor != nil {
		return s.awaitGuards()
	}
	m, err := s.markForHost(freedAt)
	if err != nil {
		return err
	}
	defer d.releaseMark(m)
	if m.event == 0 {
		return nil
	}
	if err := m.await(d); err != nil {
		return err
	}
	s.advanceDone(m.clock)
	if m.guard != nil {
		return nil
	}
	// The driver has said that the event has passed. It takes back what was freed before only when
	// somebody waits in the driver.
	return d.onStream("cuEventSynchronize", func() driver.Result { return d.binding.API.EventSynchronize(m.event) })
}

// markForHost marks what was freed up to a time, for a wait of the host.
func (s *Stream) markForHost(freedAt uint64) (mark, error) {
	s.gate.EnterWaiting()
	defer s.gate.Leave()
	switch state := s.current(); {
	case s.completed(freedAt):
		return mark{}, nil
	case state == streamClosed:
		return s.ending()
	case state == streamCapturing:
		return mark{}, errCaptured
	case state == streamLost:
		return mark{}, s.dev.lost()
	}
	return s.recorded(s.dev.clock.Add(1))
}

// restore puts blocks back that could not go. d.mu is held.
func (d *Device) restore(s *Stream, blocks []*block) {
	for _, b := range blocks {
		to := s
		switch done := s.completed(b.freedAt); {
		case d.loss.Load() != nil, s.gone && !done:
			d.loseBlock(b)
			continue
		case s.gone:
			to = d.home
		}
		d.blocks[b] = struct{}{}
		d.totals.held += b.size
		t := to.lock()
		t.insert(b)
		t.mu.Unlock()
	}
	d.totals.heldMost = max(d.totals.heldMost, d.totals.held)
}

// putBack undoes the taking of a block from a stream's list; b.requested is what it was taken
// for.
func (d *Device) putBack(s *Stream, b *block) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.current() == streamClosed && s.completed(b.freedAt) {
		s = d.home // the stream may be gone
	}
	t := s.lock()
	defer t.mu.Unlock()
	if d.loss.Load() != nil || s.gone {
		d.retired.inUse -= int64(b.size)
		d.retired.requested -= int64(b.requested.Load())
		d.drop(b)
		d.loseBlock(b)
		return
	}
	t.free(b)
}

// Trim frees cached memory in the driver until at most keep bytes are cached, the
// memory that was free for longest first, and makes the driver unmap it. It waits for the
// work that the memory was freed after, and, where blocks are split, for the work of all streams.
// Memory of streams that capture stays, and parts of blocks that are partly in use.
func (d *Device) Trim(keep uint64) error {
	if err := d.made(); err != nil {
		return err
	}
	d.calls.EnterWaiting()
	defer d.calls.Leave()
	if err := d.lost(); err != nil {
		return err
	}
	if d.isClosed() {
		return d.errorf(driver.ErrClosed, "trim the memory of an arena that is closed")
	}
	d.pollClosed()
	errs := []error{d.reunite(), d.release(d.empty(keep))}
	d.mu.Lock()
	streams := slices.Clone(d.streams)
	d.mu.Unlock()
	for _, s := range streams {
		if s.freeing.Load() {
			errs = append(errs, d.synchronize(s))
		}
	}
	if d.lost() == nil {
		errs = append(errs, d.trimPool())
	}
	return errors.Join(errs...)
}

// synchronize waits for all work of a stream; one that captures or is closed has none that
// could be waited for.
func (d *Device) synchronize(s *Stream) error {
	if s.current() != streamOpen {
		return nil
	}
	s.freeing.Store(false) // before the mark, which covers all that is freed until now
	err := d.awaitFreed(s, d.clock.Load())
	if err == nil {
		return nil
	}
	s.freeing.Store(true)
	if err == errCaptured {
		return nil
	}
	return err
}

// reclaim frees the whole cache because memory is short, and waits for all streams:
// what was freed on them before is available only when they get there.
func (d *Device) reclaim() {
	errs := []error{d.reunite()}
	d.full.Lock()
	defer d.full.Unlock()
	errs = append(errs, d.release(d.empty(0)))
	d.mu.Lock()
	d.totals.reclaims++
	streams := slices.Clone(d.streams)
	d.mu.Unlock()
	for _, s := range streams {
		if d.lost() != nil {
			break
		}
		errs = append(errs, d.synchronize(s))
	}
	if d.lost() == nil {
		errs = append(errs, d.trimPool(), d.freeRangesParked(false)) // that others have left to this goroutine
	}
	d.cleanup(errors.Join(errs...)) // the second try tells what matters
}

// outOfMemory adds to an error what was asked, what is free, and what the arena holds.
func (d *Device) outOfMemory(e *driver.Error, s *Stream, bytes, size uint64) error {
	e.Kind = driver.ErrOutOfMemory
	e.Bytes = bytes
	if s != nil {
		e.Stream = s.id
	}
	e.Free, e.Total = d.memInfo()
	now := d.Stats()
	e.Detail = fmt.Sprintf("a block of %d bytes; the arena has %d bytes in use and %d cached", size, now.InUse, now.Cached)
	if d.config.Limit != 0 {
		e.Detail += fmt.Sprintf(", of at most %d", d.config.Limit)
	}
	return e
}
