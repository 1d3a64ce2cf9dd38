package arena

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// Event is something that happened to the memory of a device.
type Event struct {
	Kind   EventKind
	Stream uint64           // ID of the stream; 0 for what closed streams have left
	Ptr    driver.DevicePtr // of the block; 0 if there is none
	Bytes  uint64           // asked for
	Size   uint64           // of the block: its class has one size
}

// EventKind is what happened.
type EventKind uint8

const (
	Reused    EventKind = iota // a block was allocated that was freed on the same stream
	Shared                     // one that was freed on another stream
	Allocated                  // one that the driver gave
	Refused                    // an allocation failed
	Freed                      // a block was freed
	Returned                   // a free block was freed in the driver
)

func (k EventKind) String() string {
	names := [...]string{"reused", "shared", "allocated", "refused", "freed", "returned"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

func (d *Device) observe(e Event) {
	if d.config.Observe != nil {
		d.cleanup(contain.Do(func() error { d.config.Observe(e); return nil }))
	}
}
