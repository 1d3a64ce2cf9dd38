// Gonum inverts a matrix with gonum: on a GPU if there is one with cuBLAS, and on the CPU if not.
package main

import (
	"errors"
	"fmt"
	"log"
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cublas/gonumblas"
	"github.com/purecuda/purecuda/runtime"
)

func main() {
	rt, err := runtime.Open()
	if err != nil {
		log.Fatal(err) // CUDA is there and broken: say so
	}
	defer rt.Close()
	b, err := gonumblas.Open(rt, gonumblas.Options{BreakEven: 256})
	if errors.Is(err, driver.ErrDriverLibraryUnavailable) || errors.Is(err, driver.ErrLibraryUnavailable) {
		log.Print("not on a GPU: ", err)
	} else if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	blas64.Use(b)

	wrong, err := invert(1000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the inverse is right within %.0e; %d products on the GPU\n", wrong, b.OnGPU())
}

// invert inverts a matrix of n x n, and returns how far its product with the inverse is from 1.
func invert(n int) (wrong float64, err error) {
	a := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			a.Set(i, j, math.Sin(float64(3*i+7*j)))
		}
		a.Set(i, i, float64(n))
	}
	var inverse, one mat.Dense
	if err := inverse.Inverse(a); err != nil {
		return 0, err
	}
	one.Mul(a, &inverse)
	for i := range n {
		one.Set(i, i, one.At(i, i)-1)
	}
	// A power of ten that bounds the largest element.
	return math.Pow(10, math.Ceil(math.Log10(math.Max(mat.Max(&one), -mat.Min(&one))))), nil
}
