package cublas_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/internal/beside"
	"github.com/purecuda/purecuda/runtime"
)

// inC is what the calls cost in C, by name: in all, and on the device. It runs once.
var inC = sync.OnceValues(func() (map[string][2]float64, error) {
	lib, err := cublas.Open()
	if err != nil {
		return nil, err
	}
	return beside.Run("cublas", lib.Path())
})

// BenchmarkHardware is what a call costs on the host (small) and how long the device computes, beside C. device-ns/op is the
// time between two events around the calls, so that it has no wait in it. Of small there is also what a call costs
// within one Submit, without what runtime does for each. What that is are submit, a Submit of nothing, and nothing, which
// makes the context current.
func BenchmarkHardware(b *testing.B) {
	bench := on(b, hardware.Open(b), real(b), cublas.Options{})
	h, s := bench.h, bench.s
	f32 := dense[float32](b, s, 64*512*512) // also 4096 x 4096
	bf16 := dense[gpu.BFloat16](b, s, 8192*8192)
	f8 := dense[cublas.Float8E4M3](b, s, 8192*8192)
	square := func(n int) (x, y, z cublas.Matrix[float32]) {
		return cublas.Dense(f32[0], n, n), cublas.Dense(f32[1], n, n), cublas.Dense(f32[2], n, n)
	}
	start, err := s.Context().NewTimingEvent()
	require.NoError(b, err)
	end, err := s.Context().NewTimingEvent()
	require.NoError(b, err)
	for _, c := range []struct {
		name    string
		flops   float64
		perWait int
		waiting bool
		call    func() error
	}{
		{"small", 0, 512, false, func() error { x, y, z := square(64); return cublas.Gemm(h, 1, x, y, 0, z) }},
		{"sgemm4096", 2 << 36, 8, true, func() error { x, y, z := square(4096); return cublas.Gemm(h, 1, x, y, 0, z) }},
		{"bf16-8192", 2 << 39, 8, true, func() error {
			return cublas.Gemm(h, 1, cublas.Dense(bf16[0], 8192, 8192), cublas.Dense(bf16[1], 8192, 8192), 0, cublas.Dense(bf16[2], 8192, 8192))
		}},
		{"batch64x512", 2 << 33, 8, true, func() error {
			x, y, z := square(512)
			batch := func(m cublas.Matrix[float32]) cublas.Batch[float32] {
				return cublas.Batch[float32]{Matrix: m, Count: 64, Step: 512 * 512}
			}
			return cublas.GemmBatch(h, 1, batch(x), batch(y), 0, batch(z))
		}},
		{"fp8-8192", 2 << 39, 8, true, func() error {
			return cublas.Matmul(h, cublas.Product[cublas.Float8E4M3, gpu.BFloat16]{Alpha: 1,
				A: cublas.Dense(f8[0], 8192, 8192), B: cublas.Dense(f8[1], 8192, 8192).T(), D: cublas.Dense(bf16[2], 8192, 8192)})
		}},
	} {
		report := func(b *testing.B, ns, device float64) {
			b.ReportMetric(ns, "ns/op")
			b.ReportMetric(device, "device-ns/op")
			if c.flops > 0 {
				b.ReportMetric(c.flops/ns/1000, "TFLOP/s")
			}
		}
		b.Run("call="+c.name+"/impl=go", func(b *testing.B) {
			b.ReportAllocs()
			for range c.perWait {
				err := c.call()
				if errors.Is(err, driver.ErrUnsupported) {
					skip(b, err)
				}
				require.NoError(b, err)
			}
			require.NoError(b, s.Synchronize(bg))
			var took, device time.Duration
			for left := b.N; left > 0; left -= c.perWait {
				from := time.Now()
				require.NoError(b, start.Record(s))
				for range min(left, c.perWait) {
					if err := c.call(); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, end.Record(s))
				enqueued := time.Since(from)
				require.NoError(b, s.Synchronize(bg))
				if c.waiting {
					enqueued = time.Since(from)
				}
				took += enqueued
				between, err := end.Since(start)
				require.NoError(b, err)
				device += between
			}
			report(b, float64(took.Nanoseconds())/float64(b.N), float64(device.Nanoseconds())/float64(b.N))
		})
		b.Run("call="+c.name+"/impl=c", func(b *testing.B) {
			times, err := inC()
			ns, known := times[c.name]
			if !known {
				skip(b, fmt.Sprint("not measured in C: ", err))
			}
			report(b, ns[0], ns[1])
		})
	}
	b.Run("call=small/impl=direct", func(b *testing.B) {
		b.ReportAllocs()
		benchmarkDirect(b, bench, f32)
	})
	for name, call := range map[string]func() error{
		"nothing": func() error { return s.Context().Do(func() error { return nil }) },
		"submit": func() error {
			return s.Submit("nothing", func(driver.Stream, []driver.DevicePtr) error { return nil },
				runtime.In(f32[0]), runtime.In(f32[1]), runtime.InOut(f32[2]))
		},
	} {
		b.Run("call="+name+"/impl=go", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, call())
			}
		})
	}
}

// skip says why: a benchmark that is skipped prints nothing of its own.
func skip(b *testing.B, why any) {
	fmt.Printf("--- SKIP: %s: %v\n", b.Name(), why)
	b.SkipNow()
}

// benchmarkDirect calls cuBLAS 512 times in each Submit.
func benchmarkDirect(b *testing.B, bench bench, m [3]*runtime.Ref[float32]) {
	raw, status := cublas.RawHandle(0), cublas.StatusSuccess
	h, err := bench.s.Context().NewLibraryHandle("cublasCreate", func() (func() error, error) {
		if raw, status = bench.api.Create(); status != cublas.StatusSuccess {
			return nil, status
		}
		return func() error { bench.api.Destroy(raw); return nil }, nil
	})
	require.NoError(b, err)
	defer h.Close()
	workspace, err := runtime.Alloc[byte](bench.s, 32<<20)
	require.NoError(b, err)
	defer workspace.Close()
	call := cublas.GemmCall{M: 64, N: 64, K: 64, Alpha: 1, Batch: 1, Compute: cublas.Compute32}
	call.A.LD, call.B.LD, call.C.LD = 64, 64, 64
	var took time.Duration
	for left := b.N; left > 0; left -= 512 {
		require.NoError(b, bench.s.Submit("cublasGemmEx", func(stream driver.Stream, at []driver.DevicePtr) error {
			call.A.At, call.B.At, call.C.At = at[0], at[1], at[2]
			if status := bench.api.SetStream(raw, stream, at[3], workspace.Bytes()); status != cublas.StatusSuccess {
				return status
			}
			from := time.Now()
			for range min(left, 512) {
				if status := bench.api.Gemm(raw, &call); status != cublas.StatusSuccess {
					return status
				}
			}
			took += time.Since(from)
			return nil
		}, runtime.In(m[0]), runtime.In(m[1]), runtime.InOut(m[2]), runtime.InOut(workspace), h.Arg()))
		require.NoError(b, bench.s.Synchronize(bg))
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/op")
}

// dense makes three buffers of zeros.
func dense[T cublas.Stored](b testing.TB, s *runtime.Stream, n int) (all [3]*runtime.Ref[T]) {
	b.Helper()
	for i := range all {
		var err error
		all[i], err = runtime.Alloc[T](s, n)
		require.NoError(b, err)
		require.NoError(b, runtime.Zero(s, all[i]))
		b.Cleanup(func() { require.NoError(b, all[i].Close()) })
	}
	return all
}

// free is a cuBLAS whose products cost nothing.
type free struct{ cublas.API }

func (free) Gemm(cublas.RawHandle, *cublas.GemmCall) cublas.Status { return cublas.StatusSuccess }

// ours is a call of cuBLAS without cuBLAS and without a driver.
func ours(t testing.TB) (*beside.Quiet, func() error) {
	_, gpu, lib := simulated(t)
	q := &beside.Quiet{API: gpu}
	bench := on(t, q, free{lib}, cublas.Options{})
	m := dense[float32](t, bench.s, 1)
	x, y, z := cublas.Dense(m[0], 1, 1), cublas.Dense(m[1], 1, 1), cublas.Dense(m[2], 1, 1)
	require.NoError(t, bench.s.Synchronize(bg))
	return q, func() error { return cublas.Gemm(bench.h, 1, x, y, 0, z) }
}

// BenchmarkOurShare is what this package and runtime add to a call of cuBLAS.
func BenchmarkOurShare(b *testing.B) {
	q, call := ours(b)
	q.Benchmark(b, call)
}

func TestProductsDoNotAllocate(t *testing.T) {
	q, call := ours(t)
	q.NoAllocations(t, call)
}
