package drivertest

import (
	"slices"
	"sync"

	"github.com/purecuda/purecuda/driver"
)

// granularity is what sizes and addresses of virtual memory are multiples of.
const granularity = 2 << 20

// reservation is a range of addresses that memory can be mapped into.
type reservation struct {
	base  driver.DevicePtr
	bytes uint64
	made  origin
	dev   *device // of the context that was current, or nil
	life  int64   // of the device
}

// holds tells that a range lies in the reservation.
func (v *reservation) holds(ptr driver.DevicePtr, bytes uint64) bool {
	return ptr >= v.base && uint64(ptr-v.base) <= v.bytes && bytes <= v.bytes-uint64(ptr-v.base)
}

// block is physical memory. It lives as long as its handle, and where it is mapped.
type block struct {
	handle   driver.MemHandle
	bytes    uint64
	dev      *device
	life     int64 // of the device
	made     origin
	released bool
	mapped   int // how often
	// shared is what other processes open, or nil. Memory that is imported is not counted here.
	shared   *sharedMemory
	imported bool

	once sync.Once
	data []byte
}

func (b *block) memory() []byte {
	b.once.Do(func() {
		if b.shared != nil {
			b.data = b.shared.data
			return
		}
		b.data = make([]byte, b.bytes)
		if b.bytes <= fillMax {
			fill(b.data, freshByte)
		}
	})
	return b.data
}

// drop gives the bytes of a block back to its device when nobody has it any more.
func (b *block) drop() {
	if b.released && b.mapped == 0 && !b.imported {
		b.dev.used -= b.bytes
	}
}

// MemAddressReserve implements [driver.API]. It does not try to have the address that is asked for.
func (d *simulated) MemAddressReserve(bytes, alignment uint64, _ driver.DevicePtr, flags uint64) (driver.DevicePtr, driver.Result) {
	return get(d, "cuMemAddressReserve", func(c call) (driver.DevicePtr, driver.Result) {
		const most = 1 << 47 // as hardware
		switch {
		case flags != 0 || bytes == 0 || bytes%granularity != 0 || alignment&(alignment-1) != 0:
			return 0, driver.ResultInvalidValue
		case bytes > most || alignment > most:
			return 0, driver.ResultOutOfMemory
		}
		v := &reservation{bytes: bytes, made: c.made}
		if c.ctx != nil {
			v.dev, v.life = c.ctx.dev, c.ctx.life
		}
		if !d.memory.reserve(v, max(alignment, granularity)) {
			return 0, driver.ResultOutOfMemory
		}
		return v.base, driver.Success
	})
}

// reserve gives a reservation its addresses.
func (m *space) reserve(v *reservation, align uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	v.base = (m.next + driver.DevicePtr(align) - 1) &^ driver.DevicePtr(align-1)
	next := v.base + driver.DevicePtr(v.bytes) + gap + alignment // an odd multiple, as before
	if next > lastAddress {
		return false
	}
	m.next = next
	m.reserved = append(m.reserved, v)
	return true
}

// reservation returns the index of the reservation that a range lies in, or -1.
func (m *space) reservation(ptr driver.DevicePtr, bytes uint64) int {
	return slices.IndexFunc(m.reserved, func(v *reservation) bool { return v.holds(ptr, bytes) })
}

// mappings returns the allocations that make up a range without a gap, or nil.
func (m *space) mappings(ptr driver.DevicePtr, bytes uint64) (all []*allocation) {
	for bytes > 0 {
		a := m.at(ptr)
		if a == nil || a.block == nil || a.base != ptr || a.bytes > bytes {
			return nil
		}
		all = append(all, a)
		ptr, bytes = ptr+driver.DevicePtr(a.bytes), bytes-a.bytes
	}
	return all
}

// unmapped tells whether a range of a reservation has no memory at all. Driver 580 accepts that it is unmapped.
func (m *space) unmapped(ptr driver.DevicePtr, bytes uint64) bool {
	return m.reservation(ptr, bytes) >= 0 && !slices.ContainsFunc(m.live, func(a *allocation) bool {
		return a.base < ptr+driver.DevicePtr(bytes) && ptr < a.base+driver.DevicePtr(a.bytes)
	})
}

func (d *simulated) MemAddressFree(ptr driver.DevicePtr, bytes uint64) driver.Result {
	return d.do("cuMemAddressFree", func(c call) driver.Result {
		m := &d.memory
		m.mu.Lock()
		defer m.mu.Unlock()
		i := m.reservation(ptr, bytes)
		switch {
		case i < 0 || m.reserved[i].base != ptr || m.reserved[i].bytes != bytes:
			return c.misuse(&fault{addr: ptr, bytes: bytes, detail: "freed addresses that are no whole reservation"})
		case slices.ContainsFunc(m.live, func(a *allocation) bool { return a.block != nil && m.reserved[i].holds(a.base, a.bytes) }):
			return c.misuse(&fault{addr: ptr, bytes: bytes, detail: "freed addresses that memory is mapped to"})
		}
		m.reserved = slices.Delete(m.reserved, i, i+1)
		return driver.Success
	})
}

// physicalDevice reads the description of physical memory.
func (d *simulated) physicalDevice(props driver.MemAllocationProps) (*device, driver.Result) {
	dev, r := d.device(driver.Device(props.Location.ID))
	shareable := driver.MemHandleNone
	if r == driver.Success && dev.can(driver.DeviceAttributeHandleTypePosixFileDescriptorSupported) {
		shareable = driver.MemHandlePosixFD
	}
	switch {
	case props.Type != driver.MemAllocationPinned || props.Location.Type != driver.MemLocationDevice:
		return nil, driver.ResultInvalidValue
	case r != driver.Success:
		return nil, r
	case !dev.can(driver.DeviceAttributeVirtualAddressManagementSupported), props.HandleTypes&^shareable != 0, props.RDMA != 0:
		return nil, driver.ResultNotSupported
	}
	return dev, dev.present()
}

func (d *simulated) MemGetAllocationGranularity(props driver.MemAllocationProps, option driver.MemGranularity) (uint64, driver.Result) {
	return get(d, "cuMemGetAllocationGranularity", func(_ call) (uint64, driver.Result) {
		if option != driver.MemGranularityMinimum && option != driver.MemGranularityRecommended {
			return 0, driver.ResultInvalidValue
		}
		if _, r := d.physicalDevice(props); r != driver.Success {
			return 0, r
		}
		return granularity, driver.Success
	})
}

// MemCreate implements [driver.API]. Memory that is to be shared is so for real on Linux: what other
// processes do with it shows here.
func (d *simulated) MemCreate(bytes uint64, props driver.MemAllocationProps, flags uint64) (driver.MemHandle, driver.Result) {
	return get(d, "cuMemCreate", func(c call) (driver.MemHandle, driver.Result) {
		dev, r := d.physicalDevice(props)
		switch {
		case r != driver.Success:
			return 0, r
		case flags != 0 || bytes == 0 || bytes%granularity != 0:
			return 0, driver.ResultInvalidValue
		}
		if r := dev.take(bytes); r != driver.Success {
			return 0, r
		}
		b := &block{bytes: bytes, dev: dev, life: dev.life.Load(), made: c.made}
		if props.HandleTypes != driver.MemHandleNone {
			if b.shared, r = d.share(dev.ordinal, bytes); r != driver.Success {
				dev.used -= bytes
				return 0, r
			}
		}
		return d.keepBlock(b), driver.Success
	})
}

func (d *simulated) keepBlock(b *block) driver.MemHandle {
	b.handle = driver.MemHandle(d.newHandle())
	d.blocks.live[b.handle] = b
	return b.handle
}

// block finds physical memory. Its functions call a wrong handle an invalid value.
func (c call) block(h driver.MemHandle) (*block, driver.Result) {
	b, r := find(c, &c.d.blocks, h)
	if r != driver.Success {
		return nil, driver.ResultInvalidValue
	}
	return b, driver.Success
}

func (d *simulated) MemRelease(h driver.MemHandle) driver.Result {
	return d.do("cuMemRelease", func(c call) driver.Result {
		b, r := c.block(h)
		if r != driver.Success {
			return r
		}
		remove(c, &d.blocks, h)
		b.released = true
		b.drop()
		return driver.Success
	})
}

func (d *simulated) MemMap(ptr driver.DevicePtr, bytes, offset uint64, h driver.MemHandle, flags uint64) driver.Result {
	return d.do("cuMemMap", func(c call) driver.Result {
		b, r := c.block(h)
		switch {
		case r != driver.Success:
			return r
		case flags != 0 || offset != 0 || bytes == 0 || bytes%granularity != 0 || ptr%granularity != 0:
			return driver.ResultInvalidValue
		case bytes > b.bytes:
			return driver.ResultNotSupported // driver 580
		}
		m := &d.memory
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.reservation(ptr, bytes) < 0 {
			return c.misuse(&fault{addr: ptr, bytes: bytes, detail: "mapped memory to addresses that are not reserved"})
		}
		i, _ := m.index(ptr + driver.DevicePtr(bytes) - 1)
		if i >= 0 && m.live[i].base+driver.DevicePtr(m.live[i].bytes) > ptr {
			return c.misuse(&fault{addr: ptr, bytes: bytes, detail: "mapped memory to addresses that other memory is mapped to", allocation: m.live[i].String()})
		}
		a := &allocation{base: ptr, bytes: bytes, id: d.newID(), dev: b.dev, block: b, made: c.made, ready: true,
			access: map[int]driver.MemAccessFlags{}}
		m.live = slices.Insert(m.live, i+1, a)
		b.mapped++
		return driver.Success
	})
}

func (d *simulated) MemUnmap(ptr driver.DevicePtr, bytes uint64) driver.Result {
	return d.do("cuMemUnmap", func(c call) driver.Result {
		d.memory.mu.RLock()
		all, empty := d.memory.mappings(ptr, bytes), d.memory.unmapped(ptr, bytes)
		d.memory.mu.RUnlock()
		if empty {
			return driver.Success
		}
		if all == nil {
			return c.misuse(&fault{addr: ptr, bytes: bytes, detail: "unmapped addresses that are no whole mappings"})
		}
		for _, a := range all {
			d.memory.remove(a, c.made)
			a.block.mapped--
			a.block.drop()
		}
		return driver.Success
	})
}

// MemSetAccess implements [driver.API]. Memory that may only be read is not supported.
func (d *simulated) MemSetAccess(ptr driver.DevicePtr, bytes uint64, access []driver.MemAccess) driver.Result {
	return d.do("cuMemSetAccess", func(c call) driver.Result {
		d.memory.mu.Lock()
		defer d.memory.mu.Unlock()
		all := d.memory.mappings(ptr, bytes)
		if all == nil {
			return c.misuse(&fault{addr: ptr, bytes: bytes, detail: "set the access to addresses that are no whole mappings"})
		}
		for _, to := range access {
			dev, r := d.device(driver.Device(to.Location.ID))
			switch {
			case to.Location.Type != driver.MemLocationDevice:
				return driver.ResultInvalidValue
			case r != driver.Success:
				return r
			case to.Flags == driver.MemAccessRead:
				return driver.ResultNotSupported
			case to.Flags != driver.MemAccessNone && to.Flags != driver.MemAccessReadWrite:
				return driver.ResultInvalidValue
			case slices.ContainsFunc(all, func(a *allocation) bool { return a.dev != dev && !dev.canReach(a.dev) }):
				return driver.ResultInvalidDevice
			}
		}
		for _, a := range all {
			for _, to := range access {
				a.access[int(to.Location.ID)] = to.Flags
			}
		}
		return driver.Success
	})
}

// open tells that a device may use mapped memory, or any device for nil.
func (a *allocation) open(dev *device) bool {
	for ordinal, flags := range a.access {
		if flags != driver.MemAccessNone && (dev == nil || dev.ordinal == ordinal) {
			return true
		}
	}
	return false
}

func (d *simulated) MemExportToShareableHandle(h driver.MemHandle, kind driver.MemHandleType, flags uint64) (shareable driver.ShareableHandle, r driver.Result) {
	return get(d, "cuMemExportToShareableHandle", func(c call) (shareable driver.ShareableHandle, r driver.Result) {
		b, r := c.block(h)
		switch {
		case r != driver.Success:
			return shareable, r
		case flags != 0 || kind != driver.MemHandlePosixFD || b.shared == nil:
			return shareable, driver.ResultInvalidValue
		}
		return b.shared.export()
	})
}

// MemImportFromShareableHandle implements [driver.API]. It takes the memory of simulated devices only.
func (d *simulated) MemImportFromShareableHandle(shareable uintptr, kind driver.MemHandleType) (driver.MemHandle, driver.Result) {
	return get(d, "cuMemImportFromShareableHandle", func(c call) (driver.MemHandle, driver.Result) {
		if kind != driver.MemHandlePosixFD {
			return 0, driver.ResultInvalidValue
		}
		shared, ordinal, r := d.importShared(shareable)
		if r != driver.Success {
			return 0, r
		}
		dev, r := d.device(driver.Device(ordinal))
		if r != driver.Success {
			return 0, r
		}
		return d.keepBlock(&block{bytes: uint64(len(shared.data)), dev: dev, life: dev.life.Load(), made: c.made,
			shared: shared, imported: true}), driver.Success
	})
}

// contiguous returns how many of n bytes at addr lie in one piece: where mappings lie side by side,
// those of the first.
func (m *space) contiguous(addr driver.DevicePtr, n uint64) uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	a := m.at(addr)
	if a == nil || a.block == nil {
		return n
	}
	rest := a.bytes - uint64(addr-a.base)
	if next := m.at(addr + driver.DevicePtr(rest)); n <= rest || next == nil || next.block == nil {
		return n
	}
	return rest
}

// each calls f for the pieces of n bytes at addr.
func (m *space) each(addr driver.DevicePtr, n uint64, v view, f func(data []byte)) *fault {
	for n > 0 {
		part := m.contiguous(addr, n)
		data, fault := m.bytes(addr, part, v)
		if fault != nil {
			return fault
		}
		f(data)
		addr, n = addr+driver.DevicePtr(part), n-part
	}
	return nil
}
