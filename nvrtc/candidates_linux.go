package nvrtc

import (
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/internal/dl"
)

// libraryNames are NVRTC's, newest first. All versions from 11.2 to 11.8 have one name.
var libraryNames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}

var (
	// toolkitDirs are below the folder of a toolkit. lib64 is a link to the second.
	toolkitDirs  = append([]string{"lib64"}, targetDirs...)
	condaDirs    = append([]string{"lib"}, targetDirs...)
	sitePackages = []string{"lib/python3*/site-packages"}
	wheelDirs    = []string{"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}
)

// targetDirs are those of a toolkit that has libraries for several processors.
var targetDirs = map[string][]string{
	"amd64": {"targets/x86_64-linux/lib"},
	"arm64": {"targets/sbsa-linux/lib", "targets/aarch64-linux/lib"}, // servers, Jetson
}[goruntime.GOARCH]

// toolkitRoots are the default toolkit and then the others, newest first.
func toolkitRoots() []string {
	versions, _ := filepath.Glob("/usr/local/cuda-*")
	slices.Sort(versions)
	slices.Reverse(versions)
	return append([]string{"/usr/local/cuda"}, versions...)
}

// mappedFile is the file of the NVRTC that is in the process already, or "".
func mappedFile() string { return dl.MappedFile("libnvrtc.so.") }

// builtinsOf lists the builtins that belong to a library: libnvrtc-builtins.so.12.4
// beside libnvrtc.so.12, which is a link to libnvrtc.so.12.4.127. One directory may have
// those of several versions.
func builtinsOf(library string) []string {
	real, err := filepath.EvalSymlinks(library)
	if err != nil {
		return nil
	}
	dir := filepath.Dir(library)
	_, version, _ := strings.Cut(filepath.Base(real), ".so.")
	if parts := strings.Split(version, "."); len(parts) >= 2 {
		return []string{filepath.Join(dir, "libnvrtc-builtins.so."+parts[0]+"."+parts[1])}
	}
	// Wheels have a plain file libnvrtc.so.12, and builtins of one version.
	all, _ := filepath.Glob(filepath.Join(dir, "libnvrtc-builtins.so."+version+"*"))
	return all
}
