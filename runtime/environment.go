package runtime

import (
	"os"
	"path/filepath"
)

// ConnectionsVariable is how many queues of the hardware the streams of a context share, 1 to 32.
// Where it is not set, the runtime sets it to [DefaultConnections] before it initialises the
// driver, which reads it once. With the driver's own 8 streams hold each other up.
const ConnectionsVariable = "CUDA_DEVICE_MAX_CONNECTIONS"

// DefaultConnections is the value that the runtime gives ConnectionsVariable.
const DefaultConnections = "32"

// setVariables sets what the driver reads at cuInit, which comes after it. That is the connections,
// and for the cache of compiled PTX a place under the user's cache directory and room for 1 GiB. A
// variable that the user has set is left as it is.
func setVariables() {
	setUnlessSet(ConnectionsVariable, DefaultConnections)
	setUnlessSet("CUDA_CACHE_MAXSIZE", "1073741824")
	if _, set := os.LookupEnv("CUDA_CACHE_PATH"); !set {
		if dir, err := os.UserCacheDir(); err == nil {
			os.Setenv("CUDA_CACHE_PATH", filepath.Join(dir, "purecuda", "jit"))
		}
	}
}

func setUnlessSet(name, value string) {
	if _, set := os.LookupEnv(name); !set {
		os.Setenv(name, value)
	}
}
