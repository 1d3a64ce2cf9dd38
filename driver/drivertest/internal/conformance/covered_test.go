package conformance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// notCovered are the functions that the suite does not call, each with the reason.
var notCovered = map[string]string{
	"cuDeviceGetP2PAttribute":    twoDevices,
	"cuDeviceCanAccessPeer":      twoDevices,
	"cuCtxEnablePeerAccess":      twoDevices,
	"cuCtxDisablePeerAccess":     twoDevices,
	"cuMemPoolSetAccess":         twoDevices,
	"cuDevicePrimaryCtxSetFlags": "it is for a context that nobody has, and the suite keeps its own",
	"cuDevicePrimaryCtxReset":    "it takes the context from under the suite: see runtime/reset_test.go",
	"cuModuleGetLoadingMode":     "the answer depends on an environment variable of the process",
}

const twoDevices = "it needs two devices: see runtime/peer_test.go"

// TestEveryFunctionIsCovered holds that a function is called by the suite, listed with the reason, or refused by the simulated
// driver with a reason in entries.txt.
func TestEveryFunctionIsCovered(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	suite(t, gpu)
	for _, e := range driver.Entries() {
		reason, listed := notCovered[e.Name]
		if !listed {
			reason = drivertest.Refused(e.Name)
		}
		if reason != "" {
			assert.Zero(t, gpu.Calls(e.Name), "%s is called: remove the reason not to, which is that %s", e.Name, reason)
		} else {
			assert.NotZero(t, gpu.Calls(e.Name), "%s: call it in package conformance, or add it to notCovered with the reason, or refuse it in entries.txt", e.Name)
		}
	}
	require.NoError(t, gpu.Close())
}
