package kernels

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

// exact are multiples of 1/128 between -1 and 1. Sums of up to 1,024 products of them are exact in float32 in any order, and so are those of some
// thousand random ones. So all who round once have the same bits.
func exact[T gpu.Half](r *rand.Rand, n int) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = gpu.ToHalf[T](float32(r.IntN(255)-127) / 128)
	}
	return v
}

// exactProduct compares products with the CPU, bit for bit.
func exactProduct[T gpu.Half](t *testing.T, b *runtime.Backend, k Gemm[T], m, n, depth int, g GemmShape) {
	t.Run(fmt.Sprintf("%T %dx%dx%d %d %t %t %t", *new(T), m, n, depth, g.Batch, g.TransposedA, g.TransposedB, g.InParts), func(t *testing.T) {
		r, batch := rand.New(rand.NewPCG(uint64(m), uint64(n))), max(1, g.Batch)
		x, w, want, got := exact[T](r, batch*m*depth), exact[T](r, batch*n*depth), make([]T, batch*m*n), make([]T, batch*m*n)
		up := func(v []T, rows, cols int, turned bool) (m Matrix[T], stride int) {
			if turned {
				rows, cols = cols, rows
			}
			pitch := (cols + 7) / 8 * 8
			ref, err := runtime.Alloc[T](b.Stream, batch*rows*pitch)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, ref.Close()) })
			require.NoError(t, runtime.Upload2D(t.Context(), b.Stream, ref, pitch, v, cols, cols, batch*rows))
			return Matrix[T]{ref, rows, cols, pitch}, rows * pitch
		}
		onHost := g
		onHost.StrideA, onHost.StrideB, onHost.StrideC = m*depth, n*depth, m*n
		var da, dw, c Matrix[T]
		da, g.StrideA = up(x, m, depth, g.TransposedA)
		dw, g.StrideB = up(w, n, depth, g.TransposedB)
		c, g.StrideC = up(got, m, n, false)
		require.NoError(t, k.Launch(b.Stream, da, dw, c, g))
		require.NoError(t, runtime.Download2D(t.Context(), b.Stream, got, n, c.Ref, c.Pitch, n, batch*m))
		require.NoError(t, GemmCPU(m, n, depth, x, w, want, onHost))
		differ := 0
		for i := range want {
			if want[i] != got[i] {
				differ++
			}
		}
		require.Zero(t, differ, "of %d elements differ from the CPU", len(want))
	})
}

// bothGemms loads Gemm of both types, until done. It skips the test where the device has none.
func bothGemms(t *testing.T, b *runtime.Backend) (brain Gemm[gpu.BFloat16], half Gemm[gpu.Float16], done func()) {
	brain, err := Load[Gemm[gpu.BFloat16]](b.Context)
	if errors.Is(err, driver.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	half, err = Load[Gemm[gpu.Float16]](b.Context)
	require.NoError(t, err)
	return brain, half, func() {
		assert.NoError(t, brain.Close())
		assert.NoError(t, half.Close())
	}
}

func exactProducts(t *testing.T, b *runtime.Backend, shapes, shapes16 [][3]int) {
	brain, half, done := bothGemms(t, b)
	defer done()
	for _, s := range shapes {
		exactProduct(t, b, brain, s[0], s[1], s[2], GemmShape{})
	}
	for _, s := range shapes16 {
		exactProduct(t, b, half, s[0], s[1], s[2], GemmShape{})
	}
	s := shapes[len(shapes)-1]
	for _, g := range []GemmShape{{Batch: 3, InParts: true}, {TransposedA: true}, {TransposedB: true, Batch: 2}, {TransposedA: true, TransposedB: true, Batch: 2, InParts: true}} {
		exactProduct(t, b, brain, s[0], s[1], s[2], g)
		exactProduct(t, b, half, s[1], s[0], s[2], g)
	}
}

// TestHardwareGemmBesideCPU has shapes where cuBLAS had other last bits than Gemm on an H200: few tiles and a large depth. Where this passes, it is
// cuBLAS that does not round once.
func TestHardwareGemmBesideCPU(t *testing.T) {
	rt, err := runtime.Open(runtime.WithDriver(hardware.Open(t)))
	require.NoError(t, err)
	defer rt.Close()
	b, err := rt.Probe("test")
	require.NoError(t, err)
	exactProducts(t, b, [][3]int{{35, 662, 658}, {32, 628, 548}, {1333, 733, 838}, {741, 198, 802}, {64, 640, 1024}, {128, 128, 1000}, {67, 130, 4000}},
		[][3]int{{1259, 549, 792}, {35, 662, 658}, {741, 198, 802}})
	count := 0
	t.Run("batches", func(t *testing.T) { batches(t, b, func() int { count++; return count }) }) // nobody counts launches there
	k, err := Load[Gemm[gpu.BFloat16]](b.Context)
	require.NoError(t, err)
	defer k.Close()
	for _, c := range []struct {
		m, n, k int
		g       GemmShape
	}{
		{130, 200, 264, GemmShape{Batch: 70}}, {1, 1, 1, GemmShape{Batch: 3000}}, {197, 197, 64, GemmShape{Batch: 48}}, {300, 520, 72, GemmShape{Batch: 17, TransposedB: true}}, {65, 257, 4100, GemmShape{Batch: 5, InParts: true}},
		{16, 1000, 4096, GemmShape{InParts: true}}, {1, 4096, 2048, GemmShape{InParts: true}}, {64, 777, 3000, GemmShape{InParts: true}}, {64, 776, 3000, GemmShape{InParts: true}}, {33, 130, 2056, GemmShape{Batch: 6, InParts: true}}, {63, 129, 2056, GemmShape{Batch: 6, InParts: true}},
		{777, 16, 5000, GemmShape{InParts: true}}, {500, 900, 2100, GemmShape{InParts: true}}, {128, 512, 16384, GemmShape{InParts: true}},
	} {
		exactProduct(t, b, k, c.m, c.n, c.k, c.g)
	}
}

// eachTile has a batch of products for each size of tiles, of more tiles than an H200 has multiprocessors: blocks take several.
var eachTile = []struct{ width, rows, batch, m, n, k int }{
	{0, 128, 24, 80, 2152, 72}, {0, 64, 24, 156, 707, 72}, {0, 64, 1, 640, 5000, 200}, {1, 128, 96, 80, 150, 72}, {1, 64, 24, 156, 291, 72},
	{2, 128, 3, 8563, 40, 72}, {2, 64, 24, 156, 150, 72},
}

// TestHardwareGemmOfRandomShapes has each size of tiles, and then random sizes, matrices that lie as their transposes, batches and parts.
func TestHardwareGemmOfRandomShapes(t *testing.T) {
	rt, err := runtime.Open(runtime.WithDriver(hardware.Open(t)))
	require.NoError(t, err)
	defer rt.Close()
	b, err := rt.Probe("test")
	require.NoError(t, err)
	brain, half, done := bothGemms(t, b)
	defer done()
	for _, c := range eachTile {
		exactProduct(t, b, brain, c.m, c.n, c.k, GemmShape{Batch: c.batch})
	}
	seeds.Each(t, seeds.Count(100, 1000, 20), func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 34))
		size := func(bits int) int { return 1 + r.IntN(1<<(1+r.IntN(bits))) }
		g := GemmShape{Batch: size(3), TransposedA: r.IntN(2) == 0, TransposedB: r.IntN(2) == 0, InParts: r.IntN(2) == 0}
		m, n, depth := size(11), size(11), size(12)
		for m*n*depth*g.Batch > 1<<28 { // the CPU computes it too
			m, n, g.Batch = (m+1)/2, (n+1)/2, 1
		}
		if r.IntN(2) == 0 {
			exactProduct(t, b, brain, m, n, depth, g)
		} else {
			exactProduct(t, b, half, m, n, depth, g)
		}
	})
}

// TestGemmBesideCPU has smaller ones on the simulated driver.
func TestGemmBesideCPU(t *testing.T) {
	exactProducts(t, gemmDevice(t, drivertest.H100()), [][3]int{{35, 66, 658}, {3, 129, 548}, {5, 9, 2100}}, [][3]int{{9, 54, 792}})
}
