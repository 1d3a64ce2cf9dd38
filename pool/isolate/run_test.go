//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	gpulaunch "github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

func TestRun(t *testing.T) {
	check := func(t *testing.T, d driver.API) {
		rt, err := runtime.Open(runtime.WithDriver(d))
		require.NoError(t, err)
		defer func() { assert.NoError(t, rt.Close()) }()
		p, err := pool.Open(rt)
		require.NoError(t, err)
		defer func() { assert.NoError(t, p.Close()) }()
		words := make([]byte, 64<<10)
		for range 3 { // the registration ends with each call
			_, err = p.Do(within(t), func(w *pool.Worker) error {
				_, err := isolate.Run(w, "add/v1", isolate.NewRequest(binary.LittleEndian.AppendUint32(nil, 5), words))
				return err
			})
			require.NoError(t, err)
		}
		assert.EqualValues(t, 15, binary.LittleEndian.Uint32(words[len(words)-4:]))
		for name, want := range map[string]string{"none/v1": "no function", "panic/v1": "at the function", "fail/v1": "not today"} {
			_, err = p.Do(within(t), func(w *pool.Worker) error {
				_, err := isolate.Run(w, name, isolate.NewRequest(nil))
				return err
			})
			assert.ErrorContains(t, err, want)
		}
	}
	t.Run("simulated", func(t *testing.T) { check(t, drivertest.ForTest(t, machine(1))) })
	t.Run("hardware", func(t *testing.T) { check(t, hardware.Open(t)) })
	_, err := isolate.Run(nil, "add/v1", nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.Contains(t, isolate.Functions(), "add/v1")
}

func TestErrorsOfOtherProcesses(t *testing.T) {
	lost := &driver.Error{Kind: driver.ErrDeviceLost, Op: "cuLaunchKernel", Code: driver.ResultIllegalAddress, Sticky: true, Detail: "a detail"}
	there := func(err error) error { return isolate.DecodeError(isolate.EncodeError(err), 3) }
	got, ok := errors.AsType[*driver.Error](there(lost))
	require.True(t, ok)
	assert.Equal(t, 3, got.Device)
	assert.Equal(t, lost.Detail, got.Detail)
	assert.ErrorIs(t, there(lost), driver.ErrDeviceLost)
	assert.ErrorIs(t, there(context.Canceled), context.Canceled)
	assert.Equal(t, &isolate.RemoteError{Text: "text"}, there(errors.New("text")))
	check := &gpulaunch.CheckError{Block: gpu.Dim3{X: 1}, Thread: gpu.Dim3{X: 7, Y: 2}, Text: "x.go:5: index out of range [40] with length 40"}
	assert.Equal(t, check, there(fmt.Errorf("piece 3: %w", check)), "its type comes through")
	assert.ErrorIs(t, isolate.DecodeError([]byte("{"), 3), isolate.ErrChildDied)
}
