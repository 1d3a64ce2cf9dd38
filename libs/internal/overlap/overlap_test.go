package overlap

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

// bytes are the addresses of a box.
func (b *Box) bytes() map[driver.DevicePtr]bool {
	all := map[driver.DevicePtr]bool{}
	for i := range max(b.Levels[1].N, 1) {
		for j := range max(b.Levels[0].N, 1) {
			for k := range b.Bytes {
				all[b.At+driver.DevicePtr(i*b.Levels[1].Step+j*b.Levels[0].Step+k)] = true
			}
		}
	}
	return all
}

// The answer is that of a comparison byte by byte. Boxes that lie between each other with different steps may be called
// overlapping.
func TestMeets(t *testing.T) {
	apart, met, doubtful := 0, 0, 0
	for seed := range uint64(20000) {
		chance := rand.New(rand.NewPCG(seed, 0))
		steps := [2]int64{1 + chance.Int64N(12), chance.Int64N(60)}
		box := func(name string) Box {
			b := Box{Name: name, At: driver.DevicePtr(1000 + chance.IntN(80)), Bytes: chance.Int64N(6)}
			for i := range b.Levels {
				b.Levels[i] = Level{chance.Int64N(5), steps[i]}
				if chance.IntN(8) == 0 {
					b.Levels[i].Step = 1 + chance.Int64N(20)
				}
			}
			return b
		}
		a, b := box("a"), box("b")
		common := false
		others := b.bytes()
		for at := range a.bytes() {
			common = common || others[at]
		}
		same := true
		for i := range a.Levels {
			same = same && (a.Levels[i].N <= 1 || b.Levels[i].N <= 1 || a.Levels[i].Step == b.Levels[i].Step)
		}
		got := a.meets(&b)
		require.Equal(t, got, b.meets(&a), "seed %d: %+v %+v", seed, a, b)
		if same || common || a.end() <= b.At || b.end() <= a.At {
			require.Equal(t, common, got, "seed %d: %+v %+v", seed, a, b)
		}
		switch {
		case common:
			met++
		case got:
			doubtful++
		default:
			apart++
		}
	}
	assert.Greater(t, met, 1000)
	assert.Greater(t, apart, 1000)
	assert.Greater(t, doubtful, 0)
}

// Each says what a comparison of all pairs says.
func TestEach(t *testing.T) {
	failed := 0
	for seed := range uint64(5000) {
		chance := rand.New(rand.NewPCG(seed, 1))
		list := func(name string, stride int64) (all []Box) {
			width, rows := 1+chance.Int64N(4), 1+chance.Int64N(4)
			for i := range chance.IntN(6) {
				all = append(all, Box{Name: name, Number: i + 1, At: driver.DevicePtr(1000 + chance.IntN(400)), Bytes: width, Levels: [2]Level{{rows, stride}}})
			}
			return all
		}
		a, b, c := list("a", 10), list("b", 10), list("c", 10)
		want := false
		for i := range c {
			for j := range i {
				want = want || c[i].meets(&c[j])
			}
			want = want || Of(c[i], a...) != nil || Of(c[i], b...) != nil
		}
		err := Each(c, a, b)
		require.Equal(t, want, err != nil, "seed %d: %v", seed, err)
		if err != nil {
			failed++
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
		}
	}
	assert.Greater(t, failed, 100)
	assert.Less(t, failed, 4900)
}
