//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// Scan combines each element with all before it, on a device. A line makes one for the types of a program:
//
//	//purecuda:instantiate kernels.Scan[Point, MinMax]
//
// The order of the operations depends on the number of elements alone, so floats give the same bits in each run, on every
// device. It is not the order of [ScanCPU]. An element has at most 1,488 bytes. Scan is safe for concurrent use, each goroutine with a stream of its own.
type Scan[T any, O block.Op[T]] struct{ primitive }

// Of is called by what gpuc writes.
func (Scan[T, O]) Of(k *launch.Kernels, first int) Scan[T, O] { return Scan[T, O]{primitive{k, first}} }

//purecuda:kernel block=256 checks=off
func (Scan[T, O]) kernelScan(t *gpu.Thread, op O, exclusive, wide bool, out, in []T, words []uint64, values []T) {
	tiles.Scan(t, op, exclusive, wide, out, in, words, values, op.Zero(), nil)
}

//purecuda:kernel block=256 checks=off
func (Scan[T, O]) kernelClear(t *gpu.Thread, words []uint64) { tiles.Clear(t, words) }

// Scratch is how many bytes a scan of n elements needs beside them.
func (Scan[T, O]) Scratch(n int) int {
	return totalsBytes[T](ceil(n, tiles.Tile(max(1, sizeOf[T]()))))
}

// Inclusive sets out[i] to in[0] ... in[i], combined. out may be in. The scratch memory is that of the caller, or nil: then
// it comes from the arena, and the stream must not be captured.
func (k Scan[T, O]) Inclusive(s *runtime.Stream, op O, out, in *runtime.Ref[T], scratch *runtime.Ref[byte]) error {
	return k.scan(s, op, false, out, in, scratch)
}

// Exclusive sets out[i] to in[0] ... in[i-1], combined. It is as [Scan.Inclusive] else.
func (k Scan[T, O]) Exclusive(s *runtime.Stream, op O, out, in *runtime.Ref[T], scratch *runtime.Ref[byte]) error {
	return k.scan(s, op, true, out, in, scratch)
}

func (k Scan[T, O]) scan(s *runtime.Stream, op O, exclusive bool, out, in *runtime.Ref[T], given *runtime.Ref[byte]) error {
	if err := k.loaded("scan"); err != nil {
		return err
	}
	n := in.Len()
	if err := scanLengths[T](out.Len(), n); err != nil {
		return err
	}
	if n == 0 {
		return nothing(s, out, in)
	}
	if err := launch.Apart("scan", launch.Device("out", out, true), operand("in", in, out), launch.Device("scratch", given, true)); err != nil {
		return err
	}
	c, err := newScratch("scan", s, k.Scratch(n), given)
	if err != nil {
		return err
	}
	defer c.close()
	grid := ceil(n, tiles.Tile(sizeOf[T]()))
	words, values, err := cutTotals[T](c, s, k.primitive, 1, grid)
	if err != nil {
		return err
	}
	o, on := slice(out, true)
	i, in_ := slice(in, false)
	x, xn := slice(words, true)
	y, yn := slice(values, true)
	return k.launch(0, s, grid, tiles.TileThreads, tiles.TileShared(sizeOf[T]()),
		runtime.Struct(&op), launch.Bool(exclusive), launch.Bool(aligned(out) && aligned(in)), o, on, i, in_, x, xn, y, yn)
}

// scanLengths says what is wrong with the slices of a scan.
func scanLengths[T any](out, in int) error {
	switch {
	case out != in:
		return invalidArgument("scan: lengths %d and %d differ", out, in)
	case sizeOf[T]() == 0:
		return invalidArgument("scan: the elements have no bytes")
	}
	return nil
}

// ScanCPU is Inclusive on the CPU, from the first element to the last. It refuses what Inclusive refuses: out may be in, and must not
// overlap it otherwise.
func ScanCPU[T any, O block.Op[T]](op O, out, in []T) error {
	if err := scanLengths[T](len(out), len(in)); err != nil {
		return err
	}
	if err := launch.Apart("scan", launch.Host("out", out, true), operandOnCPU("in", in, out)); err != nil {
		return err
	}
	if len(in) > 0 {
		folds[T](op)(op.Zero(), in, out)
	}
	return nil
}

// folds gives what combines the elements of in to a total, and sets out to what each step gives where it is not nil.
func folds[T any, O block.Op[T]](op O) func(total T, in, out []T) T {
	if f, ok := any(op).(interface{ Fold(total T, in, out []T) T }); ok {
		return f.Fold
	}
	return func(total T, in, out []T) T {
		for i, v := range in {
			if total = op.Combine(total, v); out != nil {
				out[i] = total
			}
		}
		return total
	}
}
