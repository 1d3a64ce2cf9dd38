package cusolver_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/cusolvertest"
	"github.com/purecuda/purecuda/runtime"
)

// solve finds the x of a*x = b, for a symmetric and positive definite a of n rows.
func solve(ctx context.Context, api cusolver.API, s *runtime.Stream, a, b []float64) ([]float64, error) {
	h, err := cusolver.New(api, s)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	matrix, err := runtime.UploadNew(ctx, s, a)
	if err != nil {
		return nil, err
	}
	defer matrix.Close()
	x, err := runtime.UploadNew(ctx, s, b)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	n := len(b)
	factor, err := cusolver.Cholesky(h, cublas.Lower, cublas.Dense(matrix, n, n))
	if err != nil {
		return nil, err
	}
	if _, err := cusolver.CholeskySolve(h, cublas.Lower, cublas.Dense(matrix, n, n), cublas.Dense(x, n, 1)); err != nil {
		return nil, err
	}
	if err := factor.Wait(ctx); err != nil {
		return nil, err
	}
	return runtime.DownloadNew(ctx, s, x)
}

// A program calls cusolver.Open and runtime.Open without options. Here both are simulated.
func Example() {
	gpu := drivertest.New(drivertest.Config{Kernels: cusolvertest.Kernels()})
	defer gpu.Close()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	c, err := rt.Context(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := c.NewStream()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range [][]float64{{4, 2, 2, 3}, {4, 2, 2, -3}} {
		x, err := solve(context.Background(), cusolvertest.New(gpu), s, a, []float64{8, 8})
		switch {
		case errors.Is(err, cusolver.ErrNotPositiveDefinite):
			fmt.Println(err)
		case errors.Is(err, driver.ErrLibraryUnavailable):
			fmt.Println("the CPU has to compute")
		case err == nil:
			fmt.Printf("%.3f\n", x)
		}
	}
	// Output:
	// [1.000 2.000]
	// InvalidArgument: cusolverDnXpotrf: the matrix is not positive definite: row 1
}
