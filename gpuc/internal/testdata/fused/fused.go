// Package fused asks for products with a function on each sum.
package fused

import "github.com/purecuda/purecuda/gpu"

// Leaky is an activation: less of what is below 0. Its results are exact where Slope is a power of 2 of at most 1.
type Leaky struct{ Slope float32 }

// Apply adds the bias first. A NaN is a sum of what nobody has copied: the tests have numbers, and what lies outside of C is 0.
func (l Leaky) Apply(sum, bias float32) float32 {
	if sum != sum {
		panic("a sum of junk")
	}
	sum += bias
	return max(sum, sum*l.Slope)
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

// Clip is one with more branches than loops of so many passes are unrolled for by themselves.
type Clip struct{ Low, High float32 }

// Apply adds the bias first.
func (c Clip) Apply(sum, bias float32) float32 {
	switch x := sum + bias; {
	case x != x:
		return 0
	case x < c.Low:
		return c.Low
	case x > c.High:
		return c.High
	default:
		return x
	}
}

//purecuda:instantiate kernels.GemmWith[gpu.BFloat16, GELU]
//purecuda:instantiate kernels.GemmWith[gpu.BFloat16, Clip]
//purecuda:instantiate kernels.Attention[gpu.BFloat16]
