// Package weigh has the kernel of the example.
package weigh

import "github.com/purecuda/purecuda/gpu"

//go:generate go run -C ../../../../gpuc . ../libs/examples/regression/weigh

// Weigh multiplies each row of x, of cols numbers, by its weight.
//
//purecuda:kernel block=256
func Weigh(t *gpu.Thread, out, x, weights []float64, cols int) {
	for i := t.GlobalX(); i < len(out); i += t.GlobalDimX() {
		out[i] = x[i] * weights[i/cols]
	}
}
