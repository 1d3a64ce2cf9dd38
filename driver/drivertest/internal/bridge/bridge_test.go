//go:build linux && (amd64 || arm64)

package bridge_test

import (
	"math"
	goruntime "runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/internal/bridge"
	"github.com/purecuda/purecuda/driver/drivertest/internal/conformance"
)

// proxy is an API whose calls all pass one function, which may answer them.
type proxy struct {
	driver.API
	// pass gets the arguments and pointers to the results. It tells whether it has
	// answered the call.
	pass func(method string, args, results []any) bool
}

// deepStack is more stack than a call needs, with the callback and all that it does.
const deepStack = 1 << 20

// grow makes the stack of the goroutine larger. It stays so: see stillStacks.
//
//go:noinline
func grow(bytes int) byte {
	var frame [16 << 10]byte
	frame[bytes%len(frame)] = 1
	if bytes > len(frame) {
		return grow(bytes-len(frame)) + frame[0]
	}
	return frame[0]
}

// stillStacks keeps the stacks of goroutines where they are for the time of a test, once
// they are large enough: a stack moves when it grows, and when the garbage collector
// shrinks it. A collection that runs now may still want to shrink some, so it is brought
// to its end first. Tests that use it must not run in parallel with others.
func stillStacks(t *testing.T) {
	t.Helper()
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(math.MaxInt64)
	goruntime.GC()
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
}

// onStillStacks returns an API that makes calls on stacks that are large enough,
// whatever goroutine they come from.
func onStillStacks(t *testing.T, api driver.API) driver.API {
	t.Helper()
	stillStacks(t)
	return &proxy{API: api, pass: func(string, []any, []any) bool {
		grow(deepStack)
		return false
	}}
}

// open bridges an API.
func open(t *testing.T, api driver.API) driver.API {
	t.Helper()
	stillStacks(t)
	done := make(chan struct{})
	var lib *driver.Library
	var err error
	go func() {
		defer close(done)
		grow(deepStack)
		lib, err = bridge.Open(api)
	}()
	<-done
	require.NoError(t, err)
	return onStillStacks(t, lib)
}

// machines are the simulated drivers that are bridged.
func machines() map[string]drivertest.Config {
	return map[string]drivertest.Config{
		"13.0": {},
		"11.0": {Version: 11000, Devices: []drivertest.DeviceConfig{drivertest.T4()}},
		"12.2": {Version: 12020, Devices: []drivertest.DeviceConfig{drivertest.A100()}},
	}
}

// The conformance suite passes through real functions of C.
func TestConformance(t *testing.T) {
	for name, config := range machines() {
		t.Run(name, func(t *testing.T) {
			gpu := drivertest.New(config)
			conformance.Run(t, open(t, gpu))
			assert.Empty(t, gpu.Leaks())
			require.NoError(t, gpu.Close())
		})
	}
}

func TestSticky(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	conformance.Sticky(t, open(t, gpu))
	require.NoError(t, gpu.Close())
}
