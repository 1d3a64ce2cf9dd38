package exec

import "math/bits"

// Barriers of the block (PTX ISA, "bar", "barrier"). A thread that has ended no longer
// counts where no number of threads is given, so that an early return before a barrier
// does what it does on hardware. A given number counts warps in full: a warp whose live
// threads have all arrived stands for 32.
type barrier struct {
	count  uint32 // threads expected; 0 for all
	popc   uint32 // of bar.red: threads with a true predicate
	voters uint32
}

// barKind is in inst.sub.
const (
	barSync uint8 = iota
	barArrive
	barRedPopc
	barRedAnd
	barRedOr
)

func firstLane(mask uint32) int { return bits.TrailingZeros32(mask) & 31 }

// barrier arrives at a barrier: a is its number, b the count of threads or absent.
func (w *warp) barrier(in *inst, m uint32) bool {
	a := w.lane(in.a)
	id := a[firstLane(m)]
	for t := m; t != 0; t &= t - 1 { // lanes at another barrier come round again
		if i := firstLane(t); a[i] != id {
			m &^= 1 << i
		}
	}
	if id > 15 && in.flags&flagCluster == 0 {
		w.fail(IllegalInstruction, in, firstLane(m), "barrier number is beyond 15")
		return false
	}
	if active := w.groups[w.cur].mask & (w.p[in.guard] ^ in.guardX); active != m {
		other := w.split(w.cur, w.groups[w.cur].mask&^m)
		og := &w.groups[other]
		if rest := og.mask &^ active; rest != 0 && rest != og.mask {
			w.groups[w.split(other, rest)].pc++
		}
	} else {
		w.only(m)
	}
	g := &w.groups[w.cur]
	bar := &w.b.barriers[id]
	if in.imm != 0 { // a count is given
		bar.count = uint32(w.lane(in.b)[firstLane(m)])
		if bar.count == 0 || bar.count&31 != 0 {
			w.fail(IllegalInstruction, in, firstLane(m), "barrier count is not a multiple of the warp size")
			return false
		}
	}
	if in.sub >= barRedPopc {
		p := (w.p[in.pa] ^ in.pax) & m
		bar.popc += uint32(bits.OnesCount32(p))
		bar.voters += uint32(bits.OnesCount32(m))
	}
	w.arrived[id] |= m
	if in.sub == barArrive {
		g.pc++
	} else {
		g.state, g.bar = waitBar, uint8(id)
	}
	return w.b.complete(int(id)) || in.sub == barArrive
}

// complete opens barrier id if all it waits for are there.
func (b *block) complete(id int) bool {
	bar := &b.barriers[id]
	var n uint32
	any := false
	for i := range b.warps {
		w := &b.warps[i]
		arr := w.arrived[id]
		any = any || arr != 0
		if bar.count == 0 {
			if w.alive&^arr != 0 {
				return false
			}
			continue
		}
		if arr != 0 && w.alive&^arr == 0 {
			n += 32
		} else {
			n += uint32(bits.OnesCount32(arr))
		}
	}
	if !any || bar.count != 0 && n < bar.count {
		return false
	}
	for i := range b.warps {
		w := &b.warps[i]
		if w.arrived[id] == 0 {
			continue
		}
		w.arrived[id] = 0
		for j := range w.groups[:w.ng] {
			if g := &w.groups[j]; g.state == waitBar && int(g.bar) == id {
				w.release(g, bar)
			}
		}
	}
	*bar = barrier{}
	return true
}

// release lets a group go on with the result of the reduction.
func (w *warp) release(g *group, bar *barrier) {
	in := &w.code[g.pc]
	switch in.sub {
	case barRedPopc:
		d := &w.regs[g.base+in.d]
		for m := g.mask; m != 0; m &= m - 1 {
			d[firstLane(m)] = uint64(bar.popc)
		}
	case barRedAnd, barRedOr:
		p := &w.preds[g.pbase+in.pd]
		*p &^= g.mask
		if in.sub == barRedOr && bar.popc != 0 || in.sub == barRedAnd && bar.popc == bar.voters {
			*p |= g.mask
		}
	}
	g.state, g.bar = ready, 0
	g.pc++
}

// completeBarriers opens what the end of a thread has completed.
func (b *block) completeBarriers() {
	for id := range b.barriers {
		b.complete(id)
	}
}
