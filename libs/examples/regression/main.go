// Regression fits a weighted linear regression for each of 100,000 groups: on a GPU with cuBLAS and cuSOLVER if there is one, and on
// all cores if not. On the GPU nothing but the results leaves the device.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/cpu"
	"github.com/purecuda/purecuda/libs/examples/regression/weigh"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// data are the observations of the groups, one group after the other. Each observation has a row of x, a y and a weight.
type data struct {
	groups, rows, cols int
	x, y, weights      []float64
}

func main() {
	ctx := context.Background()
	rt, err := runtime.Open()
	if err != nil {
		log.Fatal(err) // CUDA is there and broken: say so
	}
	defer rt.Close()
	fit, where := onCPU, "CPU"
	start := time.Now()
	on, err := open(rt)
	switch {
	case err == nil:
		defer on.Close()
		fit, where = on.fit, "GPU"
		fmt.Printf("the GPU and its libraries were open after %v\n", time.Since(start).Round(time.Millisecond))
	case errors.Is(err, driver.ErrDriverLibraryUnavailable) || errors.Is(err, driver.ErrLibraryUnavailable):
		if err := rt.FallBack("regression", err); err != nil { // which logs why
			log.Fatal(err) // PURECUDA_POLICY=required
		}
	default:
		log.Fatal(err)
	}
	d, truth := generate(100_000, 32, 4)
	for range 2 { // the first time, a GPU loads the kernels of the libraries
		start = time.Now()
		coefficients, err := fit(ctx, d)
		took := time.Since(start).Round(time.Millisecond)
		if failed, ok := errors.AsType[*cusolver.BatchError](err); ok {
			fmt.Printf("%d groups have no solution\n", len(failed.Matrices))
		} else if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d regressions on the %s in %v, within %.2f of the truth\n", d.groups, where, took, worst(coefficients, truth))
	}
}

// device has what fits on a GPU.
type device struct {
	s        *runtime.Stream
	products *cublas.Handle
	systems  *cusolver.Handle
	kernels  *weigh.Kernels
}

// open finds a device and the libraries.
func open(rt *runtime.Runtime) (*device, error) {
	backend, err := rt.Probe("regression")
	if err != nil {
		return nil, err
	}
	blas, err := cublas.Open()
	if err != nil {
		return nil, err
	}
	solver, err := cusolver.Open()
	if err != nil {
		return nil, err
	}
	return newDevice(backend.Stream, blas, solver)
}

func newDevice(s *runtime.Stream, blas cublas.API, solver cusolver.API) (on *device, err error) {
	on = &device{s: s}
	if on.products, err = cublas.New(blas, s, cublas.Options{}); err != nil {
		return nil, err
	}
	if on.systems, err = cusolver.New(solver, s); err != nil {
		return nil, errors.Join(err, on.products.Close())
	}
	if on.kernels, err = weigh.Load(s.Context()); err != nil {
		return nil, errors.Join(err, on.systems.Close(), on.products.Close())
	}
	return on, nil
}

// Close frees the handles and the kernels. The stream belongs to the runtime.
func (on *device) Close() error {
	return errors.Join(on.kernels.Close(), on.systems.Close(), on.products.Close())
}

// fit uploads the observations, and downloads the coefficients of all groups. A group whose X'WX has no inverse is in a
// *cusolver.BatchError, beside the coefficients of the others.
func (on *device) fit(ctx context.Context, d data) (_ []float64, err error) {
	s := on.s
	memory := map[string]*runtime.Ref[float64]{}
	defer func() {
		for _, ref := range memory {
			ref.Close()
		}
	}()
	for name, values := range map[string][]float64{"x": d.x, "y": d.y, "weights": d.weights} {
		if memory[name], err = runtime.UploadNew(ctx, s, values); err != nil {
			return nil, err
		}
	}
	for name, n := range map[string]int{"weighted": len(d.x), "gram": d.groups * d.cols * d.cols, "solution": d.groups * d.cols} {
		if memory[name], err = runtime.Alloc[float64](s, n); err != nil {
			return nil, err
		}
	}
	batch := func(name string, rows, cols int) cublas.Batch[float64] {
		return cublas.Batch[float64]{Matrix: cublas.Dense(memory[name], rows, cols), Count: d.groups, Step: rows * cols}
	}
	x, weighted, y := batch("x", d.rows, d.cols), batch("weighted", d.rows, d.cols), batch("y", d.rows, 1)
	gram, solution := batch("gram", d.cols, d.cols), batch("solution", d.cols, 1)

	// W X, X'WX and X'W y of each group. Each call waits for those before it on the device, and not here.
	if err := on.kernels.Weigh(s, runtime.Shape1D(len(d.x), 256), weighted.Ref, x.Ref, memory["weights"], d.cols); err != nil {
		return nil, err
	}
	if err := cublas.GemmBatch(on.products, 1, weighted.T(), x, 0, gram); err != nil {
		return nil, err
	}
	if err := cublas.GemmBatch(on.products, 1, weighted.T(), y, 0, solution); err != nil {
		return nil, err
	}
	factors, err := cusolver.CholeskyBatch(on.systems, cublas.Upper, gram)
	if err != nil {
		return nil, err
	}
	if _, err := cusolver.CholeskySolveBatch(on.systems, cublas.Upper, gram, solution); err != nil {
		return nil, err
	}
	coefficients, err := runtime.DownloadNew(ctx, s, solution.Ref)
	if err != nil {
		return nil, err
	}
	return coefficients, factors.Wait(ctx)
}

// onCPU is fit on all cores.
func onCPU(ctx context.Context, d data) ([]float64, error) {
	gram, solution := make([]float64, d.groups*d.cols*d.cols), make([]float64, d.groups*d.cols)
	_, err := pool.Parallel(ctx, d.groups, func(_ context.Context, low, high int) error {
		for g := low; g < high; g++ {
			square, right := gram[g*d.cols*d.cols:], solution[g*d.cols:]
			for row := g * d.rows; row < (g+1)*d.rows; row++ {
				x := d.x[row*d.cols:][:d.cols]
				for i := range x {
					weighted := x[i] * d.weights[row]
					right[i] += weighted * d.y[row]
					for j := range x {
						square[i*d.cols+j] += weighted * x[j]
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	matrices := cpu.Batch[float64]{Data: gram, Rows: d.cols, Cols: d.cols, Stride: d.cols, Count: d.groups, Step: d.cols * d.cols}
	columns := cpu.Batch[float64]{Data: solution, Rows: d.cols, Cols: 1, Stride: 1, Count: d.groups, Step: d.cols}
	failed := cpu.CholeskyBatch(ctx, cublas.Upper, matrices)
	if err := cpu.CholeskySolveBatch(ctx, cublas.Upper, matrices, columns); err != nil {
		return nil, err
	}
	return solution, failed
}
