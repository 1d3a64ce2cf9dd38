package testops

import "github.com/purecuda/purecuda/gpu"

type pair struct {
	a [2]int
	b bool
}

var (
	table = [3][4]int{{1, 2, 3, 4}, {5, 6, 7}, 2: {3: 9}}
	pairs = [2]pair{{[2]int{10, 20}, true}, {a: [2]int{1: 40}}}
	cube  = [2][2][2]int{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}
	zeros [2][3]int
)

func made(n int) [3][4]int {
	a := table
	a[1][2] = n
	return a
}

// Tables reads tables with several dimensions, and arrays that have no address. n is 1.
//
//purecuda:kernel
func Tables(t *gpu.Thread, x []int, n int) {
	for i, row := range table {
		for j, v := range row {
			x[i*4+j] = v
		}
	}
	x[12], x[13] = table[n][n+1], table[n-1][0]
	if p := pairs[n-1]; p.b {
		x[14], x[15] = p.a[n], pairs[n].a[n]
	}
	x[16], x[17] = cube[n][n][0], cube[0][n][n]+zeros[n][2]
	b := made(100)
	for i, row := range b {
		b[0][i] += row[n+1]
	}
	x[18], x[19], x[20] = b[0][0], b[0][1], b[0][2]
	x[21], x[22] = made(n)[n][n+1], made(n)[n+1][3]
	for _, row := range made(n + 3) {
		x[23] += row[n+1]
	}
	flags := [2][2]bool{{true}, {n > 0, n > 1}}
	for _, row := range flags {
		for j := range n + 1 {
			if row[j] {
				x[24]++
			}
		}
	}
	for k := range 3 * n { // not unrolled
		for _, p := range [3]pair{pairs[0], {b: true, a: [2]int{k, n}}, pairs[1]} {
			if p.b {
				x[25] = x[25]*3 + p.a[k&1]
			}
		}
	}
}
