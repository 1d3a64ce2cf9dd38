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
	const ahead = 4
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
	var x [ahead][4]T
	if wide {
		for whole := min(end, len(in)/step); s < whole; s++ {
			for k := range ahead {
				x[k] = load(in, s*TileThreads*ahead+lane+k*32)
			}
			for k := range ahead {
				for j := range width {
					total = op.Combine(total, x[k][j])
				}
			}
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
		for k := range ahead {
			for j := range width {
				total = op.Combine(total, x[k][j])
			}
		}
	}
	total = block.Reduce(t, op, total)
	if t.ThreadX() == 0 {
		out[t.BlockX()] = total
	}
}
