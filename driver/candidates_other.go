//go:build !linux && !windows

package driver

// platformCandidates is empty: NVIDIA has no driver for this platform.
func platformCandidates() []string { return nil }
