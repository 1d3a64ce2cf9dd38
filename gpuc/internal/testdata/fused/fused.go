// Package fused asks for products with a function on each sum.
package fused

import "github.com/purecuda/purecuda/gpu"

// Leaky is an activation: less of what is below 0. Its results are exact where Slope is a power of 2.
type Leaky struct{ Slope float32 }

// Apply adds the bias first.
func (l Leaky) Apply(sum, bias float32) float32 {
	if sum += bias; sum < 0 {
		sum *= l.Slope
	}
	return sum
}

//purecuda:instantiate kernels.GemmWith[gpu.BFloat16, Leaky]
//purecuda:instantiate kernels.GemmWith[gpu.Float16, Leaky]

// GELU is the activation of many transformers, by an approximation of its tangent.
type GELU struct{}

// Apply adds the bias first.
func (GELU) Apply(sum, bias float32) float32 {
	x := sum + bias
	return 0.5 * x * (1 + gpu.FastTanh32(0.7978845608*(x+0.044715*x*x*x)))
}

//purecuda:instantiate kernels.GemmWith[gpu.BFloat16, GELU]
//purecuda:instantiate kernels.Attention[gpu.BFloat16]
