package cublas_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/runtime"
)

// baselineVariable names the program that scripts/baseline/cublas.c is compiled to, for hosts without a compiler.
const baselineVariable = "PURECUDA_CUBLAS_BASELINE"

// baseline is what the calls cost in C, by name, or why that is not known. It runs once.
var baseline = sync.OnceValues(func() (times map[string]float64, why string) {
	program := os.Getenv(baselineVariable)
	if program == "" {
		dir, err := os.MkdirTemp("", "cublas")
		if err != nil {
			return nil, err.Error()
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "cublas")
		if out, err := exec.Command("cc", "-O2", "-o", program, "../../scripts/baseline/cublas.c", "-ldl").CombinedOutput(); err != nil {
			return nil, "no baseline in C: " + err.Error() + string(out) + "; " + baselineVariable + " names a program that was built elsewhere"
		}
	}
	lib, err := cublas.Open()
	if err != nil {
		return nil, err.Error()
	}
	cmd := exec.Command(program, lib.Path())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, "the baseline in C: " + err.Error()
	}
	times = map[string]float64{}
	for line := range strings.Lines(string(out)) {
		name, ns, _ := strings.Cut(strings.TrimSpace(line), " ")
		times[name], _ = strconv.ParseFloat(ns, 64)
	}
	return times, ""
})

// BenchmarkHardware is what a call costs on the host (small) and how long the device computes, beside C.
func BenchmarkHardware(b *testing.B) {
	driver := hardware.Open(b)
	bench := on(b, driver, real(b), cublas.Options{})
	h, s := bench.h, bench.s
	f32 := dense[float32](b, s, 64*512*512) // also 4096 x 4096
	bf16 := dense[gpu.BFloat16](b, s, 8192*8192)
	f8 := dense[cublas.Float8E4M3](b, s, 8192*8192)
	square := func(n int) (x, y, z cublas.Matrix[float32]) {
		return cublas.Dense(f32[0], n, n), cublas.Dense(f32[1], n, n), cublas.Dense(f32[2], n, n)
	}
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
		b.Run("call="+c.name+"/impl=go", func(b *testing.B) {
			b.ReportAllocs()
			for range c.perWait {
				if err := c.call(); err != nil {
					b.Skip(err)
				}
			}
			require.NoError(b, s.Synchronize(bg))
			var took time.Duration
			for left := b.N; left > 0; left -= c.perWait {
				start := time.Now()
				for range min(left, c.perWait) {
					if err := c.call(); err != nil {
						b.Fatal(err)
					}
				}
				enqueued := time.Since(start)
				require.NoError(b, s.Synchronize(bg))
				if c.waiting {
					enqueued = time.Since(start)
				}
				took += enqueued
			}
			ns := float64(took.Nanoseconds()) / float64(b.N)
			b.ReportMetric(ns, "ns/op")
			if c.flops > 0 {
				b.ReportMetric(c.flops/ns/1000, "TFLOP/s")
			}
		})
		b.Run("call="+c.name+"/impl=c", func(b *testing.B) {
			times, why := baseline()
			if times[c.name] == 0 {
				b.Skip("not measured in C: " + why)
			}
			b.ReportMetric(times[c.name], "ns/op")
			if c.flops > 0 {
				b.ReportMetric(c.flops/times[c.name]/1000, "TFLOP/s")
			}
		})
	}
}

// dense makes three buffers of zeros.
func dense[T cublas.Stored](b *testing.B, s *runtime.Stream, n int) (all [3]*runtime.Ref[T]) {
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

// BenchmarkOurShare is what this package and runtime add to a call of cuBLAS, on the simulated driver.
func BenchmarkOurShare(b *testing.B) {
	_, gpu, lib := simulated(b)
	bench := on(b, gpu, free{lib}, cublas.Options{})
	m := dense[float32](b, bench.s, 1)
	x, y, z := cublas.Dense(m[0], 1, 1), cublas.Dense(m[1], 1, 1), cublas.Dense(m[2], 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := cublas.Gemm(bench.h, 1, x, y, 0, z); err != nil {
			b.Fatal(err)
		}
	}
}
