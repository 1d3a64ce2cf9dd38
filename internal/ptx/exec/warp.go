package exec

import (
	"math"
	"math/bits"
)

// A warp is 32 threads in lockstep as long as they agree on the way. Where they part, each part is
// a group: a lane mask with its own program counter and call stack. The scheduler runs the group
// with the deepest call stack and, among those, the lowest program counter. The code is laid out so
// that loops are contiguous and everything follows what leads to it (order.go). So the group that
// lags catches up with the ones ahead at the earliest place where their ways meet, and they merge.
// A group that spins is set aside after a while for the others: lanes of one warp may wait for each
// other, as on sm_70 and later.
type group struct {
	pc     int32
	mask   uint32
	state  groupState
	bar    uint8  // barrier waited for
	last   uint64 // when it ran last
	base   int32  // frame in warp.regs
	pbase  int32  // frame in warp.preds
	lbase  uint32 // frame in local memory
	stack  uint32 // what all frames take of the stack
	fn     *function
	frames []frame
}

// frame is a caller.
type frame struct {
	pc    int32 // of the call
	base  int32
	pbase int32
	lbase uint32
	fn    *function
}

// maxSpins is how many atomics and volatile loads a warp executes before it lets others run. A loop
// of them may wait for what another group or warp has to do.
const maxSpins = 64

type groupState uint8

const (
	ready    groupState = iota
	waitSync            // at a collective instruction
	waitBar             // at a barrier of the block
)

type warp struct {
	b    *block
	id   int
	code []inst
	k    []lanes  // constants
	r    []lanes  // frame of the running group
	p    []uint32 // predicates of the running group's frame
	g    region

	lbase uint32
	alive uint32
	cc    uint32 // carry flags
	limit int32  // program counter at which another group waits
	ng    int
	cur   int

	rotate bool      // another group than the usual one has its turn
	yield  bool      // hands over to the other groups and warps
	spins  uint32    // accesses of this turn that may be part of waiting for others
	clock  uint64    // instructions executed
	moved  [3]uint64 // bytes of global memory of this turn, by what an instruction does with them
	flt    *Fault

	regs      []lanes
	preds     []uint32
	local     []byte
	localSize uint64
	stackSize uint64 // of a thread

	tmp lanes
	xa  lanes  // values exchanged by collectives
	xp  uint32 // predicates exchanged

	copies     []asyncCopy // that have begun
	copyGroups [32]int     // of copies that each lane has ended

	products     []later // of four warps, that have begun
	productGroup int     // that is open
	stores       []later // of tiles
	storeGroup   [32]int

	arrived [17]uint32 // lanes that wait at or have arrived at each barrier
	groups  [32]group
}

func (w *warp) lane(i int32) *lanes {
	if i >= 0 {
		return &w.r[i]
	}
	return &w.k[^i]
}

func (w *warp) reg(i int32) *lanes { return &w.r[i] }

// thread returns the coordinates of a lane's thread.
func (w *warp) thread(lane int) [3]uint32 {
	d := w.b.l.Block
	t := uint32(w.id*32 + lane)
	return [3]uint32{t % d[0], t / d[0] % d[1], t / d[0] / d[1]}
}

// start makes the warp ready for a block.
func (w *warp) start(threads int) {
	k := w.b.k
	n := threads - w.id*32
	w.alive = full
	if n < 32 {
		w.alive = uint32(1)<<uint(n) - 1
	}
	w.cc, w.flt, w.ng, w.cur, w.rotate, w.yield, w.spins = 0, nil, 1, 0, false, false, 0
	w.clock = 0
	w.copies, w.copyGroups = w.copies[:0], [32]int{}
	w.products, w.productGroup, w.stores, w.storeGroup = w.products[:0], 0, w.stores[:0], [32]int{}
	w.arrived = [17]uint32{}
	spoil(w.local)
	g := &w.groups[0]
	frames := g.frames[:0]
	*g = group{mask: w.alive, fn: k.fn, frames: frames, pc: k.fn.entry, stack: k.fn.stack}
	w.frame(g)
	w.enter(k.fn)
}

// frame makes the registers of a group the current ones.
func (w *warp) frame(g *group) {
	w.r = w.regs[g.base : g.base+g.fn.slots]
	w.p = w.preds[g.pbase : g.pbase+g.fn.preds]
	w.lbase = g.lbase
}

// enter prepares a fresh frame: the constant predicate, and set bits in what the function
// may read before it writes, so that a run depends on nothing that came before.
func (w *warp) enter(f *function) {
	mask := w.groups[w.cur].mask
	w.p[0] = full
	for i := 1; i < len(w.p); i++ {
		w.p[i] |= mask
	}
	for _, j := range f.junk {
		blend(&w.r[j.to], w.lane(j.from), mask)
	}
}

// blend writes the active lanes of src.
func blend(dst, src *lanes, mask uint32) {
	if mask == full {
		*dst = *src
		return
	}
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		dst[i] = src[i]
	}
}

func (w *warp) done() bool { return w.alive == 0 }

// run executes until the warp has nothing that can go on, or the quantum is used up.
func (w *warp) run(quantum uint64) {
	end := w.clock + quantum
	for w.flt == nil && w.pick() {
		w.exec(end)
		if w.clock >= end || w.yield {
			w.rotate, w.yield, w.spins = true, false, 0
			return
		}
	}
}

// pick merges groups that have met and chooses the one to run.
func (w *warp) pick() bool {
	w.limit = math.MaxInt32
	if w.ng == 1 {
		w.cur = 0
		if w.groups[0].state != ready {
			return false
		}
		w.rotate = false
		w.frame(&w.groups[0])
		return true
	}
	w.merge()
	best := -1
	for i := range w.groups[:w.ng] {
		g := &w.groups[i]
		if g.state != ready {
			continue
		}
		if best < 0 || w.before(g, &w.groups[best]) {
			best = i
		}
	}
	w.rotate = false
	if best < 0 {
		return false
	}
	w.cur = best
	c := &w.groups[best]
	c.last = w.clock
	for i := range w.groups[:w.ng] {
		g := &w.groups[i]
		if i != best && g.state == ready && len(g.frames) == len(c.frames) && g.pc > c.pc && g.pc < w.limit {
			w.limit = g.pc
		}
	}
	w.frame(c)
	return true
}

// before is the order of the scheduler.
func (w *warp) before(a, b *group) bool {
	if w.rotate && a.last != b.last {
		return a.last < b.last
	}
	if len(a.frames) != len(b.frames) {
		return len(a.frames) > len(b.frames)
	}
	return a.pc < b.pc
}

// merge unites groups at one place of one call.
func (w *warp) merge() {
	for i := 0; i < w.ng; i++ {
		a := &w.groups[i]
		for j := i + 1; j < w.ng; {
			b := &w.groups[j]
			if a.pc != b.pc || a.state != b.state || a.bar != b.bar || a.base != b.base || !sameFrames(a.frames, b.frames) {
				j++
				continue
			}
			a.mask |= b.mask
			a.last = min(a.last, b.last)
			w.drop(j)
		}
	}
}

func sameFrames(a, b []frame) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// drop removes a group; the last one takes its place.
func (w *warp) drop(i int) {
	w.ng--
	if i != w.ng {
		w.groups[i], w.groups[w.ng] = w.groups[w.ng], w.groups[i]
	}
}

// split moves lanes of group i to a new group at the same place and gives its number.
func (w *warp) split(i int, mask uint32) int {
	g := &w.groups[i]
	n := &w.groups[w.ng]
	frames := append(n.frames[:0], g.frames...)
	*n = *g
	n.frames = frames
	n.mask = mask
	g.mask &^= mask
	w.ng++
	return w.ng - 1
}

// kill ends the lanes in mask of the current group.
func (w *warp) kill(mask uint32) {
	w.alive &^= mask
	g := &w.groups[w.cur]
	g.mask &^= mask
	if g.mask == 0 {
		w.drop(w.cur)
	}
	w.b.check = true
}

// exec runs the current group until it waits, ends, meets another or has used up its
// time, which is looked at when it jumps back.
func (w *warp) exec(end uint64) {
	g := &w.groups[w.cur]
	pc, mask, limit := g.pc, g.mask, w.limit
	code, clock := w.code, w.clock
	// Lanes that are in no group are dead or were never there: while there is one group,
	// an instruction may write them.
	all := full
	if w.ng == 1 {
		all = mask
	}
	for pc < limit {
		in := &code[pc]
		clock++
		m := mask & (w.p[in.guard] ^ in.guardX)
		switch in.kind {
		case kALU:
			if m == all {
				in.alu(&w.r[in.d], w.lane(in.a), w.lane(in.b), w.lane(in.c))
			} else if m != 0 {
				in.alu(&w.tmp, w.lane(in.a), w.lane(in.b), w.lane(in.c))
				blend(&w.r[in.d], &w.tmp, m)
			}
			pc++
		case kRun:
			if m != 0 {
				w.clock = clock // %clock reads it
				in.run(w, in, m)
				if w.flt != nil {
					return
				}
			}
			pc++
		case kSetp:
			if m != 0 {
				t := in.cmp(w.lane(in.a), w.lane(in.b))
				w.setPreds(in, t, m)
			}
			pc++
		case kSelp:
			if m != 0 {
				w.selp(in, m)
			}
			pc++
		case kBra:
			to := in.target
			switch {
			case m == 0:
				pc++
				continue
			case m == mask:
				if to > pc || clock < end && w.spins < maxSpins {
					pc = to
					continue
				}
				w.yield = w.spins >= maxSpins
				w.clock = clock
				g.pc = to
				return
			}
			g.pc = pc + 1
			w.groups[w.split(w.cur, m)].pc = to
			w.clock = clock
			return
		case kExit:
			g.pc = pc + 1
			w.clock = clock
			if m == 0 {
				pc++
				continue
			}
			w.kill(m)
			w.tryCollectives()
			return
		case kYield:
			g.pc = pc + 1
			w.clock, w.yield = clock, true
			return
		default:
			g.pc = pc
			w.clock = clock
			if m == 0 {
				pc++
				continue
			}
			if w.control(in, m) && w.ng == 1 && w.clock < end {
				pc, mask, limit, all = g.pc, g.mask, w.limit, g.mask
				continue
			}
			return
		}
	}
	g.pc = pc
	w.clock = clock
}

// control executes what may change the group or the frame. It reports whether the group
// can go on at once.
func (w *warp) control(in *inst, m uint32) bool {
	switch in.kind {
	case kColl:
		return w.collect(in, m)
	case kBar:
		return w.barrier(in, m)
	case kBrx:
		return w.brx(in, m)
	case kCall:
		return w.call(in, m, in.call.fn)
	case kCallI:
		return w.callIndirect(in, m)
	default: // kRet
		return w.ret(in, m)
	}
}

// only makes the current group the lanes in m, at the current instruction; the others
// go on after it.
func (w *warp) only(m uint32) *group {
	g := &w.groups[w.cur]
	if rest := g.mask &^ m; rest != 0 {
		w.groups[w.split(w.cur, rest)].pc++
	}
	return g
}

// brx jumps through a table. An index beyond it is an illegal instruction here;
// PTX leaves it undefined.
func (w *warp) brx(in *inst, m uint32) bool {
	a := w.lane(in.a)
	for {
		g := w.only(m)
		lane := bits.TrailingZeros32(m) & 31
		v := a[lane]
		if v >= uint64(len(in.table)) {
			w.fail(IllegalInstruction, in, lane, "branch index is beyond the table")
			return false
		}
		same := uint32(0)
		for t := m; t != 0; t &= t - 1 {
			if i := bits.TrailingZeros32(t) & 31; a[i] == v {
				same |= 1 << i
			}
		}
		if same == m {
			g.pc = in.table[v]
			return true
		}
		// The lanes with this target leave; the rest comes round again.
		w.groups[w.split(w.cur, same)].pc = in.table[v]
		m &^= same
	}
}

func (w *warp) setPreds(in *inst, t, m uint32) {
	q := ^t
	if in.sub != boolNone {
		c := w.p[in.pa] ^ in.pax
		switch in.sub {
		case boolAnd:
			t, q = t&c, q&c
		case boolOr:
			t, q = t|c, q|c
		case boolXor:
			t, q = t^c, q^c
		}
	}
	if in.pd != 0 {
		w.p[in.pd] = w.p[in.pd]&^m | t&m
	}
	if in.pq != 0 {
		w.p[in.pq] = w.p[in.pq]&^m | q&m
	}
}

const (
	boolNone uint8 = iota
	boolAnd
	boolOr
	boolXor
)

func (w *warp) selp(in *inst, m uint32) {
	p := w.p[in.pa] ^ in.pax
	d, a, b := w.reg(in.d), w.lane(in.a), w.lane(in.b)
	if m == full {
		for i := range d {
			t := -uint64(p >> i & 1)
			d[i] = b[i] ^ (a[i]^b[i])&t
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		t := -uint64(p >> i & 1)
		d[i] = b[i] ^ (a[i]^b[i])&t
	}
}
