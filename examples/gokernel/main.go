// Gokernel computes y = 2x + y by a kernel written in Go: on a GPU if there is one, and on the CPU if not.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

//go:generate go run -C ../../gpuc . ../examples/gokernel

// Saxpy computes y = ax + y.
//
//purecuda:kernel equal=x,y
func Saxpy(t *gpu.Thread, a float32, x, y []float32) {
	for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
		y[i] = gpu.FMA32(a, x[i], y[i])
	}
}

func main() {
	x, y := []float32{1, 2, 3, 4}, []float32{10, 20, 30, 40}
	place, err := SaxpyAuto(context.Background(), nil, runtime.Shape1D(len(x), 256), 2, x, y)
	if err != nil {
		log.Fatal(err) // CUDA is there and broken: say so
	}
	fmt.Println(place, y) // [12 24 36 48]
}
