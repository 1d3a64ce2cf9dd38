package hopper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

// TestProducts compares the kernels on the simulated driver with the same functions on the CPU, bit for bit.
func TestProducts(t *testing.T) {
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(1, drivertest.H100())})))
	require.NoError(t, err)
	defer rt.Close()
	b, err := rt.Probe("test")
	require.NoError(t, err)
	for _, c := range []struct {
		name, ptx string
		cols      int
		cpu       func(shape runtime.Shape, a, b, c gpu.Tiles[gpu.BFloat16], m, n, k int32) error
	}{
		{"ProductWideBFloat16", ProductWideBFloat16SM90A, 256, ProductWideBFloat16CPU},
		{"ProductMiddleBFloat16", ProductMiddleBFloat16SM90A, 128, ProductMiddleBFloat16CPU},
		{"ProductNarrowBFloat16", ProductNarrowBFloat16SM90A, 64, ProductNarrowBFloat16CPU},
	} {
		m, err := b.Context.LoadModule(runtime.Image{Code: []byte(c.ptx)})
		require.NoError(t, err)
		k, err := m.Kernel(c.name)
		require.NoError(t, err)
		for _, s := range [][3]int{{1, 1, 1}, {70, 37, 145}, {129, 70, 330}} {
			t.Run(fmt.Sprint(c.name, s), func(t *testing.T) { compare(t, b, k, c.cols, s[0], s[1], s[2], c.cpu) })
		}
	}
}

func compare(t *testing.T, b *runtime.Backend, kernel *runtime.Kernel, cols, m, n, k int, cpu func(shape runtime.Shape, a, b, c gpu.Tiles[gpu.BFloat16], m, n, k int32) error) {
	ctx, s := context.Background(), b.Stream
	r := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	matrix := func(rows, cols, box int) (gpu.Tiles[gpu.BFloat16], *runtime.Tiles, *runtime.Ref[gpu.BFloat16]) {
		pitch := (cols + 7) / 8 * 8
		v := make([]gpu.BFloat16, rows*pitch)
		for i := range v {
			v[i] = gpu.ToBFloat16(float32(r.NormFloat64()))
		}
		ref, err := runtime.UploadNew(ctx, s, v)
		require.NoError(t, err)
		tiles, err := runtime.NewTiles(b.Context, ref, runtime.TilesShape{Rows: rows, Cols: cols, Pitch: pitch, Box: box})
		require.NoError(t, err)
		return gpu.Tiles[gpu.BFloat16]{Data: v, Rows: rows, Cols: cols, Pitch: pitch, Box: box}, tiles, ref
	}
	x, dx, rx := matrix(m, k, Rows)
	y, dy, ry := matrix(n, k, cols)
	z, dz, rz := matrix(m, n, StoreRows)
	shape := runtime.Shape{Grid: runtime.Dim3{X: 2}, Block: runtime.Dim3{X: Threads}, SharedBytes: uint32(SharedBytes(cols))}
	require.NoError(t, kernel.Launch(s, shape, dx.In(), dy.In(), dz.InOut(), runtime.Value(int32(m)), runtime.Value(int32(n)), runtime.Value(int32(k))))
	got := make([]gpu.BFloat16, len(z.Data))
	require.NoError(t, runtime.Download(ctx, s, got, rz))
	require.NoError(t, cpu(shape, x, y, z, int32(m), int32(n), int32(k)))
	require.Equal(t, z.Data, got)
	for i := range m {
		for j := range n {
			sum := 0.0
			for e := range k {
				sum += float64(x.Data[i*x.Pitch+e].Float32()) * float64(y.Data[j*y.Pitch+e].Float32())
			}
			require.InDelta(t, sum, float64(got[i*z.Pitch+j].Float32()), 0.01*float64(k), "%d %d", i, j)
		}
	}
	for _, ref := range []*runtime.Ref[gpu.BFloat16]{rx, ry, rz} {
		assert.NoError(t, ref.Close())
	}
}
