package kernels

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/seeds"
)

type less struct{}

func (less) Less(a, b int) bool { return a < b }

// Samples find each cut in a few rounds, of any parts, and equal elements of the first parts are before it.
func TestNarrow(t *testing.T) {
	seeds.Each(t, seeds.Count(50, 500, 10), func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		parts := make([][]int, 1+r.IntN(300))
		most := mostSamples(len(parts))
		c := cutAt[int]{step: make([]int, len(parts)), samples: make([][]int, len(parts))}
		type element struct{ v, part, i int }
		var all []element
		values := 1 + r.IntN(1+int(r.Int32())>>r.IntN(31))
		for j := range parts {
			for range r.IntN(1 + 40_000/len(parts)<<r.IntN(4)) {
				parts[j] = append(parts[j], r.IntN(values))
			}
			slices.Sort(parts[j])
			for i, v := range parts[j] {
				all = append(all, element{v, j, i})
			}
			c.lo, c.hi = append(c.lo, 0), append(c.hi, len(parts[j]))
		}
		slices.SortStableFunc(all, func(a, b element) int { return a.v - b.v })
		c.at = r.IntN(len(all) + 1)
		want := make([]int, len(parts))
		for _, e := range all[:c.at] {
			want[e.part]++
		}
		for round := 0; !slices.Equal(c.lo, c.hi); round++ {
			require.Less(t, round, 20)
			for j, x := range parts {
				c.samples[j] = nil
				if n := c.hi[j] - c.lo[j]; n > 0 {
					c.step[j] = ceil(n, most)
					for i := c.lo[j]; i < c.hi[j]; i += c.step[j] {
						c.samples[j] = append(c.samples[j], x[i])
					}
				}
			}
			narrow(less{}, &c)
		}
		require.Equal(t, want, c.lo)
	})
}
