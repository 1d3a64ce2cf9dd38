package runtime

import (
	"os"
	"path/filepath"
)

// setCacheVariables gives the driver's cache of compiled PTX a place under the
// user's cache directory and room for 1 GiB. It must happen before cuInit, and a
// variable that the user has set is left as it is.
func setCacheVariables() {
	if _, set := os.LookupEnv("CUDA_CACHE_MAXSIZE"); !set {
		os.Setenv("CUDA_CACHE_MAXSIZE", "1073741824")
	}
	if _, set := os.LookupEnv("CUDA_CACHE_PATH"); !set {
		if dir, err := os.UserCacheDir(); err == nil {
			os.Setenv("CUDA_CACHE_PATH", filepath.Join(dir, "purecuda", "jit"))
		}
	}
}
