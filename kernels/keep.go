//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// Condition says which elements stay. It may have numbers in it, such as a bound. It is asked once about each element, so the count is that of those
// that stay, whatever it answers.
type Condition[T any] interface{ Keep(v T) bool }

// Select keeps the elements for which a condition holds, in their order, on a device:
// //purecuda:instantiate kernels.Select[Point, Inside] makes one for the types of a program. It is what [slices.DeleteFunc] is
// on the CPU, with the opposite condition. An element has at most 255 bytes on compute capability 7.5, 395 on 8.6 and 8.9, 651 on 8.0, and 907 on
// 9.0. Select is safe for concurrent use, each goroutine with a stream of its own.
type Select[T any, C Condition[T]] struct{ primitive }

// Partition divides elements by a condition, both parts in their order, on a device:
// //purecuda:instantiate kernels.Partition[Point, Inside] makes one for the types of a program. [PartitionCPU] does it on the
// CPU. Elements have at most as many bytes as those of [Select]. Partition is safe for concurrent use, each goroutine with a stream of its own.
type Partition[T any, C Condition[T]] struct{ primitive }

// Unique keeps the first element of each run of equal ones, on a device: //purecuda:instantiate kernels.Unique[Point] makes one
// for a type of a program. It is what [slices.Compact] is on the CPU. Elements have at most as many bytes as those of
// [Select]. Unique is safe for concurrent use, each goroutine with a stream of its own.
type Unique[T comparable] struct{ primitive }

// Of is called by what gpuc writes.
func (Select[T, C]) Of(k *launch.Kernels, first int) Select[T, C] {
	return Select[T, C]{primitive{k, first}}
}

// Of is called by what gpuc writes.
func (Partition[T, C]) Of(k *launch.Kernels, first int) Partition[T, C] {
	return Partition[T, C]{primitive{k, first}}
}

// Of is called by what gpuc writes.
func (Unique[T]) Of(k *launch.Kernels, first int) Unique[T] { return Unique[T]{primitive{k, first}} }

//purecuda:kernel block=256 checks=off
func (Select[T, C]) kernelSelect(t *gpu.Thread, c C, wide bool, out, in []T, count, words []uint64) {
	tiles.Keep(t, tiles.Condition[T, C]{C: c}, wide, out, nil, in, count, words)
}

//purecuda:kernel block=256 checks=off
func (Select[T, C]) kernelClear(t *gpu.Thread, words []uint64) { tiles.Clear(t, words) }

//purecuda:kernel block=256 checks=off
func (Partition[T, C]) kernelPartition(t *gpu.Thread, c C, wide bool, kept, in, rest []T, count, words []uint64) {
	tiles.Keep(t, tiles.Parting[T, C]{C: c}, wide, kept, rest, in, count, words)
}

//purecuda:kernel block=256 checks=off
func (Partition[T, C]) kernelClear(t *gpu.Thread, words []uint64) { tiles.Clear(t, words) }

//purecuda:kernel block=256 checks=off
func (Unique[T]) kernelUnique(t *gpu.Thread, wide bool, out, in []T, count, words []uint64) {
	tiles.Keep(t, tiles.Changing[T]{}, wide, out, nil, in, count, words)
}

//purecuda:kernel block=256 checks=off
func (Unique[T]) kernelClear(t *gpu.Thread, words []uint64) { tiles.Clear(t, words) }

// Scratch is how many bytes n elements need beside them.
func (Select[T, C]) Scratch(n int) int { return keepScratch[T](n) }

// Scratch is how many bytes n elements need beside them.
func (Partition[T, C]) Scratch(n int) int { return keepScratch[T](n) }

// Scratch is how many bytes n elements need beside them.
func (Unique[T]) Scratch(n int) int { return keepScratch[T](n) }

func keepScratch[T any](n int) int {
	return totalsBytes[uint64](ceil(n, tiles.Tile(max(1, sizeOf[T]()))))
}

// Launch copies what stays to the begin of out, and sets the one element of count to how many those are. out has room for
// all of in, and is not in. The scratch memory is that of the caller, or nil: then it comes from the arena, and the stream
// must not be captured.
func (k Select[T, C]) Launch(s *runtime.Stream, c C, out, in *runtime.Ref[T], count *runtime.Ref[uint64], scratch *runtime.Ref[byte]) error {
	return keep(s, "select", k.primitive, []runtime.Arg{runtime.Struct(&c)}, out, in, nil, false, count, scratch)
}

// Launch copies what the condition keeps to the begin of kept, and the others to the begin of rest. It sets the one element of
// count to how many are kept. Both have room for all of in, and are not in. The scratch memory is that of the caller, or nil: then it
// comes from the arena, and the stream must not be captured.
func (k Partition[T, C]) Launch(s *runtime.Stream, c C, kept, rest, in *runtime.Ref[T], count *runtime.Ref[uint64], scratch *runtime.Ref[byte]) error {
	return keep(s, "partition", k.primitive, []runtime.Arg{runtime.Struct(&c)}, kept, in, rest, true, count, scratch)
}

// Launch copies what stays to the begin of out, and sets the one element of count to how many those are. out has room for
// all of in, and is not in. The scratch memory is that of the caller, or nil: then it comes from the arena, and the stream
// must not be captured.
func (k Unique[T]) Launch(s *runtime.Stream, out, in *runtime.Ref[T], count *runtime.Ref[uint64], scratch *runtime.Ref[byte]) error {
	return keep(s, "unique", k.primitive, nil, out, in, nil, false, count, scratch)
}

// keep launches a kernel that keeps some elements, and copies the rest to another place where it parts them.
func keep[T any](s *runtime.Stream, name string, k primitive, args []runtime.Arg, out, in, rest *runtime.Ref[T], parts bool, count *runtime.Ref[uint64], given *runtime.Ref[byte]) error {
	if err := k.loaded(name); err != nil {
		return err
	}
	n, size := in.Len(), sizeOf[T]()
	to, room := "out", n
	if parts {
		to, room = "kept", rest.Len()
	}
	if err := keepLengths(name, to, n, out.Len(), room, size); err != nil {
		return err
	}
	if err := fits[T](k, name, tiles.Tile(size), tiles.KeepShared); err != nil {
		return err
	}
	switch {
	case count.Len() != 1:
		return invalidArgument("%s: the count has %d elements, want 1", name, count.Len())
	case n == 0:
		if err := usable(out, in); err != nil {
			return err
		}
		return runtime.Zero(s, count)
	}
	spans := []launch.Span{launch.Device(to, out, true), launch.Device("in", in, false), launch.Device("count", count, true), launch.Device("scratch", given, true)}
	if parts {
		spans = append(spans, launch.Device("rest", rest, true))
	}
	if err := launch.Apart(name, spans...); err != nil {
		return err
	}
	c, err := newScratch(name, s, keepScratch[T](n), given)
	if err != nil {
		return err
	}
	defer c.close()
	tile := tiles.Tile(size)
	words, _, err := cutTotals[uint64](c, s, k, 1, ceil(n, tile))
	if err != nil {
		return err
	}
	o, on := slice(out, true)
	i, in_ := slice(in, false)
	args = append(args, launch.Bool(aligned(in)), o, on, i, in_)
	if parts {
		r, rn := slice(rest, true)
		args = append(args, r, rn)
	}
	x, xn := slice(count, true)
	y, yn := slice(words, true)
	return k.launch(0, s, ceil(n, tile), tiles.TileThreads, tile*int(size), append(args, x, xn, y, yn)...)
}

// keepLengths says what is wrong with slices where n elements of a size go to.
func keepLengths(name, to string, n, out, rest int, size uintptr) error {
	switch {
	case out < n:
		return invalidArgument("%s: %s has room for %d elements, and %d could stay", name, to, out, n)
	case rest < n:
		return invalidArgument("%s: rest has room for %d elements, and all %d could go there", name, rest, n)
	case size == 0:
		return invalidArgument("%s: the elements have no bytes", name)
	}
	return nil
}

// PartitionCPU is Partition on the CPU. It returns how many elements it has kept. kept and rest have room for all of in, and overlap
// neither it nor each other: else nothing is written, and there is an error.
func PartitionCPU[T any, C Condition[T]](c C, kept, rest, in []T) (int, error) {
	if err := keepLengths("partition", "kept", len(in), len(kept), len(rest), sizeOf[T]()); err != nil {
		return 0, err
	}
	if err := launch.Apart("partition", launch.Host("kept", kept, true), launch.Host("in", in, false), launch.Host("rest", rest, true)); err != nil {
		return 0, err
	}
	k := 0
	for i, v := range in {
		stays := 0
		if c.Keep(v) {
			stays = 1
		}
		*[2]*T{&rest[i-k], &kept[k]}[stays] = v // a jump would often be predicted wrong
		k += stays
	}
	return k, nil
}
