package nvrtc

import (
	"os"
	"path/filepath"
	"slices"
)

// libraryNames are NVRTC's, newest first. All versions from 11.2 to 11.8 have one name.
var libraryNames = []string{"nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"}

var (
	toolkitDirs  = []string{`bin\x64`, `bin`} // since 13.0, and before
	condaDirs    = []string{`Library\bin`, `Library\bin\x64`}
	sitePackages = []string{`Lib\site-packages`}
	wheelDirs    = []string{`nvidia\cu13\bin\x86_64`, `nvidia\cuda_nvrtc\bin`}
)

// toolkitRoots are the toolkits where NVIDIA's installer puts them, newest first.
func toolkitRoots() []string {
	programs := os.Getenv("ProgramFiles")
	if programs == "" {
		programs = `C:\Program Files`
	}
	versions, _ := filepath.Glob(filepath.Join(programs, "NVIDIA GPU Computing Toolkit", "CUDA", "v*"))
	slices.Sort(versions)
	slices.Reverse(versions)
	return versions
}

// mappedFile is not needed here: the loader takes a library that is in the process
// already when it is asked for one of the same name.
func mappedFile() string { return "" }

// builtinsOf lists the builtins beside a library, nvrtc-builtins64_130.dll.
func builtinsOf(library string) []string {
	all, _ := filepath.Glob(filepath.Join(filepath.Dir(library), "nvrtc-builtins64_*.dll"))
	return all
}
