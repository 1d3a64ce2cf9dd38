//go:build !linux && !windows

package nvrtc

// NVIDIA has no NVRTC for this platform.
var libraryNames, toolkitDirs, condaDirs, sitePackages, wheelDirs []string

func toolkitRoots() []string { return nil }

func mappedFile() string { return "" }

func builtinsOf(string) []string { return nil }
