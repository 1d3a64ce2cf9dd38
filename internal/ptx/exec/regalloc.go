package exec

import (
	"container/heap"
	"math/bits"
	"slices"
	"sort"
)

// PTX has as many registers as it likes, most of them written once; a warp's frame
// would not fit any cache. Linear scan over live intervals packs them into few slots.
// Liveness is for one thread: lanes that are elsewhere keep their own values in the
// same slots, since every write is masked.

// slots calls f for every register slot of an instruction.
func (in *inst) slots(f func(s *int32, def bool)) {
	f(&in.a, false)
	f(&in.b, false)
	f(&in.c, false)
	for i := range in.vs {
		f(&in.vs[i], false)
	}
	if in.coll != nil {
		f(&in.coll.member, false)
	}
	if in.call != nil {
		for i := range in.call.args {
			f(&in.call.args[i].slot, false)
			f(&in.call.args[i].slotHi, false)
		}
	}
	f(&in.d, true)
	for i := range in.vd {
		f(&in.vd[i], true)
	}
	if in.call != nil {
		for i := range in.call.returns {
			f(&in.call.returns[i].slot, true)
			f(&in.call.returns[i].slotHi, true)
		}
	}
}

// maxLivenessBits bounds the memory of the data flow; a function beyond it keeps a slot
// per register.
const maxLivenessBits = 1 << 28

type bitset []uint64

func (b bitset) has(i int32) bool { return b[i>>6]>>(uint(i)&63)&1 != 0 }
func (b bitset) set(i int32)      { b[i>>6] |= 1 << (uint(i) & 63) }

// each calls f for every member.
func (b bitset) each(f func(i int32)) {
	for w, v := range b {
		for ; v != 0; v &= v - 1 {
			f(int32(64*w + bits.TrailingZeros64(v)))
		}
	}
}

// allocate gives the virtual registers of the function slots of its frame.
func (x *fnc) allocate(code []inst, blocks []laidBlock) {
	n := int(x.nv)
	// Registers that are used in one block only, after they were written there, need no
	// data flow.
	const none, several = -1, -2
	home := make([]int32, n)
	written := make([]int32, n) // block in which an unguarded write was seen
	for i := range home {
		home[i], written[i] = none, none
	}
	for bi := range blocks {
		b := int32(bi)
		for i := blocks[bi].lo; i < blocks[bi].hi; i++ {
			in := &code[i]
			certain := in.guard == 0 && in.guardX == 0
			in.slots(func(s *int32, def bool) {
				if *s < 0 {
					return
				}
				if home[*s] == none {
					home[*s] = b
				} else if home[*s] != b {
					home[*s] = several
				}
				if !def && written[*s] != b {
					home[*s] = several
				}
				if def && certain {
					written[*s] = b
				} else if def && written[*s] != b {
					home[*s] = several
				}
			})
		}
	}
	global := make([]int32, n)
	var shared []int32 // the registers that have a number in global
	ng := int32(0)
	for i := range home {
		global[i] = -1
		if home[i] == several {
			global[i] = ng
			shared = append(shared, int32(i))
			ng++
		}
	}
	if uint64(ng)*uint64(len(blocks))*2 > maxLivenessBits {
		x.fn.slots = x.nv
		for r, from := range x.junk() {
			x.fn.junk = append(x.fn.junk, copied{int32(r), from})
		}
		return
	}
	liveIn, liveOut := x.liveness(code, blocks, global, int(ng))

	// Intervals over positions 2*i (reads of instruction i) and 2*i+1 (its write).
	const never = int32(1) << 30
	start, end := make([]int32, n), make([]int32, n)
	for i := range start {
		start[i], end[i] = never, -1
	}
	touch := func(r, p int32) {
		start[r] = min(start[r], p)
		end[r] = max(end[r], p)
	}
	for bi := range blocks {
		lo, hi := int32(2*blocks[bi].lo), int32(2*blocks[bi].hi)
		for i := blocks[bi].lo; i < blocks[bi].hi; i++ {
			in := &code[i]
			// Only these read each lane's sources before they write its result.
			laneWise := in.kind == kALU || in.kind == kSelp
			in.slots(func(s *int32, def bool) {
				if *s < 0 {
					return
				}
				p := int32(2 * i)
				if def && laneWise {
					p++
				}
				touch(*s, p)
				if def {
					touch(*s, int32(2*i+1))
				}
			})
		}
		liveIn[bi].each(func(g int32) { touch(shared[g], lo) })
		liveOut[bi].each(func(g int32) { touch(shared[g], hi) })
	}
	for i := range x.fn.params {
		for _, s := range []int32{x.fn.params[i].slot, x.fn.params[i].slotHi} {
			if s >= 0 {
				touch(s, 0)
			}
		}
	}
	slot := scan(start, end, never, &x.fn.slots)
	junk := x.junk()
	for r, g := range global {
		if g >= 0 && len(blocks) > 0 && liveIn[0].has(g) {
			x.fn.junk = append(x.fn.junk, copied{slot[r], junk[r]})
		}
	}
	move := func(s *int32, _ bool) {
		if *s >= 0 {
			*s = slot[*s]
		}
	}
	for i := range code {
		code[i].slots(move)
	}
	for _, list := range [][]formal{x.fn.params, x.fn.returns} {
		for i := range list {
			move(&list[i].slot, false)
			move(&list[i].slotHi, false)
		}
	}
}

// junk gives for each virtual register the constant that it holds before it is written: set bits as wide as the PTX register,
// and zero where the decoder made it.
func (x *fnc) junk() []int32 {
	all := slices.Repeat([]int32{noSlot}, int(x.nv))
	for i, r := range x.f.Registers {
		if x.regs[i] >= 0 {
			all[x.regs[i]] = x.constant(widthMask(r.Type.Bits()))
		}
		if x.high[i] >= 0 {
			all[x.high[i]] = x.constant(widthMask(64))
		}
	}
	return all
}

// liveness solves the usual data flow for the registers that several blocks share.
func (x *fnc) liveness(code []inst, blocks []laidBlock, global []int32, ng int) (liveIn, liveOut []bitset) {
	words := (ng + 63) / 64
	nb := len(blocks)
	backing := make(bitset, 4*nb*words)
	take := func() bitset {
		b := backing[:words:words]
		backing = backing[words:]
		return b
	}
	use, kill := make([]bitset, nb), make([]bitset, nb)
	liveIn, liveOut = make([]bitset, nb), make([]bitset, nb)
	preds := make([][]int32, nb)
	for b := range blocks {
		use[b], kill[b], liveIn[b], liveOut[b] = take(), take(), take(), take()
		for _, s := range blocks[b].succ {
			preds[s] = append(preds[s], int32(b))
		}
		for i := blocks[b].lo; i < blocks[b].hi; i++ {
			in := &code[i]
			certain := in.guard == 0 && in.guardX == 0
			in.slots(func(s *int32, def bool) {
				if *s < 0 || global[*s] < 0 {
					return
				}
				g := global[*s]
				if def && certain {
					kill[b].set(g)
				} else if !def && !kill[b].has(g) {
					use[b].set(g)
				}
			})
		}
	}
	work := make([]int32, 0, nb)
	queued := make([]bool, nb)
	for b := range blocks { // the last block is taken first
		work = append(work, int32(b))
		queued[b] = true
	}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		queued[b] = false
		out := liveOut[b]
		for _, s := range blocks[b].succ {
			for i, v := range liveIn[s] {
				out[i] |= v
			}
		}
		changed := false
		for i := range out {
			v := use[b][i] | out[i]&^kill[b][i]
			if v != liveIn[b][i] {
				liveIn[b][i] = v
				changed = true
			}
		}
		if !changed {
			continue
		}
		for _, p := range preds[b] {
			if !queued[p] {
				queued[p] = true
				work = append(work, p)
			}
		}
	}
	return liveIn, liveOut
}

// ending is a slot in use until a position.
type ending struct{ end, slot int32 }

type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].end < e[j].end }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(v any)        { *e = append(*e, v.(ending)) }
func (e *endings) Pop() any {
	old := *e
	v := old[len(old)-1]
	*e = old[:len(old)-1]
	return v
}

// scan is the linear scan: the slot freed last is used first, as it is still in cache.
func scan(start, end []int32, never int32, count *int32) []int32 {
	n := len(start)
	slot := make([]int32, n)
	order := make([]int32, 0, n)
	for i := range n {
		if start[i] != never {
			order = append(order, int32(i))
		}
	}
	sort.Slice(order, func(i, j int) bool {
		a, b := order[i], order[j]
		return start[a] < start[b] || start[a] == start[b] && a < b
	})
	var active endings
	var free []int32
	for _, r := range order {
		for len(active) > 0 && active[0].end < start[r] {
			free = append(free, heap.Pop(&active).(ending).slot)
		}
		if k := len(free); k > 0 {
			slot[r] = free[k-1]
			free = free[:k-1]
		} else {
			slot[r] = *count
			*count++
		}
		heap.Push(&active, ending{end[r], slot[r]})
	}
	return slot
}
