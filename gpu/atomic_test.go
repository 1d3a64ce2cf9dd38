package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
)

// TestNarrowAtomics counts in neighbours of 16 bits, in floats and in pairs, from many threads at once.
func TestNarrowAtomics(t *testing.T) {
	counts, signed := make([]uint16, 3), []int16{-5, 7, 0}
	halves, brains := make([]gpu.Float16, 3), make([]gpu.BFloat16, 8)
	pairs := make([]gpu.Uint64x2, 2)
	require.NoError(t, gpu.Run(gpu.Shape1D(50*32, 32), func(th *gpu.Thread) {
		i := th.GlobalX()
		gpu.AtomicAdd(&counts[i%2], 50)
		gpu.AtomicMax(&counts[2], uint16(i))
		gpu.AtomicMin(&signed[0], int16(-i))
		gpu.AtomicXor(&signed[1], int16(i))
		gpu.AtomicAdd(&signed[2], -1)
		gpu.AtomicAddHalf(&halves[i%3], gpu.ToFloat16(1))
		gpu.AtomicAddHalf(&brains[i%8], gpu.ToBFloat16(0.25))
		for old := gpu.AtomicLoadPair(&pairs[0], gpu.DeviceScope); ; {
			seen := gpu.AtomicCompareAndSwapPair(&pairs[0], old, gpu.Uint64x2{X: old.X + 1, Y: old.Y + uint64(i)})
			if seen == old {
				break
			}
			old = seen
		}
		if i == 70 {
			gpu.AtomicStore(&counts[1], gpu.AtomicLoad(&counts[1], gpu.Acquire, gpu.DeviceScope), gpu.Release, gpu.DeviceScope)
			gpu.AtomicStorePair(&pairs[1], gpu.Uint64x2{X: 1, Y: 2}, gpu.SystemScope)
		}
	}))
	assert.Equal(t, uint16(40000), counts[0])
	assert.Equal(t, uint16(1599), counts[2])
	assert.Equal(t, []int16{-1599, 7, -1600}, signed)
	assert.Equal(t, float32(534), halves[0].Float32())
	assert.Equal(t, float32(50), brains[2].Float32())
	assert.Equal(t, []gpu.Uint64x2{{X: 1600, Y: 1599 * 800}, {X: 1, Y: 2}}, pairs)
}
