// Package products asks for products of elements of all sizes.
package products

import "github.com/purecuda/purecuda/gpu"

// Same is the sum.
type Same[S gpu.Sum] struct{}

// Apply changes nothing.
func (Same[S]) Apply(sum S, _ float32) S { return sum }

// Scaled makes numbers of integers, by a factor for each column.
type Scaled struct{ By float32 }

// Apply multiplies.
func (s Scaled) Apply(sum int32, column float32) gpu.BFloat16 {
	return gpu.ToBFloat16(float32(sum) * s.By * column)
}

// Narrow makes bytes of integers.
type Narrow struct{ Shift int32 }

// Apply takes the nearest that there is.
func (n Narrow) Apply(sum int32, _ float32) int8 { return int8(max(-128, min(127, sum>>n.Shift))) }

//purecuda:instantiate kernels.GemmTo[int8, int32, int32, Same[int32]]
//purecuda:instantiate kernels.GemmTo[int8, int32, gpu.BFloat16, Scaled]
//purecuda:instantiate kernels.GemmTo[uint8, int32, int8, Narrow]
//purecuda:instantiate kernels.GemmTo[gpu.TF32, float32, float32, Same[float32]]
//purecuda:instantiate kernels.GemmTo[gpu.BFloat16, float32, float32, Same[float32]]
