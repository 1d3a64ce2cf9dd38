// Package float8 asks for products of floats of 8 bits.
package float8

import "github.com/purecuda/purecuda/gpu"

// Add adds the bias.
type Add struct{}

// Apply adds.
func (Add) Apply(sum, bias float32) float32 { return sum + bias }

// Round makes a float of 8 bits.
type Round struct{}

// Apply rounds.
func (Round) Apply(sum, bias float32) gpu.Float8E4M3 { return gpu.ToFloat8E4M3(sum * bias) }

// Scaled makes numbers of half the size, by a factor for each column.
type Scaled struct{ By float32 }

// Apply multiplies.
func (s Scaled) Apply(sum, column float32) gpu.BFloat16 { return gpu.ToBFloat16(sum * s.By * column) }

//purecuda:instantiate kernels.GemmTo[gpu.Float8E4M3, float32, gpu.Float8E4M3, Round]
//purecuda:instantiate kernels.GemmTo[gpu.Float8E4M3, float32, gpu.BFloat16, Scaled]
//purecuda:instantiate kernels.GemmTo[gpu.Float8E5M2, float32, float32, Add]
