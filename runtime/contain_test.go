package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
	"github.com/purecuda/purecuda/runtime"
)

var errPanic = errors.New("the caller's own trouble")

// A function of the caller that panics makes its call fail, and nothing else.
func TestPanicsOfTheCallerAreErrors(t *testing.T) {
	rt, _ := open(t, twoDevices(), runtime.WithBudget(func(runtime.Device) uint64 { panic(errPanic) }))

	err := rt.Preload(bg, func(context.Context, *runtime.Context) (*runtime.Module, error) { panic(errPanic) })
	require.ErrorIs(t, err, errPanic)
	assert.ErrorContains(t, err, "preloading device 1: panic: ")
	err = rt.Preload(bg, func(context.Context, *runtime.Context) (*runtime.Module, error) {
		goruntime.Goexit()
		return nil, nil
	})
	assert.ErrorContains(t, err, "preloading device 0: the function ended its goroutine")

	_, err = rt.Budget(0)
	require.ErrorIs(t, err, errPanic)

	_, err = runtime.Open(runtime.WithDriver(drivertest.ForTest(t, twoDevices())), runtime.WithPolicy(runtime.PolicyAuto),
		runtime.WithScore(func(runtime.Device) float64 { panic(errPanic) }))
	require.ErrorIs(t, err, errPanic)
	assert.ErrorContains(t, err, "scoring the devices")

	_, err = rt.Probe("goes on")
	require.NoError(t, err)
}

// A hook that panics or ends its goroutine takes nobody else along.
func TestHooksThatFail(t *testing.T) {
	for name, hook := range map[string]func(){"panics": func() { panic(errPanic) }, "ends": goruntime.Goexit} {
		t.Run(name, func(t *testing.T) {
			told := 0
			rt, gpu := openFaulty(t, twoDevices(),
				runtime.WithErrorHook(func(error) { told++; hook() }),
				runtime.WithStateHook(func(refs.Change) { told++; hook() }))
			c := contextOf(t, rt)
			s, err := c.NewStream()
			require.NoError(t, err)
			r, err := runtime.Alloc[byte](s, 100)
			require.NoError(t, err)
			require.NoError(t, r.Close())
			before := told
			gpu.Fail("cuStreamDestroy", 1, driver.ResultInvalidHandle)
			require.NoError(t, c.Reset(bg))
			assert.GreaterOrEqual(t, told, before+2, "of a stream that is not destroyed, and of the reset")
		})
	}
}

// Without a function an option changes nothing.
func TestOptionsWithoutFunction(t *testing.T) {
	rt, _ := open(t, twoDevices(), nil, runtime.WithScore(nil), runtime.WithBudget(nil), runtime.WithErrorHook(nil),
		runtime.WithStateHook(nil), runtime.WithLogger(nil), runtime.WithCompiler(nil))
	_, err := rt.Probe("anything")
	require.NoError(t, err)
	_, err = rt.Budget(0)
	require.NoError(t, err)
}
