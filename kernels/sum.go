package kernels

// sumThreads is the block size of sum, in threads. The order of additions, and so the last
// bits of the result, depends on it and on the number of blocks.
const sumThreads = 256

const warpSize = 32

// sumBlocks returns the number of blocks of sum for n elements on a device with this many
// multiprocessors. It is one for every sumThreads elements, but at most as many as run at the same
// time, and at least 1. It is also the number of partial sums.
func sumBlocks(n uint64, multiprocessors int) uint32 {
	return max(residentGrid(n, sumThreads, multiprocessors), 1)
}

// SumPartialsCPU is one launch of sum on the CPU, with len(partials) blocks of sumThreads threads. It
// adds in the same order as a GPU. So the partial sums are the same bit for bit, except for the
// payload of NaNs. With no partials it does nothing.
//
// Thread t of all T threads adds elements t, t+T, t+2T, and so on. Then the lanes of a warp, and then
// the warps of a block, are added as a binary tree.
func SumPartialsCPU(x []float32, partials []float64) {
	if len(partials) == 0 {
		return
	}
	threads := make([]float64, len(partials)*sumThreads)
	for i, v := range x {
		threads[i%len(threads)] += float64(v)
	}
	for b := range partials {
		block := threads[b*sumThreads : (b+1)*sumThreads]
		var warps [warpSize]float64 // those that the block does not have stay zero
		for w := range sumThreads / warpSize {
			warps[w] = addWarp(block[w*warpSize : (w+1)*warpSize])
		}
		partials[b] = addWarp(warps[:])
	}
}

// addWarp adds 32 lanes in the order of a shuffle-down reduction, in place.
func addWarp(lanes []float64) float64 {
	for distance := warpSize / 2; distance > 0; distance /= 2 {
		for i := range distance {
			lanes[i] += lanes[i+distance]
		}
	}
	return lanes[0]
}

// AddPartials adds partial sums in their order, on the host, after a launch of sum. The error of the
// result is at most
//
//	(n/T + 10 + blocks) * 2^-53 * (the sum of all |x[i]|)
//
// for T threads of the grid. Each element passes through at most that many roundings, and the
// conversion of float32 to float64 is exact.
func AddPartials(partials []float64) float64 {
	total := 0.0
	for _, p := range partials {
		total += p
	}
	return total
}
