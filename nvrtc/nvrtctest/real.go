package nvrtctest

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/nvrtc"
)

// requireVariable names the environment variable that makes a missing NVRTC a failure
// unless it is empty or "0".
const requireVariable = "PURECUDA_REQUIRE_NVRTC"

var openReal = sync.OnceValues(func() (*nvrtc.Library, error) { return nvrtc.Open() })

// OpenReal returns the real NVRTC of this machine, which needs no GPU. Where there is none
// it ends the test: as skipped, or as failed if PURECUDA_REQUIRE_NVRTC is 1. One that is
// there and broken fails the test in either case.
func OpenReal(tb testing.TB) *nvrtc.Library {
	tb.Helper()
	lib, err := openReal()
	switch required := os.Getenv(requireVariable); {
	case err == nil:
	case !errors.Is(err, driver.ErrUnsupported):
		tb.Fatalf("the NVRTC of this machine is broken: %v", err)
	case required != "" && required != "0":
		tb.Fatalf("%s is %s, and there is no NVRTC: %v", requireVariable, required, err)
	default:
		tb.Skipf("no NVRTC for this test: %v", err)
	}
	return lib
}
