package conformance

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
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
			suite(t, gpu)
			assert.Empty(t, gpu.Leaks())
			require.NoError(t, gpu.Close())
		})
	}
}

// shifted is an API whose first device is another one, and whose captures forbid nothing to others.
type shifted struct {
	driver.API
	by driver.Device
}

func (s shifted) DeviceGet(ordinal int32) (driver.Device, driver.Result) {
	if ordinal == 0 {
		return s.by, driver.Success
	}
	return s.API.DeviceGet(ordinal)
}

func (s shifted) StreamBeginCapture(stream driver.Stream, mode driver.CaptureMode) driver.Result {
	return s.API.StreamBeginCapture(stream, max(mode, driver.CaptureThreadLocal))
}

// TestSimulatedAtTheSameTime runs the suite on all devices of a driver at once: with -race, every function beside every other.
func TestSimulatedAtTheSameTime(t *testing.T) {
	const devices = 4
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(devices, drivertest.H100())})
	t.Run("all", func(t *testing.T) {
		for i := range driver.Device(devices) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				suite(t, shifted{gpu, i})
			})
		}
	})
	assert.Empty(t, gpu.Leaks())
	require.NoError(t, gpu.Close())
}

func TestSimulatedSticky(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	stickySuite(t, gpu)
}

func TestHardware(t *testing.T) { suite(t, hardware.Open(t)) }

// TestHardwareSticky poisons the process, so that it runs only when it is asked
// for by name, in a process of its own.
func TestHardwareSticky(t *testing.T) {
	if os.Getenv("PURECUDA_TEST_STICKY") != "1" {
		t.Skip("poisons the process: set PURECUDA_TEST_STICKY=1 and run it alone")
	}
	stickySuite(t, hardware.Open(t))
}
