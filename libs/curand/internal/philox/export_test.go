package philox

import "math"

// Ends are the least and the greatest uniform numbers, of float32 and of float64.
func Ends() (least, most [2]float64) {
	return [2]float64{float64(uniform(0)), uniformDouble(0, 0)},
		[2]float64{float64(uniform(math.MaxUint32)), uniformDouble(0x001fffff, math.MaxUint32)}
}
