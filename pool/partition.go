package pool

import (
	"math"
	"math/bits"
	"slices"
)

// Tile is a range of items, [Lo, Hi), and who does it.
type Tile struct {
	// Device is an index: into the weights of [Partition], into [Pool.Devices], or, of
	// work on the CPU, of the goroutine.
	Device int
	Lo, Hi int
}

// Len is the number of items.
func (t Tile) Len() int { return t.Hi - t.Lo }

// Partition cuts [0, n) into one contiguous tile for each device, in the order of the
// devices, with lengths in proportion to their weights. Tiles without items are left out.
//
// The quota of device i is n*weights[i]/sum. Each device gets the whole part of it; the
// items that are left go to the largest fractions, one each, the earlier device first
// among equals. So every length is less than one item from its quota, and the same
// arguments give the same tiles. Weights that are negative, infinite or NaN count as
// zero; if none is positive, the devices get equal shares. There are no tiles if n is not
// positive or there are no devices.
//
// The arithmetic is exact for all weights and every n: a float64 is an integer times a
// power of two, and the integers are as wide as the weights lie apart.
func Partition(weights []float64, n int) []Tile {
	if n <= 0 || len(weights) == 0 {
		return nil
	}
	shares, sum := integers(weights)
	lengths := make([]int, len(weights))
	order := make([]int, len(weights))
	left := n
	for i, weight := range shares {
		lengths[i] = weight.scale(uint64(n), sum)
		left -= lengths[i]
		order[i] = i
	}
	// What is left is less than the number of fractions that are not zero, so that no
	// device without weight gets any.
	slices.SortStableFunc(order, func(i, j int) int { return shares[j].fraction.compare(shares[i].fraction) })
	for _, i := range order[:left] {
		lengths[i]++
	}
	tiles := make([]Tile, 0, len(weights))
	lo := 0
	for i, length := range lengths {
		if length > 0 {
			tiles = append(tiles, Tile{Device: i, Lo: lo, Hi: lo + length})
		}
		lo += length
	}
	return tiles
}

// share is the weight of a device in units that all weights are multiples of.
type share struct{ weight, fraction wide }

// integers turns weights into integers of the same proportions, and adds them up.
func integers(weights []float64) (shares []share, sum wide) {
	parts := make([]dyadic, len(weights))
	low, high := math.MaxInt, math.MinInt
	for i, w := range weights {
		parts[i] = split(w)
		if p := parts[i]; p.mantissa != 0 {
			low, high = min(low, p.exponent), max(high, p.exponent+bits.Len64(p.mantissa))
		}
	}
	if high < low { // no weight is positive
		for i := range parts {
			parts[i].mantissa = 1
		}
		low, high = 0, 1
	}
	// Scaling needs room for three times the sum.
	words := (high-low+bits.Len(uint(len(weights)))+2)/64 + 1
	memory := make(wide, words*(2*len(weights)+1))
	next := func() (x wide) {
		x, memory = memory[:words:words], memory[words:]
		return x
	}
	shares, sum = make([]share, len(weights)), next()
	for i, p := range parts {
		shares[i] = share{next(), next()}
		if p.mantissa != 0 {
			shares[i].weight.set(p.mantissa, p.exponent-low)
		}
		sum.add(shares[i].weight)
	}
	return shares, sum
}

// scale returns the whole part of n*weight/sum and keeps the fraction, as a multiple of
// 1/sum. It goes through n bit by bit: whole*sum + fraction is weight times what it has
// seen of n.
func (s share) scale(n uint64, sum wide) (whole int) {
	for bit := bits.Len64(n) - 1; bit >= 0; bit-- {
		whole *= 2
		s.fraction.add(s.fraction)
		if n>>bit&1 == 1 {
			s.fraction.add(s.weight)
		}
		for s.fraction.compare(sum) >= 0 { // twice at most: no weight is above the sum
			s.fraction.subtract(sum)
			whole++
		}
	}
	return whole
}

// dyadic is mantissa * 2^exponent, up to a factor that is the same for all weights.
type dyadic struct {
	mantissa uint64
	exponent int
}

// split takes a weight apart; one that does not count has no mantissa.
func split(w float64) dyadic {
	if !(w > 0) || math.IsInf(w, 1) {
		return dyadic{}
	}
	const fractionBits = 52
	b := math.Float64bits(w)
	m, e := b&(1<<fractionBits-1), int(b>>fractionBits)
	if e == 0 {
		e = 1 // subnormal
	} else {
		m |= 1 << fractionBits
	}
	zeros := bits.TrailingZeros64(m)
	return dyadic{m >> zeros, e + zeros}
}
