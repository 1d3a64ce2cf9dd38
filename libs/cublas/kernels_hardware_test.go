package cublas_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/runtime"
)

// gemmShape is a call of kernels.Gemm.
type gemmShape struct {
	m, n, k int
	shape   kernels.GemmShape
}

// String names it: batch, sizes, and which matrices lie as their transposes.
func (g gemmShape) String() string {
	text := fmt.Sprintf("%dx%dx%dx%d", max(1, g.shape.Batch), g.m, g.n, g.k)
	for _, flag := range []struct {
		set  bool
		name string
	}{{g.shape.TransposedA, "-transposed-a"}, {g.shape.TransposedB, "-transposed-b"}, {g.shape.InParts, "-in-parts"}} {
		if flag.set {
			text += flag.name
		}
	}
	return text
}

// gemmSides are the same product of BFloat16 by kernels.Gemm and by cuBLAS, and their results. Sums are exact, in any order.
func gemmSides(b bench, k kernels.Gemm[gpu.BFloat16], g gemmShape) (calls [2]func() error, results [2]*runtime.Ref[gpu.BFloat16]) {
	r, batch := rand.New(rand.NewPCG(1, 2)), max(1, g.shape.Batch)
	memory := func(n int) *runtime.Ref[gpu.BFloat16] {
		v := make([]gpu.BFloat16, n)
		for i := range v {
			if again := i - 99_991; again >= 0 { // random numbers for all would take longer than the products
				v[i] = v[again]
			} else {
				v[i] = gpu.ToBFloat16(float32(r.IntN(15)-7) / 8)
			}
		}
		ref, err := runtime.UploadNew(bg, b.s, v)
		require.NoError(b, err)
		b.Cleanup(func() { assert.NoError(b, ref.Close()) })
		return ref
	}
	// matrices are those of both sides, of which a row is what one of A or of C is.
	matrices := func(ref *runtime.Ref[gpu.BFloat16], rows, cols int, turned bool) (kernels.Matrix[gpu.BFloat16], cublas.Batch[gpu.BFloat16]) {
		theirs := cublas.Batch[gpu.BFloat16]{Count: batch, Step: rows * cols}
		if turned {
			theirs.Matrix = cublas.Dense(ref, cols, rows).T()
			return kernels.Matrix[gpu.BFloat16]{Ref: ref, Rows: cols, Cols: rows, Pitch: rows}, theirs
		}
		theirs.Matrix = cublas.Dense(ref, rows, cols)
		return kernels.Matrix[gpu.BFloat16]{Ref: ref, Rows: rows, Cols: cols, Pitch: cols}, theirs
	}
	shape := g.shape
	shape.StrideA, shape.StrideB, shape.StrideC = g.m*g.k, g.n*g.k, g.m*g.n
	if bytes := k.Scratch(g.m, g.n, g.k, shape); bytes > 0 {
		scratch, err := runtime.Alloc[byte](b.s, bytes)
		require.NoError(b, err)
		b.Cleanup(func() { assert.NoError(b, scratch.Close()) })
		shape.Scratch = scratch
	}
	x, theirX := matrices(memory(batch*shape.StrideA), g.m, g.k, shape.TransposedA)
	y, theirY := matrices(memory(batch*shape.StrideB), g.n, g.k, shape.TransposedB)
	for i := range results {
		results[i] = memory(batch * shape.StrideC)
	}
	z, _ := matrices(results[0], g.m, g.n, false)
	_, theirZ := matrices(results[1], g.m, g.n, false)
	return [2]func() error{
		func() error { return k.Launch(b.s, x, y, z, shape) },
		func() error { return cublas.GemmBatch(b.h, 1, theirX, theirY.T(), 0, theirZ) },
	}, results
}

// TestKernelsBesideCuBLAS tries on the simulated library what BenchmarkHardwareKernels times.
func TestKernelsBesideCuBLAS(t *testing.T) {
	b, _, _ := simulated(t)
	k, err := kernels.Load[kernels.Gemm[gpu.BFloat16]](b.s.Context())
	require.NoError(t, err)
	defer k.Close()
	for _, g := range []gemmShape{{8, 16, 24, kernels.GemmShape{}}, {16, 8, 24, kernels.GemmShape{Batch: 3, TransposedA: true}}, {24, 8, 16, kernels.GemmShape{TransposedB: true}}, {8, 16, 2048, kernels.GemmShape{InParts: true}}} {
		t.Run(g.String(), func(t *testing.T) {
			calls, results := gemmSides(bench{t, b.api, b.s, b.h}, k, g)
			var got [2][]gpu.BFloat16
			for i, call := range calls {
				require.NoError(t, call())
				got[i], err = runtime.DownloadNew(bg, b.s, results[i])
				require.NoError(t, err)
			}
			assert.Equal(t, got[0], got[1])
		})
	}
}

// BenchmarkHardwareKernels times kernels.Gemm beside cuBLAS, each as graphs of several calls. Both are timed on the device, from the begin of a graph to its end.
func BenchmarkHardwareKernels(b *testing.B) {
	on := on(b, hardware.Open(b), real(b), cublas.Options{})
	k, err := kernels.Load[kernels.Gemm[gpu.BFloat16]](on.s.Context())
	if err != nil {
		skip(b, err)
	}
	defer k.Close()
	const calls = 8
	for _, g := range []gemmShape{
		{512, 512, 512, kernels.GemmShape{}}, {1024, 1024, 1024, kernels.GemmShape{}}, {2048, 2048, 2048, kernels.GemmShape{}}, {4096, 4096, 4096, kernels.GemmShape{}}, {8192, 8192, 8192, kernels.GemmShape{}},
		{512, 512, 512, kernels.GemmShape{Batch: 64}}, {128, 128, 128, kernels.GemmShape{Batch: 512}}, {2048, 2048, 128, kernels.GemmShape{Batch: 32}}, {2048, 128, 2048, kernels.GemmShape{Batch: 32, TransposedB: true}},
		{4096, 4096, 4096, kernels.GemmShape{TransposedA: true}}, {4096, 4096, 4096, kernels.GemmShape{TransposedB: true}}, {4096, 4096, 4096, kernels.GemmShape{TransposedA: true, TransposedB: true}},
		{16, 4096, 4096, kernels.GemmShape{}}, {16, 4096, 4096, kernels.GemmShape{InParts: true}}, {128, 512, 16384, kernels.GemmShape{}}, {128, 512, 16384, kernels.GemmShape{InParts: true}},
		// Layers: of images with 197 rows each, projections of few and of many rows, heads, and odd sizes.
		{6304, 768, 768, kernels.GemmShape{}}, {6304, 3072, 768, kernels.GemmShape{}}, {197, 3072, 768, kernels.GemmShape{}}, {2048, 11008, 4096, kernels.GemmShape{}}, {1000, 1000, 1000, kernels.GemmShape{}}, {333, 5000, 1016, kernels.GemmShape{}},
		{197, 200, 64, kernels.GemmShape{Batch: 384}}, {1024, 64, 1024, kernels.GemmShape{Batch: 96}}, {256, 768, 768, kernels.GemmShape{Batch: 12}},
		{4, 4096, 4096, kernels.GemmShape{InParts: true}}, {64, 4096, 4096, kernels.GemmShape{InParts: true}}, {16, 1024, 8192, kernels.GemmShape{InParts: true}}, {16, 11008, 4096, kernels.GemmShape{InParts: true}},
		{128, 4096, 4096, kernels.GemmShape{InParts: true}}, {512, 1024, 8192, kernels.GemmShape{InParts: true}}, {8192, 64, 4096, kernels.GemmShape{InParts: true}}, {4096, 64, 8192, kernels.GemmShape{InParts: true}},
	} {
		b.Run("shape="+g.String(), func(b *testing.B) {
			sides, _ := gemmSides(bench{b, on.api, on.s, on.h}, k, g)
			for i, impl := range []string{"go", "cublas"} {
				b.Run("impl="+impl, func(b *testing.B) {
					graph, err := on.s.Capture(func(*runtime.Stream) error {
						for range calls {
							if err := sides[i](); err != nil {
								return err
							}
						}
						return nil
					})
					require.NoError(b, err)
					defer graph.Close()
					exec, err := graph.Instantiate()
					require.NoError(b, err)
					defer exec.Close()
					start, err := on.s.Context().NewTimingEvent()
					require.NoError(b, err)
					defer start.Close()
					end, err := on.s.Context().NewTimingEvent()
					require.NoError(b, err)
					defer end.Close()
					require.NoError(b, exec.Launch(on.s)) // the first one warms up
					var took time.Duration
					for b.Loop() {
						require.NoError(b, start.Record(on.s))
						require.NoError(b, exec.Launch(on.s))
						require.NoError(b, end.Record(on.s))
						require.NoError(b, on.s.Synchronize(bg))
						between, err := end.Since(start)
						require.NoError(b, err)
						took += between
					}
					ns := float64(took.Nanoseconds()) / float64(b.N) / calls
					b.ReportMetric(ns, "ns/op")
					b.ReportMetric(2*float64(max(1, g.shape.Batch))*float64(g.m)*float64(g.n)*float64(g.k)/ns/1000, "TFLOP/s")
				})
			}
		})
	}
}
