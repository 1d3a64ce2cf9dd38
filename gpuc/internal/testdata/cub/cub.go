// Package cub asks for the primitives that are timed beside those of CUB.
package cub

import "github.com/purecuda/purecuda/gpu"

// Box is around numbers.
type Box struct {
	Min, Max float32
	Sum      uint64
}

// Union is around both.
type Union struct{}

// Zero is around nothing.
func (Union) Zero() Box { return Box{Min: 1e30, Max: -1e30} }

// Combine is around both.
func (Union) Combine(a, b Box) Box { return Box{min(a.Min, b.Min), max(a.Max, b.Max), a.Sum + b.Sum} }

// Below is a condition with a number in it.
type Below struct{ Bound uint32 }

// Keep reports whether v stays.
func (b Below) Keep(v uint32) bool { return v < b.Bound }

// Item is a key with what belongs to it.
type Item struct{ Key, Value uint32 }

// ByKey is the order of items.
type ByKey struct{}

// Less compares keys.
func (ByKey) Less(a, b Item) bool { return a.Key < b.Key }

// Up is the order of numbers.
type Up struct{}

// Less is <.
func (Up) Less(a, b uint32) bool { return a < b }

// Random writes numbers that depend on the seed of nothing else: all 32 bits, or -1, 0 and 1 as floats, or the index, or runs of
// about 8 equal numbers, or the begins of segments of 100 elements as 64 bits.
//
//purecuda:kernel block=256 checks=off
func Random(t *gpu.Thread, out []uint32, kind uint32) {
	for i := t.GlobalX(); i < len(out); i += t.GlobalDimX() {
		j := uint64(i)
		if kind == 3 {
			j /= 8
		}
		h := (j + 1) * 0x9E3779B97F4A7C15
		h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
		h = (h ^ h>>27) * 0x94D049BB133111EB
		v := uint32(h ^ h>>31)
		switch kind {
		case 1:
			v = gpu.Select[uint32](v%3 == 0, 0, gpu.Select[uint32](v%3 == 1, 0x3f800000, 0xbf800000))
		case 2:
			v = uint32(i)
		case 4:
			v = gpu.Select(i%2 == 0, uint32(i/2*100), 0)
		}
		out[i] = v
	}
}

// Checksum adds a number that depends on all words and their places to sum.
//
//purecuda:kernel block=256 checks=off
func Checksum(t *gpu.Thread, sum []uint64, in []uint32) {
	var s uint64
	for i := t.GlobalX(); i < len(in); i += t.GlobalDimX() {
		h := uint64(in[i])*0x9E3779B97F4A7C15 ^ uint64(i)*0xC2B2AE3D27D4EB4F
		h ^= h >> 29
		h *= 0xBF58476D1CE4E5B9
		s += h ^ h>>32
	}
	gpu.AtomicAdd(&sum[0], s)
}

//purecuda:instantiate kernels.Scan[uint32, block.Add[uint32]]
//purecuda:instantiate kernels.Scan[float32, block.Add[float32]]
//purecuda:instantiate kernels.Scan[int64, block.Add[int64]]
//purecuda:instantiate kernels.Scan[Box, Union]
//purecuda:instantiate kernels.Reduce[uint32, block.Add[uint32]]
//purecuda:instantiate kernels.Reduce[int64, block.Add[int64]]
//purecuda:instantiate kernels.Reduce[Box, Union]
//purecuda:instantiate kernels.Select[uint32, Below]
//purecuda:instantiate kernels.Partition[uint32, Below]
//purecuda:instantiate kernels.Unique[uint32]
//purecuda:instantiate kernels.RunLengths[uint32]
//purecuda:instantiate kernels.ReduceByKey[uint32, uint32, block.Add[uint32]]
//purecuda:instantiate kernels.Histogram[uint32]
//purecuda:instantiate kernels.Histogram[float32]
//purecuda:instantiate kernels.SegmentedReduce[uint32, block.Add[uint32]]
//purecuda:instantiate kernels.Search[uint32, Up]
//purecuda:instantiate kernels.TopK[uint32]
//purecuda:instantiate kernels.Sort[uint32]
//purecuda:instantiate kernels.SortPairs[uint32, uint32]
//purecuda:instantiate kernels.StableSort[uint32, Up]
//purecuda:instantiate kernels.StableSort[Item, ByKey]
//purecuda:instantiate kernels.SegmentedSort[uint32, Up]
