//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// Reduce combines all elements, on a device: //purecuda:instantiate kernels.Reduce[Point, MinMax] makes one for the types of a
// program. Combine(a, b) has to be Combine(b, a). The order of the operations depends on the number of elements alone, so floats give the same bits in each run, on
// every device. An element has at most 1,536 bytes. Reduce is safe for concurrent use, each goroutine with a stream of its own.
type Reduce[T any, O block.Op[T]] struct{ primitive }

// Of is called by what gpuc writes.
func (Reduce[T, O]) Of(k *launch.Kernels, first int) Reduce[T, O] {
	return Reduce[T, O]{primitive{k, first}}
}

//purecuda:kernel block=256 checks=off
func (Reduce[T, O]) kernelReduce(t *gpu.Thread, op O, wide bool, out, in []T) {
	tiles.Reduce(t, op, wide, out, in)
}

// Scratch is how many bytes n elements need beside them.
func (Reduce[T, O]) Scratch(n int) int { return room256(reduceBlocks[T](n) * int(sizeOf[T]())) }

// reduceBlocks is how many blocks combine n elements: at least 16 KiB each.
func reduceBlocks[T any](n int) int {
	return max(1, min(tiles.ReduceBlocks, ceil(n, 16<<10/max(1, int(sizeOf[T]())))))
}

// Launch sets the one element of out to all of in, combined: to Zero if there is none. The scratch memory is that of the
// caller, or nil: then it comes from the arena, and the stream must not be captured.
func (k Reduce[T, O]) Launch(s *runtime.Stream, op O, out, in *runtime.Ref[T], scratch *runtime.Ref[byte]) error {
	if err := k.loaded("reduce"); err != nil {
		return err
	}
	n := in.Len()
	switch {
	case out.Len() != 1:
		return invalidArgument("reduce: the result has %d elements, want 1", out.Len())
	case sizeOf[T]() == 0:
		return invalidArgument("reduce: the elements have no bytes")
	}
	// out may be in: the last step alone writes it.
	if err := launch.Apart("reduce", launch.Device("out", out, false), launch.Device("in", in, false), launch.Device("scratch", scratch, true)); err != nil {
		return err
	}
	blocks := reduceBlocks[T](n)
	if blocks == 1 {
		return k.step(s, op, out, in)
	}
	c, err := newScratch("reduce", s, k.Scratch(n), scratch)
	if err != nil {
		return err
	}
	defer c.close()
	parts, err := cut[T](c, blocks)
	if err != nil {
		return err
	}
	if err := k.step(s, op, parts, in); err != nil {
		return err
	}
	return k.step(s, op, out, parts)
}

// step gives each block a part.
func (k Reduce[T, O]) step(s *runtime.Stream, op O, out, in *runtime.Ref[T]) error {
	o, on := slice(out, true)
	i, in_ := slice(in, false)
	return k.launch(0, s, out.Len(), tiles.TileThreads, 0, runtime.Struct(&op), launch.Bool(aligned(in)), o, on, i, in_)
}
