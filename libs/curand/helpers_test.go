package curand_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/curand/curandtest"
	"github.com/purecuda/purecuda/runtime"
)

var bg = context.Background()

// TestMain fails when the tests leave goroutines behind.
func TestMain(m *testing.M) { leaks.Main(m, 0) }

// bench is what a test makes numbers with.
type bench struct {
	testing.TB
	s   *runtime.Stream
	api curand.API
}

func on(t testing.TB, gpu driver.API, api curand.API) bench {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	return bench{t, s, api}
}

// simulated is the simulated library.
func simulated(t testing.TB) (bench, *drivertest.Driver, *curandtest.Library) {
	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: curandtest.Kernels()})
	lib := curandtest.New(gpu)
	t.Cleanup(func() { assert.Zero(t, lib.Left(), "generators") })
	return on(t, gpu, lib), gpu, lib
}

// conform runs a test on the simulated library and on the real one.
func conform(t *testing.T, f func(t *testing.T, b bench)) {
	t.Run("simulated", func(t *testing.T) {
		b, _, _ := simulated(t)
		f(t, b)
	})
	t.Run("hardware", func(t *testing.T) { f(t, real(t)) })
}

// real is the GPU and the library of this machine. Without them the test is skipped.
func real(t testing.TB) bench {
	t.Helper()
	gpu := hardware.Open(t)
	lib, err := curand.Open()
	if errors.Is(err, driver.ErrLibraryUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return on(t, gpu, lib)
}

// generator makes one that is closed behind the test.
func (b bench) generator(o curand.Options) *curand.Generator {
	b.Helper()
	g, err := curand.New(b.api, b.s, o)
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, g.Close()) })
	return g
}

// cpu makes one on the CPU.
func cpu(t testing.TB, o curand.Options) *curand.CPU {
	t.Helper()
	c, err := curand.NewCPU(o)
	require.NoError(t, err)
	return c
}

// made are n numbers that f has put into device memory.
func made[T any](b bench, n int, f func(to *runtime.Ref[T]) error) []T {
	b.Helper()
	ref, err := runtime.Alloc[T](b.s, n)
	require.NoError(b, err)
	require.NoError(b, f(ref))
	got, err := runtime.DownloadNew(bg, b.s, ref)
	require.NoError(b, err)
	require.NoError(b, ref.Close())
	return got
}
