package allocs_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/internal/race"
)

var sink *[64]byte

// failing is a test that notes whether it has failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

func TestAtMost(t *testing.T) {
	for name, c := range map[string]struct {
		allocations int
		most        float64
		fails       bool
	}{
		"none":     {0, 0, false},
		"one":      {1, 0, true},
		"allowed":  {2, 2, false},
		"too many": {3, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &failing{TB: t}
			allocs.AtMost(f, c.most, 10, func() {
				for range c.allocations {
					sink = new([64]byte)
				}
			})
			assert.Equal(t, c.fails && !race.Enabled, f.failed)
		})
	}
}

// A goroutine that allocates now and then is not taken for the function.
func TestOthersAreNotCounted(t *testing.T) {
	var other atomic.Pointer[[64]byte]
	end := make(chan struct{})
	defer close(end)
	go func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
				other.Store(new([64]byte))
			}
		}
	}()
	allocs.AtMost(t, 0, 100, func() {
		for n := range 1000 {
			_ = n
		}
	})
}
