package nvrtc

import (
	"path/filepath"
	goruntime "runtime"
	"strings"
)

// builtinsOf lists the builtins that belong to a library: libnvrtc-builtins.so.12.4
// beside libnvrtc.so.12, which is a link to libnvrtc.so.12.4.127. One directory may have
// those of several versions. On Windows they are nvrtc-builtins64_130.dll.
func builtinsOf(library string) []string {
	dir := filepath.Dir(library)
	if goruntime.GOOS == "windows" {
		all, _ := filepath.Glob(filepath.Join(dir, "nvrtc-builtins64_*.dll"))
		return all
	}
	real, err := filepath.EvalSymlinks(library)
	if err != nil {
		return nil
	}
	_, version, _ := strings.Cut(filepath.Base(real), ".so.")
	if parts := strings.Split(version, "."); len(parts) >= 2 {
		return []string{filepath.Join(dir, "libnvrtc-builtins.so."+parts[0]+"."+parts[1])}
	}
	// Wheels have a plain file libnvrtc.so.12, and builtins of one version.
	all, _ := filepath.Glob(filepath.Join(dir, "libnvrtc-builtins.so."+version+"*"))
	return all
}
