package kernels

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels/internal/gemm"
	"github.com/purecuda/purecuda/runtime"
)

//go:embed testdata/product_before_sm_80.ptx
var before string

// any80 are the kernels for sm_80, which every later device runs.
var any80 = []struct {
	name, code, entry       string
	cols, threads, sharedKB int
}{
	{"before", before, "Product", 128, 256, 64},
	{"narrow", gemm.ProductBFloat16SM80, "Product", 128, 256, 64},
	{"two", gemm.ProductTwoBFloat16SM80, "ProductTwo", 128, 128, 48},
	{"wide", gemm.ProductWideBFloat16SM80, "ProductWide", 256, 256, 96},
	{"deep", gemm.ProductDeepBFloat16SM80, "ProductDeep", 256, 256, 144},
}

// launch80 loads each kernel for T, and gives calls of it.
func launch80[T gpu.Half](t testing.TB, b *runtime.Backend, i int) func(x, y, c Matrix[T]) error {
	of, name, code := any80[i], "BFloat16", any80[i].code
	if _, ok := any(*new(T)).(gpu.Float16); ok {
		name, code = "Float16", forFloat16.Replace(code)
	}
	m, err := b.Context.LoadModule(runtime.Image{Code: []byte(code)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	k, err := m.Kernel(of.entry + name)
	require.NoError(t, err)
	return func(x, y, c Matrix[T]) error {
		g, err := gemmBatch(nil)
		if err != nil {
			return err
		}
		shape, args, err := gemmArgs(g, x, y, c, nil)
		if err != nil {
			return err
		}
		shape.Grid.X = uint32(ceil(c.Rows, gemm.Tile) * ceil(c.Cols, of.cols))
		shape.Block.X, shape.SharedBytes = uint32(of.threads), uint32(of.sharedKB<<10)
		return k.Launch(b.Stream, shape, args...)
	}
}

func matrix80[T gpu.Half](t testing.TB, b *runtime.Backend, r *rand.Rand, rows, cols int) Matrix[T] {
	pitch := (cols + 7) / 8 * 8
	v := exact[T](r, 1<<20)
	all := make([]T, rows*pitch)
	for at := 0; at < len(all); {
		at += copy(all[at:], v[r.IntN(1<<19):])
	}
	ref, err := runtime.UploadNew(t.Context(), b.Stream, all)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ref.Close()) })
	return Matrix[T]{ref, rows, cols, pitch}
}

// compare80 compares all kernels for sm_80 with each other.
func compare80(t *testing.T, b *runtime.Backend, shapes [][3]int) {
	for _, s := range shapes {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(s[0]), uint64(s[1])))
			x, y := matrix80[gpu.BFloat16](t, b, r, s[0], s[2]), matrix80[gpu.BFloat16](t, b, r, s[1], s[2])
			var want []gpu.BFloat16
			for i, of := range any80 {
				c := matrix80[gpu.BFloat16](t, b, rand.New(rand.NewPCG(1, 1)), s[0], s[1])
				require.NoError(t, launch80[gpu.BFloat16](t, b, i)(x, y, c))
				got, err := runtime.DownloadNew(t.Context(), b.Stream, c.Ref)
				require.NoError(t, err)
				if want == nil {
					want = got
				}
				differ := 0
				for i := range want {
					if want[i] != got[i] {
						differ++
					}
				}
				require.Zero(t, differ, "%s: of %d elements", of.name, len(want))
			}
		})
	}
}

func TestGemm80(t *testing.T) {
	b := gemmDevice(t, drivertest.H100())
	compare80(t, b, [][3]int{{1, 1, 1}, {130, 257, 70}, {70, 39, 45}, {200, 300, 129}})
}

func TestHardwareGemm80(t *testing.T) {
	rt, err := runtime.Open(runtime.WithDriver(hardware.Open(t)))
	require.NoError(t, err)
	defer rt.Close()
	b, err := rt.Probe("test")
	require.NoError(t, err)
	compare80(t, b, [][3]int{{1, 1, 1}, {130, 257, 70}, {1333, 733, 838}, {741, 199, 802}, {4096, 4096, 4096}, {67, 131, 4001}})
}

// BenchmarkHardwareGemm80 times the kernels for sm_80 on any device, on the device itself.
func BenchmarkHardwareGemm80(b *testing.B) {
	rt, err := runtime.Open(runtime.WithDriver(hardware.Open(b)))
	require.NoError(b, err)
	defer rt.Close()
	on, err := rt.Probe("bench")
	require.NoError(b, err)
	bench80[gpu.BFloat16](b, on, [][3]int{{1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192},
		{512, 512, 512}, {3072, 3072, 3072}, {6144, 6144, 6144}, {2048, 11008, 4096}, {6304, 768, 768}, {16, 4096, 4096}})
	bench80[gpu.Float16](b, on, [][3]int{{4096, 4096, 4096}, {8192, 8192, 8192}})
}

func bench80[T gpu.Half](b *testing.B, on *runtime.Backend, shapes [][3]int) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("type=%T/shape=%dx%dx%d", *new(T), s[0], s[1], s[2]), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			x, y, c := matrix80[T](b, on, r, s[0], s[2]), matrix80[T](b, on, r, s[1], s[2]), matrix80[T](b, on, r, s[0], s[1])
			for i, of := range any80 {
				b.Run("kernel="+of.name, func(b *testing.B) {
					const calls = 8
					launch := launch80[T](b, on, i)
					start, err := on.Context.NewTimingEvent()
					require.NoError(b, err)
					defer start.Close()
					end, err := on.Context.NewTimingEvent()
					require.NoError(b, err)
					defer end.Close()
					require.NoError(b, launch(x, y, c)) // the first one warms up
					var took time.Duration
					for b.Loop() {
						require.NoError(b, start.Record(on.Stream))
						for range calls {
							require.NoError(b, launch(x, y, c))
						}
						require.NoError(b, end.Record(on.Stream))
						require.NoError(b, on.Stream.Synchronize(b.Context()))
						between, err := end.Since(start)
						require.NoError(b, err)
						took += between
					}
					ns := float64(took.Nanoseconds()) / float64(b.N) / calls
					b.ReportMetric(ns, "ns/op")
					b.ReportMetric(2*float64(s[0])*float64(s[1])*float64(s[2])/ns/1000, "TFLOP/s")
				})
			}
		})
	}
}
