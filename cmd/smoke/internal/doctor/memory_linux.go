package doctor

import "syscall"

// memlock is RLIMIT_MEMLOCK, which package syscall has no name for, or nil where there is no limit.
func memlock() *uint64 {
	const resource = 8
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(resource, &limit); err != nil || limit.Cur == ^uint64(0) {
		return nil
	}
	return &limit.Cur
}
