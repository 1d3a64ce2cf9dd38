package tiles

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// Radix sort by Onesweep, with digits of 8 bits: Count counts the digits of all passes and makes of the counts the places
// where each digit begins. A pass then reads each key once and writes it once.

// SortThreads is the block of the kernels here.
const SortThreads = 384

const digits = 256

// SortItems is how many keys a thread has, where keys or values have this size at most.
func SortItems(size uintptr) int { return max(1, min(23, 120/int(size))) }

// SortShared is how much dynamic shared memory a pass needs.
func SortShared(size uintptr) int {
	return max(SortThreads*SortItems(size)*int(size), SortThreads/32*digits*4)
}

// PassShared is how much shared memory a pass has besides.
const PassShared = 4*digits + 16 + 128

// Order says how keys compare.
type Order uint32

// The orders.
const (
	Unsigned Order = iota
	Signed
	Float
)

// Work is the layout of the words that Count leaves for the passes, for so many passes and portions. All before begins
// starts with 0.
type Work struct{ Passes, Portions int }

func (w Work) done() int             { return w.Passes * digits }
func (w Work) tile(launch int) int   { return w.done() + 1 + launch }
func (w Work) begins(launch int) int { return w.Zeros() + launch*digits }

// Zeros is how many words begin with 0.
func (w Work) Zeros() int { return w.done() + 1 + w.Passes*w.Portions }

// Len is how many words there are.
func (w Work) Len() int { return w.begins(w.Passes * w.Portions) }

// flips has the bits that change in each key, so that their order is that of numbers without a sign, and those that change
// where the key is negative.
func flips[W uint32 | uint64](o Order) (all, negative W) {
	all = 1 << (8*unsafe.Sizeof(all) - 1)
	return gpu.Select(o == Unsigned, 0, all), gpu.Select(o == Float, all-1, 0)
}

// ordered is a number without a sign whose order is that of k.
func ordered[W uint32 | uint64](k, all, negative W) W {
	return k ^ (-(k >> (8*unsafe.Sizeof(k) - 1)) & negative) ^ all
}

// plain is the key that ordered has made the number of.
func plain[W uint32 | uint64](k, all, negative W) W {
	k ^= all
	return k ^ (-(k >> (8*unsafe.Sizeof(k) - 1)) & negative)
}

// KeyOrder compares keys as Sort does. It has the flips of their order.
type KeyOrder[K any] struct{ All, Negative uint64 }

// NewKeyOrder compares by an order.
func NewKeyOrder[K any](o Order) KeyOrder[K] {
	var zero K
	if unsafe.Sizeof(zero) == 4 {
		all, negative := flips[uint32](o)
		return KeyOrder[K]{uint64(all), uint64(negative)}
	}
	all, negative := flips[uint64](o)
	return KeyOrder[K]{all, negative}
}

// Less reports whether a comes before b.
func (o KeyOrder[K]) Less(a, b K) bool {
	if unsafe.Sizeof(a) == 4 {
		all, negative := uint32(o.All), uint32(o.Negative)
		return ordered(uint32(gpu.Bits(a)), all, negative) < ordered(uint32(gpu.Bits(b)), all, negative)
	}
	return ordered(gpu.Bits(a), o.All, o.Negative) < ordered(gpu.Bits(b), o.All, o.Negative)
}

// Count counts digits, and clears the status of the first launch.
func Count[W uint32 | uint64](t *gpu.Thread, o Order, portions int, work, status []uint32, keys []W) {
	const ahead = 4
	memory := gpu.Shared[[32 * digits]uint32](t)
	last := gpu.Shared[uint32](t)
	var zero W
	passes := int(unsafe.Sizeof(zero))
	w := Work{passes, portions}
	for i := t.GlobalX(); i < len(status); i += t.GlobalDimX() {
		status[i] = 0
	}
	all, negative := flips[W](o)
	h := block.NewHistogram(t, memory[:], 32/passes) // bin p*digits+d is digit d of pass p
	i, step := t.GlobalX(), t.GlobalDimX()
	for ; i+(ahead-1)*step < len(keys); i += ahead * step {
		var x [ahead]W
		for k := range ahead {
			x[k] = keys[i+k*step]
		}
		for k := range ahead {
			countDigits(h, ordered(x[k], all, negative))
		}
	}
	for ; i < len(keys); i += step {
		countDigits(h, ordered(keys[i], all, negative))
	}
	t.Barrier()
	for b := t.ThreadX(); b < passes*digits; b += SortThreads {
		if n := h.Of(b); n > 0 {
			gpu.AtomicAdd(&work[b], n)
		}
	}
	gpu.Fence(gpu.AcquireRelease, gpu.DeviceScope)
	t.Barrier()
	if t.ThreadX() == 0 {
		*last = gpu.AtomicAdd(&work[w.done()], 1)
		gpu.Fence(gpu.AcquireRelease, gpu.DeviceScope)
	}
	t.Barrier()
	if int(*last) != t.GridDimX()-1 {
		return
	}
	for p := 0; p < passes; p++ {
		var n uint32
		if t.ThreadX() < digits {
			n = gpu.AtomicLoad(&work[p*digits+t.ThreadX()], gpu.Relaxed, gpu.DeviceScope)
		}
		begin, _ := block.ExclusiveScan(t, block.Add[uint32]{}, n)
		if t.ThreadX() < digits {
			work[w.begins(p*portions)+t.ThreadX()] = begin
		}
	}
}

func countDigits[W uint32 | uint64](h block.Histogram, k W) {
	for p := range int(unsafe.Sizeof(k)) {
		h.From(p * digits).Count(int(k >> (8 * p) & 255))
	}
}

// A status word of a tile and a digit has the state in its upper two bits, and a count in the others. It is of the digit in
// the tile, or in all tiles of the portion up to and with it.
const (
	ofTile    = 1 << 30
	upToTile  = 2 << 30
	countMask = 1<<30 - 1
)

// MaxPortion is how many keys a launch takes at most: a count of them has 30 bits.
const MaxPortion = 1<<30 - 1

// Pass is where a launch of Sort stands.
type Pass struct {
	Order                                 Order // of the keys as they come in
	Pass, Passes, Portion, Portions, From int   // From is where the portion begins
}

// Sort moves the keys of a portion to their places by a digit, and their values with them.
// V is struct{} where there are no values. The dynamic shared memory is SortShared.
func Sort[W uint32 | uint64, V any](t *gpu.Thread, p Pass, outKeys, keys []W, outValues, values []V, work, status, next []uint32) {
	starts := gpu.Shared[[digits]uint32](t) // the first place of a digit in the tile, and then in the output, less that
	number := gpu.Shared[uint32](t)
	counts, buf := gpu.DynamicShared[uint32](t), gpu.DynamicShared[W](t)
	var w W
	var v V
	items, pairs := SortItems(max(unsafe.Sizeof(w), unsafe.Sizeof(v))), unsafe.Sizeof(v) > 0
	shift := uint32(p.Pass * 8)
	layout := Work{p.Passes, p.Portions}
	launch := p.Pass*p.Portions + p.Portion
	own := counts[t.Warp()*digits:] // of the warp
	var n uint32
	if t.ThreadX() == 0 {
		n = gpu.AtomicAdd(&work[layout.tile(launch)], 1)
	}
	for i := range digits / 32 { // while the atomic is on its way
		own[i*32+t.Lane()] = 0
	}
	if t.ThreadX() == 0 {
		*number = n
	}
	t.Barrier()
	tile := int(*number)
	first := p.From + tile*SortThreads*items
	full := first+SortThreads*items <= len(keys)

	var key [23]W
	at := first + t.Warp()*32*items + t.Lane()
	if full {
		x := keys[at:]
		for i := range items {
			key[i] = gpu.LoadStreaming(&x[i*32])
		}
	} else {
		for i := range items {
			key[i] = ^W(0)
			if at+i*32 < len(keys) {
				key[i] = keys[at+i*32]
			}
		}
	}
	if p.Pass == 0 && p.Order != Unsigned {
		all, negative := flips[W](p.Order)
		for i := range items {
			key[i] = ordered(key[i], all, negative)
		}
		if !full {
			for i := range items {
				key[i] = gpu.Select(at+i*32 < len(keys), key[i], ^W(0))
			}
		}
	}
	for i := range items {
		gpu.AtomicAdd(&own[int(key[i]>>shift&255)], 1)
	}
	t.Barrier()
	var count uint32                // of digit ThreadX in the tile
	var of [SortThreads / 32]uint32 // in each warp
	d := t.ThreadX()
	if d < digits {
		for w := range SortThreads / 32 {
			of[w] = counts[w*digits+d]
			count += of[w]
		}
		gpu.AtomicStore(&status[tile*digits+d], gpu.Select[uint32](tile == 0, upToTile, ofTile)|count, gpu.Relaxed, gpu.DeviceScope)
		for i := tile*digits + d; i < len(next); i += t.GridDimX() * digits {
			next[i] = 0 // for the next launch
		}
	}
	start, _ := block.ExclusiveScan(t, block.Add[uint32]{}, count)
	if d < digits {
		at := start
		for w := range SortThreads / 32 {
			counts[w*digits+d] = at
			at += of[w]
		}
	}
	t.Barrier()
	var ranks [12]uint32 // two in a word: a tile has less than 2^16 keys
	for i := range items {
		ranks[i/2] |= block.RadixRank(t, own, uint32(key[i]>>shift&255)) << (i % 2 * 16)
	}
	t.Barrier()
	for i := range items {
		buf[ranks[i/2]>>(i%2*16)&0xffff] = key[i]
	}
	var value [23]V
	if pairs { // they arrive while the tile looks back
		if full {
			x := values[at:]
			for i := range items {
				value[i] = gpu.LoadStreaming(&x[i*32])
			}
		} else {
			for i := range items {
				if at+i*32 < len(keys) {
					value[i] = values[at+i*32]
				}
			}
		}
	}
	if d < digits {
		var below uint32
		if tile > 0 {
			below = lookBack(t, status, tile, d)
			gpu.AtomicStore(&status[tile*digits+d], upToTile|(below+count), gpu.Relaxed, gpu.DeviceScope)
		}
		begin := work[layout.begins(launch)+d]
		starts[d] = begin + below - start
		if tile == t.GridDimX()-1 && p.Portion < p.Portions-1 {
			work[layout.begins(launch+1)+d] = begin + below + count // all tiles are full but the last of the last portion
		}
	}
	t.Barrier()
	var place [23]uint32
	var digit [6]uint32 // of pairs, four in a word: they have no registers for the places
	tid, valid := uint32(t.ThreadX()), uint32(min(SortThreads*items, len(keys)-first))
	for i := range items {
		key[i] = buf[i*SortThreads+t.ThreadX()]
	}
	if pairs {
		for i := range items {
			digit[i/4] |= uint32(key[i]>>shift&255) << (i % 4 * 8)
		}
	} else {
		for i := range items {
			place[i] = starts[key[i]>>shift&255] + tid + uint32(i*SortThreads)
		}
	}
	if p.Pass == p.Passes-1 && p.Order != Unsigned {
		all, negative := flips[W](p.Order)
		for i := range items {
			key[i] = plain(key[i], all, negative)
		}
	}
	for i := range items {
		if full || tid+uint32(i*SortThreads) < valid {
			if pairs {
				place[i] = starts[digit[i/4]>>(i%4*8)&255] + tid + uint32(i*SortThreads)
			}
			outKeys[place[i]] = key[i]
		}
	}
	if !pairs {
		return
	}
	moved := gpu.DynamicShared[V](t)
	t.Barrier()
	for i := range items {
		moved[ranks[i/2]>>(i%2*16)&0xffff] = value[i]
	}
	t.Barrier()
	for i := range items {
		value[i] = moved[i*SortThreads+t.ThreadX()]
	}
	for i := range items {
		if full || tid+uint32(i*SortThreads) < valid {
			outValues[starts[digit[i/4]>>(i%4*8)&255]+tid+uint32(i*SortThreads)] = value[i]
		}
	}
}

// lookBack gives what comes before a tile of a digit, in its portion. It reads some tiles at a time: each time takes as
// long as the memory, and meanwhile others have begun.
func lookBack(t *gpu.Thread, status []uint32, tile, d int) (below uint32) {
	const back = 8
	for j := tile - 1; ; {
		var w [back]uint32
		for k := range back {
			w[k] = gpu.AtomicLoad(&status[max(j-k, 0)*digits+d], gpu.Relaxed, gpu.DeviceScope)
		}
		if w[0] == 0 {
			t.Nanosleep(20)
		}
		for k := range back {
			if w[k] == 0 {
				break // it is asked again
			}
			below += w[k] & countMask
			if w[k] >= upToTile {
				return below
			}
			j--
		}
	}
}

// SortKeys is Sort for keys of any type.
func SortKeys[K, V any](t *gpu.Thread, p Pass, outKeys, keys []K, outValues, values []V, work, status, next []uint32) {
	var zero K
	if unsafe.Sizeof(zero) == 4 {
		Sort(t, p, gpu.View[uint32](outKeys), gpu.View[uint32](keys), outValues, values, work, status, next)
	} else {
		Sort(t, p, gpu.View[uint64](outKeys), gpu.View[uint64](keys), outValues, values, work, status, next)
	}
}

// CountKeys is Count for keys of any type.
func CountKeys[K any](t *gpu.Thread, o Order, portions int, work, status []uint32, keys []K) {
	var zero K
	if unsafe.Sizeof(zero) == 4 {
		Count(t, o, portions, work, status, gpu.View[uint32](keys))
	} else {
		Count(t, o, portions, work, status, gpu.View[uint64](keys))
	}
}
