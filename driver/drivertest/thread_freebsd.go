package drivertest

import (
	"syscall"
	"unsafe"
)

// realThreads says that currentThreadID tells threads apart.
const realThreads = true

// currentThreadID returns the number of the calling thread.
func currentThreadID() threadID {
	var id int
	syscall.RawSyscall(syscall.SYS_THR_SELF, uintptr(unsafe.Pointer(&id)), 0, 0)
	return threadID(id)
}
