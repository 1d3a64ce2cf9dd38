// Package testlanguage has kernels for parts of the language that the kernels of testkernels and testops do not use.
package testlanguage

import "github.com/purecuda/purecuda/gpu"

// Generic is a kernel for several types.
//
//purecuda:kernel T=float32,float64,int8 U=int32,uint64
func Generic[T float32 | float64 | int8, U int32 | uint64](t *gpu.Thread, x []T, y []U, z T) {
	for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
		x[i] = x[i]*z + T(y[i])
		y[i] = U(x[i]) / 3
	}
}
