package metrics_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/driver/nvml/nvmltest"
	"github.com/purecuda/purecuda/runtime"
	"github.com/purecuda/purecuda/runtime/metrics"
)

func TestHealthReader(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(3, drivertest.H100())})
	rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithPolicy(runtime.PolicyAuto))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	uuid := func(ordinal int) string {
		d, err := rt.Device(ordinal)
		require.NoError(t, err)
		return "GPU-" + d.UUID.String()
	}
	// NVML counts in another order, and does not know device 2.
	reader := metrics.NewHealthReader(rt, nvmltest.New(
		nvml.Status{UUID: uuid(1), Memory: &nvml.Memory{Total: 3, Free: 2, Used: 1}, ECC: &nvml.ECC{}},
		nvml.Status{UUID: uuid(0), Rows: &nvml.RemappedRows{Failed: true}, Clocks: &nvml.Clocks{SM: 1500, Reasons: nvml.ReasonHWSlowdown},
			ECC: &nvml.ECC{On: true, Corrected: 7, Uncorrected: 1}, Temperature: &nvml.Temperature{Now: 80}, Power: &nvml.Power{Now: 650_500},
			Processes: &[]nvml.Process{{PID: 1}, {PID: 2}}, Utilization: &nvml.Utilization{GPU: 25}},
	))
	const name = "purecuda.device.health."
	zero, first := []string{"0"}, []string{"1"}
	assert.Equal(t, []metrics.Sample{
		{Name: name + "fault", Labels: zero, Value: 1},
		{Name: name + "processes", Labels: zero, Value: 2},
		{Name: name + "utilization", Labels: zero, Value: 0.25},
		{Name: name + "temperature", Labels: zero, Value: 80},
		{Name: name + "power", Labels: zero, Value: 650.5},
		{Name: name + "clock", Labels: zero, Value: 1.5e9},
		{Name: name + "slowed", Labels: zero, Value: 1},
		{Name: name + "ecc_errors", Labels: []string{"0", "corrected"}, Value: 7},
		{Name: name + "ecc_errors", Labels: []string{"0", "uncorrected"}, Value: 1},
		{Name: name + "fault", Labels: first, Value: 0},
		{Name: name + "memory.free", Labels: first, Value: 2},
		{Name: name + "memory.used", Labels: first, Value: 1},
	}, reader.Read())
	described := map[string]int{}
	for _, m := range metrics.AllHealth() {
		described[m.Name] = len(m.Labels)
	}
	for _, s := range reader.Read() {
		assert.Equal(t, described[s.Name], len(s.Labels), s.Name)
	}
	assert.Empty(t, metrics.NewHealthReader(rt, nil).Read())
	assert.Empty(t, (*metrics.HealthReader)(nil).Read())
}
