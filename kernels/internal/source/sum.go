package source

import "github.com/purecuda/purecuda/gpu"

// warpSum adds 32 lanes as a tree: lane i takes lane i+16, then i+8, 4, 2, 1.
func warpSum(t *gpu.Thread, v float64) float64 {
	for d := 16; d > 0; d /= 2 {
		v += gpu.ShuffleDown(t, v, d)
	}
	return v
}

// Sum adds, in float64, the elements of x that each block takes into its partial sum.
//
// The order of additions depends on the grid and block size alone, never on timing. Thread t of all T adds elements t,
// t+T, t+2T and so on. Each warp adds its lanes as a tree; the first warp adds the warps with the same tree. The caller
// adds the partial sums, one a block, in their order. There are no atomics: with them the last bits would change from run
// to run. The block size is a multiple of 32.
//
//purecuda:kernel entry=sum
func Sum(t *gpu.Thread, x []float32, partials []float64) {
	warps := gpu.Shared[[32]float64](t)
	total, step, i := 0.0, t.GlobalDimX(), t.GlobalX()
	// Four loads are in flight before the first addition waits for one of them.
	for ; i+3*step < len(x); i += 4 * step {
		x0, x1, x2, x3 := x[i], x[i+step], x[i+2*step], x[i+3*step]
		total += float64(x0)
		total += float64(x1)
		total += float64(x2)
		total += float64(x3)
	}
	for ; i < len(x); i += step {
		total += float64(x[i])
	}
	total = warpSum(t, total)
	if t.Lane() == 0 {
		warps[t.ThreadX()/32] = total
	}
	t.Barrier()
	if t.ThreadX() < 32 {
		total = 0
		if t.ThreadX() < t.BlockDimX()/32 {
			total = warps[t.ThreadX()]
		}
		total = warpSum(t, total)
		if t.ThreadX() == 0 {
			partials[t.BlockX()] = total
		}
	}
}
