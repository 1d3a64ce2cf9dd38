package gpu

import "math/bits"

// Group is lanes of a warp that work together, and need no other lane for it. It is a tile of 1 to 32 neighbours, or the
// lanes that are at one place. All lanes of a group that have not returned have to call its functions together. Other groups of
// the warp may do something else in the meantime. It is a tiled_partition or coalesced_threads of CUDA C.
type Group struct {
	t     *Thread
	size  int
	lanes uint32
	tile  bool
}

// Tile is the group of this lane where the warp is cut into tiles of so many lanes. That is 1, 2, 4, 8, 16 or 32, and a
// constant in a kernel.
func Tile(t *Thread, lanes int) Group {
	if lanes < 1 || lanes > warpSize || lanes&(lanes-1) != 0 {
		fault("gpu.Tile: a tile has 1, 2, 4, 8, 16 or 32 lanes, not %d", lanes)
	}
	all := uint32(1<<lanes - 1)
	return Group{t: t, size: lanes, lanes: all << (t.Lane() &^ (lanes - 1)), tile: true}
}

// Active is a group of lanes that are at this place now, this one among them. Which others are is left open: a kernel
// has to be right with each of them alone, too. It saves atomics, say: one lane adds for all.
func Active(t *Thread) Group {
	lanes := activeLanes(t)
	return Group{t: t, size: bits.OnesCount32(lanes), lanes: lanes}
}

// Size is the number of lanes.
func (g Group) Size() int { return g.size }

// Lanes has a bit for each lane of the group: its number in the warp.
func (g Group) Lanes() uint32 { return g.lanes }

// Rank is the number of this lane in the group, from 0 on.
func (g Group) Rank() int {
	if g.tile {
		return g.t.Lane() & (g.size - 1)
	}
	return bits.OnesCount32(g.lanes & LaneMaskBelow(g.t))
}

// Barrier waits until all lanes of the group are here. What they have written before it is seen by all of them after it.
func (g Group) Barrier() { groupBarrier(g.t, g.lanes) }

// Ballot has a bit for each lane of the group, at its place in the warp: whether its p holds.
func (g Group) Ballot(p bool) uint32 { return groupBallot(g.t, g.lanes, p) }

// All reports whether p holds in all lanes of the group.
func (g Group) All(p bool) bool { return groupBallot(g.t, g.lanes, p) == g.lanes }

// Any reports whether p holds in any lane of the group.
func (g Group) Any(p bool) bool { return groupBallot(g.t, g.lanes, p) != 0 }

// lane is the lane with a rank.
func (g Group) lane(rank int) int {
	if g.tile {
		return g.t.Lane()&^(g.size-1) | rank&(g.size-1)
	}
	at := 0
	for w := 16; w > 0; w /= 2 {
		if n := bits.OnesCount32(g.lanes >> at & (1<<w - 1)); rank >= n {
			rank -= n
			at += w
		}
	}
	return at & (warpSize - 1)
}

// GroupShuffle returns the v of the lane with a rank in the group. In a tile the rank counts modulo Size; else it is
// below Size.
func GroupShuffle[T Word](g Group, v T, rank int) T {
	return groupShuffle(g.t, g.lanes, v, g.lane(rank))
}

// GroupReduce combines the v of all lanes of the group, and gives the result to each. Of combine, the order of its
// arguments and of its calls must not matter. Of rounded sums the order is fixed: in a tile, lanes Size/2 apart come first.
func GroupReduce[T Word](g Group, v T, combine func(a, b T) T) T {
	rank := g.Rank()
	if g.tile {
		for d := g.size / 2; d > 0; d /= 2 {
			v = combine(v, GroupShuffle(g, v, rank^d))
		}
		return v
	}
	for d := 1; d < g.size; d *= 2 {
		from := rank
		if rank+d < g.size {
			from = rank + d
		}
		if other := GroupShuffle(g, v, from); from != rank && rank&(2*d-1) == 0 {
			v = combine(v, other)
		}
	}
	return GroupShuffle(g, v, 0)
}

// What follows are instructions on a GPU.

func activeLanes(t *Thread) uint32 {
	t.meet("Active", 0, site(), 0)
	return t.b.groups[t.rank].lanes
}

func groupBarrier(t *Thread, lanes uint32) { t.meet("Group.Barrier", lanes, 0, 0) }

func groupBallot(t *Thread, lanes uint32, p bool) (mask uint32) {
	const op = "Group.Ballot"
	t.meet(op, lanes, 0, word(p))
	for lane := range warpSize {
		if lanes>>lane&1 != 0 {
			if v, ok := t.brought(op, lane); ok {
				mask |= uint32(v) << lane
			}
		}
	}
	return mask
}

func groupShuffle[T Word](t *Thread, lanes uint32, v T, lane int) T {
	const op = "GroupShuffle"
	t.meet(op, lanes, 0, toBits(v))
	got, ok := t.brought(op, lane)
	if !ok {
		fault("gpu.%s: lane %d asks for the value of lane %d, which has returned, or is not in the group", op, t.Lane(), lane)
	}
	return fromBits[T](got)
}

// grouped is what a lane brings to a function of a group, and what it gets there: what the others have brought.
type grouped struct {
	lanes uint32 // for which it waits; of Active those that it has met
	site  uint64 // of Active
	op    string
	value uint64
	met   uint32
	got   *[warpSize]struct {
		op    string
		value uint64
	}
}

// meet brings a value, and waits for the lanes of the group.
//
//go:norace
func (t *Thread) meet(op string, lanes uint32, site, v uint64) {
	own := &t.b.groups[t.rank]
	if own.got == nil {
		own.got = new([warpSize]struct {
			op    string
			value uint64
		})
	}
	own.lanes, own.site, own.op, own.value = lanes, site, op, v
	t.wait(t, atGroup)
}

// brought is what a lane has brought to the same call. It has not where it has returned.
//
//go:norace
func (t *Thread) brought(op string, lane int) (uint64, bool) {
	own := &t.b.groups[t.rank]
	if own.met>>lane&1 == 0 {
		return 0, false
	}
	if p := own.got[lane].op; p != op {
		fault("gpu.%s: lane %d is here while lane %d of its group is at gpu.%s", op, t.Lane(), lane, p)
	}
	return own.got[lane].value, true
}

// meetGroups lets the lanes of a warp go on whose groups are complete, and reports whether there are any. Active takes
// those that are there: while others run, as each thread does that is a goroutine, that can be one alone.
//
//go:norace
func (b *block) meetGroups(first, end int) (any bool) {
	for i := first; i < end; i++ {
		if b.at[i] != atGroup {
			continue
		}
		own, lanes, complete := &b.groups[i], uint32(0), true
		for j := first; j < end; j++ {
			g := &b.groups[j]
			if b.at[j] == atGroup && g.site == own.site && (g.site != 0 || g.lanes == own.lanes) {
				lanes |= 1 << (j - first)
			} else if own.site == 0 && own.lanes>>(j-first)&1 != 0 && b.at[j] != returned {
				complete = false
			}
		}
		if complete {
			any = true
			b.goOn(first, end, lanes)
		}
	}
	return any
}

// goOn gives each lane of a group what all have brought.
//
//go:norace
func (b *block) goOn(first, end int, lanes uint32) {
	for j := first; j < end; j++ {
		if lanes>>(j-first)&1 == 0 {
			continue
		}
		g := &b.groups[j]
		for k := first; k < end; k++ {
			if lanes>>(k-first)&1 != 0 {
				g.got[k-first].op, g.got[k-first].value = b.groups[k].op, b.groups[k].value
			}
		}
		g.met, b.at[j] = lanes, running
		if g.site != 0 {
			g.lanes = lanes
		}
	}
}
