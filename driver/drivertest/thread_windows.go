package drivertest

import "syscall"

// realThreads says that currentThreadID tells threads apart.
const realThreads = true

var getCurrentThreadID = syscall.NewLazyDLL("kernel32.dll").NewProc("GetCurrentThreadId")

// currentThreadID returns the number of the calling thread.
func currentThreadID() threadID {
	id, _, _ := getCurrentThreadID.Call()
	return threadID(id)
}
