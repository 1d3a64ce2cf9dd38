package exec

// collective is an instruction of several lanes of a warp: shuffles, votes, match,
// redux, bar.warp.sync. The lanes of the member mask wait for one another, wherever
// they are; lanes that have ended do not count. When all are there, give stores what
// each lane brings in the warp's exchange buffers, and take computes the results of
// some of them (the ones of one group).
type collective struct {
	give func(w *warp, in *inst, mask uint32)
	take func(w *warp, in *inst, mask, members uint32)

	sync bool // has a member mask, in operand member; otherwise the active lanes take part
	// member is the slot of the member mask.
	member int32
	family uint8 // instructions of one family meet, though they be different ones
}

// collect executes a collective instruction for the active lanes m.
func (w *warp) collect(in *inst, m uint32) bool {
	c := in.coll
	if !c.sync {
		c.give(w, in, m)
		c.take(w, in, m, m)
		w.groups[w.cur].pc++
		return true
	}
	members := w.lane(c.member)
	// The common case: all active lanes give the same mask, and all of it is here.
	want := uint32(members[firstLane(m)])
	same := true
	for t := m; t != 0 && c.member >= 0; t &= t - 1 { // a constant is the same anyway
		if uint32(members[firstLane(t)]) != want {
			same = false
			break
		}
	}
	if same && want&w.alive&^m == 0 {
		c.give(w, in, m)
		c.take(w, in, m, m)
		w.groups[w.cur].pc++
		return true
	}
	g := w.only(m)
	g.state = waitSync
	w.tryCollectives()
	return false
}

// tryCollectives lets the lanes go on whose partners have all come.
func (w *warp) tryCollectives() {
	w.merge() // lanes at one instruction act as one
	waiting := uint32(0)
	for i := range w.groups[:w.ng] {
		if w.groups[i].state == waitSync {
			waiting |= w.groups[i].mask
		}
	}
	for waiting != 0 {
		lane := firstLane(waiting)
		family, want := w.waitsFor(lane)
		var here uint32
		for t := waiting; t != 0; t &= t - 1 {
			i := firstLane(t)
			if f, x := w.waitsFor(i); f == family && x == want {
				here |= 1 << i
			}
		}
		waiting &^= here
		if want&w.alive&^here == 0 {
			w.together(here)
		}
	}
}

// waitsFor returns the member mask that a waiting lane has named.
func (w *warp) waitsFor(lane int) (family uint8, members uint32) {
	for i := range w.groups[:w.ng] {
		if g := &w.groups[i]; g.mask>>lane&1 != 0 {
			c := w.code[g.pc].coll
			if c.member < 0 {
				return c.family, uint32(w.k[^c.member][lane])
			}
			return c.family, uint32(w.regs[g.base+c.member][lane])
		}
	}
	return 0, 0
}

// together executes the collective of lanes that are in one or more waiting groups.
func (w *warp) together(here uint32) {
	saved := w.cur
	for i := range w.groups[:w.ng] {
		if g := &w.groups[i]; g.state == waitSync && g.mask&here != 0 {
			w.frame(g)
			in := &w.code[g.pc]
			in.coll.give(w, in, g.mask&here)
		}
	}
	for i := 0; i < w.ng; i++ {
		g := &w.groups[i]
		part := g.mask & here
		if g.state != waitSync || part == 0 {
			continue
		}
		w.frame(g)
		in := &w.code[g.pc]
		in.coll.take(w, in, part, here)
		if part != g.mask {
			g = &w.groups[w.split(i, part)]
		}
		g.state = ready
		g.pc++
	}
	w.cur = saved
	if w.cur < w.ng {
		w.frame(&w.groups[w.cur])
	}
}

// Families of collectives.
const (
	famBar uint8 = iota
	famShfl
	famVote
	famMatch
	famRedux
	famElect
	famMMA
)

func giveNothing(*warp, *inst, uint32) {}

func takeNothing(*warp, *inst, uint32, uint32) {}

// giveA exchanges the value of operand a.
func giveA(w *warp, in *inst, mask uint32) { blend(&w.xa, w.lane(in.a), mask) }

// givePred exchanges the predicate operand.
func givePred(w *warp, in *inst, mask uint32) {
	w.xp = w.xp&^mask | (w.p[in.pa]^in.pax)&mask
}

// Shuffles (PTX ISA, "shfl.sync"): b is the lane or the distance, c holds the clamp in
// bits 0-4 and the segment mask in bits 8-12. A lane that does not take part as source
// gives the reader its own value, as one out of range does.
const (
	shflUp uint8 = iota
	shflDown
	shflBfly
	shflIdx
)

func takeShfl(w *warp, in *inst, mask, members uint32) {
	bs, cs := w.lane(in.b), w.lane(in.c)
	var ok uint32
	// d may be the register that b or c live in: read all before writing.
	out := &w.tmp
	if members == full && in.b < 0 && in.c < 0 && in.pd == 0 && cs[0] == 31 && in.sub >= shflBfly {
		// The butterfly and the broadcast over the whole warp are most of what is used.
		b := int(bs[0] & 31)
		if in.sub == shflBfly {
			for i := range out {
				out[i] = w.xa[(i^b)&31]
			}
		} else {
			for i := range out {
				out[i] = w.xa[b]
			}
		}
		blend(w.reg(in.d), out, mask)
		return
	}
	for m := mask; m != 0; m &= m - 1 {
		i := firstLane(m)
		b, c := int(bs[i]&31), uint32(cs[i])
		clamp, seg := int(c&31), int(c>>8&31)
		maxLane := i&seg | clamp&^seg
		minLane := i & seg
		var j int
		var in2 bool
		switch in.sub {
		case shflUp:
			j = i - b
			in2 = j >= maxLane
		case shflDown:
			j = i + b
			in2 = j <= maxLane
		case shflBfly:
			j = i ^ b
			in2 = j <= maxLane
		default:
			j = minLane | b&^seg
			in2 = j <= maxLane
		}
		if !in2 {
			j = i
		} else {
			ok |= 1 << i
		}
		if j &= 31; members>>j&1 == 0 {
			j = i
		}
		out[i] = w.xa[j]
	}
	blend(w.reg(in.d), out, mask)
	if in.pd != 0 {
		w.p[in.pd] = w.p[in.pd]&^mask | ok
	}
}

// Votes (PTX ISA, "vote.sync").
const (
	voteAll uint8 = iota
	voteAny
	voteUni
	voteBallot
)

func takeVote(w *warp, in *inst, mask, members uint32) {
	p := w.xp & members
	var r bool
	switch in.sub {
	case voteAll:
		r = p == members
	case voteAny:
		r = p != 0
	case voteUni:
		r = p == 0 || p == members
	default:
		w.broadcast(in.d, uint64(p), mask)
		return
	}
	w.p[in.pd] &^= mask
	if r {
		w.p[in.pd] |= mask
	}
}

func (w *warp) broadcast(d int32, v uint64, mask uint32) {
	r := w.reg(d)
	for m := mask; m != 0; m &= m - 1 {
		r[firstLane(m)] = v
	}
}

// takeMatch is match.any and, with sub set, match.all (PTX ISA, "match.sync").
func takeMatch(w *warp, in *inst, mask, members uint32) {
	d := w.reg(in.d)
	same := func(v uint64) (s uint32) {
		for m := members; m != 0; m &= m - 1 {
			if i := firstLane(m); w.xa[i] == v {
				s |= 1 << i
			}
		}
		return s
	}
	if in.sub != 0 {
		s := same(w.xa[firstLane(members)])
		if s != members {
			s = 0
		}
		w.broadcast(in.d, uint64(s), mask)
		if in.pd != 0 {
			w.p[in.pd] &^= mask
			if s != 0 {
				w.p[in.pd] |= mask
			}
		}
		return
	}
	for m := mask; m != 0; m &= m - 1 {
		i := firstLane(m)
		d[i] = uint64(same(w.xa[i]))
	}
}

// takeRedux folds the values of all members with the instruction's alu, which takes
// two of them (PTX ISA, "redux.sync").
func takeRedux(w *warp, in *inst, mask, members uint32) {
	f := in.call.fold
	i := firstLane(members)
	v := w.xa[i]
	for m := members &^ (1 << i); m != 0; m &= m - 1 {
		v = f(v, w.xa[firstLane(m)])
	}
	w.broadcast(in.d, v, mask)
}

// takeElect chooses the lowest lane (PTX ISA, "elect.sync").
func takeElect(w *warp, in *inst, mask, members uint32) {
	leader := firstLane(members)
	if in.d >= 0 {
		w.broadcast(in.d, uint64(leader), mask)
	}
	if in.pd != 0 {
		w.p[in.pd] &^= mask
		w.p[in.pd] |= mask & (1 << leader)
	}
}

// runActive is activemask.
func runActive(w *warp, in *inst, mask uint32) { w.broadcast(in.d, uint64(mask), mask) }
