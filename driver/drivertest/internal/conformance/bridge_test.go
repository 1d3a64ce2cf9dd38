//go:build linux && (amd64 || arm64)

package conformance

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// proxy is an API whose calls all pass one function, which may answer them.
type proxy struct {
	driver.API
	// pass gets the arguments and pointers to the results. It tells whether it has
	// answered the call.
	pass func(method string, args, results []any) bool
}

// How much stack a bridged call has in use when it begins, and how much more it has then.
const (
	usedStack = 576 << 10
	moreStack = 256 << 10 // than the callback and all that it does need
)

// grow makes the stack of the goroutine larger by so many bytes, and calls f, if there is
// one, while they are in use.
//
//go:noinline
func grow(bytes int, f func()) byte {
	var frame [16 << 10]byte
	frame[bytes%len(frame)] = 1
	if bytes > len(frame) {
		return grow(bytes-len(frame), f) + frame[0]
	}
	if f != nil {
		f()
	}
	return frame[0]
}

// onStillStack calls f on a stack that does not move meanwhile. Go grows a stack where it has to:
// this one has room. Go shrinks a stack, in a collection or at the goroutine's next preemption,
// where less than a quarter of it is in use: of this one, which has one or two MiB, more is.
func onStillStack(f func()) {
	grow(usedStack, func() {
		grow(moreStack, nil)
		f()
	})
}

// onStillStacks returns an API that makes its calls on stacks that do not move, whatever
// goroutine they come from.
func onStillStacks(api driver.API) driver.API {
	return &proxy{API: api, pass: func(method string, args, results []any) bool {
		in := make([]reflect.Value, len(args))
		for i, arg := range args {
			in[i] = reflect.ValueOf(arg)
		}
		call := reflect.ValueOf(api).MethodByName(method)
		onStillStack(func() {
			for i, result := range call.Call(in) {
				reflect.ValueOf(results[i]).Elem().Set(result)
			}
		})
		return true
	}}
}

// open bridges an API.
func open(t *testing.T, api driver.API) driver.API {
	t.Helper()
	var lib *driver.Library
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		onStillStack(func() { lib, err = openC(api) })
	}()
	<-done
	require.NoError(t, err)
	return onStillStacks(lib)
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
func TestBridged(t *testing.T) {
	for name, config := range machines() {
		t.Run(name, func(t *testing.T) {
			gpu := drivertest.New(config)
			suite(t, open(t, gpu))
			assert.Empty(t, gpu.Leaks())
			require.NoError(t, gpu.Close())
		})
	}
}

func TestBridgedSticky(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	stickySuite(t, open(t, gpu))
	require.NoError(t, gpu.Close())
}
