//go:build !linux

package doctor

// memlock is the limit of locked memory, which is asked for on Linux only.
func memlock() *uint64 { return nil }
