package gemm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

// TestProduct compares the kernel on the simulated driver with the same function on the CPU, bit for bit, and both with
// products in float64.
func TestProduct(t *testing.T) {
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(1, drivertest.A100())})))
	require.NoError(t, err)
	defer rt.Close()
	b, err := rt.Probe("test")
	require.NoError(t, err)
	m, err := b.Context.LoadModule(runtime.Image{Code: []byte(ProductBFloat16SM80)})
	require.NoError(t, err)
	k, err := m.Kernel("ProductBFloat16")
	require.NoError(t, err)
	for _, s := range [][3]int{{1, 1, 1}, {128, 128, 32}, {70, 37, 45}, {130, 129, 200}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) { product(t, b.Stream, k, s[0], s[1], s[2]) })
	}
}

func product(t *testing.T, s *runtime.Stream, kernel *runtime.Kernel, m, n, k int) {
	ctx := context.Background()
	pk, pn := (k+7)/8, (n+7)/8*4
	r := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	number := func() uint32 { return uint32(gpu.ToBFloat16(float32(r.NormFloat64())).Bits()) }
	matrix := func(rows int) []gpu.Uint4 {
		v := make([]gpu.Uint4, rows*pk)
		for i := range v {
			v[i] = gpu.Uint4{X: number() | number()<<16, Y: number() | number()<<16, Z: number() | number()<<16, W: number() | number()<<16}
		}
		return v
	}
	a, b, c := matrix(m), matrix(n), make([]uint32, m*pn)
	da, err := runtime.UploadNew(ctx, s, a)
	require.NoError(t, err)
	db, err := runtime.UploadNew(ctx, s, b)
	require.NoError(t, err)
	dc, err := runtime.UploadNew(ctx, s, c)
	require.NoError(t, err)
	tiles := uint32((m + Tile - 1) / Tile * ((n + Tile - 1) / Tile))
	shape := runtime.Shape{Grid: runtime.Dim3{X: tiles}, Block: runtime.Dim3{X: Threads}, SharedBytes: SharedBytes}
	ints := []int32{int32(m), int32(n), int32(k), int32(pk), int32(pk), int32(pn)}
	args := []runtime.Arg{runtime.In(da), runtime.Value(da.Len()), runtime.In(db), runtime.Value(db.Len()), runtime.InOut(dc), runtime.Value(dc.Len())}
	for _, v := range ints {
		args = append(args, runtime.Value(v))
	}
	for range 3 {
		args = append(args, runtime.Value(0))
	}
	args = append(args, runtime.Value(uint64(0)), runtime.Value(0), runtime.Value(int32(k)))
	require.NoError(t, kernel.Launch(s, shape, args...))
	got := make([]uint32, len(c))
	require.NoError(t, runtime.Download(ctx, s, got, dc))
	require.NoError(t, ProductBFloat16CPU(shape, a, b, c, ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], 0, 0, 0, nil, int32(k)))
	require.Equal(t, c, got)
	at := func(v []gpu.Uint4, row, k int) float64 {
		q := v[row*pk+k/8]
		return float64(gpu.BFloat16FromBits(uint16([4]uint32{q.X, q.Y, q.Z, q.W}[k%8/2] >> (k % 2 * 16))).Float32())
	}
	for i := range m {
		for j := range n {
			sum, all := 0.0, 0.0
			for e := range k {
				p := at(a, i, e) * at(b, j, e)
				sum, all = sum+p, all+math.Abs(p)
			}
			assert.InDelta(t, sum, float64(gpu.BFloat16FromBits(uint16(c[i*pn+j/2]>>(j%2*16))).Float32()), math.Abs(sum)*0x1p-8+all*0x1p-20, "%d %d", i, j)
		}
	}
}

// TestCopier has the end of a row, and rows whose bytes no int32 counts.
func TestCopier(t *testing.T) {
	all, none := gpu.Uint4{X: 1, Y: 2, Z: 3, W: 4}, gpu.Uint4{}
	for name, c := range map[string]struct {
		left int32
		want gpu.Uint4
	}{
		"all":       {8, all},
		"long rows": {1<<30 + 1, all},
		"the end":   {3, gpu.Uint4{X: 1, Y: 2}},
		"behind it": {-5, none},
	} {
		t.Run(name, func(t *testing.T) {
			from := []gpu.Uint4{all}
			var got [4]gpu.Uint4
			require.NoError(t, gpu.Run(gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 1}, SharedBytes: SharedBytes}, func(t *gpu.Thread) {
				sh := gpu.DynamicShared[gpu.Uint4](t)
				of := copier{left: c.left}
				for i := range int32(2) {
					of.a[i], of.b[i] = from, from
					of.row(t, sh, i, 2)
				}
				of.next(t, 2)
				gpu.CopyWait(t, 0)
				got = [4]gpu.Uint4{sh[0], sh[apart*chunks], sh[Tile*chunks], sh[(Tile+apart)*chunks]}
			}))
			assert.Equal(t, [4]gpu.Uint4{c.want, c.want, c.want, c.want}, got)
		})
	}
}
