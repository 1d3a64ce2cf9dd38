package runtime

import (
	"slices"

	"github.com/purecuda/purecuda/internal/contain"
)

// quarantine is the note of somebody who leaves a device out.
type quarantine struct {
	ordinal int
	err     error
	revived func()
}

// Quarantine notes that the caller leaves a device out because it fails: until end is called,
// [Device].Quarantine and Degraded have err. It keeps nobody from using the device. Package pool calls it for
// devices that it has in quarantine.
//
// revived is called after each Revive or Refresh that has found or made the device to work, and may be nil. It must not
// call Revive, Refresh, Reset or Close, which wait for it. It runs on a goroutine of its own, and its panic goes to the error hook.
func (rt *Runtime) Quarantine(ordinal int, err error, revived func()) (end func()) {
	if rt == nil || rt.life == nil || err == nil {
		return func() {}
	}
	q := &quarantine{ordinal, err, revived}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.quarantines = append(rt.quarantines, q)
	return func() {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		rt.quarantines = slices.DeleteFunc(rt.quarantines, func(other *quarantine) bool { return other == q })
	}
}

// tellRevived tells those who leave a device out that it works.
func (rt *Runtime) tellRevived(ordinal int) {
	rt.mu.Lock()
	notes := slices.Clone(rt.quarantines)
	rt.mu.Unlock()
	for _, q := range notes {
		if q.ordinal == ordinal && q.revived != nil {
			rt.report(contain.Hook(q.revived)) // one that panics keeps nobody else from hearing it
		}
	}
}

// quarantined is the first note of a device, or nil. It is called with mu held.
func (rt *Runtime) quarantined(ordinal int) error {
	for _, q := range rt.quarantines {
		if q.ordinal == ordinal {
			return q.err
		}
	}
	return nil
}
