// Package status has the names and the meanings of what functions of NVIDIA's libraries return, and checks it.
package status

import (
	"cmp"
	"maps"
	"strconv"
)

// The statuses that no library has. Its own are not negative.
const (
	SymbolMissing   = -1 // the library does not have the function
	ImpossibleValue = -2 // the library reported success with a value that cannot be true
	NoKernels       = -3 // a simulated library whose simulated driver was made without its kernels
)

// Table are the names and the meanings of what the functions of a library return.
type Table[R ~int32] struct {
	prefix string          // of the names, for those that are not known
	known  map[R][2]string // the name in the header, and what it means in our words
}

// Of is the table of a library. prefix begins a name that is not known. simulated is the package that simulates the library, or "".
func Of[R ~int32](library, prefix, simulated string, known map[R][2]string) *Table[R] {
	known = maps.Clone(known)
	known[SymbolMissing] = [2]string{"symbol missing", "this " + library + " does not have the function"}
	known[ImpossibleValue] = [2]string{"impossible value", library + " returned what cannot be true"}
	if simulated != "" {
		known[NoKernels] = [2]string{"no kernels", "the driver does not have the kernels of the simulated library, which would compute nothing: make it with drivertest.Config{Kernels: " +
			simulated + ".Kernels()}"}
	}
	return &Table[R]{prefix, known}
}

// Name returns the name in the header.
func (t *Table[R]) Name(r R) string {
	if known, ok := t.known[r]; ok {
		return known[0]
	}
	return t.prefix + strconv.Itoa(int(r))
}

// Text says in a few words what r means.
func (t *Table[R]) Text(r R) string {
	if known, ok := t.known[r]; ok {
		return known[1]
	}
	return "a result that is newer than this program"
}

// String is the name with the number.
func (t *Table[R]) String(r R) string { return t.Name(r) + " (" + strconv.Itoa(int(r)) + ")" }

// Error is all of it.
func (t *Table[R]) Error(r R) string { return t.String(r) + ": " + t.Text(r) }

// Returned is the status in the register that a function has left.
func Returned[R ~int32](word uintptr) R {
	if r := R(int32(word)); r >= 0 {
		return r
	}
	return ImpossibleValue
}

// Within is the status of a function that has returned value: a success only if that is from low to high.
func Within[R ~int32, T cmp.Ordered](r R, value, low, high T) R {
	if r == 0 && (value < low || value > high) {
		return ImpossibleValue
	}
	return r
}

// NotZero is Within for handles.
func NotZero[R ~int32, T ~uintptr](r R, value T) R {
	if r == 0 && value == 0 {
		return ImpossibleValue
	}
	return r
}
