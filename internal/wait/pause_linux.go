package wait

import (
	"syscall"
	"time"
)

// pause sleeps for d. In a program that does nothing else, time.Sleep takes a millisecond at
// least, because it waits in epoll, which counts milliseconds; nanosleep takes 50 us more than d.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil)
}
