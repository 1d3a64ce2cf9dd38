// Package checked has kernels that do something wrong, and kernels with conditions on their launch.
package checked

import "github.com/purecuda/purecuda/gpu"

//go:generate go run ../..

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

// Batch is a struct parameter with slices.
type Batch[T any] struct {
	In, Out []T
	_       int
	factors [2]T
	Flags   struct{ Add, Negate bool }
	More    [1]struct{ Bias []T }
}

// Rows has a struct with slices, for two types; its slices are apart.
//
//purecuda:kernel T=float32,int64 noalias equal=k.In,k.Out
func Rows[T float32 | int64](t *gpu.Thread, k Batch[T], w []T) {
	i := t.GlobalX()
	if i >= len(k.In) || i >= len(w) || i >= len(k.More[0].Bias) {
		return
	}
	v := k.In[i] * k.factors[i&1]
	if k.Flags.Add {
		v += w[i]
	}
	if k.Flags.Negate {
		v = -v
	}
	k.Out[i] = v + k.More[0].Bias[i]
}

func collatz(n int64) int32 {
	switch {
	case n == 1:
		return 0
	case n%2 == 0:
		return collatz(n/2) + 1
	}
	return collatz(3*n+1) + 1
}

// Steps calls a function that calls itself, at most 12 deep.
//
//purecuda:kernel recursion=12
func Steps(t *gpu.Thread, out []int32, from int64) {
	if i := t.GlobalX(); i < len(out) {
		out[i] = collatz(from + int64(i))
	}
}

// Prints prints, for debugging.
//
//purecuda:kernel
func Prints(t *gpu.Thread, x []float32, n int8, h gpu.Float16) {
	i := t.GlobalX()
	if i >= len(x) {
		return
	}
	t.Printf("begin 100%%\n")
	t.Printf("%d: x is %v, %8.3f, %.3e or %g; %5d %-4d| %#x %t %v %s %6s %v\n",
		i, x[i], x[i], x[i], float64(x[i])/3, n, uint16(i), uint64(i)*1e15, x[i] > 1, i == 1, "text%", "right", h)
}

// Split puts the even elements of x into a and the odd ones into b, and reads beyond the end of an odd number of them.
//
//purecuda:kernel
func Split(t *gpu.Thread, a, b, x []int32) {
	if i := t.GlobalX(); 2*i < len(x) {
		a[i], b[i] = x[2*i], x[2*i+1]
	}
}
