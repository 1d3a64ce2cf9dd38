package kernels_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/kernels"
)

// slowAdd is block.Add without Fold.
type slowAdd struct{}

func (slowAdd) Zero() float64                { return 0 }
func (slowAdd) Combine(a, b float64) float64 { return a + b }

// TestFold compares the forms for the CPU where an operation has Fold with those where it has none, bit for bit.
func TestFold(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, n := range []int{0, 1, 2, 7, 1000} {
		in, keys := make([]float64, n), make([]uint8, n)
		for i := range in {
			in[i], keys[i] = r.NormFloat64(), uint8(r.IntN(2))
		}
		var got, want [3][]float64
		runs := [2]int{}
		for i, to := range []*[3][]float64{&got, &want} {
			scan, sums, parts := make([]float64, n), make([]float64, n), make([]float64, 3)
			var err error
			offsets := []uint64{0, uint64(n / 3), uint64(n / 4), uint64(n) + 9}
			if i == 0 {
				require.NoError(t, kernels.ScanCPU(block.Add[float64]{}, scan, in))
				runs[i], err = kernels.ReduceByKeyCPU(block.Add[float64]{}, make([]uint8, n), sums, keys, in)
				require.NoError(t, err)
				require.NoError(t, kernels.SegmentedReduceCPU(block.Add[float64]{}, parts, in, offsets))
			} else {
				require.NoError(t, kernels.ScanCPU(slowAdd{}, scan, in))
				runs[i], err = kernels.ReduceByKeyCPU(slowAdd{}, make([]uint8, n), sums, keys, in)
				require.NoError(t, err)
				require.NoError(t, kernels.SegmentedReduceCPU(slowAdd{}, parts, in, offsets))
			}
			*to = [3][]float64{scan, sums, parts}
			copied := make([]float64, n)
			copy(copied, in)
			require.NoError(t, kernels.ScanCPU(slowAdd{}, copied, copied))
			assert.Equal(t, scan, copied, "in place")
		}
		assert.Equal(t, want, got, n)
		assert.Equal(t, runs[0], runs[1])
	}
}

// TestDecodeScratch has as many heads of K as of Q by leaving them out, too.
func TestDecodeScratch(t *testing.T) {
	var d kernels.Decode[gpu.Float16]
	want := d.Scratch(1, 8192, kernels.Heads{Width: 64, Heads: 2, Keys: 2})
	assert.Positive(t, want)
	assert.Equal(t, want, d.Scratch(1, 8192, kernels.Heads{Width: 64, Heads: 2}))
}
