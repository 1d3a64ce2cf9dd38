package checked

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// request is a launch of Shifted with good or bad slices, on a stream. wait waits for it.
func request(k *Kernels, s *runtime.Stream, bad bool, wait func(x *runtime.Ref[int32]) error) error {
	y, err := runtime.Alloc[int32](s, 40)
	if err != nil {
		return err
	}
	defer y.Close()
	x, err := runtime.Alloc[int32](s, 41)
	if err != nil {
		return err
	}
	defer x.Close()
	in := x
	if bad {
		in = x.Slice(0, 40)
	}
	if err := runtime.Zero(s, x); err != nil {
		return err
	}
	if err := k.Shifted(s, runtime.Shape1D(40, 32), y, in); err != nil {
		return err
	}
	return wait(y)
}

// ofItsLaunch asserts that a bad request fails with a check, and a good one does not.
func ofItsLaunch(t *testing.T, bad bool, err error) {
	t.Helper()
	if !bad {
		assert.NoError(t, err)
		return
	}
	var failed *launch.CheckError
	if assert.ErrorAs(t, err, &failed) {
		assert.Contains(t, err.Error(), "index out of range [40] with length 40 in block (1,0,0), thread (7,0,0)")
	}
}

var ofDevice = pool.PerDevice(Load)

// openPool is a pool whose workers share the kernels of their device.
func openPool(t *testing.T, rt *runtime.Runtime) *pool.Pool {
	p, err := pool.Open(rt, pool.Options{Setup: []pool.Setup{ofDevice}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// TestAFailedCheckBelongsToItsRequest shares one Kernels among goroutines.
func TestAFailedCheckBelongsToItsRequest(t *testing.T) {
	rt, b := open(t)
	p := openPool(t, rt)
	kernels, err := Load(b.Context)
	require.NoError(t, err)
	defer kernels.Close()
	ctx := t.Context()
	onWorker := func(wait func(w *pool.Worker, y *runtime.Ref[int32]) error) func(bool) error {
		return func(bad bool) error {
			_, err := p.Do(ctx, func(w *pool.Worker) error {
				return request(ofDevice.Of(w), w.Stream(), bad, func(y *runtime.Ref[int32]) error { return wait(w, y) })
			}, pool.DoOptions{Wait: true})
			return err
		}
	}
	for name, do := range map[string]func(bad bool) error{
		"a stream for each": func(bad bool) error {
			s, err := b.Context.NewStream()
			if err != nil {
				return err
			}
			return errors.Join(request(kernels, s, bad, func(*runtime.Ref[int32]) error { return s.Synchronize(ctx) }), s.Close())
		},
		"Do that downloads": onWorker(func(w *pool.Worker, y *runtime.Ref[int32]) error {
			return runtime.Download(w.CallContext(), w.Stream(), make([]int32, 40), y)
		}),
		"Do that waits late": onWorker(func(w *pool.Worker, _ *runtime.Ref[int32]) error {
			time.Sleep(time.Millisecond / 2)
			return w.Stream().Synchronize(w.CallContext())
		}),
		"Do that forgets to wait": onWorker(func(*pool.Worker, *runtime.Ref[int32]) error { return nil }),
		"through processes": func(bad bool) error {
			err := onWorker(func(w *pool.Worker, _ *runtime.Ref[int32]) error { return w.Stream().Synchronize(w.CallContext()) })(bad)
			if err == nil {
				return nil
			}
			return isolate.DecodeError(isolate.EncodeError(err), 0)
		},
		"Auto": func(bad bool) error {
			x := make([]int32, 41)
			if bad {
				x = x[:40]
			}
			_, err := ShiftedAuto(ctx, rt, runtime.Shape1D(40, 32), make([]int32, 40), x)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			for g := range 64 {
				all.Go(func() {
					for i := range 5 {
						bad := (g+i)%2 == 0
						ofItsLaunch(t, bad, do(bad))
					}
				})
			}
			all.Wait()
		})
	}
}

// TestScatterTellsFailedChecks launches without a wait in Scatter and Map.
func TestScatterTellsFailedChecks(t *testing.T) {
	rt, _ := open(t)
	p := openPool(t, rt)
	for _, bad := range []bool{true, false, true, false} {
		_, err := p.Scatter(t.Context(), 1000, func(w *pool.Worker, tile pool.Tile) error {
			return request(ofDevice.Of(w), w.Stream(), bad && tile.Lo <= 500 && 500 < tile.Hi, func(*runtime.Ref[int32]) error { return nil })
		})
		ofItsLaunch(t, bad, err)
	}
}

// TestAutoChangesAllOrNothing lets the copies back fail one after the other.
func TestAutoChangesAllOrNothing(t *testing.T) {
	var copies, failAt atomic.Int64
	gpu := drivertest.New(drivertest.Config{OnCall: func(op string) driver.Result {
		if op == "cuMemcpyDtoHAsync" && copies.Add(1) == failAt.Load() {
			return driver.ResultUnknown
		}
		return driver.Success
	}})
	defer gpu.Close()
	rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithPolicy(runtime.PolicyAuto))
	require.NoError(t, err)
	defer rt.Close()
	const n = 1 << 10
	x := make([]int32, 2*n)
	for i := range x {
		x[i] = int32(i)
	}
	split := func(x []int32) (a, b []int32, err error) {
		a, b = slices.Repeat([]int32{-1}, n), slices.Repeat([]int32{-1}, n)
		copies.Store(0)
		_, err = SplitAuto(t.Context(), rt, runtime.Shape1D(n, 256), a, b, x)
		return a, b, err
	}
	_, _, err = split(x)
	require.NoError(t, err)
	old := slices.Repeat([]int32{-1}, n)
	total := copies.Load()
	require.GreaterOrEqual(t, total, int64(2))
	made, destroyed := gpu.Calls("cuStreamCreateWithPriority"), gpu.Calls("cuStreamDestroy")
	for range 3 {
		a, b, err := split(x)
		require.NoError(t, err)
		assert.EqualValues(t, 2*n-2, a[n-1])
		assert.EqualValues(t, 2*n-1, b[n-1])
	}
	assert.Equal(t, made, gpu.Calls("cuStreamCreateWithPriority"), "a warm call makes no stream")
	assert.Equal(t, destroyed, gpu.Calls("cuStreamDestroy"), "nor does it destroy one")
	for at := int64(1); at <= total; at++ {
		failAt.Store(at)
		a, b, err := split(x)
		require.Error(t, err)
		assert.Equal(t, old, a, "copy %d has failed", at)
		assert.Equal(t, old, b, "copy %d has failed", at)
		failAt.Store(0)
		_, _, _ = split(x)
	}
	a, b, err := split(x[:2*n-1])
	ofItsSplit(t, err)
	assert.Equal(t, old, a)
	assert.Equal(t, old, b)
}

func ofItsSplit(t *testing.T, err error) {
	t.Helper()
	var failed *launch.CheckError
	require.ErrorAs(t, err, &failed)
	assert.Contains(t, failed.Text, "index out of range [2047] with length 2047")
}

// TestAutoOnTheCPU fails on the CPU, where slices change in place, and where the policy wants a GPU.
func TestAutoOnTheCPU(t *testing.T) {
	a, b, old := make([]int32, 300), make([]int32, 300), make([]int32, 300)
	for policy, driverThere := range map[runtime.Policy]bool{runtime.PolicyOff: false, runtime.PolicyAuto: false} {
		rt, err := runtime.Open(runtime.WithPolicy(policy), runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{InitResult: driver.ResultNoDevice})))
		require.NoError(t, err)
		defer rt.Close()
		_, err = SplitAuto(t.Context(), rt, runtime.Shape1D(300, 32), a, b, slices.Repeat([]int32{1}, 599))
		require.ErrorContains(t, err, "index out of range [599] with length 599", driverThere)
		assert.Equal(t, old, a, policy)
		assert.Equal(t, old, b, policy)
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("over"))
		_, err = SplitAuto(ended, rt, runtime.Shape1D(300, 32), a, b, make([]int32, 600))
		assert.EqualError(t, err, "over")
		var none context.Context
		_, err = SplitAuto(none, rt, runtime.Shape1D(300, 32), a, b, make([]int32, 600))
		assert.EqualError(t, err, "InvalidArgument: launch: the context of SplitAuto is nil")
	}
}

// TestAutoWhereAGPUIsRequired must not run on the CPU.
func TestAutoWhereAGPUIsRequired(t *testing.T) {
	t.Setenv(runtime.PolicyVariable, string(runtime.PolicyRequired))
	y := []int32{7, 7}
	_, err := ShiftedAuto(t.Context(), nil, runtime.Shape1D(2, 32), y, []int32{1, 2, 3}) // the shared runtime: a machine with a GPU does the work
	if err != nil {
		assert.ErrorIs(t, err, driver.ErrRequired)
		assert.Equal(t, []int32{7, 7}, y)
	}
	gpu := drivertest.New(drivertest.Config{})
	defer gpu.Close()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	_, err = TrappedAuto(t.Context(), rt, runtime.Shape1D(64, 64), make([]int32, 40)) // CUDA is lost with it
	require.Error(t, err)
	y[0] = 7
	_, err = ShiftedAuto(t.Context(), rt, runtime.Shape1D(2, 32), y, []int32{1, 2, 3})
	assert.ErrorIs(t, err, driver.ErrDeviceLost)
	assert.EqualValues(t, 7, y[0])
}
