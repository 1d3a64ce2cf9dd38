// Package hardware opens the real CUDA driver for tests.
//
// A test that needs a GPU starts with [Open]. Where there is none it is skipped, and
// the reason shows in the output of go test -v:
//
//	func TestCopyOnHardware(t *testing.T) {
//		lib := hardware.Open(t)
//		count, r := lib.DeviceGetCount()
//		require.Equal(t, driver.Success, r)
//		assert.Positive(t, count)
//	}
//
// On a host that is there to prove the hardware tests, a skip would pass for a
// success. Set PURECUDA_REQUIRE_GPU=1 there: it turns every such skip into a failure.
package hardware

import (
	_ "embed"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/purecuda/purecuda/driver"
)

// RequireVariable names the environment variable that makes a missing GPU a failure
// unless it is empty or "0".
const RequireVariable = "PURECUDA_REQUIRE_GPU"

// EmptyKernels is PTX for sm_75 and later, ISA 6.4, with two kernels that do nothing:
// "empty" takes no argument, "empty4" takes u64, u64, f32 and u64. What remains of
// their launch is its overhead. A third, "spin", takes a u64, and that many nanoseconds.
// The C programs of scripts/baseline load the same text.
//
//go:embed empty.ptx
var EmptyKernels []byte

// open loads and initialises the driver once for all tests of a process.
var open = sync.OnceValues(func() (*driver.Library, error) {
	// As package runtime sets it, which comes after this Init.
	if name := "CUDA_DEVICE_MAX_CONNECTIONS"; os.Getenv(name) == "" {
		os.Setenv(name, "32")
	}
	lib, err := driver.Open()
	if err != nil {
		return nil, err
	}
	if r := lib.Init(0); r != driver.Success {
		return nil, failed("cuInit", r)
	}
	count, r := lib.DeviceGetCount()
	if r != driver.Success {
		return nil, failed("cuDeviceGetCount", r)
	}
	if count == 0 {
		return nil, failed("cuDeviceGetCount", driver.ResultNoDevice)
	}
	return lib, nil
})

// failed makes the error of a call, of kind ErrDriverLibraryUnavailable where its
// result means that this machine has no usable GPU.
func failed(op string, r driver.Result) error {
	err := driver.Failed(op, r)
	if r.Absent() {
		err.Kind = driver.ErrDriverLibraryUnavailable
	}
	return err
}

// Open returns the driver of this machine, initialised and with at least one device.
// All tests of a process share it. Without a GPU it ends the test: as skipped, or as
// failed if PURECUDA_REQUIRE_GPU is 1. A driver that is there and broken fails the
// test in either case: that is a fault, and not absence.
//
// It must be called from the goroutine of the test. The first call blocks as long as
// the driver takes to initialise.
func Open(tb testing.TB) *driver.Library {
	tb.Helper()
	lib, err := open()
	if err != nil {
		end(tb, err)
	}
	return lib
}

// end ends a test that has no driver because of err.
func end(tb testing.TB, err error) {
	tb.Helper()
	switch required := os.Getenv(RequireVariable); {
	case !errors.Is(err, driver.ErrDriverLibraryUnavailable):
		tb.Fatalf("the CUDA driver of this machine is broken: %v", err)
	case required != "" && required != "0":
		tb.Fatalf("%s is %s, and there is no GPU: %v", RequireVariable, required, err)
	default:
		tb.Skipf("no GPU for this test: %v", err)
	}
}
