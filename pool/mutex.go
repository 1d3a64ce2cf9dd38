package pool

import (
	"sync"
	"sync/atomic"
)

// mutex guards what the calls of a pool share. Requests that come and workers that come back do not
// wait for it: they are posted, and whoever has the mutex does what was posted before it is free. With
// hundreds of goroutines a mutex that they wait for is what they do most.
type mutex struct {
	sync.Mutex
	pool     *Pool
	posted   atomic.Pointer[post] // the last one first
	answered *request             // those to be woken, by after
}

// post is a request that comes, or a worker that comes back.
type post struct {
	request *request
	worker  *Worker
	next    *post
}

// post does what it is given as soon as the mutex is free. It does not wait.
func (m *mutex) post(n *post) {
	for {
		n.next = m.posted.Load()
		if m.posted.CompareAndSwap(n.next, n) {
			break
		}
	}
	if m.TryLock() {
		m.Unlock()
	}
}

// work does what was posted. The mutex is held.
func (m *mutex) work() {
	var first *post
	for n := m.posted.Swap(nil); n != nil; {
		next := n.next
		n.next, first = first, n
		n = next
	}
	for n := first; n != nil; {
		next := n.next // it may be posted anew
		if n.request != nil {
			m.pool.arrive(n.request)
		} else {
			m.pool.finish(n.worker)
		}
		n = next
	}
}

// Unlock does what was posted, and wakes those who were answered.
func (m *mutex) Unlock() {
	for {
		m.work()
		answered := m.answered
		m.answered = nil
		m.Mutex.Unlock()
		for r := answered; r != nil; {
			next := r.after
			r.after = nil
			r.ready <- struct{}{}
			r = next
		}
		if m.posted.Load() == nil || !m.TryLock() {
			return // who has it now does what was posted since
		}
	}
}
