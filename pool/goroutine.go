package pool

import (
	"bytes"
	goruntime "runtime"
	"strconv"
)

// goroutine is the number of the goroutine that calls it, from its stack, as golang.org/x/net/http2
// reads it. If that ever looks different it is 0, and calls within calls are not noticed.
func goroutine() uint64 {
	var buffer [64]byte
	text, ok := bytes.CutPrefix(buffer[:goruntime.Stack(buffer[:], false)], []byte("goroutine "))
	if !ok {
		return 0
	}
	number, _, _ := bytes.Cut(text, []byte(" "))
	n, _ := strconv.ParseUint(string(number), 10, 64)
	return n
}

// serving tells whether the goroutine is that of a device of the pool, which serves a call.
func (p *Pool) serving() bool {
	p.mu.Lock()
	lanes := p.lanes
	p.mu.Unlock()
	if len(lanes) == 0 {
		return false
	}
	me := goroutine()
	for _, l := range lanes {
		if me != 0 && l.ours.Load() == me {
			return true
		}
	}
	return false
}

// within tells whether a function of a call has brought the goroutine here.
func (p *Pool) within() bool {
	_, core := p.cores.Load(goroutine())
	return core || p.serving()
}
