package gpu

// GridBarrier waits until all threads of the launch are here. What a thread has written before it is seen by all of
// them after it. The word is 0 before its first use, belongs to one launch at a time, and may be used again after it.
// All blocks have to be resident at once: a launch that gpuc writes is cooperative, and an error where the grid is too
// large. A thread that ends before, as by a failed check, leaves the others waiting for ever: call it with checks=off.
func GridBarrier(t *Thread, word *uint32) {
	blocks := t.GridDimX() * t.GridDimY() * t.GridDimZ()
	if raceBuild && blocks*t.BlockDimX()*t.BlockDimY()*t.BlockDimZ() > maxGoroutines {
		fault("gpu.GridBarrier: a build with -race runs at most %d threads at once: take a smaller grid", maxGoroutines)
	}
	t.Barrier()
	if t.Rank() == 0 {
		Fence(SeqCst, DeviceScope)
		// All together add 1<<31, so that the upper bit turns and the rest is as before.
		step := uint32(1)
		if t.BlockX() == 0 && t.BlockY() == 0 && t.BlockZ() == 0 {
			step = 1<<31 - uint32(blocks-1)
		}
		before := AtomicAdd(word, step)
		for (before^AtomicLoad(word, Relaxed, DeviceScope))>>31 == 0 {
			t.Nanosleep(32)
		}
		Fence(SeqCst, DeviceScope)
	}
	t.Barrier()
}
