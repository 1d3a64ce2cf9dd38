//go:build !linux

package dl

// gainedPrivileges is false: on Windows a program gains none by its file, and NVIDIA has no driver elsewhere.
func gainedPrivileges() bool { return false }
