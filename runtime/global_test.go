package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

func TestGlobalWithPolicyOff(t *testing.T) {
	if !inProcess(t, runtime.PolicyVariable+"=off") {
		return
	}
	rt := runtime.Global()
	assert.Same(t, rt, runtime.Global())
	assert.Equal(t, runtime.Absent, rt.Outcome())
	_, err := runtime.Probe("saxpy")
	require.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
	assert.ErrorContains(t, err, "saxpy backend: no CUDA runtime available")
	_, err = runtime.ProbeWith("saxpy", func(*runtime.Backend) error { return nil })
	require.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
	assert.ErrorIs(t, runtime.Refresh(), driver.ErrDriverLibraryUnavailable)
}

// The shared runtime is there also where absence is an error, and says so itself.
func TestGlobalWithPolicyRequired(t *testing.T) {
	if !inProcess(t, runtime.PolicyVariable+"=required", driver.PathVariable+"=/nonexistent/libcuda.so.1") {
		return
	}
	assert.Equal(t, runtime.Absent, runtime.Global().Outcome())
	assert.ErrorIs(t, runtime.Global().Err(), driver.ErrDriverLibraryUnavailable)
	_, err := runtime.Probe("saxpy")
	assert.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
}

func TestGlobalWithABadPolicy(t *testing.T) {
	if !inProcess(t, runtime.PolicyVariable+"=sometimes") {
		return
	}
	assert.Equal(t, runtime.Fault, runtime.Global().Outcome())
	_, err := runtime.Probe("saxpy")
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, `policy "sometimes"`)
	assert.ErrorIs(t, runtime.Refresh(), driver.ErrInvalidArgument, "looking again does not make it better")
	assert.Equal(t, runtime.Fault, runtime.Global().Outcome())
}
