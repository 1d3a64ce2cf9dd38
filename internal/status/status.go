// Package status has the names and the meanings of what functions of NVIDIA's libraries return.
package status

import "strconv"

// Table are the names and the meanings of what the functions of a library return.
type Table[R ~int32] struct {
	Prefix string          // of the names, for those that are not known
	Known  map[R][2]string // the name in the header, and what it means in our words
}

// NoKernels is what a simulated library returns whose simulated driver was made without its kernels.
const NoKernels = -3

// WithoutKernels is the name and the meaning of [NoKernels], for the package of a simulated library.
func WithoutKernels(simulated string) [2]string {
	return [2]string{"no kernels", "the driver does not have the kernels of the simulated library, which would compute nothing: make it with drivertest.Config{Kernels: " +
		simulated + ".Kernels()}"}
}

// Name returns the name in the header.
func (t *Table[R]) Name(r R) string {
	if known, ok := t.Known[r]; ok {
		return known[0]
	}
	return t.Prefix + strconv.Itoa(int(r))
}

// Text says in a few words what r means.
func (t *Table[R]) Text(r R) string {
	if known, ok := t.Known[r]; ok {
		return known[1]
	}
	return "a result that is newer than this program"
}

// String is the name with the number.
func (t *Table[R]) String(r R) string { return t.Name(r) + " (" + strconv.Itoa(int(r)) + ")" }

// Error is all of it.
func (t *Table[R]) Error(r R) string { return t.String(r) + ": " + t.Text(r) }
