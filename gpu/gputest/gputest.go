// Package gputest tests kernels on a simulated GPU.
package gputest

import (
	"testing"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// Runtime is a runtime on a simulated driver, which runs the PTX of kernels. Both end with the test, which fails if it
// has leaked memory, or if a kernel did what hardware might forgive.
func Runtime(t testing.TB) *runtime.Runtime {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}
