// Package fused asks for products with a function on each sum.
package fused

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
