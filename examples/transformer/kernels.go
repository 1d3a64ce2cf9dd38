package main

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
)

//go:generate go run -C ../../gpuc . -arch sm_80 ../examples/transformer

//purecuda:instantiate kernels.RMSNorm[gpu.BFloat16]
//purecuda:instantiate kernels.Softmax[gpu.BFloat16]

// Rotate turns each pair of elements of a head by an angle of its row. Element j of a head and element j + half of it are a pair. turns has
// half pairs of a cosine and a sine for each row, and x has cols columns.
//
//purecuda:kernel
func Rotate(t *gpu.Thread, x []gpu.BFloat16, turns []float32, cols, half int) {
	for i := t.GlobalX(); i < len(x)/2; i += t.GlobalDimX() {
		pair := i/half*2*half + i%half
		turn := (pair/cols*half + i%half) * 2
		a, b, cos, sin := x[pair].Float32(), x[pair+half].Float32(), turns[turn], turns[turn+1]
		x[pair], x[pair+half] = gpu.ToBFloat16(a*cos-b*sin), gpu.ToBFloat16(b*cos+a*sin)
	}
}

// Gate sets a to SiLU of a, times b.
//
//purecuda:kernel equal=a,b
func Gate(t *gpu.Thread, a, b []gpu.BFloat16) {
	for i := t.GlobalX(); i < len(a); i += t.GlobalDimX() {
		x := a[i].Float32()
		a[i] = gpu.ToBFloat16(x / (1 + gpu.FastExp32(-x)) * b[i].Float32())
	}
}

// Add adds b to a.
//
//purecuda:kernel equal=a,b
func Add(t *gpu.Thread, a, b []gpu.BFloat16) {
	for i := t.GlobalX(); i < len(a); i += t.GlobalDimX() {
		a[i] = a[i].Add(b[i])
	}
}

// turns are the angles of Rotate for rows positions, as Llama has them.
func turns(rows, half int) []float32 {
	out := make([]float32, 0, 2*rows*half)
	for row := range rows {
		for j := range half {
			sin, cos := math.Sincos(float64(row) / math.Pow(10000, float64(j)/float64(half)))
			out = append(out, float32(cos), float32(sin))
		}
	}
	return out
}
