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
	assert.ErrorIs(t, runtime.Refresh(), driver.ErrDriverLibraryUnavailable)
}

// The shared runtime is there also where absence is an error, and says so itself. The error is none by which programs
// choose the CPU.
func TestGlobalWithPolicyRequired(t *testing.T) {
	if !inProcess(t, runtime.PolicyVariable+"=required", driver.PathVariable+"=/nonexistent/libcuda.so.1") {
		return
	}
	rt := runtime.Global()
	assert.Equal(t, runtime.Fault, rt.Outcome())
	for name, door := range map[string]func() error{
		"Open":     func() error { _, err := runtime.Open(); return err },
		"Err":      rt.Err,
		"Refresh":  runtime.Refresh,
		"Probe":    func() error { _, err := runtime.Probe("saxpy"); return err },
		"Context":  func() error { _, err := rt.Context(0); return err },
		"Device":   func() error { _, err := rt.Device(0); return err },
		"Budget":   func() error { _, err := rt.Budget(0); return err },
		"Revive":   func() error { return rt.Revive(t.Context(), 0) },
		"FallBack": func() error { return rt.FallBack("a test", rt.Err()) },
	} {
		err := door()
		require.ErrorIs(t, err, driver.ErrRequired, name)
		assert.NotErrorIs(t, err, driver.ErrDriverLibraryUnavailable, name)
		assert.ErrorContains(t, err, "/nonexistent/libcuda.so.1", name)
		var e *driver.Error
		require.ErrorAs(t, err, &e, name)
	}
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
