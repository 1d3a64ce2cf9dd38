package kernels

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

func TestSaxpyCPU(t *testing.T) {
	y := []float32{1, 2, 3}
	require.NoError(t, SaxpyCPU(2, []float32{10, 20, 30}, y))
	assert.Equal(t, []float32{21, 42, 63}, y)
	require.NoError(t, SaxpyCPU(1, y, y), "in place")
	assert.Equal(t, []float32{42, 84, 126}, y)
	require.NoError(t, SaxpyCPU(2, nil, nil))
	require.ErrorIs(t, SaxpyCPU(2, y[:2], y), driver.ErrInvalidArgument)
}
