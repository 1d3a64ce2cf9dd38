package main

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cublas/cublastest"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/cusolvertest"
	"github.com/purecuda/purecuda/runtime"
)

var bg = context.Background()

// places are the ways to compute: on the CPU, on a simulated device, and on the GPU of this machine.
var places = map[string]func(t *testing.T, d data) ([]float64, error){
	"cpu": func(t *testing.T, d data) ([]float64, error) { return onCPU(bg, d) },
	"simulated": func(t *testing.T, d data) ([]float64, error) {
		config := drivertest.Config{Kernels: cusolvertest.Kernels()}
		for name, f := range cublastest.Kernels() {
			config.Kernels[name] = f
		}
		gpu := drivertest.ForTest(t, config)
		return on(t, gpu, cublastest.New(gpu), cusolvertest.New(gpu), d)
	},
	"hardware": func(t *testing.T, d data) ([]float64, error) {
		gpu := hardware.Open(t)
		blas, err := cublas.Open()
		if err == nil {
			var solver *cusolver.Library
			if solver, err = cusolver.Open(); err == nil {
				return on(t, gpu, blas, solver, d)
			}
		}
		require.ErrorIs(t, err, driver.ErrLibraryUnavailable)
		t.Skip(err)
		return nil, nil
	},
}

func on(t *testing.T, gpu driver.API, blas cublas.API, solver cusolver.API, d data) ([]float64, error) {
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	device, err := newDevice(s, blas, solver)
	require.NoError(t, err)
	defer func() { assert.NoError(t, device.Close()) }()
	return device.fit(bg, d)
}

// Each group has gonum's coefficients, which come from a QR factorization of the weighted observations.
func TestAgainstGonum(t *testing.T) {
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			d, _ := generate(200, 24, 5)
			got, err := place(t, d)
			require.NoError(t, err)
			for g := range d.groups {
				x, y := mat.NewDense(d.rows, d.cols, nil), mat.NewVecDense(d.rows, nil)
				for i := range d.rows {
					row := g*d.rows + i
					root := math.Sqrt(d.weights[row])
					y.SetVec(i, root*d.y[row])
					for j := range d.cols {
						x.Set(i, j, root*d.x[row*d.cols+j])
					}
				}
				var want mat.VecDense
				require.NoError(t, want.SolveVec(x, y))
				assert.InDeltaSlice(t, want.RawVector().Data, got[g*d.cols:(g+1)*d.cols], 1e-12, "group %d", g)
			}
		})
	}
}

// A group without a solution is named, and the others have theirs.
func TestAGroupWithoutASolution(t *testing.T) {
	for name, place := range places {
		t.Run(name, func(t *testing.T) {
			d, truth := generate(20, 24, 3)
			clear(d.x[7*d.rows*d.cols : 8*d.rows*d.cols])
			got, err := place(t, d)
			failed, ok := errors.AsType[*cusolver.BatchError](err)
			require.True(t, ok, err)
			assert.Equal(t, []int{7}, failed.Matrices)
			require.Len(t, got, len(truth))
			assert.Less(t, worst(got[:7*d.cols], truth[:7*d.cols]), 0.03)
			assert.Less(t, worst(got[8*d.cols:], truth[8*d.cols:]), 0.03)
		})
	}
}

// The program itself, in a process that does not look for a driver.
func TestWithoutDriver(t *testing.T) {
	if os.Getenv("TEST_MAIN") != "" {
		main()
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	program := exec.Command(self, "-test.run=^TestWithoutDriver$")
	program.Env = append(os.Environ(), "TEST_MAIN=1", "PURECUDA_POLICY=off")
	out, err := program.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "100000 regressions on the CPU in ")
	assert.Contains(t, string(out), "the policy is off", "it says why")
}
