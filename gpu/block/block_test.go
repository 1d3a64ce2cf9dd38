package block_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// affine is x -> a*x + b, 12 bytes with what nobody looks at.
type affine struct{ a, b, _ uint32 }

// then is one after another, which is not the other way round.
type then struct{}

func (then) Zero() affine               { return affine{a: 1} }
func (then) Combine(f, g affine) affine { return affine{a: f.a * g.a, b: g.a*f.b + g.b} }

func TestCombinesInOrder(t *testing.T) {
	for _, threads := range []int{32, 64, 256, 1024} {
		in := make([]affine, threads)
		for i := range in {
			in[i] = affine{a: rand.Uint32() | 1, b: rand.Uint32()}
		}
		upTo, below, reduced, totals := make([]affine, threads), make([]affine, threads), make([]affine, threads), make([]affine, 2*threads)
		require.NoError(t, gpu.Run(gpu.Shape1D(threads, threads), func(t *gpu.Thread) {
			i := t.ThreadX()
			for range 2 { // the second time in the same shared memory
				reduced[i] = block.Reduce(t, then{}, in[i])
				upTo[i], totals[2*i] = block.InclusiveScan(t, then{}, in[i])
				below[i], totals[2*i+1] = block.ExclusiveScan(t, then{}, in[i])
			}
		}))
		sum := then{}.Zero()
		for i := range in {
			assert.Equal(t, sum, below[i], i)
			sum = then{}.Combine(sum, in[i])
			assert.Equal(t, sum, upTo[i], i)
		}
		for i := range in {
			assert.Equal(t, sum, reduced[i])
			assert.Equal(t, []affine{sum, sum}, totals[2*i:2*i+2])
		}
	}
}

func TestRanksDigits(t *testing.T) {
	const rounds = 5
	digits, ranks, same := make([]uint32, 64*rounds), make([]uint32, 64*rounds), make([]uint32, 64*rounds)
	for i := range digits {
		if digits[i] = rand.Uint32N(256); i%2 == 0 {
			digits[i] %= 3
		}
	}
	require.NoError(t, gpu.Run(gpu.Shape1D(64, 64), func(t *gpu.Thread) {
		counts := gpu.Shared[[2][256]uint32](t)
		own := counts[t.Warp()][:]
		for i := range 8 {
			own[i*32+t.Lane()] = 0
		}
		gpu.WarpBarrier(t)
		for r := range rounds {
			i := t.Warp()*32*rounds + r*32 + t.Lane()
			ranks[i] = block.RadixRank(t, own, digits[i])
			same[i] = block.SameDigit(t, digits[i])
		}
	}))
	var counts [2][256]uint32
	for i, d := range digits {
		warp := i / (32 * rounds)
		assert.Equal(t, counts[warp][d], ranks[i], i)
		counts[warp][d]++
		for lane := range 32 {
			assert.Equal(t, digits[i/32*32+lane] == d, same[i]>>lane&1 != 0)
		}
	}
}
