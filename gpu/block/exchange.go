package block

import "github.com/purecuda/purecuda/gpu"

// Load sets the items of all threads to the elements of in, which the block has to itself. Where in is shorter, an item
// stays as it is. Each warp reads memory in its order, and turns the items around in buf, which is shared memory with room for all.
//
//	var x [7]float32
//	buf := gpu.Shared[[256 * 7]float32](t)
//	block.Load(t, buf[:], in[min(t.BlockX()*len(buf), len(in)):], x[:])
func Load[T any](t *gpu.Thread, buf, in, items []T) {
	n, first := len(items), t.Warp()*32*len(items)
	buf = buf[first : first+32*n]
	for i := range n {
		if at := i*32 + t.Lane(); first+at < len(in) {
			buf[at] = in[first+at]
		}
	}
	gpu.WarpBarrier(t)
	for i := range n {
		if at := t.Lane()*n + i; first+at < len(in) {
			items[i] = buf[at]
		}
	}
	gpu.WarpBarrier(t)
}

// Store is the other way: it sets the elements of out to the items of all threads, as far as it has room.
func Store[T any](t *gpu.Thread, buf, out, items []T) {
	n, first := len(items), t.Warp()*32*len(items)
	buf = buf[first : first+32*n]
	for i := range n {
		buf[t.Lane()*n+i] = items[i]
	}
	gpu.WarpBarrier(t)
	for i := range n {
		if at := i*32 + t.Lane(); first+at < len(out) {
			out[first+at] = buf[at]
		}
	}
	gpu.WarpBarrier(t)
}

// Exchange makes item i of each thread element places[i] of the block. The places are all numbers below that of the elements.
// buf is as in [Load]. After it, buf has the elements in the order of their places, until the next barrier.
func Exchange[T any](t *gpu.Thread, buf, items []T, places []uint32) {
	n := len(items)
	t.Barrier()
	for i := range n {
		buf[places[i]] = items[i]
	}
	t.Barrier()
	for i := range n {
		items[i] = buf[t.ThreadX()*n+i]
	}
}
