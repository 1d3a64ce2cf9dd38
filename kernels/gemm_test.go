package kernels

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

func gemmDevice(t *testing.T, d drivertest.DeviceConfig) *runtime.Backend {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(1, d)})))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	b, err := rt.Probe("test")
	require.NoError(t, err)
	return b
}

// TestGemm compares products of random shapes on the simulated driver with those on the CPU, bit for bit.
func TestGemm(t *testing.T) {
	one := drivertest.H100()
	one.Name, one.SMs = "one multiprocessor", 1 // it takes wide tiles, one after another
	for _, d := range []drivertest.DeviceConfig{drivertest.A100(), drivertest.H100(), one} {
		b := gemmDevice(t, d)
		t.Run(d.Name+"/Float16", func(t *testing.T) { testGemm[gpu.Float16](t, b) })
		t.Run(d.Name+"/BFloat16", func(t *testing.T) { testGemm[gpu.BFloat16](t, b) })
	}
}

func testGemm[T gpu.Half](t *testing.T, b *runtime.Backend) {
	ctx, s := context.Background(), b.Stream
	var k Gemm[T]
	var err error
	switch p := any(&k).(type) {
	case *Gemm[gpu.Float16]:
		*p, err = Load[Gemm[gpu.Float16]](b.Context)
	case *Gemm[gpu.BFloat16]:
		*p, err = Load[Gemm[gpu.BFloat16]](b.Context)
	}
	require.NoError(t, err)
	defer func() { assert.NoError(t, k.Close()) }()
	r := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		m, n, depth := 1+r.IntN(200), 1+r.IntN(200), 1+r.IntN(150)
		t.Run(fmt.Sprint(m, n, depth), func(t *testing.T) {
			matrix := func(rows, cols int) []T {
				v := make([]T, rows*cols)
				for i := range v {
					v[i] = gpu.ToHalf[T](float32(r.NormFloat64()))
				}
				return v
			}
			up := func(v []T, rows, cols int) Matrix[T] {
				pitch := (cols+7)/8*8 + 8*r.IntN(2)
				ref, err := runtime.Alloc[T](s, rows*pitch)
				require.NoError(t, err)
				require.NoError(t, runtime.Upload2D(ctx, s, ref, pitch, v, cols, cols, rows))
				return Matrix[T]{ref, rows, cols, pitch}
			}
			a, w, want, got := matrix(m, depth), matrix(n, depth), make([]T, m*n), make([]T, m*n)
			da, dw, dc := up(a, m, depth), up(w, n, depth), up(got, m, n)
			require.NoError(t, k.Launch(s, da, dw, dc))
			require.NoError(t, runtime.Download2D(ctx, s, got, n, dc.Ref, dc.Pitch, n, m))
			require.NoError(t, GemmCPU(m, n, depth, a, w, want))
			assert.Equal(t, want, got)
			for _, x := range []Matrix[T]{da, dw, dc} {
				assert.NoError(t, x.Ref.Close())
			}
		})
	}
}

func TestGemmRefuses(t *testing.T) {
	b := gemmDevice(t, drivertest.T4())
	_, err := Load[Gemm[gpu.Float16]](b.Context)
	assert.ErrorIs(t, err, driver.ErrUnsupported)
	assert.ErrorContains(t, err, "kernels.Gemm needs compute capability 8.0, and the device has 7.5")

	b = gemmDevice(t, drivertest.A100())
	k, err := Load[Gemm[gpu.BFloat16]](b.Context)
	require.NoError(t, err)
	defer func() { assert.NoError(t, k.Close()) }()
	ref, err := runtime.Alloc[gpu.BFloat16](b.Stream, 1024)
	require.NoError(t, err)
	other, err := runtime.Alloc[gpu.BFloat16](b.Stream, 1024)
	require.NoError(t, err)
	m := func(ref *runtime.Ref[gpu.BFloat16], rows, cols, pitch int) Matrix[gpu.BFloat16] {
		return Matrix[gpu.BFloat16]{ref, rows, cols, pitch}
	}
	good := m(ref, 16, 16, 16)
	for _, c := range []struct {
		a, b, c Matrix[gpu.BFloat16]
		want    string
	}{
		{good, m(ref, 16, 8, 16), m(other, 16, 16, 16), "A has 16 columns and B 8"},
		{good, good, m(other, 16, 8, 16), "C is 16 x 8, want 16 x 16"},
		{m(ref, 16, 0, 16), m(ref, 16, 0, 16), m(other, 16, 16, 16), "at least one product"},
		{m(nil, 16, 16, 16), good, m(other, 16, 16, 16), "A has no memory"},
		{m(ref, 16, 16, 12), good, m(other, 16, 16, 16), "the pitch of A is 12"},
		{good, m(ref, 16, 16, 8), m(other, 16, 16, 16), "the pitch of B is 8"},
		{good, good, m(other, 16, 16, 1024), "C has 1024 elements, too few for 16 rows of 16 with a pitch of 1024"},
		{m(ref, 17, 16, 1<<60), good, m(other, 17, 16, 16), "A has 1024 elements, too few for 17 rows of 16"}, // 2^64 of them
		{good, good, good, "overlap"},
		{m(ref.Slice(1, 1000), 16, 16, 16), good, m(other, 16, 16, 16), "want a multiple of 16"},
	} {
		assert.ErrorContains(t, k.Launch(b.Stream, c.a, c.b, c.c), c.want)
	}
	assert.NoError(t, k.Launch(b.Stream, m(ref, 0, 16, 16), good, m(other, 0, 16, 16)))
	assert.ErrorContains(t, GemmCPU(2, 2, 2, make([]gpu.Float16, 4), make([]gpu.Float16, 4), make([]gpu.Float16, 5)), "5 elements are not")
	assert.NoError(t, ref.Close())
	assert.NoError(t, other.Close())
}
