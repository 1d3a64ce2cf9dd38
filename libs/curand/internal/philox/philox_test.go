package philox_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/libs/curand/internal/philox"
)

// The vectors that Random123 comes with (kat_vectors, philox4x32 10).
func TestKnownAnswers(t *testing.T) {
	const all = math.MaxUint32
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{all, all, all, all}, [2]uint32{all, all}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		assert.Equal(t, c.want, philox.Block(c.counter, c.key), "%08x %08x", c.counter, c.key)
	}
}

// The order of the results, spelled out: four of each sequence, then four more of each.
func TestLayout(t *testing.T) {
	const seed, rounds = 0x1234_5678_9abc_def0, 3
	key := [2]uint32{0x9abc_def0, 0x1234_5678}
	var words []uint32
	var doubles []float64
	for block := range uint32(rounds) {
		for sequence := range uint32(philox.Sequences) {
			one := philox.Block([4]uint32{block, 0, sequence, 0}, key)
			words = append(words, one[:]...)
			for _, w := range [][4]uint32{philox.Block([4]uint32{2 * block, 0, sequence, 0}, key), philox.Block([4]uint32{2*block + 1, 0, sequence, 0}, key)} {
				for i := 0; i < 4; i += 2 {
					z := uint64(w[i]) ^ uint64(w[i+1])<<21
					doubles = append(doubles, float64(z)/(1<<53)+0.5/(1<<53))
				}
			}
		}
	}
	var s philox.State
	s.Reset(seed, 0)
	got := make([]uint32, len(words))
	s.Uint32(got)
	assert.True(t, same(words, got), "words")
	assert.EqualValues(t, len(words), s.Position)
	s.Reset(seed, 0)
	wide := make([]float64, len(doubles))
	for at := 0; at < len(wide); at += 1001 {
		s.UniformDouble(wide[at:min(at+1001, len(wide))])
	}
	assert.True(t, same(doubles, wide), "doubles, a few at a time")

	// After float64, a sequence goes on where it is.
	s.Reset(seed, 0)
	s.UniformDouble(wide[:8])
	s.Uint32(got[:4*philox.Sequences-8])
	s.Uint32(got[:12])
	assert.Equal(t, philox.Block([4]uint32{2, 0, 0, 0}, key), [4]uint32(got[:4]))
	assert.Equal(t, philox.Block([4]uint32{2, 0, 1, 0}, key), [4]uint32(got[4:8]))
	assert.Equal(t, philox.Block([4]uint32{1, 0, 2, 0}, key), [4]uint32(got[8:12]))

	// The largest positions.
	s.Reset(seed, math.MaxUint64-1)
	s.Uint32(got[:3])
	last := philox.Block([4]uint32{0xffff_ffff, 0x3fff, 0xffff, 0}, key)
	first := philox.Block([4]uint32{}, key)
	assert.Equal(t, []uint32{last[2], last[3], first[0]}, got[:3])
}

func same[T comparable](a, b []T) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// The ends of the intervals: 0 does not occur, and 1 does.
func TestEnds(t *testing.T) {
	least, most := philox.Ends()
	assert.Equal(t, [2]float64{0x1p-33, 0x1p-54}, least)
	assert.Equal(t, [2]float64{1, 1}, most)
}
