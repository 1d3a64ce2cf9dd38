package kernels

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSumOfIntegersIsExact(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 33, 255, 256, 257, 1023, 4096, 10_007} {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i + 1)
		}
		for _, blocks := range []int{1, 2, 7, 40} {
			partials := make([]float64, blocks)
			SumPartialsCPU(x, partials)
			assert.Equal(t, float64(n)*float64(n+1)/2, AddPartials(partials), "n %d, %d blocks", n, blocks)
		}
	}
}

func TestSumPartialsBelongToTheirBlocks(t *testing.T) {
	x := make([]float32, 3*sumThreads+1)
	x[0], x[sumThreads-1], x[sumThreads], x[2*sumThreads], x[3*sumThreads] = 1, 2, 4, 8, 16
	partials := []float64{-1, -1, -1}
	SumPartialsCPU(x, partials)
	// Element 3*sumThreads wraps around to the first thread of the grid.
	assert.Equal(t, []float64{1 + 2 + 16, 4, 8}, partials)
}

// The order of additions: the documented tree, checked where it decides the last bit.
func TestSumOrderWithinAWarp(t *testing.T) {
	x := make([]float32, sumThreads)
	x[0], x[1], x[16], x[17] = 1, 0x1p-53, 0x1p-53, 0x1p-53
	partials := make([]float64, 1)
	SumPartialsCPU(x, partials)
	// (1 + 2^-53) rounds to 1; (2^-53 + 2^-53) = 2^-52 is then added exactly. From left to
	// right all three would be lost.
	assert.Equal(t, 1+0x1p-52, partials[0])
}

func TestSumIsWithinItsBound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		n, blocks := r.IntN(20_000), 1+r.IntN(20)
		x := make([]float32, n)
		exact, size := new(big.Float).SetPrec(512), 0.0
		for i := range x {
			x[i] = float32(r.NormFloat64() * math.Exp(8*r.NormFloat64()))
			exact.Add(exact, big.NewFloat(float64(x[i])))
			size += math.Abs(float64(x[i]))
		}
		partials := make([]float64, blocks)
		SumPartialsCPU(x, partials)
		difference, _ := new(big.Float).Sub(exact, new(big.Float).SetFloat64(AddPartials(partials))).Float64()
		bound := float64(n/(blocks*sumThreads)+10+blocks) * 0x1p-53 * size * 1.001
		assert.LessOrEqual(t, math.Abs(difference), bound, "n %d, %d blocks", n, blocks)
	}
}

func TestSumWithoutPartials(t *testing.T) {
	require.NotPanics(t, func() { SumPartialsCPU([]float32{1}, nil) })
	assert.Zero(t, AddPartials(nil))
}
