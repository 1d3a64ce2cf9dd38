package runtime_test

import (
	_ "embed"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/runtime"
)

// kernelsPTX is what testdata/kernels.cu compiles to. Hardware and the simulated
// driver run it as it is.
//
//go:embed testdata/kernels.ptx
var kernelsPTX []byte

// loadKernels loads the module of the tests.
func loadKernels(t testing.TB, c *runtime.Context) *runtime.Module {
	t.Helper()
	m, err := c.LoadModule(runtime.Image{Code: kernelsPTX})
	require.NoError(t, err)
	return m
}

// kernel loads one kernel of the tests.
func kernel(t testing.TB, c *runtime.Context, name string) *runtime.Kernel {
	t.Helper()
	k, err := loadKernels(t, c).Kernel(name)
	require.NoError(t, err)
	return k
}

// addTo launches the kernel add over a whole buffer.
func addTo(k *runtime.Kernel, s *runtime.Stream, x *runtime.Ref[uint32], amount uint32) error {
	return k.Launch(s, runtime.Shape1D(x.Len(), 128), runtime.InOut(x), runtime.Value(uint64(x.Len())), runtime.Value(amount))
}

// one is the smallest launch.
var one = runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 1}}
