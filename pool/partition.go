package pool

import (
	"math"
	"math/big"
	"slices"
)

// Tile is a range of items, [Lo, Hi), and who does it.
type Tile struct {
	// Index of the weight in [Partition], or of the device in [Pool.Devices]. For work on the CPU it is
	// the number of the goroutine. It is -1 for items of module cluster that no host had, as far as is known.
	Index  int
	Lo, Hi int
}

// Len is the number of items.
func (t Tile) Len() int { return t.Hi - t.Lo }

// Partition cuts [0, n) into one contiguous tile for each device, in the order of the
// devices, with lengths in proportion to their weights. Tiles without items are left out.
//
// The quota of device i is n*weights[i]/sum. Each device gets the whole part of its quota. The
// items that are left go to the devices with the largest fractions, one each. Among equal fractions
// the earlier device goes first. So every length differs by less than one item from its quota, and
// the same arguments give the same tiles.
//
// Weights that are negative, infinite or NaN count as zero. If none is positive, the devices get
// equal shares. There are no tiles if n is not positive or there are no devices.
//
// The arithmetic is exact for all weights and every n.
func Partition(weights []float64, n int) []Tile {
	if n <= 0 || len(weights) == 0 {
		return nil
	}
	lengths := make([]int, len(weights))
	share(lengths, weights, n)
	tiles := make([]Tile, 0, len(weights))
	lo := 0
	for i, length := range lengths {
		if length > 0 {
			tiles = append(tiles, Tile{Index: i, Lo: lo, Hi: lo + length})
		}
		lo += length
	}
	return tiles
}

// share sets the length of each tile.
func share(lengths []int, weights []float64, n int) {
	if !equal(weights) {
		proportional(lengths, weights, n)
		return
	}
	for i := range lengths {
		lengths[i] = n / len(lengths)
		if i < n%len(lengths) {
			lengths[i]++
		}
	}
}

// equal reports whether all weights count the same, as those of equal devices and of cores do.
func equal(weights []float64) bool {
	for _, w := range weights {
		if counted(w) != counted(weights[0]) {
			return false
		}
	}
	return true
}

// proportional sets the lengths of the tiles. One weight at least is positive.
func proportional(lengths []int, weights []float64, n int) {
	fractions, sum := integers(weights), new(big.Int)
	for _, weight := range fractions {
		sum.Add(sum, weight)
	}
	order := make([]int, len(weights))
	left := n
	items, whole := big.NewInt(int64(n)), new(big.Int)
	for i, f := range fractions {
		whole.QuoRem(f.Mul(f, items), sum, f) // f is now a multiple of 1/sum
		lengths[i] = int(whole.Int64())
		left -= lengths[i]
		order[i] = i
	}
	// left is less than the number of fractions that are not zero, so that no device without
	// weight gets an item.
	slices.SortStableFunc(order, func(i, j int) int { return fractions[j].Cmp(fractions[i]) })
	for _, i := range order[:left] {
		lengths[i]++
	}
}

// integers returns integers in the same proportions as the weights, of which one at least is positive. A float64 is an integer times
// a power of two.
func integers(weights []float64) []*big.Int {
	least := math.Inf(1)
	for _, w := range weights {
		if w = counted(w); w > 0 {
			least = min(least, w)
		}
	}
	_, low := math.Frexp(least)
	shares := make([]*big.Int, len(weights))
	for i, w := range weights {
		const mantissaBits = 53
		mantissa, exponent := math.Frexp(counted(w))
		shares[i] = big.NewInt(int64(math.Ldexp(mantissa, mantissaBits)))
		shares[i].Lsh(shares[i], uint(max(exponent-low, 0)))
	}
	return shares
}

// counted returns a weight, or zero if it does not count.
func counted(w float64) float64 {
	if w > 0 && !math.IsInf(w, 1) {
		return w
	}
	return 0
}
