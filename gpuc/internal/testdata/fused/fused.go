// Package fused asks for products with a function on each sum.
package fused

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
