package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
	"github.com/purecuda/purecuda/runtime"
)

// check runs the program on a GPU, and compares with the CPU.
func check(t *testing.T, rt *runtime.Runtime) {
	t.Helper()
	b, err := rt.Probe("test")
	require.NoError(t, err)
	cells := make([]uint8, 100)
	cells[99], cells[30] = 1, 1
	want := slices.Clone(cells)
	onCPU(want)
	for range 2 {
		got := slices.Clone(cells)
		require.NoError(t, onGPU(t.Context(), b, got))
		assert.Equal(t, want, got)
	}
}

func open(t *testing.T, options ...runtime.Option) *runtime.Runtime {
	rt, err := runtime.Open(append(options, runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})))...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	return rt
}

// The simulated NVRTC knows what the source compiles to.
func TestFromSource(t *testing.T) {
	lib := nvrtctest.ForTest(t, nvrtctest.Config{})
	lib.Add(source, string(ptx))
	compiler, err := nvrtc.NewCompiler(lib, nvrtc.Config{CacheDir: "off"})
	require.NoError(t, err)
	check(t, open(t, runtime.WithCompiler(compiler)))
	assert.Len(t, lib.Compiles(), 1, "the second run finds it loaded")
}

func TestFromPTX(t *testing.T) {
	t.Setenv(nvrtc.PathVariable, filepath.Join(t.TempDir(), "libnvrtc.so.13")) // which is not there
	check(t, open(t))
}

// A source that does not compile is told, and not hidden behind the PTX.
func TestBrokenSource(t *testing.T) {
	lib := nvrtctest.ForTest(t, nvrtctest.Config{})
	compiler, err := nvrtc.NewCompiler(lib, nvrtc.Config{CacheDir: "off"})
	require.NoError(t, err)
	b, err := open(t, runtime.WithCompiler(compiler)).Probe("test")
	require.NoError(t, err)
	assert.ErrorIs(t, onGPU(t.Context(), b, make([]uint8, 10)), driver.ErrKernelCompileFailed)
}

// On hardware it is NVRTC's code if there is an NVRTC.
func TestOnHardware(t *testing.T) {
	rt, err := runtime.Open()
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	if err := rt.Err(); errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		t.Skip(err)
	}
	check(t, rt)
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
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "not on a GPU: DriverLibraryUnavailable: compile backend: no CUDA runtime available")
	assert.Contains(t, string(out), "CPU [#.#####...#.###.#######...#..##.###..##.#......###..##.######..#]\n")
}
