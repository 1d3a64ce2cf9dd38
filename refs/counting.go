package refs

// A count has the leases in its lower half and the references above them. When it falls
// to nothing, somebody sets ended and frees the memory. Until then a new lease may
// still revive it, since it is only handed out through a handle that is open.
const (
	oneLease  = 1
	oneRef    = 1 << 32
	leaseMask = oneRef - 1
	ended     = 1 << 62
)

// lease keeps the memory from being freed until release. It fails where that has
// happened.
func (m *memory) lease() bool {
	if m.count.Add(oneLease) >= ended {
		m.count.Add(-oneLease)
		return false
	}
	return true
}

// release ends a lease. One that was never taken is not missed.
func (m *memory) release() {
	for {
		n := m.count.Load()
		if n >= ended || n&leaseMask == 0 {
			return
		}
		if m.count.CompareAndSwap(n, n-oneLease) {
			m.state.changed.Broadcast()
			if n == oneLease {
				m.state.cleanup(m.endIfUnused())
			}
			return
		}
	}
}

// endIfUnused frees the memory, once, unless it is used again.
func (m *memory) endIfUnused() error {
	if !m.count.CompareAndSwap(0, ended) {
		return nil
	}
	return m.end()
}

func (m *memory) leases() uint64 {
	n := m.count.Load()
	if n >= ended {
		return 0
	}
	return uint64(n & leaseMask)
}

func (m *memory) leased() bool { return m.leases() > 0 }
