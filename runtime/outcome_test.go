package runtime_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// noDevices is a driver that starts and lists nothing.
type noDevices struct{ driver.API }

func (noDevices) DeviceGetCount() (int32, driver.Result) { return 0, driver.Success }

func TestOutcomes(t *testing.T) {
	type machine func(t *testing.T) driver.API
	simulated := func(config drivertest.Config) machine {
		return func(t *testing.T) driver.API { return drivertest.ForTest(t, config) }
	}
	starting := func(r driver.Result) machine { return simulated(drivertest.Config{InitResult: r}) }
	failing := func(op string, r driver.Result) machine {
		return func(t *testing.T) driver.API {
			gpu := drivertest.ForTest(t, drivertest.Config{})
			gpu.Fail(op, 1, r)
			return gpu
		}
	}
	for _, c := range []struct {
		name    string
		machine machine
		outcome runtime.Outcome
		kind    driver.Kind   // of the reason
		code    driver.Result // behind the reason
		text    string        // in the reason
	}{
		{"one device", simulated(drivertest.Config{}), runtime.Available, "", 0, ""},

		{"no device", starting(driver.ResultNoDevice), runtime.Absent, driver.ErrDriverLibraryUnavailable, driver.ResultNoDevice, "no device to work with"},
		{"stub library", starting(driver.ResultStubLibrary), runtime.Absent, driver.ErrDriverLibraryUnavailable, driver.ResultStubLibrary, "(34)"},
		{"system not ready", starting(driver.ResultSystemNotReady), runtime.Absent, driver.ErrDriverLibraryUnavailable, driver.ResultSystemNotReady, "(802)"},
		{"driver mismatch", starting(driver.ResultSystemDriverMismatch), runtime.Absent, driver.ErrDriverLibraryUnavailable, driver.ResultSystemDriverMismatch, "(803)"},
		{"compat not supported", starting(driver.ResultCompatNotSupportedOnDevice), runtime.Absent, driver.ErrDriverLibraryUnavailable, driver.ResultCompatNotSupportedOnDevice, "(804)"},
		{"nothing listed", func(t *testing.T) driver.API { return noDevices{drivertest.ForTest(t, drivertest.Config{})} },
			runtime.Absent, driver.ErrDriverLibraryUnavailable, 0, "no device that this process may see"},

		{"init unknown", starting(driver.ResultUnknown), runtime.Fault, driver.ErrDriverCallFailed, driver.ResultUnknown, "cuInit"},
		{"init operating system", starting(driver.ResultOperatingSystem), runtime.Fault, driver.ErrDriverCallFailed, driver.ResultOperatingSystem, "(304)"},
		{"init out of memory", starting(driver.ResultOutOfMemory), runtime.Fault, driver.ErrOutOfMemory, driver.ResultOutOfMemory, "cuInit"},
		{"init device unavailable", starting(driver.ResultDeviceUnavailable), runtime.Fault, driver.ErrDriverCallFailed, driver.ResultDeviceUnavailable, "(46)"},
		{"init unknown to us", starting(98765), runtime.Fault, driver.ErrDriverCallFailed, 98765, "98765"},
		{"version", failing("cuDriverGetVersion", driver.ResultUnknown), runtime.Fault, driver.ErrDriverCallFailed, driver.ResultUnknown, "cuDriverGetVersion"},
		{"count", failing("cuDeviceGetCount", driver.ResultUnknown), runtime.Fault, driver.ErrDriverCallFailed, driver.ResultUnknown, "cuDeviceGetCount"},
		// After cuInit these codes no longer mean that there is nothing here.
		{"count says no device", failing("cuDeviceGetCount", driver.ResultNoDevice), runtime.Fault, driver.ErrDriverCallFailed, driver.ResultNoDevice, "cuDeviceGetCount"},
		{"all devices fail", failing("cuDeviceGetName", driver.ResultUnknown), runtime.Fault, driver.ErrDriverCallFailed, driver.ResultUnknown, "none of 1 devices can be used"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(c.machine(t)))
			if c.outcome != runtime.Fault {
				require.NoError(t, err)
				assert.Equal(t, c.outcome, rt.Outcome())
				err = rt.Err()
			}
			if c.outcome == runtime.Available {
				assert.NoError(t, err)
				assert.NotNil(t, rt.Driver())
				assert.Equal(t, driver.Version(13000), rt.Version())
			} else {
				require.ErrorIs(t, err, c.kind)
				assert.ErrorContains(t, err, string(c.kind)+": ")
				assert.ErrorContains(t, err, c.text)
				if c.code != 0 {
					assert.ErrorIs(t, err, c.code)
				}
			}
			if rt != nil {
				assert.NoError(t, rt.Close())
			}

			rt, err = runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(c.machine(t)))
			if c.outcome == runtime.Available {
				require.NoError(t, err)
				assert.NoError(t, rt.Close())
			} else {
				assert.Nil(t, rt)
				if c.outcome == runtime.Absent {
					require.NotErrorIs(t, err, c.kind, "programs choose the CPU by it")
					c.kind = driver.ErrRequired
				}
				assert.ErrorIs(t, err, c.kind)
				assert.ErrorContains(t, err, c.text)
				if c.code != 0 {
					assert.ErrorIs(t, err, c.code)
				}
			}
		})
	}
}

func TestPolicyOffMakesNoCall(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff), runtime.WithDriver(gpu))
	require.NoError(t, err)
	assert.Equal(t, runtime.Absent, rt.Outcome())
	require.ErrorIs(t, rt.Err(), driver.ErrDriverLibraryUnavailable)
	assert.ErrorContains(t, rt.Err(), "the policy is off")
	assert.Empty(t, rt.Devices())
	assert.Nil(t, rt.Driver())
	assert.Zero(t, rt.Version())
	_, err = rt.Probe("test")
	assert.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
	_, err = rt.Context(0)
	assert.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
	assert.ErrorIs(t, rt.Refresh(), driver.ErrDriverLibraryUnavailable)
	assert.NoError(t, rt.Close())
	assert.Zero(t, allCalls(gpu))
}

func TestLibraryMissing(t *testing.T) {
	t.Setenv(driver.PathVariable, "/nonexistent/libcuda.so.1")
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto))
	require.NoError(t, err)
	assert.Equal(t, runtime.Absent, rt.Outcome())
	var e *driver.Error
	require.ErrorAs(t, rt.Err(), &e)
	assert.Equal(t, driver.ErrDriverLibraryUnavailable, e.Kind)
	require.NotEmpty(t, e.Attempts)
	assert.Equal(t, "/nonexistent/libcuda.so.1", e.Attempts[0].Name)
	assert.NoError(t, rt.Close())

	_, err = runtime.Open(runtime.WithPolicy(runtime.PolicyRequired))
	var needed *driver.Error
	require.ErrorAs(t, err, &needed)
	assert.Equal(t, driver.ErrRequired, needed.Kind)
	assert.Equal(t, e.Attempts, needed.Attempts)
}

func TestLibraryBroken(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("needs the loader of Linux")
	}
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	require.NoError(t, os.WriteFile(path, []byte("not a library"), 0o755))
	t.Setenv(driver.PathVariable, path)
	for _, policy := range []runtime.Policy{runtime.PolicyAuto, runtime.PolicyRequired} {
		_, err := runtime.Open(runtime.WithPolicy(policy))
		require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
		assert.NotErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
	}
}

// A logger hears what was found and lost.
func TestLogger(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	rt, gpu := openFaulty(t, drivertest.Config{}, runtime.WithLogger(logger))
	assert.Contains(t, log.String(), "outcome=available")
	s := newStream(t, contextOf(t, rt))
	assert.Contains(t, log.String(), "opened context")
	gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	_, err := s.Query()
	require.Error(t, err)
	assert.Contains(t, log.String(), "level=ERROR")
	assert.Contains(t, log.String(), "CUDA_ERROR_ILLEGAL_ADDRESS")
}

// machineWithSwitch answers cuInit with a result that can change.
func machineWithSwitch(t *testing.T, first driver.Result) (*drivertest.Driver, *atomic.Int32) {
	var result atomic.Int32
	result.Store(int32(first))
	gpu := drivertest.ForTest(t, drivertest.Config{OnCall: func(op string) driver.Result {
		if op == "cuInit" {
			return driver.Result(result.Load())
		}
		return driver.Success
	}})
	return gpu, &result
}

func TestRefresh(t *testing.T) {
	gpu, result := machineWithSwitch(t, driver.ResultNoDevice)
	rt := openOn(t, gpu)
	_, err := rt.Probe("test")
	require.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)

	// Absence is remembered.
	calls := allCalls(gpu)
	_, err = rt.Probe("test")
	require.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
	assert.Equal(t, calls, allCalls(gpu))

	// A machine can break between two looks, and come back.
	result.Store(int32(driver.ResultUnknown))
	assert.ErrorIs(t, rt.Refresh(), driver.ResultUnknown)
	assert.Equal(t, runtime.Fault, rt.Outcome())
	result.Store(0)
	require.NoError(t, rt.Refresh())
	assert.Equal(t, runtime.Available, rt.Outcome())
	b, err := rt.Probe("test")
	require.NoError(t, err)

	// Where CUDA is available nothing is asked or changed.
	result.Store(int32(driver.ResultNoDevice))
	calls = allCalls(gpu)
	require.NoError(t, rt.Refresh())
	assert.Equal(t, calls, allCalls(gpu))
	again, err := rt.Probe("test")
	require.NoError(t, err)
	assert.Same(t, b, again)

	require.NoError(t, rt.Close())
	assert.ErrorIs(t, rt.Refresh(), driver.ErrClosed)
}
