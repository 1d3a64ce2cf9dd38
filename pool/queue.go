package pool

import (
	"slices"
	"time"
)

// request asks for a worker, for a call of Do or for a participant of a Scatter.
type request struct {
	cost     float64 // estimated seconds on a device
	priority int
	deadline time.Time

	devices  []int     // ordinals
	tried    []*device // that it has failed on
	only     *device   // of a participant of a Scatter, or the CPU
	scatter  *scatterCall
	first    *device // that it waits for, while that is in service
	begun    bool    // is part of a call that has begun, which Close waits for
	refuse   bool    // does not wait
	overflow bool    // waits also if the queue is full: the caller's wish, or it was let in before

	label string // of the memory to reserve
	bytes uint64
	short *ReserveError // why no device with a free stream takes it

	accepted bool // counted in the pool's calls
	waiting  bool // it is in the queue
	refused  bool // there was no room in the queue

	since  time.Time     // in the queue
	waited time.Duration // of all tries
	// The answer, after ready has received.
	worker *Worker
	err    error
	ready  chan struct{}

	before, after *request // in the queue; after also in the list of answered requests
	post          post
}

// may reports whether a device may take the request.
func (r *request) may(d *device) bool {
	if r.only != nil {
		return r.only == d
	}
	return (len(r.devices) == 0 || slices.Contains(r.devices, d.info.Ordinal)) &&
		!slices.Contains(r.tried, d)
}

// waitsFor reports whether the request leaves d to others, and waits for another device.
func (r *request) waitsFor(d *device) bool {
	return r.first != nil && r.first != d && !r.first.quarantine.on && r.may(r.first)
}

// bounded reports whether the request needs room in the queue to wait. The parts of a Scatter do not.
func (r *request) bounded() bool { return r.only == nil || r.only == &r.only.pool.cpu }

// plain reports whether any device may take the request, which is new, and needs room in the queue to wait.
func (r *request) plain() bool {
	return r.only == nil && r.bytes == 0 && len(r.devices) == 0 && !r.accepted && !r.overflow && !r.refuse
}

// goesBefore reports whether the request overtakes one that has come earlier.
func (r *request) goesBefore(o *request) bool {
	switch {
	case r.priority != o.priority:
		return r.priority > o.priority
	case r.deadline.IsZero():
		return false
	}
	return o.deadline.IsZero() || r.deadline.Before(o.deadline)
}

// queue is the list of the requests that wait, the next one first.
type queue struct {
	first, last *request
	bounded     int // requests that need room
	reserving   int // requests that reserve memory
}

func (q *queue) insert(r *request) {
	at := q.last
	for at != nil && r.goesBefore(at) {
		at = at.before
	}
	r.waiting, r.before, r.overflow = true, at, true
	if at == nil {
		r.after, q.first = q.first, r
	} else {
		r.after, at.after = at.after, r
	}
	if r.after == nil {
		q.last = r
	} else {
		r.after.before = r
	}
	if r.bounded() {
		q.bounded++
	}
	if r.bytes > 0 {
		q.reserving++
	}
}

func (q *queue) remove(r *request) {
	if r.before == nil {
		q.first = r.after
	} else {
		r.before.after = r.after
	}
	if r.after == nil {
		q.last = r.before
	} else {
		r.after.before = r.before
	}
	r.waiting, r.before, r.after = false, nil, nil
	if r.bounded() {
		q.bounded--
	}
	if r.bytes > 0 {
		q.reserving--
	}
}
