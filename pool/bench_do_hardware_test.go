package pool_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// spinner is a stream with a kernel that takes so many nanoseconds on one warp.
type spinner struct {
	stream *runtime.Stream
	kernel *runtime.Kernel
}

func (s spinner) request(ctx context.Context, length time.Duration) error {
	shape := runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 32}}
	if err := s.kernel.Launch(s.stream, shape, runtime.Value(uint64(length))); err != nil {
		return err
	}
	return s.stream.Synchronize(ctx)
}

var ofSpin = pool.PerDevice(loadSpin)

func loadSpin(c *runtime.Context) (*runtime.Kernel, error) {
	m, err := c.LoadModule(runtime.Image{Code: hardware.EmptyKernels})
	if err != nil {
		return nil, err
	}
	return m.Kernel("spin")
}

// requestsOf makes n requests on so many goroutines, and reports the median and the 99th percentile.
func requestsOf(b *testing.B, goroutines, n int, request func(goroutine int) error) {
	took := make([]time.Duration, n)
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				start := time.Now()
				if err := request(g); err != nil {
					failed.Store(&err)
					return
				}
				took[i] = time.Since(start)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[n/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[n*99/100].Nanoseconds()), "p99-ns")
}

// BenchmarkHardwareDo is a request with a kernel of 20 us and a wait, by 256 goroutines, beside as many
// launches and waits by one goroutine for each stream.
func BenchmarkHardwareDo(b *testing.B) {
	const length = 20 * time.Microsecond
	ctx := context.Background() // the channel of one that can end would be one for all
	for _, streams := range []int{8, 16, 32, 64} {
		b.Run(fmt.Sprintf("streams=%d/with=do", streams), func(b *testing.B) {
			onHardware(b, func(b *testing.B, _ int, p *pool.Pool) {
				do := func(int) error {
					_, err := p.Do(ctx, func(w *pool.Worker) error {
						return spinner{w.Stream(), ofSpin.Of(w)}.request(w.CallContext(), length)
					})
					return err
				}
				requestsOf(b, 256, 2000, do) // makes the streams
				b.ReportAllocs()
				b.ResetTimer()
				requestsOf(b, 256, b.N, do)
			}, pool.Options{Streams: streams, Setup: []pool.Setup{ofSpin}})
		})
		b.Run(fmt.Sprintf("streams=%d/with=streams", streams), func(b *testing.B) {
			onHardware(b, func(b *testing.B, _ int, p *pool.Pool) {
				var spinners []spinner
				for _, d := range p.Devices() {
					var c *runtime.Context
					_, err := p.Do(ctx, func(w *pool.Worker) error { c = w.Context(); return nil }, pool.DoOptions{Devices: []int{d.Ordinal}})
					require.NoError(b, err)
					k, err := loadSpin(c)
					require.NoError(b, err)
					for range streams {
						s, err := c.NewStream()
						require.NoError(b, err)
						b.Cleanup(func() { _ = s.Close() })
						spinners = append(spinners, spinner{s, k})
					}
				}
				plain := func(g int) error { return spinners[g].request(ctx, length) }
				requestsOf(b, len(spinners), 2000, plain)
				b.ReportAllocs()
				b.ResetTimer()
				requestsOf(b, len(spinners), b.N, plain)
			}, pool.Options{})
		})
	}
}

// BenchmarkHardwareDoBurst is 64 requests at the same time, with a kernel of 2 or 5 ms on one warp.
func BenchmarkHardwareDoBurst(b *testing.B) {
	const requests = 64
	for _, c := range []struct {
		length  time.Duration
		streams int
	}{{2 * time.Millisecond, 16}, {5 * time.Millisecond, 16}, {5 * time.Millisecond, 32}} {
		b.Run(fmt.Sprintf("length=%v/streams=%d", c.length, c.streams), func(b *testing.B) {
			onHardware(b, func(b *testing.B, _ int, p *pool.Pool) {
				call := func() {
					var all sync.WaitGroup
					for range requests {
						all.Go(func() {
							_, err := p.Do(b.Context(), func(w *pool.Worker) error {
								return spinner{w.Stream(), ofSpin.Of(w)}.request(w.CallContext(), c.length)
							})
							if err != nil {
								b.Error(err)
							}
						})
					}
					all.Wait()
				}
				call()
				b.ResetTimer()
				for range b.N {
					call()
				}
			}, pool.Options{Streams: c.streams, Setup: []pool.Setup{ofSpin}})
		})
	}
}

// BenchmarkHardwareFirstBurst is the longest of 64 requests at the same time in a pool that has opened no context yet, with and without
// Prepare. The time of Prepare is reported too.
func BenchmarkHardwareFirstBurst(b *testing.B) {
	for _, prepared := range []bool{false, true} {
		b.Run(fmt.Sprintf("prepared=%v/impl=runtime", prepared), func(b *testing.B) {
			var preparing, longest time.Duration
			for range b.N {
				rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(hardware.Open(b)))
				require.NoError(b, err)
				p, err := pool.Open(rt, pool.Options{Setup: []pool.Setup{ofSpin}})
				require.NoError(b, err)
				if prepared {
					start := time.Now()
					require.NoError(b, p.Prepare(b.Context()))
					preparing += time.Since(start)
				}
				start := time.Now()
				var all sync.WaitGroup
				for range 64 {
					all.Go(func() {
						_, err := p.Do(b.Context(), func(w *pool.Worker) error {
							return spinner{w.Stream(), ofSpin.Of(w)}.request(w.CallContext(), time.Microsecond)
						})
						if err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
				longest += time.Since(start)
				require.NoError(b, p.Close())
				require.NoError(b, rt.Close())
			}
			b.ReportMetric(float64(longest.Microseconds())/float64(b.N)/1000, "burst-ms")
			b.ReportMetric(float64(preparing.Microseconds())/float64(b.N)/1000, "prepare-ms")
		})
	}
}
