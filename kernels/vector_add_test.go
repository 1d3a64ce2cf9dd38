package kernels

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

func TestVectorAddCPU(t *testing.T) {
	c := make([]float32, 4)
	require.NoError(t, VectorAddCPU(
		[]float32{1, 16777216, math.MaxFloat32, -0.5},
		[]float32{2, 1, math.MaxFloat32, 0.5}, c))
	// 2^24+1 lies halfway and rounds to even.
	assert.Equal(t, []float32{3, 16777216, float32(math.Inf(1)), 0}, c)

	a := []float32{1, 2}
	require.NoError(t, VectorAddCPU(a, a, a), "in place")
	assert.Equal(t, []float32{2, 4}, a)

	require.NoError(t, VectorAddCPU(nil, nil, nil))
	require.ErrorIs(t, VectorAddCPU(make([]float32, 1), c, c), driver.ErrInvalidArgument)
	require.ErrorIs(t, VectorAddCPU(c, make([]float32, 5), c), driver.ErrInvalidArgument)
	require.EqualError(t, VectorAddCPU(c, c, nil), "InvalidArgument: vector_add: lengths 4, 4 and 0 differ")
}
