// Package source has the kernels of the catalogue as Go functions. gpuc compiles them.
package source

import "github.com/purecuda/purecuda/gpu"

//go:generate go run -C ../../../gpuc . -checks off -launch=false ../kernels/internal/source

// VectorAdd computes c[i] = a[i] + b[i]. c may be a or b. Any grid and block size gives the same result.
//
//purecuda:kernel entry=vector_add equal=c,a,b
func VectorAdd(t *gpu.Thread, a, b, c []float32) {
	for i := t.GlobalX(); i < len(c); i += t.GlobalDimX() {
		c[i] = a[i] + b[i]
	}
}

// Saxpy computes y[i] = a*x[i] + y[i], rounded once. x may be y. Any grid and block size gives the same result.
//
//purecuda:kernel entry=saxpy equal=y,x
func Saxpy(t *gpu.Thread, a float32, x, y []float32) {
	for i := t.GlobalX(); i < len(y); i += t.GlobalDimX() {
		y[i] = gpu.FMA32(a, x[i], y[i])
	}
}
