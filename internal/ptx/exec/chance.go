package exec

import (
	"math/rand/v2"
	"unsafe"
)

// Launch.Chance runs a kernel as PTX allows it, and as a device does it seldom. Blocks begin in any order, and pause for
// long. What a block writes to global memory reaches the others late and in any order, until a release or a fence of the
// device sends it. What it reads by a plain load can be old, until an acquire or a fence. One goroutine runs all blocks, so
// that a seed gives the same run each time.

// chance is the state of a launch by chance.
type chance struct {
	*rand.Rand
	now  uint64    // how many writes have reached memory
	past [64]write // the last ones of them: the one that came at time i is in i%64
}

// write is one by a thread, which is on its way or has arrived.
type write struct {
	p     unsafe.Pointer
	size  uint8
	value uint64 // on the way: the new one; arrived: the one before it
	by    *block
}

// late are the writes of a block that others do not see yet, and what it may read.
type late struct {
	*chance
	out   []write
	seen  uint64 // the time of the last acquire
	pause int    // how many turns the block sits out
}

const (
	maxLate   = 32   // writes of a block that are on their way
	maxAlive  = 16   // blocks that run at the same time
	maxBegins = 1024 // blocks among which the next one is chosen
)

// byChance runs all blocks. A block may wait for one that has begun before it.
func (s *launchState) byChance() error {
	c := &chance{Rand: rand.New(rand.NewPCG(s.Chance, s.GridID))}
	width := 1 + c.IntN(maxAlive)
	if s.Cooperative {
		width = int(s.total)
	}
	var begins []uint64
	next := uint64(0)
	var live []*block
	defer func() {
		for _, b := range live {
			s.giveBack(b)
		}
	}()
	for {
		for next < s.total && len(begins) < maxBegins {
			begins = append(begins, next)
			next++
		}
		for len(begins) > 0 && (len(live) == 0 || len(live) < width && (s.Cooperative || c.IntN(4) > 0)) {
			i := c.IntN(len(begins))
			b := s.block(0)
			b.start(begins[i])
			begins[i] = begins[len(begins)-1]
			begins = begins[:len(begins)-1]
			b.late = &late{chance: c, seen: c.now}
			live = append(live, b)
			s.next.Add(1)
		}
		if len(live) == 0 {
			return s.result()
		}
		i := c.IntN(len(live))
		b := live[i]
		if b.late.pause > 0 {
			b.late.pause--
			continue
		}
		if c.IntN(16) == 0 {
			b.late.pause = 1 << c.IntN(9)
		}
		done, flt := b.turn(1 << c.IntN(13))
		if flt != nil {
			s.end(flt)
			return s.result()
		}
		b.late.some(done)
		if done {
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			s.giveBack(b)
		}
	}
}

// some lets writes arrive, or all of them.
func (l *late) some(all bool) {
	for i := 0; i < len(l.out); {
		if all || l.IntN(4) == 0 {
			l.arrive(i)
		} else {
			i++
		}
	}
}

// arrive lets a write reach memory. No two are to the same bytes.
func (l *late) arrive(i int) {
	w := l.out[i]
	last := len(l.out) - 1
	l.out[i], l.out = l.out[last], l.out[:last]
	l.memory(w)
}

func (l *late) memory(w write) {
	old := atomicLoad(w.p, w.size)
	atomicStore(w.p, w.size, w.value)
	l.now++
	w.value = old
	l.past[l.now%uint64(len(l.past))] = w
}

// touches lets those writes of the block arrive that have one of these bytes: threads of a block see what it has written.
func (l *late) touches(p unsafe.Pointer, size uint64) {
	for i := 0; i < len(l.out); {
		w := &l.out[i]
		if uintptr(w.p) < uintptr(p)+uintptr(size) && uintptr(p) < uintptr(w.p)+uintptr(w.size) {
			l.arrive(i)
		} else {
			i++
		}
	}
}

// store writes now or later.
func (l *late) store(by *block, p unsafe.Pointer, size uint8, value uint64) {
	w := write{p: p, size: size, value: value, by: by}
	if l.IntN(2) == 0 {
		l.memory(w)
		return
	}
	if len(l.out) == maxLate {
		l.arrive(l.IntN(maxLate))
	}
	l.out = append(l.out, w)
}

// load is what a plain load reads: what is there, or what was there before another block wrote it.
func (l *late) load(by *block, p unsafe.Pointer, size uint8) uint64 {
	value := atomicLoad(p, size)
	for at := l.now; at > l.seen && at+uint64(len(l.past)) > l.now && at > 0; at-- {
		w := &l.past[at%uint64(len(l.past))]
		if w.p == p && w.size == size {
			if w.by == by || l.IntN(2) == 0 {
				break
			}
			value = w.value
		} else if uintptr(w.p) < uintptr(p)+uintptr(size) && uintptr(p) < uintptr(w.p)+uintptr(w.size) {
			break
		}
	}
	return value
}

// order does what an acquire or a release asks for.
func (w *warp) order(in *inst) {
	l := w.b.late
	if l == nil || in.flags&(flagAcquire|flagRelease) == 0 {
		return
	}
	if in.flags&flagRelease != 0 {
		l.some(true)
	}
	if in.flags&flagAcquire != 0 {
		l.seen = l.now
	}
}
