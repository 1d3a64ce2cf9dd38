package tiles

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// ReduceBlocks is how many blocks combine many elements, on every device: the order of a result is the same everywhere.
const ReduceBlocks = 1024

// Reduce combines in order what lies in a part of the elements for each block, and gives out a value for each block.
func Reduce[T any, O block.Op[T]](t *gpu.Thread, op O, wide bool, out, in []T) {
	const ahead = len(vectors[T]{})
	var zero T
	size := unsafe.Sizeof(zero)
	width := Width(size)
	total := op.Zero()
	// A step is what the block takes at once: vector k of lane l is at (warp*ahead+k)*32+l.
	step := TileThreads * ahead * width
	steps := (len(in) + step - 1) / step
	each := (steps + t.GridDimX() - 1) / t.GridDimX()
	lane := t.Warp()*32*ahead + t.Lane()
	s, end := t.BlockX()*each, min((t.BlockX()+1)*each, steps)
	var x vectors[T]
	if wide {
		for whole := min(end, len(in)/step); s < whole; s++ {
			for k := range ahead {
				x[k] = load(in, s*TileThreads*ahead+lane+k*32)
			}
			total = combined(op, total, &x, width)
		}
	}
	for ; s < end; s++ {
		for k := range ahead {
			for j := range width {
				x[k][j] = op.Zero()
				if i := (s*TileThreads*ahead+lane+k*32)*width + j; i < len(in) {
					x[k][j] = in[i]
				}
			}
		}
		total = combined(op, total, &x, width)
	}
	total = block.Reduce(t, op, total)
	if t.ThreadX() == 0 {
		out[t.BlockX()] = total
	}
}

// vectors are what a thread takes at once.
type vectors[T any] [4][4]T

// combined is total with the elements of vectors of a width.
func combined[T any, O block.Op[T]](op O, total T, x *vectors[T], width int) T {
	for k := range x {
		for j := range width {
			total = op.Combine(total, x[k][j])
		}
	}
	return total
}
