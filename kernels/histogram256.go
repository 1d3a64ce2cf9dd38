package kernels

// histogram256Threads is the block size of histogram256, in threads: one warp for each of the
// kernel's 8 sub-histograms.
const histogram256Threads = 256

// histogram256Blocks returns the number of blocks of histogram256 for n bytes on a device with this
// many multiprocessors. A thread counts 16 bytes at a time. Every block ends with up to 256 global
// additions, so there are at most as many blocks as run at the same time. For no bytes it returns 0,
// an empty grid. Any other number of blocks gives the same result.
func histogram256Blocks(n uint64, multiprocessors int) uint32 {
	return residentGrid(n, histogram256Threads*16, multiprocessors)
}

// Histogram256CPU is histogram256 on the CPU. It adds to counts[v] how often the byte v occurs in
// data. Counters are 64 bits wide because a GPU holds more than 2^32 bytes.
func Histogram256CPU(data []byte, counts *[256]uint64) {
	if counts == nil {
		return
	}
	for _, v := range data {
		counts[v]++
	}
}
