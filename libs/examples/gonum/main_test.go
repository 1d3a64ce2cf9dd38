package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas/cublastest"
	"github.com/purecuda/purecuda/libs/cublas/gonumblas"
	"github.com/purecuda/purecuda/runtime"
)

func TestOnTheSimulatedGPU(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cublastest.Kernels()})
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	c, err := rt.Context(0)
	require.NoError(t, err)
	b := gonumblas.New(c, cublastest.New(gpu), gonumblas.Options{BreakEven: 16})
	defer func() { assert.NoError(t, b.Close()) }()
	blas64.Use(b)
	defer blas64.Use(gonum.Implementation{})
	wrong, err := invert(100)
	require.NoError(t, err)
	assert.LessOrEqual(t, wrong, 1e-12)
	assert.NoError(t, b.Err())
	assert.Positive(t, b.OnGPU())
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
	assert.Contains(t, string(out), "not on a GPU: ")
	assert.Regexp(t, `the inverse is right within 1e-1\d; 0 products on the GPU`, string(out))
}
