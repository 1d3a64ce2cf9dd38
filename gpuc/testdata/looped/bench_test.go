package looped

import (
	"context"
	"fmt"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// BenchmarkBesideLoops runs kernels on one core beside the loops that a Go author would write, in turns, and reports
// their ratio: the least time of each.
func BenchmarkBesideLoops(b *testing.B) {
	const n = 1 << 16
	x, y := random[float32](n), random[float32](n)
	const side = 96
	a, m, c := random[float32](side*side), random[float32](side*side), make([]float32, side*side)
	data, out := make([]byte, 4096*8), make([]byte, 32*8)
	in, sums := random[int64](n), make([]int64, n/256)
	for _, bench := range []struct {
		name         string
		loops, plain func() error
	}{
		{"saxpy", func() error { return SaxpyCPU(runtime.Shape1D(n, 256), 1e-9, x, y) }, func() error { return saxpy(1e-9, x, y) }},
		{"saxpy without FMA", func() error { return AxpyCPU(runtime.Shape1D(n, 256), 1e-9, x, y) }, func() error { return axpy(1e-9, x, y) }},
		{"sha256", func() error { return SHA256CPU(runtime.Shape1D(8, 8), data, out, 4096) }, func() error {
			for i := range 8 {
				digest(data[i*4096:(i+1)*4096], out[32*i:32*i+32])
			}
			return nil
		}},
		{"sgemm", func() error { return SgemmCPU(grid(side/16, side/16, 16, 16), c, a, m, side) }, func() error { return sgemm(c, a, m, side) }},
		{"block sum", func() error { return BlockSumCPU(grid(n/256, 1, 256), in, sums) }, func() error { return treeSum(in, sums) }},
		{"block sum beside one sum", func() error { return BlockSumCPU(grid(n/256, 1, 256), in, sums) }, func() error { return blockSum(in, sums) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
			least := [2]time.Duration{time.Hour, time.Hour}
			for b.Loop() {
				for i, f := range []func() error{bench.loops, bench.plain} {
					start := time.Now()
					require.NoError(b, f())
					least[i] = min(least[i], time.Since(start))
				}
			}
			b.ReportMetric(float64(least[0])/float64(least[1]), "ratio")
			b.ReportMetric(float64(least[1].Nanoseconds())/1000, "µs-plain")
		})
	}
}

// BenchmarkMapFallback runs kernels as the fallback of pool.Map beside the same kernel alone, in turns, and reports
// the ratio of the least times. The grain is the block.
func BenchmarkMapFallback(b *testing.B) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(b, err)
	defer rt.Close()
	p, err := pool.Open(rt)
	require.NoError(b, err)
	defer p.Close()
	never := func(*pool.Worker, []uint32, []uint32) error { return nil }
	for _, bench := range []struct {
		name string
		cpu  func(in, out []uint32) error
	}{
		{"blocks of threads", func(in, out []uint32) error {
			shape := runtime.Shape1D(len(out), 256)
			shape.SharedBytes = 4 * 256
			return MixedCPU(shape, out, 9, false)
		}},
		{"elements", func(in, out []uint32) error { return CollatzCPU(runtime.Shape1D(len(out), 256), in, out) }},
	} {
		for _, n := range []int{1 << 12, 1 << 16, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", bench.name, n), func(b *testing.B) {
				in, out := random[uint32](n), make([]uint32, n)
				onCPU := pool.MapOptions[uint32, uint32]{Grain: 256, Fallback: func(_ context.Context, in, out []uint32) error { return bench.cpu(in, out) }}
				least := [2]time.Duration{time.Hour, time.Hour}
				for b.Loop() {
					for i, f := range []func() error{
						func() error { return bench.cpu(in, out) },
						func() error {
							_, err := pool.Map(b.Context(), p, in, out, never, onCPU)
							return err
						},
					} {
						start := time.Now()
						require.NoError(b, f())
						least[i] = min(least[i], time.Since(start))
					}
				}
				b.ReportMetric(float64(least[1])/float64(least[0]), "ratio")
				b.ReportMetric(float64(least[0].Nanoseconds())/1000, "µs-alone")
			})
		}
	}
}

func saxpy(a float32, x, y []float32) error {
	for i := range x {
		y[i] = gpu.FMA32(a, x[i], y[i])
	}
	return nil
}

func axpy(a float32, x, y []float32) error {
	for i := range x {
		y[i] = a*x[i] + y[i]
	}
	return nil
}

func sgemm(c, a, b []float32, n int) error {
	for i := range n {
		for j := range n {
			var sum float32
			for k := range n {
				sum += a[i*n+k] * b[k*n+j]
			}
			c[i*n+j] = sum
		}
	}
	return nil
}

// treeSum adds in the order of BlockSum, which the result depends on where the numbers are floats.
func treeSum(in, out []int64) error {
	for i := range out {
		part := [256]int64(in[i*256 : (i+1)*256])
		for d := 128; d > 0; d /= 2 {
			for r := range d {
				part[r] += part[r+d]
			}
		}
		out[i] = part[0]
	}
	return nil
}

// blockSum adds in another order, with no memory between.
func blockSum(in, out []int64) error {
	for i := range out {
		var sum int64
		for _, v := range in[i*256 : (i+1)*256] {
			sum += v
		}
		out[i] = sum
	}
	return nil
}
