package kernels

// Histogram256Block is the block size of histogram256, in threads: one warp for each of the
// kernel's 8 sub-histograms.
const Histogram256Block = 256

// Histogram256Blocks returns how many blocks histogram256 takes for n bytes on a device with
// this many multiprocessors: a thread counts 16 bytes at a time, and every block ends with up
// to 256 global additions, so that there are no more blocks than run at the same time. For no
// bytes it is 0, an empty grid. Any other number gives the same result.
func Histogram256Blocks(n uint64, multiprocessors int) uint32 {
	return residentGrid(n, Histogram256Block*16, multiprocessors)
}

// Histogram256CPU is the reference of histogram256: it adds to counts[v] how often the byte v
// occurs in data. Counters are 64 bits wide because a GPU holds more than 2^32 bytes.
func Histogram256CPU(data []byte, counts *[256]uint64) {
	if counts == nil {
		return
	}
	for _, v := range data {
		counts[v]++
	}
}
