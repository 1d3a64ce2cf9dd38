package drivertest

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
)

// deviceMemory is the address space as one launch of a kernel sees it. It implements
// exec.Memory.
//
// Kernels switch between their arrays at nearly every access, on all cores. What was
// found once is therefore found again without a lock; memory that the program frees
// meanwhile stays there until the launch has ended, as it may on hardware.
type deviceMemory struct {
	space *space
	ctx   *context
	known [8]atomic.Pointer[region]
	next  atomic.Uint32 // the place of known that is filled next
}

// region is an allocation that a launch has touched.
type region struct {
	base uint64
	data []byte
}

// Find implements exec.Memory.
func (m *deviceMemory) Find(addr uint64) (base uint64, data []byte, ok bool) {
	for i := range m.known {
		r := m.known[i].Load()
		if r == nil {
			break
		}
		if addr-r.base < uint64(len(r.data)) {
			return r.base, r.data, true
		}
	}
	r := m.space.region(addr, m.ctx)
	if r == nil {
		return 0, nil, false
	}
	m.known[(m.next.Add(1)-1)%uint32(len(m.known))].Store(r)
	return r.base, r.data, true
}

// region returns the allocation at addr that kernels of a context may use, or nil.
func (m *space) region(addr uint64, ctx *context) *region {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if addr < firstAddress {
		if h := m.hostAt(addr); h != nil {
			return &region{h.base, h.data}
		}
		return nil
	}
	a := m.at(driver.DevicePtr(addr))
	if a == nil || !a.ready || !ctx.reaches(a) {
		return nil
	}
	return &region{uint64(a.base), a.memory()}
}

// describe names the allocation that holds addr, if there is one.
func (m *space) describe(addr driver.DevicePtr) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if a := m.at(addr); a != nil {
		return a.String()
	}
	if h := m.hostAt(uint64(addr)); h != nil {
		return h.String()
	}
	return ""
}

// reaches tells whether kernels of the context may use an allocation. It may be of its own device,
// of a peer whose access is enabled, or of a pool that is open to the device.
func (ctx *context) reaches(a *allocation) bool {
	if a.block != nil {
		return a.open(ctx.dev)
	}
	return ctx == a.ctx || ctx.dev == a.dev || ctx.peers[a.ctx] || a.pool.open(ctx.dev)
}
