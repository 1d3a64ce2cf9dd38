// Package sm90 has kernels that need sm_90.
package sm90

import "github.com/purecuda/purecuda/gpu"

// Pairs appends to a list: its length and a sum are one element, which threads replace.
//
//purecuda:kernel
func Pairs(t *gpu.Thread, state []gpu.Uint64x2, x []uint64) {
	i := t.GlobalX()
	if i >= len(x) {
		return
	}
	s := gpu.Shared[[2]gpu.Uint64x2](t)
	if t.ThreadX() < 2 {
		s[t.ThreadX()] = gpu.Uint64x2{}
	}
	t.Barrier()
	add(&s[i&1], x[i])
	add(&state[0], x[i])
	t.Barrier()
	if t.ThreadX() < 2 {
		add(&state[1], s[t.ThreadX()].Y)
	}
}

func add(p *gpu.Uint64x2, v uint64) {
	for old := (gpu.Uint64x2{}); ; {
		seen := gpu.AtomicCompareAndSwapPair(p, old, gpu.Uint64x2{X: old.X + 1, Y: old.Y + v})
		if seen == old {
			return
		}
		old = seen
	}
}

// AtomicBrains adds small integers, whose sums are exact.
//
//purecuda:kernel
func AtomicBrains(t *gpu.Thread, g, v []gpu.BFloat16) {
	i := t.GlobalX()
	if i < len(v) {
		gpu.AtomicAddHalf(&g[i&3], v[i])
	}
}
