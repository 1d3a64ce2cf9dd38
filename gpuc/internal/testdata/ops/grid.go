package testops

import "github.com/purecuda/purecuda/gpu"

// Grid turns numbers round over the whole grid, three times, each thread with what another block has written.
//
//purecuda:kernel block=48 checks=off
func Grid(t *gpu.Thread, x []int32, word []uint32) {
	n, i := t.GlobalDimX(), t.GlobalX()
	for range 3 {
		v := x[n-1-i] + int32(i)
		gpu.GridBarrier(t, &word[0])
		x[i] = v
		gpu.GridBarrier(t, &word[0])
	}
}

// Times reads the clocks, and what they must not change.
//
//purecuda:kernel
func Times(t *gpu.Thread, out []int32, x []uint32) {
	i := t.GlobalX()
	if i >= len(out) || i >= len(x) {
		return
	}
	gpu.Prefetch(&x[i])
	from, at := t.Clock(), t.GlobalTimer()
	n := gpu.Dot4(int32(x[i]), int32(x[len(x)-1-i]), 7)
	n ^= int32(gpu.Dot4(x[i], x[len(x)-1-i], 9))
	if t.Clock() < from || t.GlobalTimer() < at || t.Multiprocessor() < 0 {
		n = 0
	}
	out[i] = n
}
