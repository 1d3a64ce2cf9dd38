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
	size := unsafe.Sizeof(carry)
	if size <= 4 {
		gpu.MinBlocksPerMultiprocessor(6) // a few registers go to memory, and more tiles are on their way
	}
	warps := gpu.Shared[[32]T](t)
	prefix := gpu.Shared[T](t)
	number := gpu.Shared[uint32](t)
	tile := take(t, number, &words[0])
	vectors, width := Vectors(size), Width(size)
	first := (tile*TileThreads+t.Warp()*32)*vectors + t.Lane()
	full := wide && (tile+1)*Tile(size) <= len(in)
	// A warp loads and stores in the order of memory. Through shared memory a thread gets vectors that are next to each other. It loads
	// them once more behind the look-back, so that they hold no registers meanwhile. One vector is where it belongs.
	buf := gpu.DynamicShared[T](t)
	place, own := padded(t.Warp()*32*vectors+t.Lane()), padded(t.ThreadX()*vectors)
	var x [8][4]T
	loadTile(&x, in, first, full, op.Zero())
	if vectors > 1 {
		for k := range vectors {
			put(buf, place+k*padded(32), x[k])
		}
		t.Barrier()
	}
	up := op.Zero()
	for k := range vectors {
		if vectors > 1 {
			x[k] = get(buf, own+k)
		}
		for j := range width {
			up = op.Combine(up, x[k][j])
		}
	}
	up = block.WarpScan(t, op, up)
	below := gpu.Select(t.Lane() == 0, op.Zero(), gpu.ShuffleUp(t, up, 1))
	if t.Lane() == 31 {
		warps[t.Warp()] = up
	}
	t.Barrier()
	before, total := amongWarps(t, op, warps)
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
	last := op.Combine(op.Combine(*prefix, before), below)
	for k := range vectors {
		if vectors > 1 {
			x[k] = get(buf, own+k)
		}
		for j := range width {
			v := op.Combine(last, x[k][j])
			x[k][j] = gpu.Select(exclusive, last, v)
			last = v
		}
		if vectors > 1 {
			put(buf, own+k, x[k])
		}
	}
	if vectors > 1 {
		t.Barrier()
	}
	if full {
		for k := range vectors {
			if vectors > 1 {
				x[k] = get(buf, place+k*padded(32))
			}
			store(out, first+k*32, x[k])
		}
	} else {
		for k := range vectors {
			if vectors > 1 {
				x[k] = get(buf, place+k*padded(32))
			}
			for j := range width {
				if i := (first+k*32)*width + j; i < len(in) {
					out[i] = x[k][j]
				}
			}
		}
	}
}
