package pool_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/pool"
)

// overload offers requests of a length for so long, ten times more than so many streams can do: each comes on a goroutine of its own,
// whether the others are done or not. The queue has its usual length.
func overload(b *testing.B, streams int, length, lasts time.Duration, request func() error) {
	const times = 10
	for b.Loop() {
		var (
			all              sync.WaitGroup
			mu               sync.Mutex
			accepted         []time.Duration
			refused, offered atomic.Int64
			heap, goroutines uint64
			memory           goruntime.MemStats
		)
		rate := times * float64(streams) / length.Seconds()
		start := time.Now()
		for tick := 0; time.Since(start) < lasts; tick++ {
			for due := int64(rate * time.Since(start).Seconds()); offered.Load() < due; offered.Add(1) {
				all.Go(func() {
					came := time.Now()
					switch err := request(); {
					case err == nil:
						mu.Lock()
						defer mu.Unlock()
						accepted = append(accepted, time.Since(came))
					case errors.Is(err, pool.ErrQueueFull):
						refused.Add(1)
					default:
						b.Error(err)
					}
				})
			}
			if tick%100 == 0 { // it stops all goroutines
				goruntime.ReadMemStats(&memory)
				heap, goroutines = max(heap, memory.HeapAlloc), max(goroutines, uint64(goruntime.NumGoroutine()))
			}
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		assert.Equal(b, offered.Load(), int64(len(accepted))+refused.Load(), "a request without an answer, or with two")
		slices.Sort(accepted)
		b.ReportMetric(float64(offered.Load())/lasts.Seconds(), "offered/s")
		b.ReportMetric(float64(len(accepted))/lasts.Seconds(), "accepted/s")
		b.ReportMetric(float64(accepted[len(accepted)/2].Nanoseconds()), "p50-ns")
		b.ReportMetric(float64(accepted[len(accepted)*99/100].Nanoseconds()), "p99-ns")
		b.ReportMetric(float64(heap)/(1<<20), "heap-MiB")
		b.ReportMetric(float64(goroutines), "goroutines")
	}
}

// BenchmarkOverload is that of functions that sleep.
func BenchmarkOverload(b *testing.B) {
	const devices, streams, length = 4, 16, 2 * time.Millisecond
	p, _ := open(b, machine(devices), pool.Options{Streams: streams})
	require.NoError(b, p.Prepare(b.Context()))
	overload(b, devices*streams, length, 2*time.Second, func() error {
		_, err := p.Do(context.Background(), sleeps(length))
		return err
	})
}

// BenchmarkDoRefused is what a call costs that is refused, while the functions of all streams block.
func BenchmarkDoRefused(b *testing.B) {
	const devices, streams, queue = 4, 16, 1024
	p, _ := open(b, machine(devices), pool.Options{Streams: streams, Queue: queue})
	end := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(end)
	for range devices*streams + queue {
		all.Go(func() {
			_, err := p.Do(context.Background(), func(*pool.Worker) error { <-end; return nil })
			assert.NoError(b, err)
		})
	}
	for p.Stats().Queued < queue {
		time.Sleep(time.Millisecond)
	}
	nothing := func(*pool.Worker) error { return nil }
	b.ReportAllocs()
	b.SetParallelism(64)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := p.Do(context.Background(), nothing); !errors.Is(err, pool.ErrQueueFull) {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
}
