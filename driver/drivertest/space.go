package drivertest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// space is the unified address space: device memory of all devices and
// page-locked host memory. It has its own lock, because kernels look addresses up
// while they run. Where both locks are needed, the driver's comes first.
type space struct {
	mu   sync.RWMutex
	next driver.DevicePtr
	live []*allocation // by address
	host []*hostMemory // by address
	// reserved are the addresses that memory can be mapped into, by address.
	reserved []*reservation
	// freed are the latest allocations that are gone, to explain accesses to them.
	freed     []*allocation
	freedHost []*hostMemory
}

const (
	// firstAddress lies above all addresses of the host.
	firstAddress = 1 << 52
	lastAddress  = 1 << 56
	// alignment is what the driver guarantees. Every base is an odd multiple of it,
	// so that a program that relies on more is found out.
	alignment = 256
	// gap is the distance between allocations.
	gap = 64 << 10

	pageSize = 4 << 10
	freedMax = 4096

	// Fresh memory is not zero on hardware. Up to fillMax bytes it is filled with
	// freshByte; larger allocations stay zero, so that they cost only what is used.
	freshByte = 0xCD
	fillMax   = 64 << 20
)

func (m *space) init() { m.next = firstAddress + alignment }

// allocation is a piece of device memory.
type allocation struct {
	base  driver.DevicePtr
	bytes uint64
	id    uint64
	dev   *device
	ctx   *context
	pool  *pool  // of stream-ordered memory
	block *block // that is mapped here, or nil; it has no context
	made  origin
	// shared is what other processes can open, or nil. opens counts how often this one has opened memory of
	// another process, which opened names.
	shared *sharedMemory
	opens  int
	opened driver.IpcMemHandle
	// access of devices to what is mapped, by ordinal. It is guarded by the lock of the space.
	access map[int]driver.MemAccessFlags
	// module is the module whose variable this is, or nil.
	module *module

	// ready is set for stream-ordered memory when its stream has reached the
	// allocation, and freeing when the program has freed it.
	ready, freeing bool
	// end is the call that freed it.
	end origin

	once sync.Once
	data []byte
}

func (a *allocation) String() string {
	text := fmt.Sprintf("%d bytes of device memory at %#x from %v", a.bytes, uint64(a.base), a.made)
	if a.end.op != "" {
		text += fmt.Sprintf(", freed by %v", a.end)
	}
	return text
}

// memory is the content. It is made at the first access and begins at a multiple
// of 8 bytes. Variables of modules begin as zero.
func (a *allocation) memory() []byte {
	a.once.Do(func() {
		if a.block != nil {
			a.data = a.block.memory()[:a.bytes]
			return
		}
		if a.shared != nil {
			a.data = a.shared.data
		} else {
			words := make([]uint64, (a.bytes+7)/8)
			a.data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), a.bytes)
		}
		if a.bytes <= fillMax && a.module == nil && a.opens == 0 {
			fill(a.data, freshByte)
		}
	})
	return a.data
}

func fill(data []byte, value byte) {
	if len(data) == 0 {
		return
	}
	data[0] = value
	for done := 1; done < len(data); done *= 2 {
		copy(data[done:], data[:done])
	}
}

// hostMemory is page-locked memory of the host. The driver keeps it, so that the
// garbage collector neither frees nor moves it.
type hostMemory struct {
	base  uint64
	bytes uint64
	data  []byte
	id    uint64
	ctx   *context
	flags uint32
	// registered memory is the program's.
	registered bool
	managed    bool
	made       origin
	freed      bool
	end        origin
}

func (h *hostMemory) String() string {
	text := fmt.Sprintf("%d bytes of page-locked host memory at %#x from %v", h.bytes, h.base, h.made)
	if h.end.op != "" {
		text += fmt.Sprintf(", freed by %v", h.end)
	}
	return text
}

// add gives an allocation its address.
func (m *space) add(a *allocation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.base = m.next
	const step = 2 * alignment
	m.next += driver.DevicePtr((a.bytes + gap + step - 1) / step * step)
	m.live = append(m.live, a)
}

// remove takes an allocation out. What still runs on its content keeps it.
func (m *space) remove(a *allocation, end origin) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i, ok := m.index(a.base); ok && m.live[i] == a {
		m.live = slices.Delete(m.live, i, i+1)
	}
	a.end = end
	m.freed = append(m.freed, a)
	if len(m.freed) > freedMax {
		m.freed = slices.Delete(m.freed, 0, freedMax/4)
	}
}

// index returns the position of the last allocation that begins at addr or
// before.
func (m *space) index(addr driver.DevicePtr) (int, bool) {
	i, exact := slices.BinarySearchFunc(m.live, addr, func(a *allocation, addr driver.DevicePtr) int {
		return cmp.Compare(a.base, addr)
	})
	if !exact {
		i--
	}
	return i, i >= 0
}

// at returns the allocation that holds addr, or nil.
func (m *space) at(addr driver.DevicePtr) *allocation {
	if i, ok := m.index(addr); ok && uint64(addr-m.live[i].base) < m.live[i].bytes {
		return m.live[i]
	}
	return nil
}

// hostAt returns the page-locked memory that holds addr, or nil.
func (m *space) hostAt(addr uint64) *hostMemory {
	i, exact := slices.BinarySearchFunc(m.host, addr, func(h *hostMemory, addr uint64) int {
		return cmp.Compare(h.base, addr)
	})
	if !exact {
		i--
	}
	if i >= 0 && addr-m.host[i].base < m.host[i].bytes {
		return m.host[i]
	}
	return nil
}

// hostOverlaps tells whether page-locked memory is among some bytes.
func (m *space) hostOverlaps(base, bytes uint64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.ContainsFunc(m.host, func(h *hostMemory) bool { return h.base < base+bytes && base < h.base+h.bytes })
}

// view is how an access sees the memory.
type view struct {
	// early counts stream-ordered memory whose allocation the stream has not reached
	// yet as there: for checks when work is put on a stream.
	early bool
	// ctx is the context whose kernel accesses the memory, or nil for the driver
	// itself, which reaches all devices.
	ctx *context
}

// bytes returns the memory of n bytes at addr.
func (m *space) bytes(addr driver.DevicePtr, n uint64, v view) ([]byte, *fault) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if addr < firstAddress {
		return m.hostBytes(addr, n)
	}
	a := m.at(addr)
	if a == nil {
		return nil, m.stray(addr, n)
	}
	bad := func(format string, args ...any) ([]byte, *fault) {
		return nil, &fault{result: driver.ResultIllegalAddress, detail: fmt.Sprintf(format, args...),
			addr: addr, bytes: n, allocation: a.String()}
	}
	offset := uint64(addr - a.base)
	switch {
	case n > a.bytes-offset:
		return bad("%d bytes at %#x: %d bytes beyond the end of the allocation", n, uint64(addr), n-(a.bytes-offset))
	case !a.ready && !v.early:
		return bad("%d bytes at %#x: used before the stream has reached the allocation", n, uint64(addr))
	case a.block != nil && !a.open(nil):
		return bad("%d bytes at %#x: no device has access to what is mapped there: see cuMemSetAccess", n, uint64(addr))
	case v.ctx != nil && !v.ctx.reaches(a):
		return bad("%d bytes at %#x: device %d has no access to memory of device %d",
			n, uint64(addr), v.ctx.dev.ordinal, a.dev.ordinal)
	case v.early: // the content is not wanted
		return nil, nil
	}
	return a.memory()[offset : offset+n : offset+n], nil
}

func (m *space) hostBytes(addr driver.DevicePtr, n uint64) ([]byte, *fault) {
	h := m.hostAt(uint64(addr))
	if h == nil {
		return nil, m.stray(addr, n)
	}
	offset := uint64(addr) - h.base
	if n > h.bytes-offset {
		return nil, &fault{result: driver.ResultIllegalAddress, addr: addr, bytes: n, allocation: h.String(),
			detail: fmt.Sprintf("%d bytes at %#x: %d bytes beyond the end of the allocation", n, uint64(addr), n-(h.bytes-offset))}
	}
	return h.data[offset : offset+n : offset+n], nil
}

// stray explains an address that is in no allocation.
func (m *space) stray(addr driver.DevicePtr, n uint64) *fault {
	f := &fault{result: driver.ResultIllegalAddress, addr: addr, bytes: n}
	for _, a := range slices.Backward(m.freed) {
		if addr >= a.base && uint64(addr-a.base) < a.bytes {
			f.detail = fmt.Sprintf("%d bytes at %#x: the memory is freed", n, uint64(addr))
			f.allocation = a.String()
			return f
		}
	}
	for _, h := range slices.Backward(m.freedHost) {
		if uint64(addr) >= h.base && uint64(addr)-h.base < h.bytes {
			f.detail = fmt.Sprintf("%d bytes at %#x: the memory is freed", n, uint64(addr))
			f.allocation = h.String()
			return f
		}
	}
	if addr < firstAddress {
		f.detail = fmt.Sprintf("%d bytes at %#x: neither device memory nor page-locked host memory", n, uint64(addr))
		return f
	}
	f.detail = fmt.Sprintf("%d bytes at %#x: no allocation is there", n, uint64(addr))
	if i := m.reservation(addr, 0); i >= 0 {
		f.detail = fmt.Sprintf("%d bytes at %#x: the addresses are reserved, and nothing is mapped there", n, uint64(addr))
		f.allocation = fmt.Sprintf("%d bytes reserved at %#x by %v", m.reserved[i].bytes, uint64(m.reserved[i].base), m.reserved[i].made)
		return f
	}
	if i, ok := m.index(addr); ok {
		a := m.live[i]
		if beyond := uint64(addr-a.base) - a.bytes; beyond < gap {
			f.detail = fmt.Sprintf("%d bytes at %#x: %d bytes behind the end of an allocation", n, uint64(addr), beyond)
			f.allocation = a.String()
		}
	}
	return f
}

// of lists the allocations of a context.
func (m *space) of(ctx *context) (all []*allocation) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, a := range m.live {
		if a.ctx == ctx {
			all = append(all, a)
		}
	}
	return all
}

func (m *space) hostOf(ctx *context) (all []*hostMemory) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, h := range m.host {
		if h.ctx == ctx {
			all = append(all, h)
		}
	}
	return all
}

func (m *space) addHost(h *hostMemory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, _ := slices.BinarySearchFunc(m.host, h.base, func(h *hostMemory, base uint64) int { return cmp.Compare(h.base, base) })
	m.host = slices.Insert(m.host, i, h)
	// The Go heap may give the addresses of freed memory out again.
	m.freedHost = slices.DeleteFunc(m.freedHost, func(old *hostMemory) bool {
		return old.base < h.base+h.bytes && h.base < old.base+old.bytes
	})
}

func (m *space) dropHost(h *hostMemory, end origin) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.host, h); i >= 0 {
		m.host = slices.Delete(m.host, i, i+1)
	}
	h.freed, h.end, h.data = true, end, nil
	m.freedHost = append(m.freedHost, h)
	if len(m.freedHost) > freedMax {
		m.freedHost = slices.Delete(m.freedHost, 0, freedMax/4)
	}
}
