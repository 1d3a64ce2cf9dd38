//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// SegmentedReduce combines the elements of each segment, on a device. A line makes one for the types of a program:
// //purecuda:instantiate kernels.SegmentedReduce[Point, MinMax]. Combine(a, b) has to be Combine(b, a). The order of the operations depends on
// the lengths alone, so floats give the same bits in each run, on every device. [SegmentedReduceCPU] does it on the CPU. An element has at most 768 bytes. SegmentedReduce is safe
// for concurrent use, each goroutine with a stream of its own.
type SegmentedReduce[T any, O block.Op[T]] struct{ primitive }

// Of is called by what gpuc writes.
func (SegmentedReduce[T, O]) Of(k *launch.Kernels, first int) SegmentedReduce[T, O] {
	return SegmentedReduce[T, O]{primitive{k, first}}
}

//purecuda:kernel block=256 checks=off
func (SegmentedReduce[T, O]) kernelReduce(t *gpu.Thread, op O, parts int, out, in []T, offsets []uint64) {
	tiles.ReduceSegments(t, op, parts, out, in, offsets)
}

//purecuda:kernel block=256 checks=off
func (SegmentedReduce[T, O]) kernelCombine(t *gpu.Thread, op O, parts int, out, in []T) {
	tiles.CombineParts(t, op, parts, out, in)
}

// segmentParts is into how many parts each of so many segments is divided, so that there are enough blocks.
func segmentParts(segments int) int { return max(1, 1024/max(1, segments)) }

// Scratch is how many bytes so many segments need.
func (SegmentedReduce[T, O]) Scratch(segments int) int {
	if p := segmentParts(segments); p > 1 {
		return room256(segments * p * int(sizeOf[T]()))
	}
	return 0
}

// Launch sets out[i] to all of in[offsets[i]:offsets[i+1]], combined: to Zero where that is empty. There is an offset more than
// segments. Offsets do not descend; what lies behind the end of in is left out. Less than 1,024 segments are divided into equal parts, so that one long segment uses all of
// the device; of more, a block takes each long one. The scratch memory is that of the caller, or nil: then it
// comes from the arena, and the stream must not be captured.
func (k SegmentedReduce[T, O]) Launch(s *runtime.Stream, op O, out, in *runtime.Ref[T], offsets *runtime.Ref[uint64], scratch *runtime.Ref[byte]) error {
	if err := k.loaded("segmented reduce"); err != nil {
		return err
	}
	segments := out.Len()
	if err := segmentsLengths[T](segments, offsets.Len()); err != nil {
		return err
	}
	if segments == 0 {
		return nothing(s, out, in, offsets)
	}
	if err := usable(out, in, offsets); err != nil {
		return err
	}
	if err := launch.Apart("segmented reduce", launch.Device("out", out, true), launch.Device("in", in, false), launch.Device("offsets", offsets, false),
		launch.Device("scratch", scratch, true)); err != nil {
		return err
	}
	parts := segmentParts(segments)
	to := out
	if parts > 1 {
		c, err := newScratch("segmented reduce", s, k.Scratch(segments), scratch)
		if err != nil {
			return err
		}
		defer c.close()
		if to, err = cut[T](c, segments*parts); err != nil {
			return err
		}
	}
	grid := segments * parts
	if parts == 1 {
		grid = ceil(segments, tiles.TileThreads/32)
	}
	o, on := slice(to, true)
	i, in_ := slice(in, false)
	f, fn := slice(offsets, false)
	if err := k.launch(0, s, grid, tiles.TileThreads, 0, runtime.Struct(&op), runtime.Value(parts), o, on, i, in_, f, fn); err != nil || parts == 1 {
		return err
	}
	r, rn := slice(out, true)
	return k.launch(1, s, ceil(segments, tiles.TileThreads/32), tiles.TileThreads, 0, runtime.Struct(&op), runtime.Value(parts), r, rn, o, on)
}

// segmentsLengths says what is wrong with the slices of segments.
func segmentsLengths[T any](segments, offsets int) error {
	switch {
	case offsets != segments+1:
		return invalidArgument("segmented reduce: %d results need %d offsets, and there are %d", segments, segments+1, offsets)
	case sizeOf[T]() == 0:
		return invalidArgument("segmented reduce: the elements have no bytes")
	}
	return nil
}

// SegmentedReduceCPU is SegmentedReduce on the CPU, each segment from its first element to its last. out overlaps neither in nor
// offsets: else nothing is written, and there is an error.
func SegmentedReduceCPU[T any, O block.Op[T]](op O, out, in []T, offsets []uint64) error {
	if err := segmentsLengths[T](len(out), len(offsets)); err != nil {
		return err
	}
	if err := launch.Apart("segmented reduce", launch.Host("out", out, true), launch.Host("in", in, false), launch.Host("offsets", offsets, false)); err != nil {
		return err
	}
	n, zero, fold := uint64(len(in)), op.Zero(), folds[T](op)
	for i := range out {
		a, b := min(offsets[i], n), min(offsets[i+1], n)
		out[i] = fold(zero, in[a:max(a, b)], nil)
	}
	return nil
}

// Search finds the places of elements in a slice that is in order, on a device: //purecuda:instantiate kernels.Search[Point, Nearer]
// makes one for the types of a program. It is what [slices.BinarySearchFunc] is on the CPU. Where Less or the slice is
// in no order, it ends at some place of the slice, or its length. Search is safe for concurrent use, each goroutine with a stream of its own.
type Search[T any, L block.Less[T]] struct{ primitive }

// Of is called by what gpuc writes.
func (Search[T, L]) Of(k *launch.Kernels, first int) Search[T, L] {
	return Search[T, L]{primitive{k, first}}
}

//purecuda:kernel block=256 checks=off
func (Search[T, L]) kernelSearch(t *gpu.Thread, less L, above bool, out []uint64, sorted, what []T) {
	tiles.Search(t, less, above, out, sorted, what)
}

// Lower sets out[i] to the first place in sorted whose element is not less than what[i]; to its length if there is none.
func (k Search[T, L]) Lower(s *runtime.Stream, less L, out *runtime.Ref[uint64], sorted, what *runtime.Ref[T]) error {
	return k.search(s, less, false, out, sorted, what)
}

// Upper sets out[i] to the first place in sorted whose element what[i] is less than; to its length if there is none.
func (k Search[T, L]) Upper(s *runtime.Stream, less L, out *runtime.Ref[uint64], sorted, what *runtime.Ref[T]) error {
	return k.search(s, less, true, out, sorted, what)
}

func (k Search[T, L]) search(s *runtime.Stream, less L, above bool, out *runtime.Ref[uint64], sorted, what *runtime.Ref[T]) error {
	if err := k.loaded("search"); err != nil {
		return err
	}
	switch {
	case out.Len() != what.Len():
		return invalidArgument("search: lengths %d and %d differ", out.Len(), what.Len())
	case sizeOf[T]() == 0:
		return invalidArgument("search: the elements have no bytes")
	}
	if out.Len() == 0 {
		return nothing(s, out, sorted, what)
	}
	if err := usable(out, sorted, what); err != nil {
		return err
	}
	if err := launch.Apart("search", launch.Device("out", out, true), launch.Device("sorted", sorted, false), launch.Device("what", what, false)); err != nil {
		return err
	}
	o, on := slice(out, true)
	i, in := slice(sorted, false)
	w, wn := slice(what, false)
	return k.launch(0, s, min(ceil(out.Len(), tiles.TileThreads), maxGrid), tiles.TileThreads, 0, runtime.Struct(&less), launch.Bool(above), o, on, i, in, w, wn)
}
