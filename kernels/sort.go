//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// Key are the keys that are sorted by their digits. -0 comes before 0, and NaNs come first or last, by their sign.
type Key interface {
	~int32 | ~uint32 | ~float32 | ~int64 | ~uint64 | ~float64 | ~int | ~uint
}

// Sort sorts keys on a device, as [slices.Sort] does on the CPU. //purecuda:instantiate kernels.Sort[uint32] makes one. It is
// safe for concurrent use, each goroutine with a stream of its own.
type Sort[K Key] struct{ primitive }

// SortPairs sorts keys on a device, and moves a value with each. Pairs with equal keys keep their order. A line makes one for
// the types of a program: //purecuda:instantiate kernels.SortPairs[float32, Point]. A value has at most 167 bytes on compute capability 7.5, 260 on
// 8.6 and 8.9, 431 on 8.0, and 602 on 9.0: sort the places of larger ones. It is safe for concurrent use, each goroutine with a stream of its own.
type SortPairs[K Key, V any] struct{ primitive }

// Of is called by what gpuc writes.
func (Sort[K]) Of(k *launch.Kernels, first int) Sort[K] { return Sort[K]{primitive{k, first}} }

// Of is called by what gpuc writes.
func (SortPairs[K, V]) Of(k *launch.Kernels, first int) SortPairs[K, V] {
	return SortPairs[K, V]{primitive{k, first}}
}

//purecuda:kernel block=384 checks=off
func (Sort[K]) kernelCount(t *gpu.Thread, o tiles.Order, portions int, work, status []uint32, keys []K) {
	tiles.CountKeys(t, o, portions, work, status, keys)
}

//purecuda:kernel block=384 blocks=2 checks=off
func (Sort[K]) kernelPass(t *gpu.Thread, p tiles.Pass, outKeys, keys []K, work, status, next []uint32) {
	tiles.SortKeys[K, struct{}](t, p, outKeys, keys, nil, nil, work, status, next)
}

//purecuda:kernel block=384 checks=off
func (SortPairs[K, V]) kernelCount(t *gpu.Thread, o tiles.Order, portions int, work, status []uint32, keys []K) {
	tiles.CountKeys(t, o, portions, work, status, keys)
}

//purecuda:kernel block=384 blocks=2 checks=off
func (SortPairs[K, V]) kernelPass(t *gpu.Thread, p tiles.Pass, outKeys, keys []K, outValues, values []V, work, status, next []uint32) {
	tiles.SortKeys(t, p, outKeys, keys, outValues, values, work, status, next)
}

//purecuda:kernel block=384 checks=off
func (Sort[K]) kernelZero(t *gpu.Thread, words []uint32) { tiles.Clear(t, words) }

//purecuda:kernel block=384 checks=off
func (SortPairs[K, V]) kernelZero(t *gpu.Thread, words []uint32) { tiles.Clear(t, words) }

//purecuda:kernel block=256 checks=off
func (Sort[K]) kernelMerge(t *gpu.Thread, less tiles.KeyOrder[K], out, in []K, run int, splits []uint64) {
	tiles.MergeTwo[K, struct{}](t, less, run, out, in, nil, nil, splits)
}

//purecuda:kernel block=256 checks=off
func (SortPairs[K, V]) kernelMerge(t *gpu.Thread, less tiles.KeyOrder[K], out, in []K, run int, splits []uint64, outValues, values []V) {
	tiles.MergeTwo(t, less, run, out, in, outValues, values, splits)
}

//purecuda:kernel block=256 checks=off
func (Sort[K]) kernelSplit(t *gpu.Thread, less tiles.KeyOrder[K], splits []uint64, in []K, run int) {
	tiles.SplitTwo[K, struct{}](t, less, run, splits, in)
}

//purecuda:kernel block=256 checks=off
func (SortPairs[K, V]) kernelSplit(t *gpu.Thread, less tiles.KeyOrder[K], splits []uint64, in []K, run int) {
	tiles.SplitTwo[K, V](t, less, run, splits, in)
}

//purecuda:kernel block=256 checks=off
func (Sort[K]) kernelSample(t *gpu.Thread, step int, out, in []K) {
	tiles.SampleEvery(t, step, out, in)
}

//purecuda:kernel block=256 checks=off
func (SortPairs[K, V]) kernelSample(t *gpu.Thread, step int, out, in []K) {
	tiles.SampleEvery(t, step, out, in)
}

// Scratch is how many bytes a sort of n keys needs beside them.
func (Sort[K]) Scratch(n int) int { return newSorting[K, struct{}](n).scratch() }

// Scratch is how many bytes a sort of n pairs needs beside them.
func (SortPairs[K, V]) Scratch(n int) int { return newSorting[K, V](n).scratch() }

// Launch sets out to the keys of in in ascending order. out may be in. There are at most 2^32-1. The scratch memory is that
// of the caller, or nil: then it comes from the arena, and the stream must not be captured.
func (k Sort[K]) Launch(s *runtime.Stream, out, in *runtime.Ref[K], scratch *runtime.Ref[byte]) error {
	return sortInto[K, struct{}](s, k.primitive, out, in, nil, nil, scratch)
}

// Launch sets outKeys to the keys in ascending order, and outValues to their values. Each may be what it is made of. There
// are at most 2^32-1 pairs. The scratch memory is that of the caller, or nil: then it comes from the arena, and the stream
// must not be captured.
func (k SortPairs[K, V]) Launch(s *runtime.Stream, outKeys, keys *runtime.Ref[K], outValues, values *runtime.Ref[V], scratch *runtime.Ref[byte]) error {
	switch n := keys.Len(); {
	case sizeOf[V]() == 0:
		return invalidArgument("sort: the values have no bytes: take kernels.Sort")
	case values.Len() != n || outValues.Len() != n:
		return invalidArgument("sort: %d keys, %d values and room for %d values", n, values.Len(), outValues.Len())
	}
	return sortInto(s, k.primitive, outKeys, keys, outValues, values, scratch)
}

// sorting is how n keys are sorted.
type sorting struct {
	n, keySize, valueSize   int
	tile, portion, portions int
	work                    tiles.Work
}

func newSorting[K Key, V any](n int) sorting {
	p := sorting{n: n, keySize: int(sizeOf[K]()), valueSize: int(sizeOf[V]())}
	p.tile = tiles.SortThreads * tiles.SortItems(uintptr(max(p.keySize, p.valueSize)))
	p.portion = tiles.MaxPortion / p.tile * p.tile
	p.portions = max(1, ceil(n, p.portion))
	p.work = tiles.Work{Passes: p.keySize, Portions: p.portions}
	return p
}

// status is how many words a launch needs for what tiles say.
func (p sorting) status() int { return 256 * ceil(min(p.n, p.portion), p.tile) }

func (p sorting) scratch() int {
	return room256(4*p.work.Len()) + 2*room256(4*p.status()) + room256(p.n*p.keySize) + room256(p.n*p.valueSize)
}

// orderOf is how keys compare.
func orderOf[K Key]() tiles.Order {
	var zero K
	half := 0.5
	switch {
	case K(half) != 0:
		return tiles.Float
	case zero-1 < zero:
		return tiles.Signed
	}
	return tiles.Unsigned
}

func sortInto[K Key, V any](s *runtime.Stream, k primitive, outKeys, inKeys *runtime.Ref[K], outValues, inValues *runtime.Ref[V], given *runtime.Ref[byte]) error {
	if err := k.loaded("sort"); err != nil {
		return err
	}
	n := inKeys.Len()
	switch {
	case outKeys.Len() != n:
		return invalidArgument("sort: lengths %d and %d differ", outKeys.Len(), n)
	case uint64(n) > math.MaxUint32:
		return invalidArgument("sort: %d keys, at most %d", n, uint32(math.MaxUint32))
	}
	p := newSorting[K, V](n)
	if p.valueSize > p.keySize {
		if err := fits[V](k, "sort", tiles.SortThreads*tiles.SortItems(uintptr(p.valueSize)), tiles.PassShared); err != nil {
			return err
		}
	}
	if n == 0 {
		if err := nothing(s, outKeys, inKeys); err != nil || p.valueSize == 0 {
			return err
		}
		return usable(outValues, inValues)
	}
	out, in := "out", "in"
	if p.valueSize > 0 {
		out, in = "outKeys", "keys"
	}
	if err := launch.Apart("sort", launch.Device(out, outKeys, true), operand(in, inKeys, outKeys), launch.Device("outValues", outValues, true),
		operand("values", inValues, outValues), launch.Device("scratch", given, true)); err != nil {
		return err
	}
	c, err := newScratch("sort", s, p.scratch(), given)
	if err != nil {
		return err
	}
	defer c.close()
	work, err := cut[uint32](c, p.work.Len())
	if err != nil {
		return err
	}
	var status [2]*runtime.Ref[uint32]
	for i := range status {
		if status[i], err = cut[uint32](c, p.status()); err != nil {
			return err
		}
	}
	keys, err := cut[K](c, n)
	if err != nil {
		return err
	}
	var values *runtime.Ref[V]
	if p.valueSize > 0 {
		if values, err = cut[V](c, n); err != nil {
			return err
		}
	}
	zeros, zn := slice(work.Slice(0, p.work.Zeros()), true)
	if err := k.launch(2, s, min(ceil(p.work.Zeros(), tiles.SortThreads), 64), tiles.SortThreads, 0, zeros, zn); err != nil {
		return err
	}
	blocks := max(1, min(4*max(1, k.k.Multiprocessors()), ceil(n, tiles.SortThreads*16)))
	w, wn := slice(work, true)
	a, an := slice(status[0], true)
	x, xn := slice(inKeys, false)
	if err := k.launch(0, s, blocks, tiles.SortThreads, 0, runtime.Value(uint32(orderOf[K]())), runtime.Value(p.portions), w, wn, a, an, x, xn); err != nil {
		return err
	}
	shared := tiles.SortShared(uintptr(max(p.keySize, p.valueSize)))
	from, fromV, to, toV := inKeys, inValues, keys, values
	for pass := range p.keySize {
		if pass%2 == 1 {
			from, fromV, to, toV = keys, values, outKeys, outValues
		} else if pass > 0 {
			from, fromV, to, toV = outKeys, outValues, keys, values
		}
		for portion := range p.portions {
			begin := portion * p.portion
			launch := pass*p.portions + portion
			step := tiles.Pass{Order: orderOf[K](), Pass: pass, Passes: p.keySize, Portion: portion, Portions: p.portions, From: begin}
			o, on := slice(to, true)
			i, in := slice(from, false)
			a, an := slice(status[launch%2], true)
			b, bn := slice(status[(launch+1)%2], true)
			args := []runtime.Arg{runtime.Struct(&step), o, on, i, in}
			if p.valueSize > 0 {
				ov, ovn := slice(toV, true)
				iv, ivn := slice(fromV, false)
				args = append(args, ov, ovn, iv, ivn)
			}
			args = append(args, w, wn, a, an, b, bn)
			if err := k.launch(1, s, ceil(min(p.portion, n-begin), p.tile), tiles.SortThreads, shared, args...); err != nil {
				return err
			}
		}
	}
	return nil
}
