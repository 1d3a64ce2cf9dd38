package source

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
)

const (
	side = 16 // of a tile of entries
	rows = 32 // that a tile has at once
)

// Gram computes X'WX in float64 over the rows of each strip. X has k columns and a row for each weight, row by row; W is
// diagonal.
//
// A strip is ceil(n / strips) consecutive rows. A block computes 16 by 16 entries of one strip, of those on and above the
// diagonal, one entry a thread, and stores them on both sides of it. An entry (i, j) adds fma(x[r][i] * w[r], x[r][j], total)
// over the rows r in their order, where the product is rounded: that depends on n and strips alone. The caller adds the
// strips in their order.
//
// The grid has strips * t * (t + 1) / 2 blocks, where t = ceil(k / 16).
//
//purecuda:kernel entry=gram block=256
func Gram(t *gpu.Thread, x, weights []float64, k, strips uint32, partials []float64) {
	left, right := gpu.Shared[[rows][side]float64](t), gpu.Shared[[rows][side]float64](t)

	// The blocks of a strip follow one another, and within it the tiles (0,0), (0,1), ..., (1,1), (1,2), ...
	sides := (k + side - 1) / side
	tiles := sides * (sides + 1) / 2
	strip, tile, line := uint32(t.BlockX())/tiles, uint32(t.BlockX())%tiles, uint32(0)
	for tile >= sides-line {
		tile -= sides - line
		line++
	}
	n := uint64(len(weights))
	perStrip := (n + uint64(strips) - 1) / uint64(strips)
	begin := min(uint64(strip)*perStrip, n)
	end := min(begin+perStrip, n)
	column, row := uint32(t.ThreadX())%side, uint32(t.ThreadX())/side
	i, j := line*side+column, (line+tile)*side+column

	var total float64
	for from := begin; from < end; from += rows {
		count := uint32(min(end-from, rows))
		for q := range uint32(rows / side) {
			r := row + q*side
			if r >= count {
				break
			}
			at := (from + uint64(r)) * uint64(k)
			var l, m float64
			if i < k {
				l = x[at+uint64(i)] * weights[from+uint64(r)]
			}
			if j < k {
				m = x[at+uint64(j)]
			}
			left[r][column], right[r][column] = l, m
		}
		t.Barrier()
		if count == rows {
			for r := range rows {
				total = math.FMA(left[r][row], right[r][column], total)
			}
		} else {
			for r := range count {
				total = math.FMA(left[r][row], right[r][column], total)
			}
		}
		t.Barrier()
	}

	if a := line*side + row; strip < strips && a <= j && j < k {
		entries := uint64(strip) * uint64(k) * uint64(k)
		partials[entries+uint64(a)*uint64(k)+uint64(j)] = total
		partials[entries+uint64(j)*uint64(k)+uint64(a)] = total
	}
}
