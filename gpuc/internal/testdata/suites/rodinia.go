// Package testsuites holds kernels of well-known suites, as somebody writes them who has never seen what gpuc makes of
// them. They are timed beside the same kernels in CUDA C; nothing in gpuc may be for one of them.
package testsuites

import "github.com/purecuda/purecuda/gpu"

// The kernels of this file are of Rodinia.

// Pathfinder finds the cheapest way down a grid, some rows in one launch.
//
//purecuda:kernel block=256
func Pathfinder(t *gpu.Thread, to, from, wall []int32, cols, rows int) {
	prev := gpu.Shared[[256]int32](t)
	next := gpu.Shared[[256]int32](t)
	tx := t.ThreadX()
	x := t.BlockX()*(256-2*rows) + tx - rows
	inside := x >= 0 && x < cols
	if inside {
		prev[tx] = from[x]
	}
	t.Barrier()
	for row := range rows {
		if inside && tx > row && tx < 255-row {
			best := prev[tx]
			if x > 0 {
				best = min(best, prev[tx-1])
			}
			if x < cols-1 {
				best = min(best, prev[tx+1])
			}
			next[tx] = best + wall[row*cols+x]
		}
		t.Barrier()
		prev, next = next, prev
	}
	if inside && tx >= rows && tx < 256-rows {
		to[x] = prev[tx]
	}
}

// Chip is what HotSpot knows of a chip.
type Chip struct {
	Cap, Rx, Ry, Rz, Ambient float32
}

// HotSpot is one step of the temperatures on a chip.
//
//purecuda:kernel
func HotSpot(t *gpu.Thread, out, temp, power []float32, w, h int, c Chip) {
	x, y := t.GlobalX(), t.GlobalY()
	if x >= w || y >= h {
		return
	}
	i := y*w + x
	here := temp[i]
	north, south := temp[max(y-1, 0)*w+x], temp[min(y+1, h-1)*w+x]
	west, east := temp[y*w+max(x-1, 0)], temp[y*w+min(x+1, w-1)]
	out[i] = here + c.Cap*(power[i]+(south+north-2*here)*c.Ry+(east+west-2*here)*c.Rx+(c.Ambient-here)*c.Rz)
}

// Needleman aligns two sequences of 64 letters in each block, by Needleman and Wunsch.
//
//purecuda:kernel block=64
func Needleman(t *gpu.Thread, score []int32, a, b []uint8, penalty int32) {
	m := gpu.Shared[[65][65]int32](t)
	tx, pair := t.ThreadX(), t.BlockX()
	m[0][tx+1], m[tx+1][0] = -penalty*int32(tx+1), -penalty*int32(tx+1)
	if tx == 0 {
		m[0][0] = 0
	}
	letter := a[pair*64+tx]
	t.Barrier()
	for d := 0; d < 127; d++ {
		if j := d - tx; j >= 0 && j < 64 {
			s := int32(-3)
			if letter == b[pair*64+j] {
				s = 5
			}
			m[tx+1][j+1] = max(m[tx][j]+s, m[tx+1][j]-penalty, m[tx][j+1]-penalty)
		}
		t.Barrier()
	}
	score[pair*64+tx] = m[tx+1][64]
}

// KMeans finds the centre that is nearest to each point.
//
//purecuda:kernel
func KMeans(t *gpu.Thread, member []int32, points, centres []float32, n, k, dims int) {
	i := t.GlobalX()
	if i >= n {
		return
	}
	best, nearest := float32(3.4e38), int32(0)
	for c := 0; c < k; c++ {
		var sum float32
		for d := 0; d < dims; d++ {
			x := points[d*n+i] - centres[c*dims+d]
			sum += x * x
		}
		if sum < best {
			best, nearest = sum, int32(c)
		}
	}
	member[i] = nearest
}

// BFS goes one level further in a graph.
//
//purecuda:kernel
func BFS(t *gpu.Thread, level, first, edges []int32, depth int32) {
	i := t.GlobalX()
	if i >= len(level) || level[i] != depth {
		return
	}
	for e := first[i]; e < first[i+1]; e++ {
		if to := edges[e]; level[to] > depth {
			level[to] = depth + 1
		}
	}
}
