package conformance_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/conformance"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
)

func TestSimulated(t *testing.T) {
	for name, config := range map[string]drivertest.Config{
		"13.0": {},
		"11.0": {Version: 11000, Devices: []drivertest.DeviceConfig{drivertest.T4()}},
		"12.2": {Version: 12020, Devices: []drivertest.DeviceConfig{drivertest.A100()}},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := drivertest.New(config)
			conformance.Run(t, gpu)
			assert.Empty(t, gpu.Leaks())
			require.NoError(t, gpu.Close())
		})
	}
}

func TestSimulatedSticky(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	conformance.Sticky(t, gpu)
}

func TestHardware(t *testing.T) { conformance.Run(t, hardware.Open(t)) }

// TestHardwareSticky poisons the process, so that it runs only when it is asked
// for by name, in a process of its own.
func TestHardwareSticky(t *testing.T) {
	if os.Getenv("PURECUDA_TEST_STICKY") != "1" {
		t.Skip("poisons the process: set PURECUDA_TEST_STICKY=1 and run it alone")
	}
	conformance.Sticky(t, hardware.Open(t))
}
