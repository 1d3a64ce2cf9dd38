//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"slices"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// StableSort sorts elements by a comparison, on a device: //purecuda:instantiate kernels.StableSort[Point, Nearer] makes one for the
// types of a program. Equal elements keep their order. It is what [slices.SortStableFunc] is on the CPU. Where Less is no order, as < of floats
// with NaNs, all elements come out in some order: none is lost, and none is there twice. Where a number is the key, [Sort] and
// [SortPairs] take less time. StableSort is safe for concurrent use, each goroutine with a stream of its own.
type StableSort[T any, L block.Less[T]] struct{ primitive }

// SegmentedSort sorts each segment of the elements by a comparison, on a device: //purecuda:instantiate kernels.SegmentedSort[Point, Nearer]
// makes one for the types of a program. It is as [StableSort] else, and [SegmentedSortCPU] on the CPU.
type SegmentedSort[T any, L block.Less[T]] struct{ primitive }

// Of is called by what gpuc writes.
func (StableSort[T, L]) Of(k *launch.Kernels, first int) StableSort[T, L] {
	return StableSort[T, L]{primitive{k, first}}
}

// Of is called by what gpuc writes.
func (SegmentedSort[T, L]) Of(k *launch.Kernels, first int) SegmentedSort[T, L] {
	return SegmentedSort[T, L]{primitive{k, first}}
}

//purecuda:kernel block=256 checks=off
func (StableSort[T, L]) kernelTile(t *gpu.Thread, less L, out, in []T, splits []uint64) {
	tiles.SortTile(t, less, false, out, in, splits, nil)
}

//purecuda:kernel block=256 checks=off
func (StableSort[T, L]) kernelMerge(t *gpu.Thread, less L, out, in []T, run int, splits []uint64, pair uint32) {
	tiles.MergeRuns(t, less, false, run, pair, out, in, splits, nil)
}

//purecuda:kernel block=256 checks=off
func (StableSort[T, L]) kernelSplit(t *gpu.Thread, less L, splits []uint64, in []T, run int, pair uint32) {
	tiles.SplitRuns(t, less, false, run, pair, splits, in, nil)
}

//purecuda:kernel block=256 checks=off
func (StableSort[T, L]) kernelSample(t *gpu.Thread, step int, out, in []T) {
	tiles.SampleEvery(t, step, out, in)
}

//purecuda:kernel block=256 checks=off
func (SegmentedSort[T, L]) kernelTile(t *gpu.Thread, less L, out, in []T, splits, offsets []uint64) {
	tiles.SortTile(t, less, true, out, in, splits, offsets)
}

//purecuda:kernel block=256 checks=off
func (SegmentedSort[T, L]) kernelMerge(t *gpu.Thread, less L, out, in []T, run int, splits []uint64, pair uint32, offsets []uint64) {
	tiles.MergeRuns(t, less, true, run, pair, out, in, splits, offsets)
}

//purecuda:kernel block=256 checks=off
func (SegmentedSort[T, L]) kernelSplit(t *gpu.Thread, less L, splits []uint64, in []T, run int, pair uint32, offsets []uint64) {
	tiles.SplitRuns(t, less, true, run, pair, splits, in, offsets)
}

// Scratch is how many bytes n elements need beside them.
func (StableSort[T, L]) Scratch(n int) int { return mergeScratch[T](n) }

// Scratch is how many bytes n elements need beside them.
func (SegmentedSort[T, L]) Scratch(n int) int { return mergeScratch[T](n) }

func mergeScratch[T any](n int) int {
	size := max(1, sizeOf[T]())
	return room256(n*int(size)) + room256(8*ceil(n, tiles.MergeTile(size)))
}

// Launch sets out to the elements of in in order. out may be in. An element has at most 160 bytes. The scratch memory is that of
// the caller, or nil: then it comes from the arena, and the stream must not be captured.
func (k StableSort[T, L]) Launch(s *runtime.Stream, less L, out, in *runtime.Ref[T], scratch *runtime.Ref[byte]) error {
	return mergeSort(s, "stable sort", k.primitive, less, out, in, nil, false, in.Len(), scratch)
}

// Launch sets out[offsets[i]:offsets[i+1]] to those elements of in, in order, for each i. out may be in. Offsets do not descend. What lies
// before the first one and behind the last one is sorted too, each by itself. No segment has more than longest elements, or it is not sorted
// whole; longest may be the length of in, and less takes less time. An element has at most 160 bytes. The scratch memory is that
// of the caller, or nil: then it comes from the arena, and the stream must not be captured.
func (k SegmentedSort[T, L]) Launch(s *runtime.Stream, less L, out, in *runtime.Ref[T], offsets *runtime.Ref[uint64], longest int, scratch *runtime.Ref[byte]) error {
	if longest < 0 {
		return invalidArgument("segmented sort: longest is %d", longest)
	}
	return mergeSort(s, "segmented sort", k.primitive, less, out, in, offsets, true, min(longest, in.Len()), scratch)
}

// maxMerged is the largest element that is sorted by comparisons: a tile of them is in shared memory.
const maxMerged = 160

// mergeLengths says what is wrong with slices whose elements have a size.
func mergeLengths(name string, out, in int, size uintptr) error {
	switch {
	case out != in:
		return invalidArgument("%s: lengths %d and %d differ", name, out, in)
	case size == 0 || size > maxMerged:
		return invalidArgument("%s: the elements have %d bytes, want 1 to %d: sort their indices", name, size, maxMerged)
	}
	return nil
}

// SegmentedSortCPU is SegmentedSort on the CPU: [slices.SortStableFunc] for each segment. out may be in, and must not overlap it otherwise.
func SegmentedSortCPU[T any, L block.Less[T]](less L, out, in []T, offsets []uint64) error {
	if err := mergeLengths("segmented sort", len(out), len(in), sizeOf[T]()); err != nil {
		return err
	}
	if err := launch.Apart("segmented sort", launch.Host("out", out, true), operandOnCPU("in", in, out), launch.Host("offsets", offsets, false)); err != nil {
		return err
	}
	copy(out, in)
	begin, n := uint64(0), uint64(len(out))
	for i := range len(offsets) + 1 {
		end := n
		if i < len(offsets) {
			end = max(begin, min(offsets[i], n))
		}
		slices.SortStableFunc(out[begin:end], func(a, b T) int {
			switch {
			case less.Less(a, b):
				return -1
			case less.Less(b, a):
				return 1
			}
			return 0
		})
		begin = end
	}
	return nil
}

func mergeSort[T any, L block.Less[T]](s *runtime.Stream, name string, k primitive, less L, out, in *runtime.Ref[T], offsets *runtime.Ref[uint64], segmented bool, longest int, given *runtime.Ref[byte]) error {
	if err := k.loaded(name); err != nil {
		return err
	}
	n, size := in.Len(), sizeOf[T]()
	if err := mergeLengths(name, out.Len(), n, size); err != nil {
		return err
	}
	if n == 0 {
		return nothing(s, out, in)
	}
	spans := []launch.Span{launch.Device("out", out, true), operand("in", in, out), launch.Device("scratch", given, true)}
	if segmented {
		if err := usable(offsets); err != nil {
			return err
		}
		spans = append(spans, launch.Device("offsets", offsets, false))
	}
	if err := launch.Apart(name, spans...); err != nil {
		return err
	}
	tile := tiles.MergeTile(size)
	// A segment can begin and end in the middle of a tile. All elements begin with one.
	runs := min(ceil(longest+tile-1, tile), ceil(n, tile))
	passes := 0
	for longest > 1 && 1<<passes < runs {
		passes++
	}
	c, err := newScratch(name, s, mergeScratch[T](n), given)
	if err != nil {
		return err
	}
	defer c.close()
	other, err := cut[T](c, n)
	if err != nil {
		return err
	}
	grid := ceil(n, tile)
	splits, err := cut[uint64](c, grid)
	if err != nil {
		return err
	}
	from, to := in, out
	if passes%2 == 1 {
		to = other
	}
	for pass := range passes + 1 {
		var segments []runtime.Arg
		if segmented {
			f, fn := slice(offsets, false)
			segments = []runtime.Arg{f, fn}
		}
		if pass > 0 {
			more := append([]runtime.Arg{runtime.Value(uint32(pass))}, segments...)
			err = mergeRuns[T, struct{}](k, 1, s, less, to, from, nil, nil, tile<<(pass-1), splits, more)
		} else {
			o, on := slice(to, true)
			i, in_ := slice(from, false)
			x, xn := slice(splits, true)
			err = k.launch(0, s, grid, tiles.MergeThreads, tile*int(size), append([]runtime.Arg{runtime.Struct(&less), o, on, i, in_, x, xn}, segments...)...)
		}
		if err != nil {
			return err
		}
		if from = to; to == out {
			to = other
		} else {
			to = out
		}
	}
	return nil
}

// mergeRuns is [tiles.MergeTwo] or MergeRuns. The kernel that merges has this number, and the one that finds the splits comes next.
func mergeRuns[T, V any, L block.Less[T]](k primitive, kernel int, s *runtime.Stream, less L, out, in *runtime.Ref[T], outValues, values *runtime.Ref[V],
	run int, splits *runtime.Ref[uint64], more []runtime.Arg) error {
	size := tiles.SharedSize[T, V]()
	tile := tiles.MergeTile(size)
	grid := ceil(in.Len(), tile)
	l, r := runtime.Struct(&less), runtime.Value(run)
	x, xn := slice(splits.Slice(0, grid), true)
	i, n := slice(in, false)
	if err := k.launch(kernel+1, s, min(ceil(grid, tiles.MergeThreads/32*tiles.SplitTiles), maxGrid), tiles.MergeThreads, 0, append([]runtime.Arg{l, x, xn, i, n, r}, more...)...); err != nil {
		return err
	}
	o, on := slice(out, true)
	args := []runtime.Arg{l, o, on, i, n, r, x, xn}
	if sizeOf[V]() > 0 {
		ov, ovn := slice(outValues, true)
		v, vn := slice(values, false)
		args = append(args, ov, ovn, v, vn)
	}
	return k.launch(kernel, s, grid, tiles.MergeThreads, tile*int(size), append(args, more...)...)
}
