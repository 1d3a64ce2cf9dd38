package drivertest

import "github.com/purecuda/purecuda/driver"

// threadID tells threads of the operating system apart; see currentThreadID.
type threadID uint64

// thread is what the driver knows about a thread. Only threads that differ from a
// new one are kept.
type thread struct {
	id         threadID
	stack      []*context // the last one is current
	mode       driver.CaptureMode
	inHostFunc bool
}

// currentThread returns the state of the calling thread.
func (d *simulated) currentThread() *thread {
	id := currentThreadID()
	if t := d.threads[id]; t != nil {
		return t
	}
	return &thread{id: id}
}

// keep stores what was changed in t, or forgets t if it is like new again.
func (d *simulated) keep(t *thread) {
	if len(t.stack) == 0 && t.mode == driver.CaptureGlobal && !t.inHostFunc {
		delete(d.threads, t.id)
		return
	}
	d.threads[t.id] = t
}

func (t *thread) current() *context {
	if len(t.stack) == 0 {
		return nil
	}
	return t.stack[len(t.stack)-1]
}
