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

	// crowded is 0 unless the pool was crowded when the mutex was unlocked last. It is 1 more than ran was then. returned counts workers
	// before they are posted, and ran counts those that were run. So crowded is 1 more than returned only where all were run: nobody is
	// refused for a stream that it has given back.
	crowded, returned atomic.Uint64
	ran               uint64
}

// post is a new request or a returned worker.
type post struct {
	request *request
	worker  *Worker
	next    *post
}

// isCrowded reports whether a request would be refused, without the mutex.
func (m *mutex) isCrowded() bool {
	crowded := m.crowded.Load() // before returned
	return crowded != 0 && crowded == m.returned.Load()+1
}

// post hands n to the holder of the mutex, or runs it if the mutex is free. It does not wait.
func (m *mutex) post(n *post) {
	if n.worker != nil {
		m.returned.Add(1)
	}
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
	if m.posted.Load() == nil {
		return
	}
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
			m.ran++
			m.pool.finish(n.worker)
		}
		n = next
	}
}

// Unlock runs what was posted, says whether the pool is crowded, and wakes the requests that were answered.
func (m *mutex) Unlock() {
	for {
		m.runPosted()
		answered := m.answered
		m.answered = nil
		m.publish()
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

// publish sets crowded. Without a change it leaves the memory alone that all callers read.
func (m *mutex) publish() {
	var crowded uint64
	if m.pool.crowded() {
		crowded = 1 + m.ran
	}
	if m.crowded.Load() != crowded {
		m.crowded.Store(crowded)
	}
}
