//go:build race && (amd64 || arm64)

package locks

import (
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
)

// Mutex is a sync.Mutex with a place in the order.
type Mutex[L any] struct{ mu sync.Mutex }

func (m *Mutex[L]) Lock() {
	take[L](true)
	m.mu.Lock()
}

func (m *Mutex[L]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	take[L](false)
	return true
}

func (m *Mutex[L]) Unlock() {
	m.mu.Unlock()
	drop[L]()
}

// places is where each lock stands in the order.
var places = func() map[any]int {
	all := map[any]int{}
	for i, l := range order {
		all[l.of] = i
	}
	return all
}()

// held is what one goroutine holds. Others may look at the slot, and only that goroutine changes it.
type held struct {
	goroutine atomic.Uintptr // 0: free
	locks     atomic.Uint64  // by place
	counts    [64]atomic.Int32
}

// slots have room for all goroutines that hold a lock. Where there is no room nothing is checked.
var slots [4096]held

const reach = 64 // slots that a goroutine may have

// self identifies the calling goroutine as long as it runs.
func self() uintptr

// slot returns the slot of the calling goroutine, or nil. The caller has turned the race detector off,
// which would otherwise take the slots for an order between goroutines.
func slot(claim bool) *held {
	g := self()
	at := g >> 6 * 0x9E3779B1
	for {
		var free *held
		for i := range uintptr(reach) {
			s := &slots[(at+i)%uintptr(len(slots))]
			switch s.goroutine.Load() {
			case g:
				return s
			case 0:
				if free == nil {
					free = s
				}
			}
		}
		if !claim || free == nil {
			return nil
		}
		if free.goroutine.CompareAndSwap(0, g) {
			return free
		}
	}
}

// take notes that the goroutine takes a lock, which waits for it or has it.
func take[L any](waits bool) {
	var l L
	at := places[l]
	goruntime.RaceDisable()
	s := slot(true)
	var before uint64
	if s != nil {
		if before = s.locks.Load(); waits {
			before >>= at
			if order[at].many {
				before &^= 1
			}
		} else {
			before = 0
		}
		if before == 0 {
			s.counts[at].Add(1)
			s.locks.Store(s.locks.Load() | 1<<at)
		}
	}
	goruntime.RaceEnable()
	if before != 0 {
		panic(fmt.Sprintf("locks: %T is taken while %v are held, which come after it", l, names(before<<at)))
	}
}

// drop notes that the goroutine gives a lock up.
func drop[L any]() {
	var l L
	at := places[l]
	goruntime.RaceDisable()
	defer goruntime.RaceEnable()
	s := slot(false)
	if s == nil || s.counts[at].Add(-1) > 0 {
		return
	}
	left := s.locks.Load() &^ (1 << at)
	if s.locks.Store(left); left == 0 {
		s.goroutine.Store(0)
	}
}

// Block says that the goroutine is about to call the driver, or to wait.
func Block() {
	goruntime.RaceDisable()
	var holds uint64
	if s := slot(false); s != nil {
		holds = s.locks.Load()
	}
	goruntime.RaceEnable()
	if holds &^= blocking; holds != 0 {
		panic(fmt.Sprintf("locks: the goroutine blocks while it holds %v", names(holds)))
	}
}

// blocking are the locks that may be held by who blocks.
var blocking = func() (all uint64) {
	for i, l := range order {
		if l.blocks {
			all |= 1 << i
		}
	}
	return all
}()

func names(places uint64) (all []string) {
	for i, l := range order {
		if places&(1<<i) != 0 {
			all = append(all, fmt.Sprintf("%T", l.of))
		}
	}
	return all
}
