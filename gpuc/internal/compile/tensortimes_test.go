package compile_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/fused"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// TestTimesOfTensorsOnHardware prints how fast products with a bias and GELU are, and attention. It compares some of their results with the CPU.
// scripts/baseline/libs.py has the same of PyTorch.
func TestTimesOfTensorsOnHardware(t *testing.T) {
	products, heads := [][3]int{{4096, 4096, 4096}, {8192, 8192, 8192}, {4096, 16384, 4096}}, []struct{ rows, heads, width int }{{4096, 32, 128}, {4096, 32, 64}, {4096, 16, 256}, {16384, 8, 128}, {16384, 8, 64}}
	if !device.Hardware() { // what the hardware runs is tried
		products, heads = [][3]int{{70, 40, 48}}, []struct{ rows, heads, width int }{{200, 1, 64}}
	}
	p := openLibrary(t, "fused sm_90a")
	for _, s := range products {
		timeGELU(p, s[0], s[1], s[2])
	}
	for _, s := range heads {
		timeAttention(p, s.rows, kernels.Heads{Heads: s.heads, Width: s.width})
		timeAttention(p, s.rows, kernels.Heads{Heads: s.heads, Width: s.width, Causal: true})
	}
	if !device.Hardware() {
		t.Skip(hardware.RequireVariable + " is not set: small shapes agree with the CPU on the simulated driver, and nothing was timed")
	}
}

// faster prints how many operations a second a call has.
func faster(what string, operations, us float64) {
	if device.Hardware() {
		fmt.Printf("tensors %-60s %9.1f us %6.0f TFLOP/s\n", what, us, operations/us/1e6)
	}
}

func timeGELU(p *primitivesIn, m, n, depth int) {
	a, b, c := patternOf(p, m*depth, 0.2), patternOf(p, n*depth, 0.2), patternOf(p, m*n, 0)
	defer a.close(p)
	defer b.close(p)
	defer c.close(p)
	bias := make([]float32, n)
	for i := range bias {
		bias[i] = float32(i%7) / 4
	}
	db, r := onDevice(p, bias, 0), rand.New(rand.NewPCG(1, 9))
	k := kernels.GemmWith[gpu.BFloat16, fused.GELU]{}.Of(p.of("GemmWithBFloat16GELU"))
	us := device.Median(p.t, p.s, 4, func(s *runtime.Stream, _ int) error {
		return k.Launch(s, fused.GELU{}, a.set(0, m, depth), b.set(0, n, depth), c.set(0, m, n), db)
	})
	for range 16 {
		row, col, sum := r.IntN(m), r.IntN(n), 0.0
		for e, x := range a.host(row*depth, depth) {
			sum += float64(x.Float32()) * float64(b.host(col*depth+e, 1)[0].Float32())
		}
		want := fused.GELU{}.Apply(float32(sum), bias[col])
		require.InDelta(p.t, want, onHost(p, c.ref.Slice(row*n+col, row*n+col+1))[0].Float32(), 0.01+0.01*float64(max(want, -want)), "row %d, column %d", row, col)
	}
	faster(fmt.Sprintf("gelu(%d x %d x %d + bias)", m, n, depth), 2*float64(m)*float64(n)*float64(depth), us)
}

func timeAttention(p *primitivesIn, rows int, h kernels.Heads) {
	cols := h.Heads * h.Width
	q, k, v, out := patternOf(p, rows*cols, 1), patternOf(p, rows*cols, 1.1), patternOf(p, rows*cols, 1.2), patternOf(p, rows*cols, 0)
	for _, x := range []pattern{q, k, v, out} {
		defer x.close(p)
	}
	attention := kernels.Attention[gpu.BFloat16]{}.Of(p.of("AttentionBFloat16"))
	us := device.Median(p.t, p.s, 4, func(s *runtime.Stream, _ int) error {
		return attention.Launch(s, q.set(0, rows, cols), k.set(0, rows, cols), v.set(0, rows, cols), out.set(0, rows, cols), h)
	})
	one := h // row of Q, which sees all keys that it is given
	one.Causal = false
	for _, row := range []int{rows - 1, rows / 2} {
		seen, want := rows, make([]gpu.BFloat16, cols)
		if h.Causal {
			seen = row + 1
		}
		require.NoError(p.t, kernels.AttentionCPU(1, seen, q.host(row*cols, cols), k.host(0, seen*cols), v.host(0, seen*cols), want, one))
		for i, x := range onHost(p, out.ref.Slice(row*cols, (row+1)*cols)) {
			require.InDelta(p.t, want[i].Float32(), x.Float32(), 0.02, "row %d, column %d", row, i)
		}
	}
	operations := 4 * float64(rows) * float64(rows) * float64(cols)
	what := fmt.Sprintf("attention, %d heads of %d columns, %d rows", h.Heads, h.Width, rows)
	if h.Causal {
		operations, what = operations/2, what+", causal"
	}
	faster(what, operations, us)
}
