// Package sample has kernels for the tests of the promises.
package sample

import "github.com/purecuda/purecuda/gpu"

//go:generate go run -C ../../../gpuc . ../internal/promises/sample

// Pick sets each element of out to the element of in with the index in at, and too. A bad index is a check that fails.
//
//purecuda:kernel
func Pick(t *gpu.Thread, at []int32, in, out, too []float32) {
	if i := t.GlobalX(); i < len(out) && i < len(too) && i < len(at) {
		x := in[at[i]]
		out[i], too[i] = x, x
	}
}

// Double sets y to 2x. It is compiled for slices that do not overlap.
//
//purecuda:kernel noalias equal=x,y
func Double(t *gpu.Thread, x, y []float32) {
	for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
		y[i] = 2 * x[i]
	}
}
