package runtime_test

import (
	_ "embed"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// kernelsPTX is what testdata/kernels.cu compiles to. Hardware runs it as it is.
//
//go:embed testdata/kernels.ptx
var kernelsPTX []byte

// withKernels binds the kernels of kernelsPTX to Go functions that do the same.
func withKernels(config drivertest.Config) drivertest.Config {
	if config.Kernels == nil {
		config.Kernels = map[string]drivertest.KernelFunc{
			"add": add, "store": store, "reverse": reverse, "rotate": rotate, "meet": meet, "stray": stray,
		}
	}
	return config
}

func add(k *drivertest.Launch) error {
	n := min(k.Uint64(1), uint64(k.Grid.X)*uint64(k.Block.X))
	x, err := drivertest.Slice[uint32](k, k.Ptr(0), n)
	for i := range x {
		x[i] += k.Uint32(2)
	}
	return err
}

func store(k *drivertest.Launch) error {
	out, err := drivertest.Slice[int64](k, k.Ptr(0), 9)
	if err != nil {
		return err
	}
	out[0] = int64(int8(k.Bytes(1)[0]))
	out[1] = int64(int16(k.Bytes(2)[0]) | int16(k.Bytes(2)[1])<<8)
	out[2] = int64(k.Int32(3))
	out[3] = k.Int64(4)
	out[4] = int64(k.Float32(5))
	out[5] = int64(k.Float64(6))
	m := mixedFrom(k.Bytes(7))
	out[6], out[7], out[8] = int64(m.A), int64(m.B), int64(m.C)
	return nil
}

func reverse(k *drivertest.Launch) error {
	x, err := drivertest.Slice[uint32](k, k.Ptr(0), min(uint64(k.Uint32(1)), uint64(k.SharedBytes)/4))
	slices.Reverse(x)
	return err
}

func rotate(k *drivertest.Launch) error {
	x, err := drivertest.Slice[uint32](k, k.Ptr(0), 256)
	if err != nil {
		return err
	}
	last := x[255]
	copy(x[1:], x[:255])
	x[0] = last
	return nil
}

func meet(k *drivertest.Launch) error {
	arrived, err := drivertest.Slice[uint32](k, k.Ptr(0), 1)
	if err != nil {
		return err
	}
	arrived[0] += k.Grid.X
	return nil
}

func stray(k *drivertest.Launch) error {
	_, err := k.Memory(k.Ptr(0), 4)
	return err
}

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
func addTo(k *runtime.Kernel, s *runtime.Stream, x *runtime.Buffer[uint32], amount uint32) error {
	return k.Launch(s, runtime.Linear(x.Len(), 128), x.Arg(), runtime.Value(uint64(x.Len())), runtime.Value(amount))
}

// one is the smallest launch.
var one = runtime.LaunchConfig{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 1}}
