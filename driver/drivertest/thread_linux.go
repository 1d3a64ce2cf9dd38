package drivertest

import "syscall"

// realThreads says that currentThreadID tells threads apart.
const realThreads = true

// currentThreadID returns the number of the calling thread.
func currentThreadID() threadID { return threadID(syscall.Gettid()) }
