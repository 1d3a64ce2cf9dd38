package tiles

import (
	"math/bits"
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// The k first elements. Each pass counts a digit of those that may be the k-th one, from the highest digit on. Its last
// block finds the digit of that one. As soon as few may be it, a pass copies them, and the next ones read the copy. The last
// kernel takes all before the k-th one, and of those equal to it the first ones.

const topBits, topDigits = 11, 2048

// TopPasses is how many digits a key of this size has.
func TopPasses(size int) int { return (8*size + topBits - 1) / topBits }

// TopCounters is how many counters a pass has. They begin with 0.
const TopCounters = topDigits + 1

// Top is what passes say to each other. It begins with 0.
type Top struct {
	Prefix uint64 // the digits of the k-th element that are known
	Need   uint64 // it is this one of those with the same digits, from 1 on
	Same   uint64 // how many have the same digits
	Copied uint64 // how many of them are in the copy; 0 where there is none
}

// TopOrder says which elements come first.
type TopOrder struct {
	Order    Order
	Smallest uint32 // 1: the smallest ones come first
}

// rank is a number that is smaller for keys that come first.
func rank[W uint32 | uint64](k W, o TopOrder) W {
	all, negative := flips[W](o.Order)
	return ordered(k, all, negative) ^ gpu.Select(o.Smallest != 0, 0, ^W(0))
}

// TopCount counts the digit of a pass. counters are those of the pass.
func TopCount[W uint32 | uint64](t *gpu.Thread, o TopOrder, pass int, k uint64, counters []uint32, top []Top, keys, few []W) {
	const copies = 4
	memory := gpu.Shared[[topDigits * copies]uint32](t)
	last := gpu.Shared[uint32](t)
	var zero W
	known := pass * topBits
	width := min(topBits, 8*int(unsafe.Sizeof(zero))-known)
	shift := 8*int(unsafe.Sizeof(zero)) - known - width
	state := top[0]
	if pass == 0 {
		state.Need = k
	}
	prefix := W(state.Prefix)
	in, copying := keys, pass > 0 && state.Copied == 0 && state.Same <= uint64(len(few))
	if state.Copied > 0 {
		in = few[:state.Copied]
	}
	h := block.NewHistogram(t, memory[:], copies)
	const ahead = 4
	lane := t.Lane()
	for i := t.GlobalX() - lane; i < len(in); i += ahead * t.GlobalDimX() {
		var x [ahead]W
		var there [ahead]bool
		for j := range ahead {
			at := i + j*t.GlobalDimX() + lane
			if at < len(in) {
				x[j] = rank(in[at], o)
				there[j] = pass == 0 || x[j]>>(shift+width) == prefix
			}
		}
		for j := range ahead {
			if there[j] {
				h.Count(int(x[j] >> shift & (1<<width - 1)))
			}
			if copying {
				all := gpu.Ballot(t, there[j])
				if all != 0 {
					var at uint64
					if lane == 0 {
						at = gpu.AtomicAdd(&top[1].Copied, uint64(bits.OnesCount32(all)))
					}
					at = gpu.Shuffle(t, at, 0)
					if there[j] {
						few[at+uint64(bits.OnesCount32(all&gpu.LaneMaskBelow(t)))] = keys[i+j*t.GlobalDimX()+lane]
					}
				}
			}
		}
	}
	t.Barrier()
	for d := t.ThreadX(); d < topDigits; d += TileThreads {
		if n := h.Of(d); n > 0 {
			gpu.AtomicAdd(&counters[d], n)
		}
	}
	gpu.Fence(gpu.AcquireRelease, gpu.DeviceScope)
	t.Barrier()
	if t.ThreadX() == 0 {
		*last = gpu.AtomicAdd(&counters[topDigits], 1)
		gpu.Fence(gpu.AcquireRelease, gpu.DeviceScope)
	}
	t.Barrier()
	if int(*last) != t.GridDimX()-1 {
		return
	}
	const each = topDigits / TileThreads
	var n [each]uint32
	var sum uint64
	for j := range each {
		n[j] = gpu.AtomicLoad(&counters[t.ThreadX()*each+j], gpu.Relaxed, gpu.DeviceScope)
		sum += uint64(n[j])
	}
	below, _ := block.ExclusiveScan(t, block.Add[uint64]{}, sum)
	for j := range each {
		if below < state.Need && state.Need <= below+uint64(n[j]) {
			copied := state.Copied
			if copying {
				copied = state.Same
			}
			top[0] = Top{state.Prefix<<width | uint64(t.ThreadX()*each+j), state.Need - below, uint64(n[j]), copied}
		}
		below += uint64(n[j])
	}
}

// TopTake writes the first ones to out in their order, and to places where they stand in keys. words are as those of Scan.
func TopTake[W uint32 | uint64](t *gpu.Thread, o TopOrder, wide bool, out []W, places []uint32, keys []W, top []Top, words []uint64) {
	warps := gpu.Shared[[32]uint32](t)
	prefix := gpu.Shared[uint64](t)
	number := gpu.Shared[uint32](t)
	tile := take(t, number, &words[0])
	limit, need := W(top[0].Prefix), uint32(top[0].Need)
	var x [8][4]W
	size := unsafe.Sizeof(x[0][0])
	vectors, width := Vectors(size), Width(size)
	first := (tile*TileThreads+t.Warp()*32)*vectors + t.Lane()
	full := wide && (tile+1)*Tile(size) <= len(keys)
	loadTile(&x, keys, first, full, 0)
	// How many come before the k-th one is in the upper half of each word, and how many are equal in the lower half.
	var up [8]uint32
	for k := range vectors {
		for j := range width {
			if full || (first+k*32)*width+j < len(keys) {
				r := rank(x[k][j], o)
				up[k] += gpu.Select[uint32](r < limit, 1<<16, 0) + gpu.Select[uint32](r == limit, 1, 0)
			}
		}
	}
	any := uint32(0)
	for k := range vectors {
		any |= up[k]
	}
	var below [8]uint32
	var carry uint32
	if gpu.Any(t, any != 0) {
		for k := range vectors {
			sum := block.WarpScan(t, block.Add[uint32]{}, up[k])
			below[k] = carry + sum - up[k]
			carry += gpu.Shuffle(t, sum, 31)
		}
	}
	if t.Lane() == 0 {
		warps[t.Warp()] = carry
	}
	t.Barrier()
	own, total := amongWarps(t, block.Add[uint32]{}, warps)
	if t.Warp() == 0 {
		s := Totals[uint64]{Words: words[Words:]}
		all := uint64(total>>16)<<32 | uint64(total&0xffff)
		if t.Lane() == 0 {
			s.put(tile, all)
		}
		p := preceding(t, block.Add[uint64]{}, s, t.GridDimX(), tile, all)
		if t.Lane() == 0 {
			*prefix = p
		}
	}
	t.Barrier()
	if carry == 0 {
		return
	}
	before, equal := uint32(*prefix>>32), uint32(*prefix)
	for k := range vectors {
		b := own + below[k]
		first0, equal0 := before+b>>16, equal+b&0xffff
		for j := range width {
			i := (first+k*32)*width + j
			if full || i < len(keys) {
				r := rank(x[k][j], o)
				if r < limit || r == limit && equal0 < need {
					at := first0 + min(equal0, need)
					out[at] = x[k][j]
					if len(places) > 0 {
						places[at] = uint32(i)
					}
				}
				first0 += gpu.Select[uint32](r < limit, 1, 0)
				equal0 += gpu.Select[uint32](r == limit, 1, 0)
			}
		}
	}
}

// TopCountKeys is TopCount for keys of any type.
func TopCountKeys[K any](t *gpu.Thread, o TopOrder, pass int, k uint64, counters []uint32, top []Top, keys, few []K) {
	var zero K
	if unsafe.Sizeof(zero) == 4 {
		TopCount(t, o, pass, k, counters, top, gpu.View[uint32](keys), gpu.View[uint32](few))
	} else {
		TopCount(t, o, pass, k, counters, top, gpu.View[uint64](keys), gpu.View[uint64](few))
	}
}

// TopTakeKeys is TopTake for keys of any type.
func TopTakeKeys[K any](t *gpu.Thread, o TopOrder, wide bool, out []K, places []uint32, keys []K, top []Top, words []uint64) {
	var zero K
	if unsafe.Sizeof(zero) == 4 {
		TopTake(t, o, wide, gpu.View[uint32](out), places, gpu.View[uint32](keys), top, words)
	} else {
		TopTake(t, o, wide, gpu.View[uint64](out), places, gpu.View[uint64](keys), top, words)
	}
}

// Ranks gives the function that is smaller for keys that come first, on the CPU.
func Ranks[K any](o Order, smallest bool) func(k K) uint64 {
	order := TopOrder{Order: o, Smallest: gpu.Select[uint32](smallest, 1, 0)}
	var zero K
	if unsafe.Sizeof(zero) == 4 {
		return func(k K) uint64 { return uint64(rank(*(*uint32)(unsafe.Pointer(&k)), order)) }
	}
	return func(k K) uint64 { return rank(*(*uint64)(unsafe.Pointer(&k)), order) }
}
