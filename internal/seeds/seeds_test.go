package seeds_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/internal/seeds"
)

// noted notes its seed.
type noted struct {
	seed uint64
	mu   *sync.Mutex
	seen map[uint64]int
}

func (n noted) Run() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen[n.seed]++
	return nil
}

func (n noted) Describe() string { return "" }

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name                string
		count, first, alone string
		want                map[uint64]int
	}{
		{"by default", "", "", "", map[uint64]int{0: 1, 1: 1, 2: 1}},
		{"new ones", "2", "100", "", map[uint64]int{100: 1, 101: 1}},
		{"one alone", "5", "100", "7", map[uint64]int{7: 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("PURECUDA_SEEDS", c.count)
			t.Setenv("PURECUDA_FIRST_SEED", c.first)
			t.Setenv("PURECUDA_SEED", c.alone)
			var mu sync.Mutex
			seen := map[uint64]int{}
			seeds.Run(t, 3, func(seed uint64) noted { return noted{seed, &mu, seen} })
			assert.Equal(t, c.want, seen)
			each := map[uint64]int{}
			seeds.Each(t, 3, func(_ *testing.T, seed uint64) { each[seed]++ })
			assert.Equal(t, c.want, each)
		})
	}
}
