//go:build !linux && !windows

package dl

// DriverCandidates is empty: NVIDIA has no driver for this platform.
func DriverCandidates(...string) []string { return nil }
