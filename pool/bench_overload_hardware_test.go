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

	"github.com/purecuda/purecuda/pool"
)

// BenchmarkHardwareOverload is ten seconds in which ten times more requests come than the devices can do: each comes on
// a goroutine of its own, whether the others are done or not. The queue has its usual length.
func BenchmarkHardwareOverload(b *testing.B) {
	const length, streams, times, lasts = 2 * time.Millisecond, 16, 10, 10 * time.Second
	onHardware(b, func(b *testing.B, devices int, p *pool.Pool) {
		request := func() error {
			_, err := p.Do(context.Background(), func(w *pool.Worker) error {
				return spinner{w.Stream(), ofSpin.Of(w)}.request(w.CallContext(), length)
			})
			return err
		}
		requestsOf(b, devices*streams, 2000, func(int) error { return request() }) // makes the streams
		for b.Loop() {
			var (
				all              sync.WaitGroup
				mu               sync.Mutex
				accepted         []time.Duration
				refused, offered atomic.Int64
				heap, goroutines uint64
				memory           goruntime.MemStats
			)
			rate := times * float64(devices*streams) / length.Seconds()
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
	}, pool.Options{Streams: streams, Setup: []pool.Setup{ofSpin}})
}
