package source

import "github.com/purecuda/purecuda/gpu"

const (
	values = 256
	copies = 8 // of the counters in a block: 8 KiB of shared memory
	// A block adds its 32-bit counters to the global ones before they can overflow. One step counts at most 1024 threads *
	// 16 bytes = 2^14, so that 2^17 steps count 2^31 at most.
	stepsPerFlush = 1 << 17
)

func countWord(counters *[values]uint32, w uint32) {
	gpu.AtomicAdd(&counters[w&0xff], 1)
	gpu.AtomicAdd(&counters[w>>8&0xff], 1)
	gpu.AtomicAdd(&counters[w>>16&0xff], 1)
	gpu.AtomicAdd(&counters[w>>24], 1)
}

// flush adds the counters of the block to the global ones and zeroes them.
func flush(t *gpu.Thread, counters *[copies][values]uint32, counts []uint64) {
	t.Barrier()
	for v := t.ThreadX(); v < values; v += t.BlockDimX() {
		var total uint64
		for i := range copies {
			total += uint64(counters[i][v])
			counters[i][v] = 0
		}
		if total != 0 {
			gpu.AtomicAdd(&counts[v], total)
		}
	}
	t.Barrier()
}

// Histogram256 adds to counts[v] how often the byte v occurs in data, which may have any alignment. counts has 256
// counters of 64 bits, because a GPU holds more than 2^32 bytes.
//
// Every warp counts into its own 256 counters in shared memory, so that the warps of a block do not wait for each other.
// Any grid and block size gives the same result.
//
//purecuda:kernel entry=histogram256
func Histogram256(t *gpu.Thread, data []byte, counts []uint64) {
	counters := gpu.Shared[[copies][values]uint32](t)
	for i := t.ThreadX(); i < copies*values; i += t.BlockDimX() {
		counters[i/values][i%values] = 0
	}
	t.Barrier()
	mine := &counters[t.ThreadX()/32%copies]

	head, quads, tail := gpu.Quads(data)
	for i := t.GlobalX(); i < len(head); i += t.GlobalDimX() {
		gpu.AtomicAdd(&mine[head[i]], 1)
	}
	for i := t.GlobalX(); i < len(tail); i += t.GlobalDimX() {
		gpu.AtomicAdd(&mine[tail[i]], 1)
	}
	steps := uint32(0)
	for first := t.BlockX() * t.BlockDimX(); first < len(quads); first += t.GlobalDimX() {
		if i := first + t.ThreadX(); i < len(quads) {
			q := quads[i]
			countWord(mine, q.X)
			countWord(mine, q.Y)
			countWord(mine, q.Z)
			countWord(mine, q.W)
		}
		if steps++; steps == stepsPerFlush { // the same step for all threads of a block
			flush(t, counters, counts)
			steps = 0
		}
	}
	flush(t, counters, counts)
}
