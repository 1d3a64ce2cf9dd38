package drivertest

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// take gives an allocation its address and takes its bytes from the device.
func (c call) take(a *allocation) driver.Result {
	if a.bytes == 0 || a.bytes > 1<<62 {
		return driver.ResultInvalidValue
	}
	r := a.dev.take(a.bytes)
	if r == driver.Success {
		c.place(a)
	}
	return r
}

// take takes memory from the device. It empties the pools of the device before it gives up.
func (dev *device) take(bytes uint64) driver.Result {
	if bytes > dev.config.Memory-dev.used {
		dev.trim()
	}
	if bytes > dev.config.Memory-dev.used || uint64(int(bytes)) != bytes {
		return driver.ResultOutOfMemory
	}
	dev.used += bytes
	return driver.Success
}

func (c call) place(a *allocation) {
	a.made, a.id = c.made, c.d.newID()
	c.d.memory.add(a)
}

// release takes an allocation out of the space and gives its bytes back.
func (c call) release(a *allocation) { c.d.release(a, c.made) }

func (d *simulated) release(a *allocation, end origin) {
	d.memory.remove(a, end)
	switch {
	case a.pool != nil:
		a.pool.used -= a.bytes
		if a.pool.destroyed {
			a.pool.trimTo(0)
		}
		return
	case a.shared != nil:
		a.shared.withdraw()
		if a.opens > 0 {
			return
		}
	}
	a.dev.used -= a.bytes
}

func (d *simulated) MemGetInfo() (free, total uint64, r driver.Result) {
	c, r := d.enter("cuMemGetInfo")
	if r != driver.Success {
		return 0, 0, r
	}
	defer d.mu.Unlock()
	dev := c.ctx.dev
	return dev.config.Memory - dev.used, dev.config.Memory, driver.Success
}

func (d *simulated) MemAlloc(bytes uint64) (driver.DevicePtr, driver.Result) {
	return get(d, "cuMemAlloc", func(c call) (driver.DevicePtr, driver.Result) {
		a := &allocation{bytes: bytes, dev: c.ctx.dev, ctx: c.ctx, ready: true}
		if r := c.take(a); r != driver.Success {
			return 0, r
		}
		return a.base, driver.Success
	})
}

// toFree finds the allocation that begins at ptr and that the program may free.
func (c call) toFree(ptr driver.DevicePtr) (*allocation, driver.Result) {
	m := &c.d.memory
	m.mu.RLock()
	defer m.mu.RUnlock()
	a := m.at(ptr)
	switch {
	case a == nil:
		f := m.stray(ptr, 0)
		if f.allocation != "" {
			f.detail = "freed twice, or an address behind an allocation"
		} else {
			f.detail = "freed an address that no allocation has"
		}
		return nil, c.misuse(f)
	case a.block != nil:
		return nil, c.misuse(&fault{addr: ptr, allocation: a.String(), detail: "freed memory that is mapped, which cuMemUnmap ends"})
	case a.opens > 0:
		return nil, c.misuse(&fault{addr: ptr, allocation: a.String(), detail: "freed memory of another process, which cuIpcCloseMemHandle closes"})
	case a.base != ptr:
		return nil, c.misuse(&fault{addr: ptr, allocation: a.String(), detail: "freed an address inside an allocation"})
	case a.module != nil:
		return nil, c.misuse(&fault{addr: ptr, allocation: a.String(), detail: "freed a variable of a module"})
	case a.freeing:
		return nil, c.misuse(&fault{addr: ptr, allocation: a.String(), detail: "freed twice"})
	case a.ctx.present() != driver.Success:
		return nil, vanished
	}
	return a, driver.Success
}

// MemFree implements [driver.API]. It does not wait for the device, as the real
// one mostly does: work that still uses the memory faults.
func (d *simulated) MemFree(ptr driver.DevicePtr) driver.Result {
	return d.do("cuMemFree", func(c call) driver.Result {
		if ptr == 0 {
			return driver.Success
		}
		d.memory.mu.RLock()
		h := d.memory.hostAt(uint64(ptr))
		d.memory.mu.RUnlock()
		if h != nil && h.managed && h.base == uint64(ptr) {
			c.releaseHost(h)
			return driver.Success
		}
		a, r := c.toFree(ptr)
		if r != driver.Success {
			return r
		}
		a.freeing = true
		c.release(a)
		return driver.Success
	})
}

func (d *simulated) MemGetAddressRange(ptr driver.DevicePtr) (base driver.DevicePtr, bytes uint64, r driver.Result) {
	_, r = d.enter("cuMemGetAddressRange")
	if r != driver.Success {
		return 0, 0, r
	}
	defer d.mu.Unlock()
	d.memory.mu.RLock()
	defer d.memory.mu.RUnlock()
	if a := d.memory.at(ptr); a != nil {
		return a.base, a.bytes, driver.Success
	}
	if h := d.memory.hostAt(uint64(ptr)); h != nil {
		return driver.DevicePtr(h.base), h.bytes, driver.Success
	}
	return 0, 0, driver.ResultNotFound
}

func (d *simulated) MemHostAlloc(bytes uint64, flags uint32) (unsafe.Pointer, driver.Result) {
	return get(d, "cuMemHostAlloc", func(c call) (unsafe.Pointer, driver.Result) {
		const known = driver.HostAllocPortable | driver.HostAllocDeviceMap | driver.HostAllocWriteCombined
		switch {
		case flags&^known != 0:
			return nil, driver.ResultInvalidValue
		case bytes == 0:
			return nil, driver.Success
		}
		h, r := c.newHost(bytes, flags)
		if r != driver.Success {
			return nil, r
		}
		return unsafe.Pointer(unsafe.SliceData(h.data)), driver.Success
	})
}

// newHost makes memory of the host that the driver keeps.
func (c call) newHost(bytes uint64, flags uint32) (*hostMemory, driver.Result) {
	d := c.d
	if bytes > maxHostBytes || bytes > d.config.HostMemory-min(d.hostUsed, d.config.HostMemory) {
		return nil, driver.ResultOutOfMemory
	}
	d.hostUsed += bytes
	block := make([]byte, bytes+pageSize)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(block)))
	skip := (pageSize - at%pageSize) % pageSize
	data := block[skip : uint64(skip)+bytes : uint64(skip)+bytes]
	h := &hostMemory{base: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(data)))), bytes: bytes, data: data,
		id: d.newID(), ctx: c.ctx, flags: flags, made: c.made}
	d.memory.addHost(h)
	return h, driver.Success
}

// maxHostBytes keeps make from panicking; real memory runs out long before.
const maxHostBytes = min(1<<40, uint64(^uint(0)>>1)-pageSize)

func (d *simulated) MemFreeHost(ptr unsafe.Pointer) driver.Result {
	return d.endHost("cuMemFreeHost", ptr, false)
}

func (d *simulated) MemHostRegister(ptr unsafe.Pointer, bytes uint64, flags uint32) driver.Result {
	return d.do("cuMemHostRegister", func(c call) driver.Result {
		const known = driver.HostAllocPortable | driver.HostAllocDeviceMap
		base := uint64(uintptr(ptr))
		switch {
		case flags&^known != 0 || ptr == nil || bytes == 0 || bytes > maxHostBytes || base > firstAddress-bytes:
			return driver.ResultInvalidValue
		case d.memory.hostOverlaps(base, bytes):
			return driver.ResultHostMemoryAlreadyRegistered
		}
		d.memory.addHost(&hostMemory{base: base, bytes: bytes, data: unsafe.Slice((*byte)(ptr), bytes),
			id: d.newID(), ctx: c.ctx, flags: flags, registered: true, made: c.made})
		return driver.Success
	})
}

func (d *simulated) MemHostUnregister(ptr unsafe.Pointer) driver.Result {
	return d.endHost("cuMemHostUnregister", ptr, true)
}

// endHost frees page-locked memory, or unregisters it.
func (d *simulated) endHost(op string, ptr unsafe.Pointer, registered bool) driver.Result {
	return d.do(op, func(c call) driver.Result {
		if ptr == nil && !registered {
			return driver.Success
		}
		addr := uint64(uintptr(ptr))
		d.memory.mu.RLock()
		h := d.memory.hostAt(addr)
		stray := d.memory.stray(driver.DevicePtr(addr), 0)
		d.memory.mu.RUnlock()
		switch {
		case registered && (h == nil || !h.registered || h.base != addr):
			return driver.ResultHostMemoryNotRegistered
		case h == nil:
			stray.detail = "freed host memory that is not page-locked"
			if stray.allocation != "" {
				stray.detail = "freed twice"
			}
			return c.misuse(stray)
		case h.base != addr:
			return c.misuse(&fault{addr: driver.DevicePtr(addr), allocation: h.String(), detail: "freed an address inside an allocation"})
		case h.registered != registered:
			return c.misuse(&fault{addr: driver.DevicePtr(addr), allocation: h.String(), detail: "freed memory that was registered"})
		case h.managed:
			return c.misuse(&fault{addr: driver.DevicePtr(addr), allocation: h.String(), detail: "freed managed memory, which cuMemFree frees"})
		}
		c.releaseHost(h)
		return driver.Success
	})
}

func (c call) releaseHost(h *hostMemory) {
	if !h.registered {
		c.d.hostUsed -= h.bytes
	}
	c.d.memory.dropHost(h, c.made)
}

func (d *simulated) MemHostGetDevicePointer(ptr unsafe.Pointer, flags uint32) (driver.DevicePtr, driver.Result) {
	return get(d, "cuMemHostGetDevicePointer", func(_ call) (driver.DevicePtr, driver.Result) {
		d.memory.mu.RLock()
		defer d.memory.mu.RUnlock()
		addr := uint64(uintptr(ptr))
		if flags != 0 || d.memory.hostAt(addr) == nil {
			return 0, driver.ResultInvalidValue
		}
		return driver.DevicePtr(addr), driver.Success
	})
}

func (d *simulated) PointerGetAttribute(attribute driver.PointerAttribute, ptr driver.DevicePtr) (uint64, driver.Result) {
	return get(d, "cuPointerGetAttribute", func(_ call) (uint64, driver.Result) {
		d.memory.mu.RLock()
		defer d.memory.mu.RUnlock()
		var values map[driver.PointerAttribute]uint64
		if a := d.memory.at(ptr); a != nil {
			values = a.attributes(ptr)
		} else if h := d.memory.hostAt(uint64(ptr)); h != nil {
			values = h.attributes(ptr)
		} else {
			return 0, driver.ResultInvalidValue
		}
		value, ok := values[attribute]
		if !ok {
			return 0, driver.ResultInvalidValue
		}
		return value, driver.Success
	})
}

func (a *allocation) attributes(ptr driver.DevicePtr) map[driver.PointerAttribute]uint64 {
	values := map[driver.PointerAttribute]uint64{
		driver.PointerAttributeContext:                0,
		driver.PointerAttributeMemoryType:             uint64(driver.MemoryDevice),
		driver.PointerAttributeDevicePointer:          uint64(ptr),
		driver.PointerAttributeSyncMemops:             1,
		driver.PointerAttributeBufferID:               a.id,
		driver.PointerAttributeIsManaged:              0,
		driver.PointerAttributeDeviceOrdinal:          uint64(a.dev.ordinal),
		driver.PointerAttributeIsLegacyCUDAIPCCapable: 0,
		driver.PointerAttributeRangeStartAddr:         uint64(a.base),
		driver.PointerAttributeRangeSize:              a.bytes,
		driver.PointerAttributeMapped:                 1,
		driver.PointerAttributeAllowedHandleTypes:     0,
		driver.PointerAttributeIsGPUDirectRDMACapable: 0,
		driver.PointerAttributeAccessFlags:            uint64(driver.MemAccessReadWrite),
		driver.PointerAttributeMempoolHandle:          0,
		driver.PointerAttributeMemoryBlockID:          a.id,
	}
	if a.pool == nil && a.ctx != nil {
		values[driver.PointerAttributeContext] = uint64(a.ctx.handle)
	}
	if a.pool != nil {
		values[driver.PointerAttributeMempoolHandle] = uint64(a.pool.handle)
	}
	if a.exportable() {
		values[driver.PointerAttributeIsLegacyCUDAIPCCapable] = canShare
	}
	return values
}

func (h *hostMemory) attributes(ptr driver.DevicePtr) map[driver.PointerAttribute]uint64 {
	kind := driver.MemoryHost
	if h.managed {
		kind = driver.MemoryDevice
	}
	return map[driver.PointerAttribute]uint64{
		driver.PointerAttributeContext:                uint64(h.ctx.handle),
		driver.PointerAttributeMemoryType:             uint64(kind),
		driver.PointerAttributeDevicePointer:          uint64(ptr),
		driver.PointerAttributeHostPointer:            uint64(ptr),
		driver.PointerAttributeBufferID:               h.id,
		driver.PointerAttributeIsManaged:              uint64(boolean(h.managed)),
		driver.PointerAttributeDeviceOrdinal:          uint64(h.ctx.dev.ordinal),
		driver.PointerAttributeIsLegacyCUDAIPCCapable: 0,
		driver.PointerAttributeRangeStartAddr:         h.base,
		driver.PointerAttributeRangeSize:              h.bytes,
		driver.PointerAttributeMapped:                 1,
		driver.PointerAttributeAllowedHandleTypes:     0,
	}
}

// ChecksMemory implements [driver.Checker]: every access of kernels and copies is checked
// against the allocations, so that package runtime passes these through one by one.
func (*Driver) ChecksMemory() bool { return true }
