package tiles

import (
	"math/bits"
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// Keep moves what stays to the begin of out, in its order, and writes to count how many those are. The dynamic shared
// memory has room for a tile. words are as those of Scan.
func Keep[T any, C interface{ Keep(v T) bool }](t *gpu.Thread, c C, wide bool, out, in []T, count, words []uint64) {
	warps := gpu.Shared[[32]uint32](t)
	prefix := gpu.Shared[uint64](t)
	number := gpu.Shared[uint32](t)
	buf := gpu.DynamicShared[T](t)
	tile := take(t, number, &words[0])
	var x [8][4]T
	var kept [8]uint32 // a bit for each of a vector that stays
	size := unsafe.Sizeof(x[0][0])
	vectors, width := Vectors(size), Width(size)
	first := (tile*TileThreads+t.Warp()*32)*vectors + t.Lane()
	if wide && (tile+1)*Tile(size) <= len(in) {
		for k := range vectors {
			x[k] = load(in, first+k*32)
		}
		for k := range vectors {
			for j := range width {
				kept[k] |= gpu.Select[uint32](c.Keep(x[k][j]), 1<<j, 0)
			}
		}
	} else {
		for k := range vectors {
			for j := range width {
				if i := (first+k*32)*width + j; i < len(in) {
					x[k][j] = in[i]
					kept[k] |= gpu.Select[uint32](c.Keep(x[k][j]), 1<<j, 0)
				}
			}
		}
	}
	// The counts of four vectors are in the bytes of a word: at most 128 each.
	var up [2]uint32
	for k := range vectors {
		up[k/4] |= uint32(bits.OnesCount32(kept[k])) << (k % 4 * 8)
	}
	for q := range (vectors + 3) / 4 {
		up[q] = block.WarpScan(t, block.Add[uint32]{}, up[q])
	}
	var below [8]uint32
	var carry uint32
	var all [2]uint32
	for q := range (vectors + 3) / 4 {
		all[q] = gpu.Shuffle(t, up[q], 31)
	}
	for k := range vectors {
		below[k] = carry + up[k/4]>>(k%4*8)&255 - uint32(bits.OnesCount32(kept[k]))
		carry += all[k/4] >> (k % 4 * 8) & 255
	}
	if t.Lane() == 0 {
		warps[t.Warp()] = carry
	}
	t.Barrier()
	var own, total uint32
	for w := range TileThreads / 32 {
		own = gpu.Select(w == t.Warp(), total, own)
		total += warps[w]
	}
	says := Totals[uint64]{Words: words[1:]}
	if t.ThreadX() == 0 {
		says.put(tile, uint64(total))
	}
	for k := range vectors {
		at := own + below[k]
		for j := range width {
			if kept[k]>>j&1 != 0 {
				buf[at] = x[k][j]
				at++
			}
		}
	}
	if t.Warp() == 0 {
		p := before(t, block.Add[uint64]{}, says, t.GridDimX(), tile, uint64(total))
		if t.Lane() == 0 {
			*prefix = p
			if tile == t.GridDimX()-1 {
				count[0] = p + uint64(total)
			}
		}
	}
	t.Barrier()
	to := out[*prefix:]
	for i := uint32(t.ThreadX()); i < total; i += TileThreads {
		to[i] = buf[i]
	}
}
