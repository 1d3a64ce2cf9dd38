// Package other has variables that kernels of another package read.
package other

// Of one name and size with a table of the kernels' package, and with other numbers.
var tableOfInts = [16]int32{16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}

// Scale is everybody's.
var Scale = 3

var filled [4]int64

func init() {
	for i := range filled {
		filled[i] = int64(i) + 7
	}
}

// At reads a table of constants.
func At(i int) int32 { return tableOfInts[i&15] }

// Filled reads what an init function sets.
func Filled(i int) int64 { return filled[i&3] }
