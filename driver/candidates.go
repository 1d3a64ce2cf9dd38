package driver

import (
	goruntime "runtime"

	"github.com/purecuda/purecuda/internal/dl"
)

// PathVariable names the environment variable that replaces the candidates of
// [Open] by one file. A program that has gained privileges ignores it, as the system's loader does
// with LD_LIBRARY_PATH.
const PathVariable = "PURECUDA_DRIVER_PATH"

// Candidates lists where Open looks for the driver library, in order. If PURECUDA_DRIVER_PATH is
// set, it is the file that it names and nothing else. Otherwise it is the name that the system's
// loader knows it by, and the places where some systems put it outside the loader's path. It is
// empty where CUDA has no driver.
func Candidates() []string {
	if path := dl.Getenv(PathVariable); path != "" {
		return []string{path}
	}
	if goruntime.GOOS == "windows" {
		return dl.DriverCandidates("nvcuda.dll")
	}
	return dl.DriverCandidates("libcuda.so.1", "libcuda.so")
}
