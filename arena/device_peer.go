package arena

import (
	"cmp"

	"github.com/purecuda/purecuda/driver"
)

// Reach lets the device of at use the memory of d, if the machine can do that, and reports whether it can. It calls
// cuCtxEnablePeerAccess. Memory of a pool and of a [Range] has access rights of its own: for these it calls cuMemPoolSetAccess and
// cuMemSetAccess. What is allocated later can be used as well. The driver is asked once for each device and arena; later calls
// neither block nor allocate.
//
// Opening a pool maps all its memory, also what is allocated later, into the address space
// of the other device, which makes allocating from the driver slower. So it is done
// where it is asked for, and not for all pairs of a machine.
func (d *Device) Reach(p *Peers, at *driver.Binding) (direct bool, err error) {
	if err := d.made(); err != nil {
		return false, err
	}
	direct, err = p.enable(at, d.binding)
	if !direct || at.Context == d.binding.Context {
		return direct, err
	}
	pair := peerPair{at.Context, d.binding.Context, d}
	if direct, known := p.knows(pair); known {
		return direct, nil
	}
	return p.ask(pair, func() (bool, error) { return d.openFor(at) })
}

// openFor lets a device use the memory of the pool and of ranges.
func (d *Device) openFor(at *driver.Binding) (direct bool, err error) {
	d.calls.EnterWaiting()
	defer d.calls.Leave()
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return false, d.errorf(driver.ErrClosed, "the memory of the device was closed before")
	}
	device, r := at.API.DeviceGet(int32(at.Ordinal))
	if r != driver.Success {
		return false, at.Fault("cuDeviceGet", r)
	}
	access := driver.MemAccess{Location: driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(device)}, Flags: driver.MemAccessReadWrite}
	if d.pool != 0 {
		direct, err := d.opens("cuMemPoolSetAccess", func() driver.Result {
			return d.binding.API.MemPoolSetAccess(d.pool, []driver.MemAccess{access})
		})
		if !direct {
			return false, err
		}
	}
	return d.openRangesFor(access)
}

// opens makes a call that gives a device access to memory, and reports whether it can have that.
func (d *Device) opens(op string, call func() driver.Result) (direct bool, err error) {
	err = d.outside(func() error {
		switch r := call(); r {
		case driver.Success:
			direct = true
			return nil
		case driver.ResultInvalidDevice, driver.ResultPeerAccessUnsupported, driver.ResultNotSupported:
			return nil // the link is there, and not for this memory
		default:
			return d.failed(op, r)
		}
	})
	return direct && err == nil, err
}

// CopyFrom puts a copy from the memory of another device, or of the same one, to d's on s and returns. s is a stream of the
// device of d; order work of the other device before it with an event. The ranges must not overlap.
//
// Between two devices it uses the direct link if there is one. The first copy opens the link and the pools in both directions.
// Without a link the driver copies through the host. Except for that first copy, CopyFrom does not block and does not allocate.
func (d *Device) CopyFrom(p *Peers, s driver.Stream, dst driver.DevicePtr, from *Device, src driver.DevicePtr, bytes uint64) error {
	if err := cmp.Or(d.made(), from.made()); err != nil || bytes == 0 {
		return err
	}
	if err := cmp.Or(d.lost(), from.lost()); err != nil {
		return err
	}
	direct := true
	if d.binding.Context != from.binding.Context {
		forth, err := from.Reach(p, d.binding)
		back, backErr := d.Reach(p, from.binding)
		if err := unlinked(d.binding, err, backErr); err != nil {
			return err
		}
		direct = forth && back
	}
	return copyPeer(s, d.binding, dst, from.binding, src, bytes, direct)
}
