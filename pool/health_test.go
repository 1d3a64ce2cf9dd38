package pool_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/driver/nvml/nvmltest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// healthy is a machine with n devices, and what NVML says of them.
func healthy(n int) (config drivertest.Config, statuses []nvml.Status) {
	config = machine(n)
	for i := range config.Devices {
		d := &config.Devices[i]
		d.UUID = driver.UUID{15: byte(i + 1)}
		total := d.Memory
		statuses = append(statuses, nvml.Status{UUID: "GPU-" + d.UUID.String(), Memory: &nvml.Memory{Total: total, Free: total},
			ECC: &nvml.ECC{On: true}, Rows: &nvml.RemappedRows{}})
	}
	return config, statuses
}

func hears(t *testing.T, m *nvmltest.Machine, n int) {
	t.Helper()
	require.Eventually(t, func() bool { _, devices := m.Watches(); return devices == n }, patience, time.Millisecond)
}

// leftOut waits until a device is quarantined, and returns why.
func leftOut(t *testing.T, p *pool.Pool, index int) error {
	t.Helper()
	require.Eventually(t, func() bool { return p.Stats().Devices[index].Quarantined }, patience, time.Millisecond)
	d := p.Stats().Devices[index]
	assert.Zero(t, d.NextProbe)
	return d.Device.Err
}

func TestXidThatNeedsAReset(t *testing.T) {
	config, statuses := healthy(3)
	m := nvmltest.New(statuses...)
	p, _ := open(t, config, pool.Options{Health: m})
	hears(t, m, 3)
	burst(t, p, 16, sleeps(time.Millisecond))
	m.Emit(statuses[0].UUID, nvml.EventXid, 13) // a program's own fault
	m.Emit(statuses[1].UUID, nvml.EventXid, 74)
	assert.ErrorContains(t, leftOut(t, p, 1), "Xid 74: an error of NVLink: reset the device [device 1]")
	assert.False(t, p.Stats().Devices[0].Quarantined)
	_, err := p.Do(t.Context(), asks, pool.DoOptions{Devices: []int{1}})
	require.ErrorIs(t, err, pool.ErrQuarantined)
	for range 32 {
		report, err := p.Do(t.Context(), asks)
		require.NoError(t, err)
		assert.NotEqual(t, 1, report.Device)
	}

	m.Vanish(statuses[2].UUID) // which ends the wait of NVML for all
	assert.ErrorContains(t, leftOut(t, p, 2), "Xid 79: the device has fallen off the bus")
	hears(t, m, 2)
	m.Emit(statuses[0].UUID, nvml.EventXid, 95)
	assert.ErrorContains(t, leftOut(t, p, 0), "Xid 95", "the last one too: its results may be wrong")
	_, err = p.Do(t.Context(), asks)
	require.ErrorIs(t, err, pool.ErrQuarantined)
	assert.NoError(t, p.Stats().HealthErr)
	require.NoError(t, p.Close())
	watches, _ := m.Watches()
	assert.Zero(t, watches)
}

func TestMemoryErrorThatNeedsAReset(t *testing.T) {
	config, statuses := healthy(3)
	statuses[0].Rows.Pending = true
	m := nvmltest.New(statuses...)
	p, _ := open(t, config, pool.Options{Health: m})
	assert.ErrorContains(t, leftOut(t, p, 0), "a bad row of memory is replaced at the next reset")
	hears(t, m, 3)
	for _, i := range []int{1, 2} {
		m.Update(statuses[i].UUID, func(s *nvml.Status) { s.Rows = &nvml.RemappedRows{Failed: true} })
		m.Emit(statuses[i].UUID, nvml.EventDoubleBitECC, 0)
		if i == 1 {
			assert.ErrorContains(t, leftOut(t, p, 1), "the device needs repair")
		}
	}
	m.Emit(statuses[1].UUID, nvml.EventSingleBitECC, 0)
	report, err := p.Do(t.Context(), asks)
	require.NoError(t, err, "the last one stays")
	assert.Equal(t, 2, report.Device)
}

// A quarantine that a failure has begun, and that a probe would end, becomes final.
func TestXidOfAQuarantinedDevice(t *testing.T) {
	config, statuses := healthy(2)
	m := nvmltest.New(statuses...)
	p, gpu := open(t, config, pool.Options{Health: m})
	hears(t, m, 2)
	burst(t, p, 16, sleeps(time.Millisecond))
	gpu.Vanish(1)
	_, err := p.Do(t.Context(), asks, pool.DoOptions{Devices: []int{1}})
	require.Error(t, err)
	assert.True(t, p.Stats().Devices[1].Quarantined)
	m.Emit(statuses[1].UUID, nvml.EventXid, 79)
	require.Eventually(t, func() bool { return p.Stats().Devices[1].NextProbe.IsZero() }, patience, time.Millisecond)
	gpu.Return(1)
	assert.NoError(t, p.Stats().Devices[0].Device.Err)
	_, err = p.Do(t.Context(), asks, pool.DoOptions{Devices: []int{1}})
	require.ErrorIs(t, err, pool.ErrQuarantined)
}

func TestHealthOfMIGInstances(t *testing.T) {
	config, instances := healthy(2)
	whole := nvml.Status{UUID: "GPU-of-both", ECC: &nvml.ECC{On: true}, Rows: &nvml.RemappedRows{}}
	for i := range instances {
		instances[i].UUID, instances[i].Parent = "MIG-"+config.Devices[i].UUID.String(), whole.UUID
	}
	m := nvmltest.New(append(instances, whole)...)
	p, _ := open(t, config, pool.Options{Health: m})
	hears(t, m, 1)
	m.Emit(whole.UUID, nvml.EventXid, 48)
	for i := range instances {
		assert.ErrorContains(t, leftOut(t, p, i), "Xid 48")
	}
}

// Where NVML does not tell of a device, the pool works as without it, and says so.
func TestHealthIsNotThere(t *testing.T) {
	config, statuses := healthy(2)
	for name, m := range map[string]*nvmltest.Machine{"one device": nvmltest.New(statuses[0]), "no device": nvmltest.New(), "no events": nvmltest.New(statuses...)} {
		t.Run(name, func(t *testing.T) {
			if name == "no events" {
				m.Fail("Watch", nvml.ResultNotSupported)
			}
			p, _ := open(t, config, pool.Options{Health: m})
			require.Eventually(t, func() bool { return p.Stats().HealthErr != nil }, patience, time.Millisecond)
			if name == "one device" {
				hears(t, m, 1)
				assert.ErrorContains(t, p.Stats().HealthErr, "NVML has no device with UUID")
			}
			burst(t, p, 8, asks)
		})
	}
	p := without(t, pool.Options{Health: nvmltest.New()})
	assert.NoError(t, p.Stats().HealthErr)
}

// A request with a reservation goes where the memory is, before any context is open.
func TestReserveKnowsTheMemoryOfOthers(t *testing.T) {
	config, statuses := healthy(3)
	for _, i := range []int{0, 2} {
		statuses[i].Memory.Free = 1 << 30
	}
	p, _ := open(t, config, pool.Options{Queue: -1, Health: nvmltest.New(statuses...)})
	report, err := p.Do(t.Context(), asks, pool.DoOptions{Label: "model", Reserve: 4 << 30})
	require.NoError(t, err)
	assert.Equal(t, 1, report.Device)
	_, err = p.Do(t.Context(), asks, pool.DoOptions{Label: "model", Reserve: 4 << 30, Devices: []int{0, 2}})
	var short *pool.ReserveError
	require.ErrorAs(t, err, &short)
	assert.Less(t, short.Limit, uint64(1<<30))
}

// On hardware the pool finds its devices in NVML and hears of them.
func TestHealthOnHardware(t *testing.T) {
	rt, err := runtime.Open(runtime.WithDriver(hardware.Open(t)))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	lib, err := nvml.Open()
	if errors.Is(err, driver.ErrLibraryUnavailable) {
		t.Skipf("no NVML: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, lib.Close()) })
	p, err := pool.Open(rt, pool.Options{Health: lib})
	require.NoError(t, err)
	report, err := p.Do(t.Context(), asks, pool.DoOptions{Label: "test", Reserve: 1 << 20})
	require.NoError(t, err)
	t.Logf("%+v", report)
	require.NoError(t, p.Close())
	assert.NoError(t, p.Stats().HealthErr)
}
