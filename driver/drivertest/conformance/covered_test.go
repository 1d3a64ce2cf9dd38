package conformance_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/conformance"
)

// notCovered are the functions that the suite does not call, each with the reason.
var notCovered = map[string]string{
	"cuDeviceGetP2PAttribute":            twoDevices,
	"cuDeviceCanAccessPeer":              twoDevices,
	"cuCtxEnablePeerAccess":              twoDevices,
	"cuCtxDisablePeerAccess":             twoDevices,
	"cuMemPoolSetAccess":                 twoDevices,
	"cuDevicePrimaryCtxSetFlags":         "it is for a context that nobody has, and the suite keeps its own",
	"cuDevicePrimaryCtxReset":            "it takes the context from under the suite: see runtime/reset_test.go",
	"cuModuleGetLoadingMode":             "the answer depends on an environment variable of the process",
	"cuOccupancyMaxActiveClusters":       simulatedNot,
	"cuOccupancyMaxPotentialClusterSize": simulatedNot,
	"cuGraphDebugDotPrint":               simulatedNot,
	"cuIpcGetMemHandle":                  simulatedNot,
	"cuIpcOpenMemHandle":                 simulatedNot,
	"cuIpcCloseMemHandle":                simulatedNot,
	"cuIpcGetEventHandle":                simulatedNot,
	"cuIpcOpenEventHandle":               simulatedNot,
}

const (
	twoDevices   = "it needs two devices: see runtime/peer_test.go"
	simulatedNot = "the simulated driver does not have it, and says so"
)

// TestEveryFunctionIsCovered holds that a function is either called by the suite, or listed with the reason.
func TestEveryFunctionIsCovered(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	conformance.Run(t, gpu)
	for _, e := range driver.Entries() {
		if reason, listed := notCovered[e.Name]; listed {
			assert.Zero(t, gpu.Calls(e.Name), "%s is called: remove it from notCovered, which says that %s", e.Name, reason)
		} else {
			assert.NotZero(t, gpu.Calls(e.Name), "%s: call it in package conformance, or add it to notCovered with the reason", e.Name)
		}
	}
	require.NoError(t, gpu.Close())
}
