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
		cpu       func(shape runtime.Shape, a, b, c gpu.Tiles[gpu.BFloat16], of Size, sums [][2]float32) error
	}{
		{"ProductWideBFloat16", ProductWideBFloat16SM90A, 256, ProductWideBFloat16CPU},
		{"ProductMiddleBFloat16", ProductMiddleBFloat16SM90A, 128, ProductMiddleBFloat16CPU},
		{"ProductNarrowBFloat16", ProductNarrowBFloat16SM90A, 64, ProductNarrowBFloat16CPU},
	} {
		m, err := b.Context.LoadModule(runtime.Image{Code: []byte(c.ptx)})
		require.NoError(t, err)
		k, err := m.Kernel(c.name)
		require.NoError(t, err)
		for i, of := range []Size{{M: 1, N: 1, K: 1, Batch: 1, Part: 1}, {M: 70, N: 37, K: 145, Batch: 3, A: 1, Part: 145}, {M: 129, N: 70, K: 330, Batch: 1, Part: 330},
			{M: 70, N: 75, K: 330, Batch: 2, B: 1, Part: 128}} {
			if int(of.Part) == int(of.K) || InParts(c.cols) {
				for j := range int32(2) {
					of.Rows, of.Turned = Rows/2<<j, 0
					t.Run(fmt.Sprint(c.name, of), func(t *testing.T) { compare(t, b, k, c.cols, of, c.cpu) })
					if of.Turned = 1 + (int32(i)+j)%3; Turns[gpu.BFloat16](c.cols) {
						t.Run(fmt.Sprint(c.name, of), func(t *testing.T) { compare(t, b, k, c.cols, of, c.cpu) })
					}
				}
			}
		}
	}
}

func compare(t *testing.T, b *runtime.Backend, kernel *runtime.Kernel, cols int, of Size, cpu func(shape runtime.Shape, a, b, c gpu.Tiles[gpu.BFloat16], of Size, sums [][2]float32) error) {
	ctx, s := context.Background(), b.Stream
	m, n, k := int(of.M), int(of.N), int(of.K)
	r := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	matrix := func(rows, cols, box int, next int32) (gpu.Tiles[gpu.BFloat16], *runtime.Tiles, *runtime.Ref[gpu.BFloat16]) {
		pitch := (cols + 7) / 8 * 8
		stride, matrices := rows*pitch+8, 1+int(next)*(int(of.Batch)-1)
		v := make([]gpu.BFloat16, (matrices-1)*stride+rows*pitch)
		for i := range v {
			v[i] = gpu.ToBFloat16(float32(r.NormFloat64()))
		}
		ref, err := runtime.UploadNew(ctx, s, v)
		require.NoError(t, err)
		tiles, err := runtime.NewTiles(b.Context, ref, runtime.TilesShape{Rows: rows, Cols: cols, Pitch: pitch, Box: box, Matrices: matrices, Stride: stride})
		require.NoError(t, err)
		return gpu.Tiles[gpu.BFloat16]{Data: v, Rows: rows, Cols: cols, Pitch: pitch, Box: box, Matrices: matrices, Stride: stride}, tiles, ref
	}
	of.Stage = 0
	operand := func(rows, tile int, next int32, turned bool) (gpu.Tiles[gpu.BFloat16], *runtime.Tiles, *runtime.Ref[gpu.BFloat16]) {
		if turned {
			of.Stage += int32(tile * DepthBytes)
			return matrix(k, rows, Turn, next)
		}
		box := min(tile, (rows+7)/8*8)
		of.Stage += int32(box * DepthBytes)
		return matrix(rows, k, box, next)
	}
	x, dx, rx := operand(m, int(of.Rows), of.A, of.Turned&turnedA != 0)
	y, dy, ry := operand(n, cols, of.B, of.Turned&turnedB != 0)
	number := func(m gpu.Tiles[gpu.BFloat16], product, row, e int, turned bool) float64 {
		if turned {
			row, e = e, row
		}
		return float64(m.Data[product*m.Stride+row*m.Pitch+e].Float32())
	}
	z, dz, rz := matrix(m, n, StoreRows, 1)
	shape := runtime.Shape{Grid: runtime.Dim3{X: 2}, Block: runtime.Dim3{X: Threads}, SharedBytes: uint32(SharedBytes(cols))}
	parts := (k + int(of.Part) - 1) / int(of.Part)
	sums := make([][2]float32, parts*int(of.Batch)*m*((n+1)/2))
	ds, err := runtime.UploadNew(ctx, s, sums)
	require.NoError(t, err)
	if parts == 1 {
		sums = nil
	}
	require.NoError(t, kernel.Launch(s, shape, dx.In(), dy.In(), dz.InOut(), runtime.Struct(&of), runtime.InOut(ds), runtime.Value(len(sums))))
	got := make([]gpu.BFloat16, len(z.Data))
	require.NoError(t, runtime.Download(ctx, s, got, rz))
	onDevice := make([][2]float32, len(sums))
	require.NoError(t, runtime.Download(ctx, s, onDevice, ds.Slice(0, len(sums))))
	require.NoError(t, cpu(shape, x, y, z, of, sums))
	require.Equal(t, z.Data, got)
	require.Equal(t, append([][2]float32{}, sums...), onDevice)
	for i := range int(of.Batch) * m * n {
		product, i, j, sum, result := i/(m*n), i/n%m, i%n, 0.0, 0.0
		for e := range k {
			sum += number(x, product*int(of.A), i, e, of.Turned&turnedA != 0) * number(y, product*int(of.B), j, e, of.Turned&turnedB != 0)
		}
		if parts == 1 {
			result = float64(got[product*z.Stride+i*z.Pitch+j].Float32())
		} else {
			for p := range parts {
				result += float64(sums[((p*int(of.Batch)+product)*m+i)*((n+1)/2)+j/2][j&1])
			}
		}
		require.InDelta(t, sum, result, 0.01*float64(k), "%d: %d %d", product, i, j)
	}
	assert.NoError(t, ds.Close())
	for _, ref := range []*runtime.Ref[gpu.BFloat16]{rx, ry, rz} {
		assert.NoError(t, ref.Close())
	}
}
