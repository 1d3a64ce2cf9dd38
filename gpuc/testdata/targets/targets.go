// Package targets has kernels that become functions of PTX for one target and not for another one.
package targets

import "github.com/purecuda/purecuda/gpu"

func four(x, y gpu.BFloat16) gpu.BFloat16 {
	return x.Add(y).Mul(y).Add(x).Mul(y).Add(y).Mul(x).Add(x).Mul(x)
}

func sixteen(x, y gpu.BFloat16) gpu.BFloat16 { return four(four(x, y), four(y, x)) }

func many(x, y gpu.BFloat16) gpu.BFloat16 {
	return sixteen(sixteen(sixteen(x, y), sixteen(y, x)), sixteen(sixteen(x, x), sixteen(y, y)))
}

// Mix is too much code for sm_75, which has no instructions for BFloat16: there many is a function, which could report.
//
//purecuda:kernel
func Mix(t *gpu.Thread, x []gpu.BFloat16) {
	if i := t.GlobalX(); i < len(x) {
		x[i] = many(many(x[i], x[i]), many(x[i], x[i]))
	}
}

//go:noinline
func twice(a float32) float32 { return a * 2 }

// Twice has a function and no check.
//
//purecuda:kernel
func Twice(t *gpu.Thread, x []float32) {
	if i := t.GlobalX(); i < len(x) {
		x[i] = twice(x[i])
	}
}
