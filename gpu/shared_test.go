package gpu_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
)

// broadcast gives what a thread of the block has to all, through a variable of its own.
func broadcast[T any](t *gpu.Thread, v T, from int) T {
	s := gpu.Shared[T](t)
	if t.ThreadX() == from {
		*s = v
	}
	t.Barrier()
	v = *s
	t.Barrier()
	return v
}

// place is the variable of a call of a function.
func place(t *gpu.Thread) *int { return gpu.Shared[int](t) }

// TestSharedSites has shared memory in functions, in loops and after conditions.
func TestSharedSites(t *testing.T) {
	const threads = 96
	out := make([]int, 3*threads)
	require.NoError(t, gpu.Run(gpu.Shape1D(3*threads, threads), func(th *gpu.Thread) {
		sum := 0
		for i := range 100 { // more passes than there can be variables
			if i%3 == th.BlockX() {
				sum += broadcast(th, i, i%threads)
			} else if v := broadcast(th, float32(i), 5); v > 50 {
				sum++
			}
		}
		a, b := place(th), place(th)
		var odd *int
		if th.ThreadX()%2 == 1 {
			odd = place(th)
		}
		c := place(th)
		if th.ThreadX() == 1 {
			*a, *b, *c, *odd = 1, 20, 300, 4000
		}
		th.Barrier()
		sum += 1000 * (*a + *b + *c)
		if odd != nil {
			sum += 1000 * *odd
		}
		out[th.GlobalX()] = sum
	}))
	for i, v := range out {
		block, want := i/threads, 321000
		for j := range 100 {
			if j%3 == block {
				want += j
			} else if j > 50 {
				want++
			}
		}
		assert.Equal(t, want+i%2*4000000, v, "thread %d", i)
	}
	err := gpu.Run(gpu.Shape1D(1, 1), func(th *gpu.Thread) { deep(th, 70) })
	assert.ErrorContains(t, err, "a kernel has more than 64 variables in shared memory")
}

// deep has a variable at each depth.
func deep(t *gpu.Thread, n int) {
	gpu.Shared[int](t)
	if n > 0 {
		deep(t, n-1)
	}
}

func BenchmarkShared(b *testing.B) {
	x := 0
	for range b.N {
		_ = gpu.Run(gpu.Shape1D(256, 256), func(th *gpu.Thread) {
			s := gpu.Shared[[256]int](th)
			s[th.ThreadX()] = x
			th.Barrier()
		})
	}
}
