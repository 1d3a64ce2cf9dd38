// Package checked has kernels that do something wrong, and kernels with conditions on their launch.
package checked

import "github.com/purecuda/purecuda/gpu"

//go:generate go run ../.. -arch sm_75,sm_90

// Pair is a struct parameter.
type Pair struct {
	A int8
	B float64
}

// Shifted reads beyond the end of x in its last thread.
//
//purecuda:kernel
func Shifted(t *gpu.Thread, y, x []int32) {
	if i := t.GlobalX(); i < len(y) {
		y[i] = x[i+1]
	}
}

// Divide divides by zero where x does.
//
//purecuda:kernel
func Divide(t *gpu.Thread, y, x []int32) {
	if i := t.GlobalX(); i < len(y) && i < len(x) {
		y[i] = 100 / x[i]
	}
}

// Tile has a block of its own, a bool, a struct and names that the generated code has as well.
//
//purecuda:kernel block=4x2 equal=k,ctx
func Tile(t *gpu.Thread, k, ctx []float64, add bool, rt Pair) {
	i := t.ThreadY()*t.BlockDimX() + t.ThreadX()
	if i < len(k) && add {
		k[i] += ctx[i] + rt.B + float64(rt.A)
	}
}

// Trapped has a check that ends the launch.
//
//purecuda:kernel checks=trap
func Trapped(t *gpu.Thread, x []int32) { x[t.ThreadX()]++ }
