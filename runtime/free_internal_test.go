package runtime

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/driver/nvml/nvmltest"
)

// The best device is one with free memory, where NVML tells it. An NVML that is absent, fails, lies or hangs changes nothing.
func TestTheScoreCountsFreeMemory(t *testing.T) {
	const gib = 1 << 30
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(2, drivertest.A100())})
	require.Equal(t, driver.Success, gpu.Init(0))
	cfg := &config{score: Score}
	devices, err := listDevices(gpu, cfg)
	require.NoError(t, err)
	require.Equal(t, 0, devices[0].Ordinal)
	machine := func(free ...uint64) *nvmltest.Machine {
		var all []nvml.Status
		for i, f := range free {
			all = append(all, nvml.Status{UUID: "GPU-" + devices[i].UUID.String(), Memory: &nvml.Memory{Total: max(f, 40*gib), Free: f}})
		}
		return nvmltest.New(all...)
	}
	of := func(m *nvmltest.Machine) func() (nvml.API, func() error, error) {
		return func() (nvml.API, func() error, error) { return m, func() error { return nil }, nil }
	}
	failing := machine(gib, 30*gib)
	failing.Fail("Memory", nvml.ResultUnknown)
	hang := make(chan struct{})
	for _, c := range []struct {
		name string
		open func() (nvml.API, func() error, error)
		best int
	}{
		{"none", nil, 0},
		{"absent", func() (nvml.API, func() error, error) { return nil, nil, errors.New("no NVML") }, 0},
		{"the first is free", of(machine(30*gib, gib)), 0},
		{"the second is free", of(machine(gib, 30*gib)), 1},
		{"the first is full", of(machine(0, gib)), 1},
		{"one is not known", of(machine(gib)), 0},
		{"it fails", of(failing), 0},
		{"more than there is", of(machine(gib, 1<<60)), 0},
		{"it panics", func() (nvml.API, func() error, error) { panic("oops") }, 0},
		{"it hangs", func() (nvml.API, func() error, error) { <-hang; return nil, nil, errors.New("late") }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang = make(chan struct{})
				defer close(hang)
				cfg.nvml = c.open
				listed, err := listDevices(gpu, cfg)
				require.NoError(t, err)
				assert.Equal(t, c.best, listed[0].Ordinal)
				assert.Zero(t, listed[0].FreeBytes, "which a context tells")
			})
		})
	}
}
