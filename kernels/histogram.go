//lint:file-ignore U1000 gpuc compiles the methods whose names begin with kernel, for the types of a program

package kernels

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/kernels/internal/tiles"
	"github.com/purecuda/purecuda/runtime"
)

// Sample are the numbers that a [Histogram] counts.
type Sample interface{ tiles.Sample }

// Histogram counts numbers in even ranges, on a device: //purecuda:instantiate kernels.Histogram[float32] makes one. With n counters,
// an integer v is counted by counter (v-low)*n/(high-low), a division of integers in which nothing overflows. A float v is counted by
// counter (v-low) * (n/(high-low)), in float64, rounded down. [HistogramCPU] gives the same counts. Histogram is safe for concurrent use, each goroutine with a stream of its own.
type Histogram[T Sample] struct{ primitive }

// Of is called by what gpuc writes.
func (Histogram[T]) Of(k *launch.Kernels, first int) Histogram[T] {
	return Histogram[T]{primitive{k, first}}
}

//purecuda:kernel block=512 checks=off
func (Histogram[T]) kernelHistogram(t *gpu.Thread, b tiles.Bins[T], copies int, counts []uint64, in []T) {
	tiles.Histogram(t, b, copies, counts, in)
}

//purecuda:kernel block=512 checks=off
func (Histogram[T]) kernelClear(t *gpu.Thread, counts []uint64) { tiles.Clear(t, counts) }

// Launch sets each element of counts to how many elements of in its range has. The ranges are even, from low on, up to and without high.
// What lies outside, and a NaN, is not counted. Up to 12,288 counters are in shared memory; more take longer.
func (k Histogram[T]) Launch(s *runtime.Stream, counts *runtime.Ref[uint64], in *runtime.Ref[T], low, high T) error {
	if err := k.loaded("histogram"); err != nil {
		return err
	}
	bins := counts.Len()
	if err := histogramRange(bins, low, high); err != nil {
		return err
	}
	if err := usable(in); err != nil {
		return err
	}
	if err := launch.Apart("histogram", launch.Device("counts", counts, true), launch.Device("in", in, false)); err != nil {
		return err
	}
	c, cn := slice(counts, true)
	if err := k.launch(1, s, min(ceil(bins, tiles.HistogramThreads), 1024), tiles.HistogramThreads, 0, c, cn); err != nil || in.Len() == 0 {
		return err
	}
	b := tiles.NewBins(low, high, bins)
	shared, copies := tiles.HistogramShared(bins)
	blocks := min(4*max(1, k.k.Multiprocessors()), ceil(in.Len(), tiles.HistogramThreads*16))
	blocks = max(blocks, int(int64(in.Len())>>31)+1) // a block counts to 2^32-1
	i, in_ := slice(in, false)
	return k.launch(0, s, blocks, tiles.HistogramThreads, shared, runtime.Struct(&b), runtime.Value(copies), c, cn, i, in_)
}

// histogramRange says what is wrong with the range of a histogram.
func histogramRange[T Sample](bins int, low, high T) error {
	switch width := float64(high) - float64(low); {
	case bins == 0 || bins > math.MaxInt32:
		return invalidArgument("histogram: %d counters, want 1 to %d", bins, math.MaxInt32)
	case !(low < high) || math.IsInf(width, 0):
		return invalidArgument("histogram: the range from %v to %v: low is below high, and both are finite", low, high)
	}
	return nil
}

// HistogramCPU is Histogram on the CPU. counts must not overlap in.
func HistogramCPU[T Sample](counts []uint64, in []T, low, high T) error {
	if err := histogramRange(len(counts), low, high); err != nil {
		return err
	}
	if err := launch.Apart("histogram", launch.Host("counts", counts, true), launch.Host("in", in, false)); err != nil {
		return err
	}
	clear(counts)
	b := tiles.NewBins(low, high, len(counts))
	for _, v := range in {
		if v >= low && v < high {
			counts[b.Bin(v)]++
		}
	}
	return nil
}
