package runtime

import "slices"

// quarantine is the note of somebody who leaves a device out.
type quarantine struct {
	ordinal int
	err     error
}

// Quarantine notes that the caller leaves a device out because it fails: until end is called,
// [Device].Quarantine and Degraded have err. It keeps nobody from using the device. Package pool calls it for
// devices that it has in quarantine.
func (rt *Runtime) Quarantine(ordinal int, err error) (end func()) {
	if rt == nil || rt.life == nil || err == nil {
		return func() {}
	}
	q := &quarantine{ordinal, err}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.quarantines = append(rt.quarantines, q)
	return func() {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		rt.quarantines = slices.DeleteFunc(rt.quarantines, func(other *quarantine) bool { return other == q })
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
