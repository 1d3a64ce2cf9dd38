package tiles

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// Scan combines each element with all before it, in one pass: a block for each tile. wide says that both slices begin at
// a multiple of 16 bytes. words is as [Words] says, and begins with 0. carry comes before the first element. Where sum has an element, that
// is set to all elements, combined, and nothing else is written.
func Scan[T any, O block.Op[T]](t *gpu.Thread, op O, exclusive, wide bool, out, in []T, words []uint64, values []T, carry T, sum []T) {
	warps := gpu.Shared[[32]T](t)
	prefix := gpu.Shared[T](t)
	number := gpu.Shared[uint32](t)
	tile := take(t, number, &words[0])
	var x [8][4]T
	size := unsafe.Sizeof(x[0][0])
	vectors, width := Vectors(size), Width(size)
	first := (tile*TileThreads+t.Warp()*32)*vectors + t.Lane()
	full := wide && (tile+1)*Tile(size) <= len(in)
	loadTile(&x, in, first, full, op.Zero())
	var up [8]T // up to and with the vector of the lane
	for k := range vectors {
		for j := 1; j < width; j++ {
			x[k][j] = op.Combine(x[k][j-1], x[k][j])
		}
		up[k] = x[k][width-1]
	}
	for d := 1; d < 32; d *= 2 {
		for k := range vectors {
			up[k] = gpu.Select(t.Lane() >= d, op.Combine(gpu.ShuffleUp(t, up[k], d), up[k]), up[k])
		}
	}
	var below [8]T // what is before the vector, in the warp
	ofWarp := op.Zero()
	for k := range vectors {
		u := gpu.Select(t.Lane() == 0, op.Zero(), gpu.ShuffleUp(t, up[k], 1))
		below[k] = op.Combine(ofWarp, u)
		ofWarp = op.Combine(ofWarp, gpu.Shuffle(t, up[k], 31))
	}
	if t.Lane() == 0 {
		warps[t.Warp()] = ofWarp
	}
	t.Barrier()
	own, total := amongWarps(t, op, warps)
	if t.Warp() == 0 {
		s := Totals[T]{words[Words:], values}
		if t.Lane() == 0 {
			s.put(tile, total)
		}
		if p := preceding(t, op, s, t.GridDimX(), tile, total); t.Lane() == 0 {
			*prefix = op.Combine(carry, p)
			if len(sum) > 0 && tile == t.GridDimX()-1 {
				sum[0] = op.Combine(p, total)
			}
		}
	}
	if len(sum) > 0 {
		return
	}
	t.Barrier()
	own = op.Combine(*prefix, own)
	for k := range vectors {
		b := op.Combine(own, below[k])
		last := b
		for j := range width {
			v := op.Combine(b, x[k][j])
			x[k][j] = gpu.Select(exclusive, last, v)
			last = v
		}
	}
	if full {
		for k := range vectors {
			store(out, first+k*32, x[k])
		}
	} else {
		for k := range vectors {
			for j := range width {
				if i := (first+k*32)*width + j; i < len(in) {
					out[i] = x[k][j]
				}
			}
		}
	}
}
