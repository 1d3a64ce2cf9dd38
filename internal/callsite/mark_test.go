package callsite

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// number is the innermost number on the stack.
func number() (uint64, bool) {
	stack := make([]uintptr, 1000)
	return marked(stack[:runtime.Callers(0, stack)])
}

func deep(depth int, f func()) {
	if depth == 0 {
		f()
		return
	}
	deep(depth-1, f)
}

// The number on the stack is that of the innermost call, however deep the stack is.
func TestNumbersOnTheStack(t *testing.T) {
	_, found := number()
	assert.False(t, found)
	for _, n := range []uint64{0, 1, 2, 3, 5, 8, 1 << 20, math.MaxUint64} {
		for _, depth := range []int{0, 30, 63, 64, 65, 200} {
			is := func(want uint64) {
				got, found := number()
				assert.True(t, found, "depth %d", depth)
				assert.Equal(t, want, got, "depth %d", depth)
			}
			enter(n, func() {
				deep(depth, func() {
					is(n)
					enter(7, func() { deep(depth, func() { is(7) }) })
				})
				enter(6, func() { is(6) })
				is(n)
				done := make(chan bool)
				go func() { _, found := number(); done <- found }()
				assert.False(t, <-done, "another goroutine")
			})
		}
	}
}
