package clamp

import (
	"context"
	_ "embed"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// open is a runtime on a simulated GPU, closed with the test, which has to have closed all
// that it made there.
func open(t *testing.T, gpu *drivertest.Driver) *runtime.Runtime {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() {
		// Closing the runtime gives back what was forgotten as well: look before.
		// Once CUDA is lost there is nothing that could be given back.
		if left := rt.Stats(); left.Lost == nil {
			assert.Zero(t, left.Refs, "device memory that was not closed")
			assert.Zero(t, left.Modules, "modules that were not closed")
		}
		assert.NoError(t, rt.Close())
	})
	return rt
}

// The kernel runs and agrees with a loop in Go. What the program does not give back
// is an error of the test as well: see open.
func TestClamp(t *testing.T) {
	rt := open(t, drivertest.ForTest(t, drivertest.Config{}))
	for _, n := range []int{0, 1, 255, 256, 257, 10_000} {
		x, want := make([]float32, n), make([]float32, n)
		for i := range x {
			x[i] = rand.Float32()*4 - 2
			want[i] = min(max(x[i], -1), 1)
		}
		require.NoError(t, Clamp(context.Background(), rt, x, -1, 1))
		require.Equal(t, want, x)
	}
}

// Every step can fail, and nothing is left behind then.
func TestClampWithoutMemory(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{})
	rt := open(t, gpu)
	gpu.Fail("cuMemAllocFromPoolAsync", 1, driver.ResultOutOfMemory)
	gpu.Fail("cuMemAllocFromPoolAsync", 2, driver.ResultOutOfMemory) // it is tried twice
	err := Clamp(context.Background(), rt, make([]float32, 100), -1, 1)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	require.NoError(t, Clamp(context.Background(), rt, make([]float32, 100), -1, 1))
}

//go:embed testdata/broken.ptx
var broken []byte

// A kernel that writes behind its buffer fails as on hardware, and the simulated
// driver says where. drivertest.ForTest would make it an error of the test.
func TestBrokenClamp(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	defer gpu.Close()
	rt := open(t, gpu)
	err := clamp(context.Background(), rt, broken, make([]float32, 1000), -1, 1)
	require.ErrorIs(t, err, driver.ResultIllegalAddress)

	require.Len(t, gpu.Findings(), 1)
	found := gpu.Findings()[0]
	t.Log(found)
	assert.Equal(t, "clamp", found.Kernel)
	assert.Equal(t, driver.Dim3{X: 3}, found.Block)
	assert.Equal(t, driver.Dim3{X: 1000 - 3*256}, found.Thread)
	assert.Contains(t, strings.Split(string(broken), "\n")[found.Line-1], "ld.global.f32")
	assert.Contains(t, found.Allocation, "4000 bytes of device memory")
	assert.Contains(t, found.Where, "clamp.go")
}
