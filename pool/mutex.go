package pool

import (
	"sync"
	"sync/atomic"
)

// mutex guards the state that the calls of a pool share. New requests and returned workers do not wait
// for it: they are posted, and the holder of the mutex runs what was posted before it unlocks. With
// hundreds of goroutines, waiting for a mutex would take most of their time.
type mutex struct {
	sync.Mutex
	pool     *Pool
	posted   atomic.Pointer[post] // the last one first
	answered *request             // requests to wake, linked by after
}

// post is a new request or a returned worker.
type post struct {
	request *request
	worker  *Worker
	next    *post
}

// post hands n to the holder of the mutex, or runs it if the mutex is free. It does not wait.
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

// runPosted runs what was posted. The caller holds the mutex.
func (m *mutex) runPosted() {
	var first *post
	for n := m.posted.Swap(nil); n != nil; {
		next := n.next
		n.next, first = first, n
		n = next
	}
	for n := first; n != nil; {
		next := n.next // n may be posted again
		if n.request != nil {
			m.pool.enqueue(n.request)
		} else {
			m.pool.finish(n.worker)
		}
		n = next
	}
}

// Unlock runs what was posted, and wakes the requests that were answered.
func (m *mutex) Unlock() {
	for {
		m.runPosted()
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
			return // the new holder runs what was posted since
		}
	}
}
