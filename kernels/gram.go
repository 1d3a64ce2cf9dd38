package kernels

import (
	"math"

	"github.com/purecuda/purecuda/gpu/launch"
)

const (
	// gramThreads is the block size of gram, in threads: a tile of 16 by 16 entries.
	gramThreads = gramSide * gramSide
	// maxGramColumns is the largest number of columns that gram takes.
	maxGramColumns = 4096

	gramSide = 16
	// gramRows are so few rows that a strip of them is not worth a result of its own.
	gramRows = 256
)

// gramTiles is how many blocks gram has for each strip of a matrix with so many columns.
func gramTiles(columns int) uint64 {
	sides := (uint64(columns) + gramSide - 1) / gramSide
	return sides * (sides + 1) / 2
}

// gramStrips returns the number of strips of a matrix, at least 1, for a device with this many
// multiprocessors. It is enough to keep the device busy, but no strip has less than 256 rows. The
// last bits of the result depend on it.
func gramStrips(rows uint64, columns, multiprocessors int) int {
	if columns < 1 {
		return 1
	}
	blocks := uint64(residentGrid(math.MaxUint64, 1, multiprocessors))
	return int(max(1, min(rows/gramRows, blocks/gramTiles(columns))))
}

// GramPartialsCPU is gram on the CPU. partials has columns*columns elements for each strip of x, and
// gets X'WX of each strip, row by row. x has columns elements for each element of weights. The
// result is a GPU's bit for bit, except for the payload of NaNs. partials must not overlap x or weights.
func GramPartialsCPU(x, weights []float64, columns int, partials []float64) error {
	strips, err := gramShape("gram", len(x), len(weights), columns, len(partials))
	if err != nil {
		return err
	}
	if err := launch.Apart("gram", launch.Host("x", x, false), launch.Host("weights", weights, false), launch.Host("partials", partials, true)); err != nil {
		return err
	}
	rows := len(weights)
	perStrip := (rows + strips - 1) / strips
	for s := range strips {
		entries := partials[s*columns*columns : (s+1)*columns*columns]
		clear(entries)
		for r := min(s*perStrip, rows); r < min((s+1)*perStrip, rows); r++ {
			line := x[r*columns : (r+1)*columns]
			for i := range line {
				weighted := line[i] * weights[r]
				for j := i; j < columns; j++ {
					entries[i*columns+j] = math.FMA(weighted, line[j], entries[i*columns+j])
				}
			}
		}
		for i := range columns {
			for j := range i {
				entries[i*columns+j] = entries[j*columns+i]
			}
		}
	}
	return nil
}

// gramShape checks the lengths, and returns the number of strips.
func gramShape(name string, x, weights, columns, partials int) (strips int, err error) {
	switch {
	case columns < 1 || columns > maxGramColumns:
		return 0, invalidArgument("%s: %d columns, want 1 to %d", name, columns, maxGramColumns)
	case x/columns != weights || x%columns != 0:
		return 0, invalidArgument("%s: %d elements are not %d rows of %d columns", name, x, weights, columns)
	}
	size := columns * columns
	if partials < size || partials%size != 0 {
		return 0, invalidArgument("%s: room for %d entries, want a multiple of %d", name, partials, size)
	}
	return partials / size, nil
}

// AddGram adds the results of strips to total in their order, on the host, after a launch of gram.
// total has as many elements as one result. The strips of several devices are added in the same
// way. If total was zero, the error of its entry (i, j) is at most
//
//	(rows/strips + strips + 2) * 2^-53 * (the sum of all |x[r][i] * w[r] * x[r][j]|)
//
// to first order, unless a value underflows. A product x*w is rounded once, each row of a strip
// rounds its sum once, and so does each strip.
func AddGram(partials, total []float64) error {
	if len(total) == 0 || len(partials)%len(total) != 0 {
		return invalidArgument("gram: %d entries cannot be added to %d", len(partials), len(total))
	}
	for i, v := range partials {
		total[i%len(total)] += v
	}
	return nil
}
