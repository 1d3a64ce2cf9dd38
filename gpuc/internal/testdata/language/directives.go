package testlanguage

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
)

func fma64(x, y, z float64) float64 { return math.FMA(x, y, z) }

// dot is inlined.
func dot(x, y []float32, n int) (sum float32) {
	for i := range n {
		sum += x[i] * y[i]
	}
	return sum
}

// Contract fuses products and sums where no conversion forbids it.
//
//purecuda:kernel contract
func Contract(t *gpu.Thread, out, x, y []float32, z []float64) {
	i := t.GlobalX()
	if i*8 >= len(out) || i+4 > len(x) || i+4 > len(y) || i >= len(z) {
		return
	}
	o := out[i*8 : i*8+8]
	a, b, c := x[i], y[i], x[i+1]
	o[0] = a*b + c
	o[1] = float32(a*b) + c
	o[2] = c - a*b
	o[3] = a*b - c
	p := a * b
	o[4] = p + p
	o[5] = dot(x[i:], y[i:], 4)
	o[6] = 2*a - 1
	z[i] = z[i]*z[i] - 0.1
	o[7] = float32((a * b)) - float32(c*c)
}

// Fused is what Contract does, said without it.
func Fused(t *gpu.Thread, out, x, y []float32, z []float64) {
	i := t.GlobalX()
	if i*8 >= len(out) || i+4 > len(x) || i+4 > len(y) || i >= len(z) {
		return
	}
	o := out[i*8 : i*8+8]
	a, b, c := x[i], y[i], x[i+1]
	o[0] = gpu.FMA32(a, b, c)
	o[1] = float32(a*b) + c
	o[2] = gpu.FMA32(-a, b, c)
	o[3] = gpu.FMA32(a, b, -c)
	o[4] = gpu.FMA32(a, b, a*b)
	sum := float32(0)
	for j := range 4 {
		sum = gpu.FMA32(x[i+j], y[i+j], sum)
	}
	o[5] = sum
	o[6] = gpu.FMA32(2, a, -1)
	z[i] = fma64(z[i], z[i], -0.1)
	o[7] = float32((a * b)) - float32(c*c)
}

// Apart has slices that do not overlap: x is loaded through the cache for what does not change, y and w are not.
//
//purecuda:kernel noalias
func Apart(t *gpu.Thread, y, x, w []float32, q []gpu.Float4) {
	i := t.GlobalX()
	if i >= len(y) || i >= len(x) || i >= len(w) || i >= len(q) {
		return
	}
	v := q[i]
	y[i] += x[i] + v.X*v.W
	gpu.AtomicAdd(&w[i], x[i])
	p := &w[i]
	*p += y[i]
}

// Unrolled has loops with a directive.
//
//purecuda:kernel
func Unrolled(t *gpu.Thread, out, in []int32, n int32) {
	i := t.GlobalX()
	if i >= len(out) {
		return
	}
	var sum, last int32
	//purecuda:unroll 3
	for j := i; j < len(in); j++ {
		v := in[j]
		if v == 7 {
			continue
		}
		if v > 900 {
			break
		}
		last = sum
		sum += v * int32(j)
		//purecuda:unroll
		for range 130 {
			sum = sum*3 + last
		}
		for sum > 1000 {
			sum /= 2
		}
	}
	//purecuda:unroll 1
	for j := range int32(3) {
		sum += n * j
	}
	out[i] = sum ^ last
}
