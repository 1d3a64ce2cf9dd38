package block

import (
	"math/bits"

	"github.com/purecuda/purecuda/gpu"
)

// SameDigit has a bit for each lane of the warp with the same digit of 8 bits.
func SameDigit(t *gpu.Thread, digit uint32) uint32 {
	same := ^uint32(0)
	for b := range 8 {
		one := digit&(1<<b) != 0
		same &= gpu.Ballot(t, one) ^ gpu.Select(one, 0, ^uint32(0))
	}
	return same
}

// RadixRank gives a digit of each lane of a warp its place: counts[digit] and then one more for each lane with it, in
// their order. It adds them to counts, which are 256 words of shared memory that belong to the warp.
func RadixRank(t *gpu.Thread, counts []uint32, digit uint32) uint32 {
	same := SameDigit(t, digit)
	before := counts[digit]
	gpu.WarpBarrier(t)
	below := same & gpu.LaneMaskBelow(t)
	if below == 0 {
		counts[digit] = before + uint32(bits.OnesCount32(same))
	}
	gpu.WarpBarrier(t)
	return before + uint32(bits.OnesCount32(below))
}
