package kernels

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels/internal/hopper"
)

func TestAttentionCPU(t *testing.T) {
	ones := func(n int) []gpu.Float16 {
		v := make([]gpu.Float16, n)
		for i := range v {
			v[i] = gpu.ToFloat16(1)
		}
		return v
	}
	values := ones(3 * 64)
	for i := range values {
		values[i] = gpu.ToFloat16(float32(i / 64))
	}
	out := ones(2 * 128)
	require.NoError(t, AttentionCPU(2, 3, ones(2*128), ones(3*64), values, out, Heads{Width: 64, Heads: 2, Keys: 1, Causal: true}))
	assert.Equal(t, float32(0.5), out[127].Float32()) // row 0 sees two rows
	assert.Equal(t, float32(1), out[128].Float32())   // row 1 sees three
	for want, h := range map[string]Heads{
		"a head has 96 columns":                    {Width: 96, Heads: 2},
		"3 heads of Q and 2 of K":                  {Width: 64, Heads: 3, Keys: 2},
		"0 heads of Q":                             {Width: 64},
		"Q has 128 columns and K 64, want 128 and": {Width: 64, Heads: 2},
		"Q has 128 columns and K 64, want 64 and":  {Width: 64, Heads: 1},
	} {
		err := AttentionCPU(2, 3, ones(2*128), ones(3*64), ones(3*64), out, h)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, want)
	}
	for _, scale := range []float32{-0.125, float32(math.Inf(1)), float32(math.NaN())} {
		assert.ErrorContains(t, AttentionCPU(1, 1, ones(64), ones(64), ones(64), ones(64), Heads{Width: 64, Heads: 1, Scale: scale}), fmt.Sprintf("the scale is %v", scale))
	}
	good := Heads{Width: 64, Heads: 1, Causal: true}
	assert.ErrorContains(t, AttentionCPU(3, 2, ones(3*64), ones(2*64), ones(2*64), ones(3*64), good), "fewer than the 3 of Q")
	assert.ErrorContains(t, AttentionCPU(2, 2, ones(2*64), ones(2*64), ones(2*64), ones(3*64), good), "192 elements, want 128")
	assert.ErrorContains(t, AttentionCPU(-1, 2, nil, ones(2*64), ones(2*64), nil, good), "-1 rows of Q")
	assert.ErrorContains(t, (Attention[gpu.Float16]{}).Launch(nil, Matrix[gpu.Float16]{}, Matrix[gpu.Float16]{}, Matrix[gpu.Float16]{}, Matrix[gpu.Float16]{}, good), "load them")
	assert.ErrorContains(t, (GemmWith[gpu.Float16, sumOf]{}).Launch(nil, sumOf{}, Matrix[gpu.Float16]{}, Matrix[gpu.Float16]{}, Matrix[gpu.Float16]{}, nil), "load them")
	assert.ErrorContains(t, GemmWithCPU(sumOf{}, 2, 2, 2, ones(4), ones(4), ones(4), make([]float32, 3)), "the bias has 3 elements")
}

type sumOf struct{}

func (sumOf) Apply(sum, bias float32) float32 { return sum + bias }

// TestHopperTiles holds that a large product takes the widest tiles, and a small one as many as there are multiprocessors.
func TestHopperTiles(t *testing.T) {
	for _, c := range []struct{ m, n, width, rows, tiles int }{
		{8192, 8192, 0, 128, 64 * 32}, {4096, 4096, 0, 128, 32 * 16}, {2048, 2048, 0, 128, 16 * 8}, {1024, 1024, 1, 64, 16 * 8}, {512, 512, 2, 64, 8 * 8}, {1, 1, 2, 64, 1}, {128, 128 * 132, 1, 128, 132},
	} {
		width, rows, tiles := hopperTiles(0, 2, c.m, c.n, 16, 1, 132)
		assert.Equal(t, [3]int{c.width, c.rows, c.tiles}, [3]int{width, rows, tiles}, "%d x %d", c.m, c.n)
	}
	for _, c := range eachTile {
		width, rows, tiles := hopperTiles(0, 2, c.m, c.n, ceil(2*c.k, hopper.DepthBytes), c.batch, 132)
		assert.Equal(t, [2]int{c.width, c.rows}, [2]int{width, rows}, c)
		assert.Greater(t, tiles, 132, c)
	}
}
