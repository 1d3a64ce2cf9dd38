// Package simulated loads the kernels of simulated libraries.
package simulated

import (
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/status"
)

// absent is an instruction that no driver knows. The simulated driver does not read the text of kernels that it has in Go.
const absent = "kernels.are.absent"

// Body is the text of a kernel that is there in Go only.
const Body = "{ " + absent + "; }"

// Load loads a module of such kernels. The status is 0, [status.NoKernels] if the driver does not have them, or otherwise for all
// other failures.
func Load[S ~int32](gpu driver.API, image string, otherwise S) (driver.Module, S) {
	module, log, r := gpu.ModuleLoadData([]byte(image), driver.JIT{})
	switch {
	case r == driver.Success:
		return module, 0
	case strings.Contains(log.Error, absent):
		return 0, status.NoKernels
	}
	return 0, otherwise
}
