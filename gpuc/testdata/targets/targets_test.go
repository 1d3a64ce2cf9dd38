package targets

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

func TestOnEachTarget(t *testing.T) {
	for _, device := range []drivertest.DeviceConfig{drivertest.T4(), drivertest.A100(), drivertest.H100()} {
		t.Run(device.Name, func(t *testing.T) {
			rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(1, device)})))
			require.NoError(t, err)
			defer rt.Close()
			shape := runtime.Shape1D(3, 32)
			x := []gpu.BFloat16{gpu.ToBFloat16(0.5), gpu.ToBFloat16(1), gpu.ToBFloat16(-0.75)}
			want := slices.Clone(x)
			require.NoError(t, MixCPU(shape, want))
			place, err := MixAuto(context.Background(), rt, shape, x)
			require.NoError(t, err)
			assert.True(t, place.GPU)
			assert.Equal(t, want, x)
			y := []float32{1, 2, 3}
			_, err = TwiceAuto(context.Background(), rt, shape, y)
			require.NoError(t, err)
			assert.Equal(t, []float32{2, 4, 6}, y)
			sum(t, rt, device.Major == 9)
			products(t, rt, device.Major >= 8)
			if device.Major == 9 {
				attention(t, rt)
			}
		})
	}
}

// sum runs a kernel for one target alone: elsewhere its launch is an error, and the other kernels run.
func sum(t *testing.T, rt *runtime.Runtime, runs bool) {
	tiles := func(v float32) gpu.Tiles[gpu.Float16] {
		m := gpu.Tiles[gpu.Float16]{Data: make([]gpu.Float16, 64*64), Rows: 64, Cols: 64, Pitch: 64, Box: 64}
		for i := range m.Data {
			m.Data[i] = gpu.ToFloat16(v * float32(i/64))
		}
		return m
	}
	ones := tiles(0)
	for i := range ones.Data {
		ones.Data[i] = gpu.ToFloat16(1)
	}
	shape := runtime.Shape{Grid: runtime.Dim3{X: 1}, SharedBytes: 128*128 + 16}
	want, got := make([]float32, 64), make([]float32, 64)
	require.NoError(t, SumCPU(shape, ones, tiles(0.5), want))
	assert.Equal(t, float32(64), want[2])
	_, err := SumAuto(context.Background(), rt, shape, ones, tiles(0.5), got)
	if !runs {
		assert.ErrorIs(t, err, driver.ErrUnsupported)
		b, err := rt.Probe("test")
		require.NoError(t, err)
		k, err := Load(b.Context)
		require.NoError(t, err)
		defer k.Close()
		err = k.Sum(b.Stream, shape, nil, nil, nil)
		assert.ErrorIs(t, err, driver.ErrUnsupported)
		assert.ErrorContains(t, err, "kernel Sum needs sm_90a, and the device has compute capability ")
		return
	}
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// products compares products with a function on the result with the CPU, bit for bit.
func products(t *testing.T, rt *runtime.Runtime, runs bool) {
	b, err := rt.Probe("test")
	require.NoError(t, err)
	k, err := LoadGemmWithBFloat16Leaky(b.Context)
	require.NoError(t, err)
	defer k.Close()
	ctx, s, r := context.Background(), b.Stream, rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][3]int{{1, 1, 1}, {70, 37, 145}, {200, 300, 40}, {9, 21, 2100}} {
		m, n, depth := shape[0], shape[1], shape[2]
		matrix := func(rows, cols int) ([]gpu.BFloat16, kernels.Matrix[gpu.BFloat16]) {
			v := make([]gpu.BFloat16, rows*cols)
			for i := range v {
				v[i] = gpu.ToBFloat16(float32(r.NormFloat64()))
			}
			pitch := (cols + 7) / 8 * 8
			ref, err := runtime.Alloc[gpu.BFloat16](s, rows*pitch)
			require.NoError(t, err)
			require.NoError(t, runtime.Upload2D(ctx, s, ref, pitch, v, cols, cols, rows))
			return v, kernels.Matrix[gpu.BFloat16]{Ref: ref, Rows: rows, Cols: cols, Pitch: pitch}
		}
		x, dx := matrix(m, depth)
		w, dw := matrix(n, depth)
		want, dc := matrix(m, n)
		bias := make([]float32, n)
		for i := range bias {
			bias[i] = float32(r.NormFloat64())
		}
		db, err := runtime.UploadNew(ctx, s, bias)
		require.NoError(t, err)
		err = k.Launch(s, Leaky{0.25}, dx, dw, dc, db)
		if !runs {
			assert.ErrorIs(t, err, driver.ErrUnsupported)
			assert.ErrorContains(t, err, "needs sm_80")
			break
		}
		require.NoError(t, err)
		got := make([]gpu.BFloat16, m*n)
		require.NoError(t, runtime.Download2D(ctx, s, got, n, dc.Ref, dc.Pitch, n, m))
		require.NoError(t, kernels.GemmWithCPU(Leaky{0.25}, m, n, depth, x, w, want, bias))
		require.Equal(t, want, got, shape)
		require.NoError(t, k.Launch(s, Leaky{-1}, dx, dw, dc, nil))
		require.NoError(t, runtime.Download2D(ctx, s, got, n, dc.Ref, dc.Pitch, n, m))
		require.NoError(t, kernels.GemmWithCPU(Leaky{-1}, m, n, depth, x, w, want, nil))
		require.Equal(t, want, got, shape)
		assert.ErrorContains(t, k.Launch(s, Leaky{1}, dx, dw, dc, db.Slice(1, n)), "the bias has")
		batch := kernels.GemmShape{InParts: true, Batch: 2, StrideA: m * dx.Pitch, StrideC: m * dc.Pitch}
		double := func(x kernels.Matrix[gpu.BFloat16], v []gpu.BFloat16) kernels.Matrix[gpu.BFloat16] {
			ref, err := runtime.Alloc[gpu.BFloat16](s, 2*x.Rows*x.Pitch)
			require.NoError(t, err)
			require.NoError(t, runtime.Upload2D(ctx, s, ref, x.Pitch, v, x.Cols, x.Cols, 2*x.Rows))
			x.Ref = ref
			return x
		}
		x = append(x[m/2*depth:], append(x[:m/2*depth:m/2*depth], x...)...) // two other matrices
		want, got = make([]gpu.BFloat16, 2*m*n), make([]gpu.BFloat16, 2*m*n)
		dx, dc = double(dx, x), double(dc, want)
		require.NoError(t, k.Launch(s, Leaky{0.25}, dx, dw, dc, db, batch))
		require.NoError(t, runtime.Download2D(ctx, s, got, n, dc.Ref, dc.Pitch, n, 2*m))
		require.NoError(t, kernels.GemmWithCPU(Leaky{0.25}, m, n, depth, x, w, want, bias, kernels.GemmShape{InParts: true, Batch: 2, StrideA: m * depth, StrideC: m * n}))
		require.Equal(t, want, got, shape)
		// The same with A and B as their transposes.
		turn := func(v []gpu.BFloat16, rows, cols int) (out []gpu.BFloat16) {
			for i := range v {
				of, j := i/(rows*cols)*rows*cols, i%(rows*cols)
				out = append(out, v[of+j%rows*cols+j/rows])
			}
			return out
		}
		batch.TransposedA, batch.TransposedB = true, true
		dx, dw = kernels.Matrix[gpu.BFloat16]{Rows: depth, Cols: m, Pitch: (m + 8) / 8 * 8}, kernels.Matrix[gpu.BFloat16]{Rows: depth, Cols: n, Pitch: (n + 8) / 8 * 8}
		batch.StrideA = depth * dx.Pitch
		dx, dw = double(dx, turn(x, m, depth)), double(dw, append(turn(w, n, depth), w...))
		require.NoError(t, k.Launch(s, Leaky{0.25}, dx, dw, dc, db, batch))
		require.NoError(t, runtime.Download2D(ctx, s, got, n, dc.Ref, dc.Pitch, n, 2*m))
		require.Equal(t, want, got, shape)
	}
}

// attention compares attention with the CPU.
func attention(t *testing.T, rt *runtime.Runtime) {
	b, err := rt.Probe("test")
	require.NoError(t, err)
	k, err := LoadAttentionBFloat16(b.Context)
	require.NoError(t, err)
	defer k.Close()
	ctx, s, r := context.Background(), b.Stream, rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		rows, keys int
		h          kernels.Heads
	}{
		{1, 1, kernels.Heads{Width: 64, Heads: 1}},
		{130, 200, kernels.Heads{Width: 64, Heads: 2, Causal: true}},
		{140, 300, kernels.Heads{Width: 128, Heads: 2, Keys: 1}},
		{200, 200, kernels.Heads{Width: 128, Heads: 1, Causal: true, Scale: 0.5}},
		{70, 150, kernels.Heads{Width: 256, Heads: 1, Causal: true}},
	} {
		keyHeads := max(c.h.Keys, 1)
		if c.h.Keys == 0 {
			keyHeads = c.h.Heads
		}
		matrix := func(rows, cols int) ([]gpu.BFloat16, kernels.Matrix[gpu.BFloat16]) {
			v := make([]gpu.BFloat16, rows*cols)
			for i := range v {
				v[i] = gpu.ToBFloat16(float32(r.NormFloat64()))
			}
			ref, err := runtime.UploadNew(ctx, s, v)
			require.NoError(t, err)
			return v, kernels.Matrix[gpu.BFloat16]{Ref: ref, Rows: rows, Cols: cols, Pitch: cols}
		}
		q, dq := matrix(c.rows, c.h.Heads*c.h.Width)
		key, dk := matrix(c.keys, keyHeads*c.h.Width)
		value, dv := matrix(c.keys, keyHeads*c.h.Width)
		want, out := matrix(c.rows, c.h.Heads*c.h.Width)
		require.NoError(t, k.Launch(s, dq, dk, dv, out, c.h))
		got := make([]gpu.BFloat16, len(want))
		require.NoError(t, runtime.Download(ctx, s, got, out.Ref))
		require.NoError(t, kernels.AttentionCPU(c.rows, c.keys, q, key, value, want, c.h))
		for i := range got {
			require.InDelta(t, want[i].Float32(), got[i].Float32(), 0.03, "%v: element %d", c, i)
		}
	}
}
