// Package scale has the kernel that multiplies the results of transforms: cuFFT does not scale.
package scale

import "github.com/purecuda/purecuda/gpu"

//go:generate go run -C ../../../../gpuc . -checks off ../libs/cufft/internal/scale

// Dims is how many dimensions numbers can lie in: batch, three, and the parts of a complex number.
const Dims = 5

// Scale multiplies count numbers by a factor. They lie in dimensions, the last one of which runs fastest: n are the lengths,
// of which the first is not read, and step how far the numbers are apart.
//
//purecuda:kernel block=256 T=float32,float64
func Scale[T float32 | float64](t *gpu.Thread, x []T, factor T, count int, n, step [Dims]int) {
	i := t.GlobalX()
	if i >= count {
		return
	}
	at := 0
	for d := Dims - 1; d > 0; d-- {
		if n[d] > 1 { // the same for all threads: it saves the divisions
			at += i % n[d] * step[d]
			i /= n[d]
		}
	}
	x[at+i*step[0]] *= factor
}
