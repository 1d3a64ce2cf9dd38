//go:build !linux && !windows && !freebsd

package drivertest

// realThreads says that currentThreadID tells threads apart.
const realThreads = false

// currentThreadID takes the whole process for one thread: the standard library of this platform
// cannot name the calling thread. A context that is made current on one goroutine is current on all
// of them here. So goroutines that push different contexts at the same time disturb each other.
func currentThreadID() threadID { return 1 }
