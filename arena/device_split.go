package arena

import (
	"cmp"
	"errors"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// Where a stream has no free block of a class, neighbours are joined, and the smallest of the larger blocks is split. What
// is left of it is a free block of its own. A hit knows nothing of either. Only blocks on the lists of one stream are
// joined, because one order of work holds for all of them. So parts go back to the stream that has split the segment,
// as soon as it need not wait for them.
//
// A block never changes its address and size: split and joined ones are new, and the old ones stay stale.

// segment is memory of the driver that has been split. Device.mu guards it.
type segment struct {
	owner *Stream // that split it first
	size  uint64
	parts int
	lost  bool // a part is lost: the driver never gets the segment back
}

const (
	// splitAlign is what the address of a part is a multiple of.
	splitAlign = 512
	// splitSteps are classes: a block that is split is at most eight times as large as the part. Small blocks that live
	// for long would keep large segments otherwise.
	splitSteps = 3 * steps
)

// carve takes a part of a larger block, at most so many classes above: one that was freed on the stream, or one that
// needs no waiting.
func (s *Stream) carve(class, above int, bytes uint64) *block {
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.current() != streamOpen {
		return nil
	}
	s.recall()
	if b := s.part(s, class, above, bytes); b != nil {
		return b
	}
	for _, o := range d.some() {
		if o == s || o.current() != streamOpen && o.current() != streamClosed {
			continue
		}
		if b := o.part(s, class, above, bytes); b != nil {
			d.totals.shared++
			return b
		}
	}
	return nil
}

// recall takes parts of what the stream has split that were freed on others, if it need not wait for them. Device.mu is
// held.
func (s *Stream) recall() {
	for _, o := range s.dev.some() {
		if o == s || o.current() != streamOpen && o.current() != streamClosed {
			continue
		}
		o.lockAll()
		for _, t := range o.stripes() {
			for b := t.all.oldest; b != nil && t.partBytes > 0; {
				next := b.inAll.newer
				if b.segment != nil && b.segment.owner == s && (o.completed(b.freedAt) || b.freedAt < s.seen[o]) {
					t.remove(b)
					b.freedAt = s.dev.clock.Load() // s has waited for it, but its work may not be done
					s.adopt(b)
				}
				b = next
			}
		}
		o.unlockAll()
	}
}

// mostCarved is how many streams are looked at for a larger block.
const mostCarved = 16

// some are the home stream and others, which differ each time if there are many. Device.mu is held.
func (d *Device) some() []*Stream {
	n := len(d.streams)
	some := append(make([]*Stream, 0, 1+min(n, mostCarved)), d.home)
	for i := range min(n, mostCarved) {
		some = append(some, d.streams[(d.carveFrom+i)%n])
	}
	if n > mostCarved {
		d.carveFrom = (d.carveFrom + mostCarved) % n
	}
	return some
}

// part takes a part of the smallest block that is large enough, for a stream. Device.mu is held.
func (s *Stream) part(forStream *Stream, class, above int, bytes uint64) *block {
	s.lockAll()
	defer s.unlockAll()
	s.join()
	t, b := s.smallest(forStream, class, above)
	if b == nil {
		return nil
	}
	size := (classBytes(class) + splitAlign - 1) &^ (splitAlign - 1)
	if b.size >= size+smallest {
		b = s.dev.split(s, t, b, class, size)
	}
	t.allocate(b, bytes)
	if s == forStream {
		t.sums.hits++
	}
	return b
}

// smallest is the smallest free block of a class or of a larger one that a stream can have without waiting. Of another
// stream it is the oldest of its class: its work is the likeliest to be done.
func (s *Stream) smallest(forStream *Stream, class, above int) (*stripe, *block) {
	for c := class; c <= min(class+above, classes-1); c++ {
		for _, t := range s.stripes() {
			b := t.newest(c)
			if b != nil && s != forStream {
				if b = t.oldest(c); !s.completed(b.freedAt) && b.freedAt >= forStream.seen[s] {
					continue
				}
			}
			if b != nil {
				return t, b
			}
		}
	}
	return nil, nil
}

// split makes two blocks of a free one, which both are free then. It returns the first.
func (d *Device) split(owner *Stream, t *stripe, b *block, class int, size uint64) *block {
	g := b.segment
	if g == nil {
		g = &segment{owner: owner, size: b.size, parts: 1}
	}
	g.parts++
	t.remove(b)
	t.room += int64(b.size)
	delete(d.blocks, b)
	unjoined := t.unjoined // these two are no reason to look
	first := d.insertPart(t, &block{ptr: b.ptr, size: size, class: class, freedAt: b.freedAt, segment: g})
	d.insertPart(t, &block{
		ptr: b.ptr + driver.DevicePtr(size), size: b.size - size, class: classWithin(b.size - size), freedAt: b.freedAt, segment: g})
	t.unjoined = unjoined
	return first
}

func (d *Device) insertPart(t *stripe, b *block) *block {
	b.dev = d
	d.blocks[b] = struct{}{}
	t.insert(b)
	return b
}

// classWithin is the largest class whose blocks are no larger than size, which is at least the smallest.
func classWithin(size uint64) int {
	class := classOf(size)
	if classBytes(class) > size {
		class--
	}
	return class
}

// freePart is a part with where it is.
type freePart struct {
	t *stripe
	b *block
}

// join joins free parts that lie side by side, and reports whether there were any. Device.mu and all locks of the stream
// are held.
func (s *Stream) join() (joined bool) {
	unjoined := false
	for _, t := range s.stripes() {
		unjoined = unjoined || t.unjoined
		t.unjoined = false
	}
	if !unjoined {
		return false
	}
	var parts []freePart
	for _, t := range s.stripes() {
		for b := t.all.oldest; b != nil && t.partBytes > 0; b = b.inAll.newer {
			if b.segment != nil && !b.segment.lost {
				parts = append(parts, freePart{t, b})
			}
		}
	}
	slices.SortFunc(parts, func(a, b freePart) int { return cmp.Compare(a.b.ptr, b.b.ptr) })
	for n := 1; len(parts) > 1; parts, n = parts[n:], 1 {
		for n < len(parts) && parts[n].b.segment == parts[0].b.segment && parts[n].b.ptr == parts[n-1].b.ptr+driver.DevicePtr(parts[n-1].b.size) {
			n++
		}
		if n > 1 {
			s.dev.joinAll(parts[:n])
			joined = true
		}
	}
	return joined
}

// joinAll makes one block of neighbours.
func (d *Device) joinAll(parts []freePart) {
	t, g := parts[0].t, parts[0].b.segment
	whole := &block{ptr: parts[0].b.ptr, segment: g}
	for _, p := range parts {
		whole.size += p.b.size
		whole.freedAt = max(whole.freedAt, p.b.freedAt)
		p.t.remove(p.b)
		p.t.room += int64(p.b.size)
		delete(d.blocks, p.b)
	}
	if g.parts -= len(parts) - 1; g.parts == 1 {
		whole.segment = nil
	}
	whole.class = classWithin(whole.size)
	unjoined := t.unjoined
	d.insertPart(t, whole)
	t.unjoined = unjoined
}

// joinStreams joins what it can on streams. Device.mu is held.
func (d *Device) joinStreams(streams []*Stream) (joined bool) {
	for _, s := range streams {
		s.lockAll()
		joined = s.join() || joined
		s.unlockAll()
	}
	return joined
}

// partBytes is how many bytes the free parts of all streams have. Device.mu is held.
func (d *Device) partBytes() (sum int64) {
	for _, s := range d.all() {
		for _, t := range s.stripes() {
			t.mu.Lock()
			sum += t.partBytes
			t.mu.Unlock()
		}
	}
	return sum
}

// reunite waits for the work on all streams if there are free parts. It gives parts whose work is done to the home
// stream, where parts of several streams can be joined. Ranges that were freed go back to the driver.
func (d *Device) reunite() error {
	errs := []error{d.freeParked(true)}
	d.mu.Lock()
	none := d.partBytes() == 0
	streams := slices.Clone(d.streams)
	d.mu.Unlock()
	if none {
		return errors.Join(errs...)
	}
	for _, s := range streams {
		if d.lost() != nil {
			break
		}
		errs = append(errs, d.synchronize(s))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loss.Load() != nil {
		return errors.Join(errs...)
	}
	for _, s := range d.streams {
		s.lockAll()
		for _, t := range s.stripes() {
			for b := t.all.oldest; b != nil && t.partBytes > 0; {
				next := b.inAll.newer
				if b.segment != nil && s.completed(b.freedAt) {
					t.remove(b)
					d.home.adopt(b)
				}
				b = next
			}
		}
		s.unlockAll()
	}
	d.joinStreams([]*Stream{d.home})
	return errors.Join(errs...)
}

// adopt takes a free block of another stream, with the room that it has. Device.mu is held.
func (s *Stream) adopt(b *block) {
	t := s.lock()
	defer t.mu.Unlock()
	t.insert(b)
	t.room += int64(b.size)
}
