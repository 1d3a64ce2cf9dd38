//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// TopK finds the largest or the smallest keys, on a device: //purecuda:instantiate kernels.TopK[float32] makes one. Keys compare as
// in [Sort]. Of equal keys the first ones are taken. [TopKCPU] does it on the CPU. TopK is safe for concurrent use, each goroutine with a stream of its own.
type TopK[K Key] struct{ primitive }

// Of is called by what gpuc writes.
func (TopK[K]) Of(k *launch.Kernels, first int) TopK[K] { return TopK[K]{primitive{k, first}} }

//purecuda:kernel block=256 checks=off
func (TopK[K]) kernelCount(t *gpu.Thread, o tiles.TopOrder, pass int, k uint64, counters []uint32, top []tiles.Top, keys, few []K) {
	tiles.TopCountKeys(t, o, pass, k, counters, top, keys, few)
}

//purecuda:kernel block=256 checks=off
func (TopK[K]) kernelTake(t *gpu.Thread, o tiles.TopOrder, wide bool, out []K, places []uint32, keys []K, top []tiles.Top, words []uint64) {
	tiles.TopTakeKeys(t, o, wide, out, places, keys, top, words)
}

//purecuda:kernel block=256 checks=off
func (TopK[K]) kernelClear(t *gpu.Thread, words []uint64) { tiles.Clear(t, words) }

// topFew is how many keys are copied at most.
func topFew(n int) int { return n/8 + 1024 }

// topWords is how many words are cleared for the passes, with two of tiles.Top.
func topWords[K Key]() int {
	return (tiles.TopPasses(int(sizeOf[K]()))*tiles.TopCounters+1)/2 + 2*int(sizeOf[tiles.Top]()/8)
}

// Scratch is how many bytes n keys need beside them.
func (TopK[K]) Scratch(n int) int {
	words, _ := totals(ceil(n, tiles.Tile(sizeOf[K]())), 8)
	return room256(8*(words+topWords[K]())) + room256(topFew(n)*int(sizeOf[K]()))
}

// Largest sets out to the largest keys of in, in the order that they have there, and places to where they are. out says
// how many. places is nil or as long as out. There are at most 2^32-1 keys. The scratch memory is that of the caller, or nil: then it comes from
// the arena, and the stream must not be captured.
func (k TopK[K]) Largest(s *runtime.Stream, out *runtime.Ref[K], places *runtime.Ref[uint32], in *runtime.Ref[K], scratch *runtime.Ref[byte]) error {
	return k.take(s, 0, out, places, in, scratch)
}

// Smallest is as [TopK.Largest], for the smallest keys.
func (k TopK[K]) Smallest(s *runtime.Stream, out *runtime.Ref[K], places *runtime.Ref[uint32], in *runtime.Ref[K], scratch *runtime.Ref[byte]) error {
	return k.take(s, 1, out, places, in, scratch)
}

func (k TopK[K]) take(s *runtime.Stream, smallest uint32, out *runtime.Ref[K], places *runtime.Ref[uint32], in *runtime.Ref[K], given *runtime.Ref[byte]) error {
	if err := k.loaded("top k"); err != nil {
		return err
	}
	n, size, asked := in.Len(), int(sizeOf[K]()), out.Len()
	if places != nil {
		asked = places.Len()
	}
	if err := topLengths(n, out.Len(), asked); err != nil {
		return err
	}
	if out.Len() == 0 {
		return nothing(s, out, in)
	}
	spans := []launch.Span{launch.Device("out", out, true), launch.Device("in", in, false), launch.Device("scratch", given, true)}
	if places != nil {
		spans = append(spans, launch.Device("places", places, true))
	}
	if err := launch.Apart("top k", spans...); err != nil {
		return err
	}
	c, err := newScratch("top k", s, k.Scratch(n), given)
	if err != nil {
		return err
	}
	defer c.close()
	tile := tiles.Tile(uintptr(size))
	words, _ := totals(ceil(n, tile), 8)
	all, err := cut[uint64](c, words+topWords[K]())
	if err != nil {
		return err
	}
	few, err := cut[K](c, topFew(n))
	if err != nil {
		return err
	}
	top, err := runtime.Cast[tiles.Top](all.Slice(words, words+8))
	if err != nil {
		return err
	}
	counters, err := runtime.Cast[uint32](all.Slice(words+8, all.Len()))
	if err != nil {
		return err
	}
	a, an := slice(all, true)
	if err := k.launch(2, s, min(ceil(all.Len(), tiles.TileThreads), 1024), tiles.TileThreads, 0, a, an); err != nil {
		return err
	}
	order := tiles.TopOrder{Order: orderOf[K](), Smallest: smallest}
	blocks := max(1, min(4*max(1, k.k.Multiprocessors()), ceil(n, tiles.TileThreads*16)))
	t, tn := slice(top, true)
	i, in_ := slice(in, false)
	f, fn := slice(few, true)
	for pass := range tiles.TopPasses(size) {
		n, nn := slice(counters.Slice(pass*tiles.TopCounters, (pass+1)*tiles.TopCounters), true)
		if err := k.launch(0, s, blocks, tiles.TileThreads, 0, runtime.Struct(&order), runtime.Value(pass), runtime.Value(uint64(out.Len())), n, nn, t, tn, i, in_, f, fn); err != nil {
			return err
		}
	}
	o, on := slice(out, true)
	p, pn := runtime.InOut(counters.Slice(0, 0)), runtime.Value(0)
	if places != nil {
		p, pn = slice(places, true)
	}
	w, wn := slice(all.Slice(0, words), true)
	return k.launch(1, s, ceil(n, tile), tiles.TileThreads, 0, runtime.Struct(&order), launch.Bool(aligned(in)), o, on, p, pn, i, in_, t, tn, w, wn)
}

// topLengths says what is wrong with the slices for the first k of n keys.
func topLengths(n, k, places int) error {
	switch {
	case k > n:
		return invalidArgument("top k: %d of %d keys", k, n)
	case places != k:
		return invalidArgument("top k: %d keys and %d places", k, places)
	case uint64(n) > math.MaxUint32:
		return invalidArgument("top k: %d keys, at most %d", n, uint32(math.MaxUint32))
	}
	return nil
}

// TopKCPU sets out to the largest keys of in, or to the smallest, in the order that they have there, and places to where they
// are. It is the CPU's form of [TopK], and refuses the same. out says how many, but not more than in has. places is nil or as long as out.
// Neither overlaps in or the other.
func TopKCPU[K Key](out []K, places []uint32, in []K, smallest bool) error {
	k, asked := len(out), len(out)
	if places != nil {
		asked = len(places)
	}
	if err := topLengths(len(in), k, asked); err != nil || k == 0 {
		return err
	}
	if err := launch.Apart("top k", launch.Host("out", out, true), launch.Host("in", in, false), launch.Host("places", places, true)); err != nil {
		return err
	}
	rank := tiles.Ranks[K](orderOf[K](), smallest)
	size := 8 * int(sizeOf[K]())
	limit, need := uint64(0), k // the k-th key, as far as its digits are known, and which one it is of those with them
	for known := 0; known < size; {
		var counts [2048]int
		width := min(11, size-known)
		for _, v := range in {
			if r := rank(v); known == 0 || r>>(size-known) == limit {
				counts[r>>(size-known-width)&2047]++
			}
		}
		d := 0
		for ; need > counts[d]; d++ {
			need -= counts[d]
		}
		limit, known = limit<<width|uint64(d), known+width
	}
	at := 0
	for i, v := range in {
		r := rank(v)
		if r > limit || r == limit && need == 0 {
			continue
		}
		if r == limit {
			need--
		}
		out[at] = v
		if places != nil {
			places[at] = uint32(i)
		}
		at++
	}
	return nil
}
