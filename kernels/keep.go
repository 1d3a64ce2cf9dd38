//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// Condition says which elements stay. It may have numbers in it, such as a bound.
type Condition[T any] interface{ Keep(v T) bool }

// Select keeps the elements for which a condition holds, in their order, on a device:
// //purecuda:instantiate kernels.Select[Point, Inside] makes one for the types of a program. It is what [slices.DeleteFunc] is
// on the CPU. Select is safe for concurrent use, each goroutine with a stream of its own.
type Select[T any, C Condition[T]] struct{ primitive }

// Of is called by what gpuc writes.
func (Select[T, C]) Of(k *launch.Kernels, first int) Select[T, C] {
	return Select[T, C]{primitive{k, first}}
}

//purecuda:kernel block=256 checks=off
func (Select[T, C]) kernelSelect(t *gpu.Thread, c C, wide bool, out, in []T, count, words []uint64) {
	tiles.Keep(t, c, wide, out, in, count, words)
}

// Scratch is how many bytes n elements need beside them.
func (Select[T, C]) Scratch(n int) int { return room256(8 * selectWords[T](n)) }

func selectWords[T any](n int) int {
	return 1 + tiles.TotalWords(8)*tiles.TotalsLen(ceil(n, tiles.Tile(max(1, sizeOf[T]()))))
}

// Launch copies what stays to the begin of out, and sets the one element of count to how many those are. out has room for
// all of in, and is not in. The scratch memory is that of the caller, or nil: then it comes from the arena, and the stream
// must not be captured.
func (k Select[T, C]) Launch(s *runtime.Stream, c C, out, in *runtime.Ref[T], count *runtime.Ref[uint64], scratch *runtime.Ref[byte]) error {
	if err := k.loaded("select"); err != nil {
		return err
	}
	n, size := in.Len(), sizeOf[T]()
	switch {
	case out.Len() < n:
		return invalidArgument("select: out has room for %d elements, and %d could stay", out.Len(), n)
	case count.Len() != 1:
		return invalidArgument("select: the count has %d elements, want 1", count.Len())
	case size == 0:
		return invalidArgument("select: the elements have no bytes")
	case n == 0:
		if err := usable(out, in); err != nil {
			return err
		}
		return runtime.Zero(s, count)
	}
	if err := apart("select", launch.Device("out", out, true), launch.Device("in", in, false), launch.Device("count", count, true),
		launch.Device("scratch", scratch, true)); err != nil {
		return err
	}
	m, err := newScratch("select", s, k.Scratch(n), scratch)
	if err != nil {
		return err
	}
	defer m.close()
	words, err := cut[uint64](m, selectWords[T](n))
	if err != nil {
		return err
	}
	if err := runtime.Zero(s, words); err != nil {
		return err
	}
	o, on := slice(out, true)
	i, in_ := slice(in, false)
	x, xn := slice(count, true)
	y, yn := slice(words, true)
	tile := tiles.Tile(size)
	return k.launch(0, s, ceil(n, tile), tiles.TileThreads, tile*int(size), runtime.Struct(&c), launch.Bool(aligned(in)), o, on, i, in_, x, xn, y, yn)
}
