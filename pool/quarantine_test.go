package pool_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// asks is a function that asks its device.
func asks(w *pool.Worker) error {
	_, err := w.Stream().Query()
	return err
}

// A device that vanishes costs three tries at most, and no request that may be repeated. Probes try
// it again, after 1 s, 2 s and so on, and find it when it is back.
func TestVanishedDeviceIsQuarantined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gpu := open(t, machine(4))
		burst(t, p, 64, sleeps(time.Millisecond)) // opens all
		gpu.Vanish(2)
		var tries atomic.Int64
		on := func(w *pool.Worker) error {
			if w.Index() == 2 {
				tries.Add(1)
			}
			return errors.Join(asks(w), sleeps(time.Microsecond)(w))
		}
		for range 100 {
			_, err := p.Do(t.Context(), on, pool.DoOptions{Retry: 1})
			require.NoError(t, err)
			burst(t, p, 8, on, pool.DoOptions{Retry: 1})
		}
		assert.LessOrEqual(t, tries.Load(), int64(3))
		assert.NotZero(t, tries.Load())
		d := p.Stats().Devices[2]
		assert.True(t, d.Quarantined)
		assert.ErrorIs(t, d.Device.Err, driver.ErrDeviceLost)
		assert.ErrorIs(t, p.Devices()[2].Err, driver.ErrDeviceLost)
		assert.NoError(t, p.Devices()[1].Err)

		_, err := p.Do(t.Context(), func(*pool.Worker) error { panic("not run") }, pool.DoOptions{Devices: []int{2}})
		require.ErrorIs(t, err, pool.ErrQuarantined)
		require.ErrorIs(t, err, driver.ErrDeviceLost)
		report, err := p.Do(t.Context(), func(*pool.Worker) error { panic("not run") }, pool.DoOptions{Devices: []int{2},
			Fallback: func(context.Context) error { return nil }})
		require.NoError(t, err)
		assert.Equal(t, pool.Quarantined, report.Reason)
		all, err := p.Scatter(t.Context(), 1000, newDone(1000).do)
		require.NoError(t, err)
		assert.Equal(t, pool.Quarantined, all.Reason)
		require.Len(t, all.Skipped, 1)

		var pauses []time.Duration
		for len(pauses) < 9 {
			time.Sleep(time.Until(p.Stats().Devices[2].NextProbe))
			synctest.Wait()
			d := p.Stats().Devices[2]
			assert.True(t, d.Quarantined)
			pauses = append(pauses, time.Until(d.NextProbe).Round(time.Second))
		}
		const s = time.Second
		assert.Equal(t, []time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, 60 * s, 60 * s}, pauses)

		gpu.Return(2)
		before := tries.Load()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		assert.False(t, p.Stats().Devices[2].Quarantined)
		assert.NoError(t, p.Devices()[2].Err)
		assert.Equal(t, before, tries.Load(), "the probe is no request")
		_, err = p.Do(t.Context(), on, pool.DoOptions{Devices: []int{2}})
		require.NoError(t, err)
	})
}

// A device that fails again and again is left out, where another one is there, and longer each time
// until a request has succeeded.
func TestFailingDeviceIsQuarantined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gpu := open(t, machine(2))
		rt := runtimeOf(t, p)
		broken := true
		f := func(w *pool.Worker) error {
			if w.Index() == 0 && broken {
				return driver.Failed("cuLaunchKernel", driver.ResultECCUncorrectable)
			}
			return nil
		}
		fail := func() {
			for range 3 {
				_, err := p.Do(t.Context(), f, pool.DoOptions{Devices: []int{0}})
				require.ErrorIs(t, err, driver.ResultECCUncorrectable)
			}
			_, err := p.Do(t.Context(), f, pool.DoOptions{Devices: []int{0}})
			require.ErrorIs(t, err, pool.ErrQuarantined)
			require.ErrorIs(t, err, driver.ResultECCUncorrectable)
		}
		for _, pause := range []time.Duration{1, 2, 4} {
			fail()
			assert.Equal(t, pause*time.Second, time.Until(p.Stats().Devices[0].NextProbe))
			assert.ErrorIs(t, rt.Devices()[0].Quarantine, driver.ResultECCUncorrectable, "the runtime tells it")
			assert.ErrorContains(t, rt.Degraded(), "device 0 is in quarantine: ")
			assert.NoError(t, rt.Devices()[0].Err, "others may use it")
			assert.Equal(t, runtime.Available, rt.Outcome())
			burst(t, p, 10, f)
			time.Sleep(pause * time.Second) // the probe succeeds, though requests do not
			synctest.Wait()
			assert.False(t, p.Stats().Devices[0].Quarantined)
			assert.NoError(t, rt.Degraded())
		}
		broken = false
		_, err := p.Do(t.Context(), f, pool.DoOptions{Devices: []int{0}})
		require.NoError(t, err)
		broken = true
		fail()
		assert.Equal(t, time.Second, time.Until(p.Stats().Devices[0].NextProbe))

		gpu.Fail("cuStreamQuery", 1, driver.ResultUnknown)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.ErrorIs(t, rt.Devices()[0].Quarantine, driver.ResultUnknown, "that of the probe")
		require.NoError(t, p.Close())
		assert.NoError(t, rt.Degraded(), "with the pool")
	})
}

// runtimeOf is the runtime of a pool.
func runtimeOf(t *testing.T, p *pool.Pool) (rt *runtime.Runtime) {
	t.Helper()
	_, err := p.Do(t.Context(), func(w *pool.Worker) error {
		rt = w.Context().Runtime()
		return nil
	})
	require.NoError(t, err)
	return rt
}

// What a request has asked for is no fault of its device, and the last device stays.
func TestNotQuarantined(t *testing.T) {
	for _, c := range []struct {
		devices int
		err     error
	}{
		{2, errData},
		{2, driver.Errorf(driver.ErrInvalidArgument, "no")},
		{2, driver.Failed("cuMemAlloc", driver.ResultOutOfMemory)},
		{2, driver.Failed("cuLaunchKernel", driver.ResultLaunchOutOfResources)},
		{1, driver.Failed("cuLaunchKernel", driver.ResultECCUncorrectable)},
	} {
		p, _ := open(t, machine(c.devices))
		for range 10 {
			_, err := p.Do(t.Context(), func(*pool.Worker) error { return c.err }, pool.DoOptions{Devices: []int{0}})
			require.Equal(t, c.err, err)
		}
	}
}

// Requests that only the device can take that is left out do not wait for it.
func TestRequestsOfAQuarantinedDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gpu := open(t, machine(2), pool.Options{Streams: 1})
		burst(t, p, 2, sleeps(time.Second))
		answers := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := p.Do(t.Context(), func(w *pool.Worker) error {
					time.Sleep(time.Second)
					gpu.Vanish(1)
					return asks(w)
				}, pool.DoOptions{Devices: []int{1}})
				answers <- err
			}()
		}
		go func() {
			_, err := p.Do(t.Context(), sleeps(time.Hour), pool.DoOptions{Devices: []int{0}})
			assert.NoError(t, err)
		}()
		start := time.Now()
		quarantined := 0
		for range 10 {
			if err := <-answers; errors.Is(err, pool.ErrQuarantined) {
				quarantined++
			} else {
				assert.ErrorIs(t, err, driver.ErrDeviceLost)
			}
		}
		assert.Equal(t, 9, quarantined)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// A probe that is under way ends with the pool.
func TestCloseEndsQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gpu := open(t, machine(2))
		burst(t, p, 32, sleeps(time.Second))
		gpu.Vanish(1)
		_, err := p.Do(t.Context(), asks, pool.DoOptions{Devices: []int{1}})
		require.ErrorIs(t, err, driver.ErrDeviceLost)
		assert.True(t, p.Stats().Devices[1].Quarantined)
		require.NoError(t, p.Close())
		time.Sleep(time.Hour)
		assert.True(t, p.Stats().Devices[1].Quarantined)
	})
}

// All devices lost is for the fallback, until a probe finds one.
func TestAllDevicesVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gpu := open(t, machine(2))
		fallback := pool.DoOptions{Fallback: func(context.Context) error { return nil }}
		burst(t, p, 32, sleeps(time.Second))
		gpu.Vanish(0)
		gpu.Vanish(1)
		for range 10 {
			report, err := p.Do(t.Context(), asks, fallback)
			require.NoError(t, err)
			assert.Equal(t, pool.OnCPU, report.Where)
		}
		gpu.Return(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		report, err := p.Do(t.Context(), asks, fallback)
		require.NoError(t, err)
		assert.Equal(t, pool.OnGPU, report.Where)
		assert.Equal(t, 0, report.Device)
	})
}

// A good Revive or Refresh ends the quarantine of a device that was lost, before the next probe. It does not end that of
// a device that fails for another reason.
func TestReviveEndsTheQuarantine(t *testing.T) {
	for name, revive := range map[string]func(rt *runtime.Runtime) error{
		"Revive":  func(rt *runtime.Runtime) error { return rt.Revive(context.Background(), 1) },
		"Refresh": func(rt *runtime.Runtime) error { return rt.Refresh() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, gpu := open(t, machine(3))
				rt := runtimeOf(t, p)
				burst(t, p, 48, sleeps(time.Millisecond)) // opens all
				gpu.Vanish(1)
				_, err := p.Do(t.Context(), asks, pool.DoOptions{Devices: []int{1}})
				require.ErrorIs(t, err, driver.ErrDeviceLost)
				for range 3 {
					_, err = p.Do(t.Context(), func(*pool.Worker) error { return driver.Failed("cuLaunchKernel", driver.ResultECCUncorrectable) }, pool.DoOptions{Devices: []int{2}})
					require.Error(t, err)
				}
				_, err = p.Do(t.Context(), asks, pool.DoOptions{Devices: []int{1}})
				require.ErrorIs(t, err, pool.ErrQuarantined)
				require.Error(t, rt.Revive(t.Context(), 1), "it is not there")
				require.ErrorIs(t, rt.Degraded(), driver.ErrDeviceLost)

				gpu.Return(1)
				require.NoError(t, revive(rt))
				assert.NotErrorIs(t, rt.Degraded(), driver.ErrDeviceLost)
				_, err = p.Do(t.Context(), asks, pool.DoOptions{Devices: []int{1}})
				require.NoError(t, err)
				require.NoError(t, rt.Revive(t.Context(), 2))
				_, err = p.Do(t.Context(), asks, pool.DoOptions{Devices: []int{2}})
				require.ErrorIs(t, err, pool.ErrQuarantined)
				assert.ErrorIs(t, rt.Degraded(), driver.ResultECCUncorrectable)
			})
		})
	}
}
