package pool_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/purecuda/purecuda/pool"
)

// What a call costs by itself: no work, and no call of the driver.
func BenchmarkScatterNothing(b *testing.B) {
	for _, devices := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("%d devices", devices), func(b *testing.B) {
			p, _ := open(b, machine(devices))
			benchmarkScatter(b, p, func(*pool.Worker, pool.Tile) error { return nil })
		})
	}
}

// The same with a wait for each stream, on the simulated driver.
func BenchmarkScatterSynchronize(b *testing.B) {
	p, _ := open(b, machine(4))
	benchmarkScatter(b, p, func(w *pool.Worker, _ pool.Tile) error { return w.Stream().Synchronize(context.Background()) })
}

func benchmarkScatter(b *testing.B, p *pool.Pool, f func(*pool.Worker, pool.Tile) error) {
	b.ReportAllocs()
	n := 64 * len(p.Devices())
	for b.Loop() {
		if _, err := p.Scatter(context.Background(), n, f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFallback(b *testing.B) {
	p := without(b)
	b.ReportAllocs()
	fallback := pool.ScatterOptions{Fallback: func(context.Context, int, int) error { return nil }}
	for b.Loop() {
		if _, err := p.Scatter(context.Background(), 1000, func(*pool.Worker, pool.Tile) error { return nil }, fallback); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPartition(b *testing.B) {
	for _, c := range []struct {
		name    string
		weights []float64
		n       int
	}{
		{"4 equal", []float64{1, 1, 1, 1}, 1 << 20},
		{"4 scores", []float64{450.25, 449.7, 601.1, 213.3}, 1 << 20},
		{"4 far apart", []float64{1e-300, 1e300, 5e-324, 1.7e308}, math.MaxInt},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pool.Partition(c.weights, c.n)
			}
		})
	}
}

// What a request costs by itself in a Batcher, on many goroutines.
func BenchmarkBatcher(b *testing.B) {
	p := without(b)
	batcher, err := pool.NewBatcher(p, func(*pool.Worker, []int, []int, []error) error { return nil }, pool.BatcherConfig[int, int]{
		Fallback: func(context.Context, []int, []int, []error) error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = batcher.Close() })
	b.SetParallelism(128)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := batcher.Do(context.Background(), 1); err != nil {
				b.Error(err)
			}
		}
	})
}
