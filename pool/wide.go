package pool

import (
	"cmp"
	"math/bits"
)

// wide is an unsigned integer, the lowest word first. The two of an operation have the
// same number of words, and the caller sees to it that the result fits.
type wide []uint64

// set makes x, which is zero, v shifted to the left.
func (x wide) set(v uint64, shift int) {
	word, shift := shift/64, shift%64
	x[word] = v << shift
	if over := v >> (64 - shift); over != 0 {
		x[word+1] = over
	}
}

func (x wide) add(y wide) {
	var carry uint64
	for i := range x {
		x[i], carry = bits.Add64(x[i], y[i], carry)
	}
}

func (x wide) subtract(y wide) {
	var borrow uint64
	for i := range x {
		x[i], borrow = bits.Sub64(x[i], y[i], borrow)
	}
}

func (x wide) compare(y wide) int {
	for i := len(x) - 1; i >= 0; i-- {
		if c := cmp.Compare(x[i], y[i]); c != 0 {
			return c
		}
	}
	return 0
}
