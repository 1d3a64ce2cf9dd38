package tiles

import (
	"math/bits"
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// Sample are the numbers that a histogram counts.
type Sample interface {
	~uint8 | ~uint16 | ~int32 | ~uint32 | ~float32 | ~int64 | ~uint64 | ~float64 | ~int | ~uint
}

// Bins are even ranges from Low on, up to and without High.
type Bins[T Sample] struct {
	Low, High T
	N         int     // how many, at most 2^31-1
	Per       float64 // how many for a difference of 1
}

// NewBins are n bins. High is above low.
func NewBins[T Sample](low, high T, n int) Bins[T] {
	b := Bins[T]{Low: low, High: high, N: n}
	if half := 0.5; T(half) != 0 {
		b.Per = float64(n) / (float64(high) - float64(low))
	} else {
		b.Per = float64(n) / float64(uint64(high)-uint64(low))
	}
	return b
}

// Bin is the bin of v, which is within the range. The bin of an integer is (v-Low)*N/(High-Low), in integers. That of a float is
// (v-Low)*Per in float64, rounded down.
func (b Bins[T]) Bin(v T) int {
	half := 0.5
	if T(half) != 0 {
		return min(int((float64(v)-float64(b.Low))*b.Per), b.N-1)
	}
	d, n, size := uint64(v)-uint64(b.Low), uint64(b.N), uint64(b.High)-uint64(b.Low)
	q := uint64(float64(d) * b.Per) // it can be one too few or too many
	if unsafe.Sizeof(v) <= 4 {
		if q*size > d*n {
			q--
		} else if (q+1)*size <= d*n {
			q++
		}
		return int(q)
	}
	hi, lo := bits.Mul64(d, n)
	if h, l := bits.Mul64(q, size); h > hi || h == hi && l > lo {
		q--
	} else if h, l := bits.Mul64(q+1, size); h < hi || h == hi && l <= lo {
		q++
	}
	return int(q)
}

// HistogramThreads is the block of Histogram.
const HistogramThreads = 512

// HistogramShared is how much dynamic shared memory a block needs for its counters; 0 where they do not fit. copies is how
// many counters a bin has, a power of two: lanes with different ones do not wait for each other.
func HistogramShared(bins int) (bytes, copies int) {
	const room = 48 << 10
	if 4*bins > room {
		return 0, 0
	}
	for copies = 32; 4*bins*copies > room; {
		copies /= 2
	}
	return 4 * bins * copies, copies
}

// Histogram adds to each counter how many elements are in its bin. Copies is that of HistogramShared.
func Histogram[T Sample](t *gpu.Thread, b Bins[T], copies int, counts []uint64, in []T) {
	const ahead = 4
	h := block.NewHistogram(t, gpu.DynamicShared[uint32](t)[:b.N*copies], copies)
	i, step := t.GlobalX(), t.GlobalDimX()
	for ; i+(ahead-1)*step < len(in); i += ahead * step {
		var x [ahead]T
		for k := range ahead {
			x[k] = in[i+k*step]
		}
		for k := range ahead {
			countSample(h, counts, copies, b, x[k])
		}
	}
	for ; i < len(in); i += step {
		countSample(h, counts, copies, b, in[i])
	}
	t.Barrier()
	if copies == 0 {
		return
	}
	for i := t.ThreadX(); i < b.N; i += HistogramThreads {
		if n := h.Of(i); n > 0 {
			gpu.AtomicAdd(&counts[i], uint64(n))
		}
	}
}

func countSample[T Sample](h block.Histogram, counts []uint64, copies int, b Bins[T], v T) {
	if !(v >= b.Low && v < b.High) {
		return
	}
	if i := b.Bin(v); copies == 0 {
		gpu.AtomicAdd(&counts[i], 1)
	} else {
		h.Count(i)
	}
}
