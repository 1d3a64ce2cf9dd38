package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestErrorText(t *testing.T) {
	oom := Failed("cuMemAlloc", ResultOutOfMemory)
	oom.Device, oom.Bytes, oom.Free, oom.Total = 1, 4096, 100, 200
	cause := Errorf(ErrInvalidArgument, "bad grid")
	cause.Kernel = "saxpy"
	wrapped := Errorf(ErrModuleLoadFailed, "no image")
	wrapped.Err = cause
	for _, c := range []struct {
		err  *Error
		want string
	}{
		{oom, "OutOfMemory: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): not enough memory [device 1, 4096 bytes, 100 of 200 bytes free]"},
		{cause, "InvalidArgument: bad grid [kernel saxpy]"},
		{wrapped, "ModuleLoadFailed: no image: InvalidArgument: bad grid [kernel saxpy]"},
		{missingSymbol("cuMemAllocAsync", 11000), "DriverSymbolMissing: cuMemAllocAsync needs CUDA driver API 11.2, found 11.0"},
		{missingSymbol("cuNoSuchThing", 11000), "DriverSymbolMissing"},
		{Failed("cuInit", 4711), "DriverCallFailed: cuInit: CUDA_ERROR_4711 (4711): a result that is newer than this program"},
		{Errorf(ErrTimeout, "gave up: %w", fs.ErrClosed), "Timeout: gave up: file already closed"},
		{Errorf(ErrTimeout, "%w: %w", fs.ErrInvalid, fs.ErrClosed), "Timeout: invalid argument: file already closed"},
	} {
		assert.Equal(t, c.want, c.err.Error())
		assert.True(t, strings.HasPrefix(c.err.Error(), string(c.err.Kind)))
	}
}

func TestErrorMatching(t *testing.T) {
	cause := Failed("cuStreamSynchronize", ResultIllegalAddress)
	for _, one := range []error{fs.ErrInvalid, fs.ErrClosed} {
		assert.ErrorIs(t, Errorf(ErrTimeout, "%w: %w", fs.ErrInvalid, fs.ErrClosed), one)
	}
	err := Errorf(ErrModuleLoadFailed, "outer: %w", cause)
	wrapped := fmt.Errorf("context: %w", err)
	for _, target := range []error{ErrModuleLoadFailed, ErrDeviceLost, ResultIllegalAddress} {
		assert.ErrorIs(t, wrapped, target)
	}
	for _, target := range []error{ErrOutOfMemory, ResultInvalidValue, Success, fs.ErrNotExist} {
		assert.NotErrorIs(t, wrapped, target)
	}
	var e *Error
	assert.True(t, errors.As(wrapped, &e))
	assert.Equal(t, ErrModuleLoadFailed, e.Kind)
	assert.True(t, cause.Sticky)
	assert.Equal(t, "CUDA_ERROR_ILLEGAL_ADDRESS", cause.Name())
	assert.Equal(t, "", err.Name())
	assert.NotErrorIs(t, Errorf(ErrClosed, "x"), Success, "no call is no success")
}

func TestKindOfResults(t *testing.T) {
	for r, want := range map[Result]Kind{
		ResultOutOfMemory:   ErrOutOfMemory,
		ResultNotSupported:  ErrUnsupported,
		ResultTimeout:       ErrTimeout,
		ResultSymbolMissing: ErrSymbolMissing,
		ResultLaunchFailed:  ErrDeviceLost,
		ResultInvalidValue:  ErrDriverCallFailed,
	} {
		assert.Equal(t, want, Failed("cuX", r).Kind, r.Name())
	}
}

func TestResultTable(t *testing.T) {
	assert.Greater(t, len(results), 95)
	for r, known := range results {
		assert.NotEmpty(t, known.text, known.name)
		assert.True(t, strings.HasPrefix(known.name, "CUDA_"), known.name)
		assert.Equal(t, known.name, r.Name())
		assert.False(t, r.Absent() && r.Sticky(), known.name)
	}
	assert.Equal(t, "CUDA_ERROR_NOT_READY (600): the work is not done yet", ResultNotReady.Error())
	for _, r := range []Result{ResultPeerAccessAlreadyEnabled, ResultPrimaryContextActive, ResultNotReady, ResultLaunchOutOfResources} {
		assert.False(t, r.Sticky(), r.Name())
	}
}
