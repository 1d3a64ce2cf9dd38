package gate

import "sync/atomic"

// Turn lets one caller at a time go on. Unlike for a mutex, a wait for it can end early. The zero value is free. Its
// methods are safe for concurrent use.
type Turn struct {
	taken   atomic.Bool
	changed Cond
}

// Take waits until nobody has the turn, and takes it. It reports false when done is closed first.
func (t *Turn) Take(done <-chan struct{}) bool { return t.changed.Wait(done, t.TryTake) }

// TryTake takes the turn if nobody has it, and reports whether it did.
func (t *Turn) TryTake() bool { return t.taken.CompareAndSwap(false, true) }

// Give ends what Take or TryTake began. Another goroutine may call it.
func (t *Turn) Give() {
	t.taken.Store(false)
	t.changed.Broadcast()
}
