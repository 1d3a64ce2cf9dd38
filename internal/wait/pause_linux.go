package wait

import (
	"syscall"
	"time"
	"unsafe"
)

// sleeper sleeps for microseconds. In a program that does nothing else, time.Sleep takes a millisecond at least, because it waits
// in epoll, which counts milliseconds. A nanosleep takes 50 us too long, the slack that the kernel gives each thread. A
// timerfd has none. The zero value is ready. One goroutine uses it, and closes it.
type sleeper struct {
	tried, ready bool
	timer        int // a timerfd, if ready
}

func (s *sleeper) pause(d time.Duration) {
	d = max(d, 1) // 0 would stop the timer
	if !s.tried {
		fd, _, err := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, 1, syscall.O_CLOEXEC, 0) // CLOCK_MONOTONIC
		s.tried, s.ready, s.timer = true, err == 0, int(fd)
	}
	if !s.ready || !s.elapse(d) {
		t := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&t, nil)
	}
}

// elapse waits for the timer, and tells whether it did.
func (s *sleeper) elapse(d time.Duration) bool {
	var setting struct{ interval, value syscall.Timespec }
	setting.value = syscall.NsecToTimespec(int64(d))
	_, _, err := syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(s.timer), 0, uintptr(unsafe.Pointer(&setting)), 0, 0, 0)
	if err != 0 {
		return false
	}
	var expired uint64
	_, _, err = syscall.Syscall(syscall.SYS_READ, uintptr(s.timer), uintptr(unsafe.Pointer(&expired)), unsafe.Sizeof(expired))
	return err == 0 || err == syscall.EINTR
}

func (s *sleeper) close() {
	if s.ready {
		_ = syscall.Close(s.timer)
	}
}
