package mark

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func numbers(of Kind) (found []uint64) {
	Below(of, func(n uint64) bool { found = append(found, n); return false })
	return found
}

func deep(depth int, f func()) {
	if depth == 0 {
		f()
		return
	}
	deep(depth-1, f)
}

// The numbers on the stack are those of the calls, the innermost first, however deep the stack is.
func TestNumbersOnTheStack(t *testing.T) {
	assert.Empty(t, numbers(Caller))
	for _, n := range []uint64{0, 1, 2, 3, 5, 8, 1 << 20, math.MaxUint64/uint64(kinds) - 1} {
		for _, depth := range []int{0, 30, 63, 64, 65, 200} {
			var callers, builds []uint64
			err := Do(Caller, n, func() error {
				deep(depth, func() {
					_ = Do(Build, 7, func() error {
						deep(depth, func() { callers, builds = numbers(Caller), numbers(Build) })
						return nil
					})
				})
				return Do(Caller, 6, func() error { callers = append(callers, numbers(Caller)...); return nil })
			})
			require.NoError(t, err)
			assert.Equal(t, []uint64{n, 6, n}, callers, "depth %d", depth)
			assert.Equal(t, []uint64{7}, builds)
			done := make(chan []uint64)
			_ = Do(Caller, n, func() error { go func() { done <- numbers(Caller) }(); assert.Empty(t, <-done); return nil })
		}
	}
}

func TestFind(t *testing.T) {
	_ = Do(Caller, 12, func() error {
		var stack [64]uintptr
		n, found := Find(Caller, stack[:runtime.Callers(0, stack[:])])
		assert.True(t, found)
		assert.EqualValues(t, 12, n)
		_, found = Find(Build, stack[:])
		assert.False(t, found)
		return nil
	})
}
