package arena

import "github.com/purecuda/purecuda/internal/locks"

// stripe is a part of a stream's free blocks, with what is counted about them. A stream
// that is used by one goroutine at a time has one; once goroutines meet on its lock it
// has one for every processor.
type stripe struct {
	mu locks.Mutex[locks.Stripe]

	all list // every block of the stripe
	// room is how many bytes the stripe may take without asking the device.
	room int64
	sums sums
	// partBytes is how much of what is cached is parts, and unjoined is set where some came since the last join.
	partBytes int64
	unjoined  bool
	lists     [groups]*[steps]list

	_ [128]byte // stripes of other processors share no cache line
}

// sums are what stripes count: each for itself, since a counter that all goroutines
// write would cost more than the rest of an allocation. Those of one stripe can be
// negative, since a block may be allocated on one and freed on another.
type sums struct {
	inUse, requested, cached int64 // bytes
	hits, frees              int64
}

func (s *sums) add(o *sums) {
	s.inUse += o.inUse
	s.requested += o.requested
	s.cached += o.cached
	s.hits += o.hits
	s.frees += o.frees
}

// list is a list of free blocks.
type list struct{ newest, oldest *block }

// push adds a block at the end of the newest; all says which of its links the list is
// made of.
func (l *list) push(b *block, all bool) {
	n := b.linksOf(all)
	n.newer, n.older = nil, l.newest
	if l.newest != nil {
		l.newest.linksOf(all).newer = b
	} else {
		l.oldest = b
	}
	l.newest = b
}

func (l *list) remove(b *block, all bool) {
	n := b.linksOf(all)
	if n.newer != nil {
		n.newer.linksOf(all).older = n.older
	} else {
		l.newest = n.older
	}
	if n.older != nil {
		n.older.linksOf(all).newer = n.newer
	} else {
		l.oldest = n.newer
	}
	n.newer, n.older = nil, nil
}

func (b *block) linksOf(all bool) *links {
	if all {
		return &b.inAll
	}
	return &b.inClass
}

// list is the list of a class, or nil if there was never one.
func (t *stripe) list(class int) *list {
	group := t.lists[uint(class)/steps]
	if group == nil {
		return nil
	}
	return &group[uint(class)%steps]
}

// newest is the block of a class that was freed last, or nil.
func (t *stripe) newest(class int) *block {
	if l := t.list(class); l != nil {
		return l.newest
	}
	return nil
}

// oldest is the block of a class that was freed first, or nil.
func (t *stripe) oldest(class int) *block {
	if l := t.list(class); l != nil {
		return l.oldest
	}
	return nil
}

// oldestWhole is the block that was freed first of those that are no parts, or nil.
func (t *stripe) oldestWhole() *block {
	b := t.all.oldest
	for b != nil && b.segment != nil {
		b = b.inAll.newer
	}
	return b
}

// insert adds a free block.
func (t *stripe) insert(b *block) {
	group := &t.lists[uint(b.class)/steps]
	if *group == nil {
		*group = new([steps]list)
	}
	(*group)[uint(b.class)%steps].push(b, false)
	t.all.push(b, true)
	t.sums.cached += int64(b.size)
	t.room -= int64(b.size)
	if b.segment != nil {
		t.partBytes += int64(b.size)
		t.unjoined = true
	}
}

// remove takes a free block out.
func (t *stripe) remove(b *block) {
	t.list(b.class).remove(b, false)
	t.all.remove(b, true)
	t.sums.cached -= int64(b.size)
	if b.segment != nil {
		t.partBytes -= int64(b.size)
	}
}

// allocate takes a free block out to be used: the stripe may take as much again.
func (t *stripe) allocate(b *block, bytes uint64) {
	t.remove(b)
	t.room += int64(b.size)
	t.sums.inUse += int64(b.size)
	t.sums.requested += int64(bytes)
}

// free adds a block that was in use.
func (t *stripe) free(b *block) {
	t.sums.inUse -= int64(b.size)
	t.sums.requested -= int64(b.requested.Load())
	t.insert(b)
}
