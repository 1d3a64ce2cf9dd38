// Package gputest tests kernels on a simulated GPU: [Runtime] makes the runtime that the Auto functions of kernels take.
package gputest

import (
	"testing"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// maxSteps is how many instructions the warps of a launch may execute: some seconds.
const maxSteps = 1 << 26

// Runtime is a runtime on a simulated driver, which runs the PTX of kernels, whatever PURECUDA_POLICY says. Both end with
// the test. The test fails if it has leaked memory, or if a kernel did what hardware might forgive. It also fails if a
// check has failed that no wait has told. A launch of more than 67 million instructions of warps ends with an error that
// names the kernel: it may never end. Longer ones take a runtime of their own on [drivertest.ForTest].
func Runtime(t testing.TB) *runtime.Runtime {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{MaxSteps: maxSteps})), runtime.WithPolicy(runtime.PolicyAuto))
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
