package gpu

import (
	"fmt"
	"iter"
	"runtime"
	"time"
)

// core runs blocks, one after another. Its coroutines run the threads of the block: the first takes one thread after
// another, until one of them waits for others. Then the next coroutine goes on with the threads that are left. So a
// kernel that never waits is a plain loop, and no one has to tell which kernels do.
type core struct {
	*launch
	b      *block
	number int  // of the block
	begun  int  // threads of the block that have begun
	waits  bool // a thread of the block has waited
	moved  bool // a thread of the block has done more than to pause since all had their turn
	coros  []*coroutine
	held   []*coroutine // by rank, of threads that wait
}

// coroutine runs threads. It stops where one of them waits, and where there is none to begin.
type coroutine struct {
	next  func() (stop, bool)
	end   func()
	yield func(stop) bool
	t     Thread
}

// run runs a block.
func (c *core) run(number int) {
	threads := c.Block.count()
	switch {
	case c.b == nil:
		c.b, c.held = newBlock(threads, c.SharedBytes), make([]*coroutine, threads)
	case c.b.used:
		c.b.reset()
	}
	c.number, c.begun, c.waits = number, 0, false
	for i := 0; c.begun < threads; i++ {
		if i == len(c.coros) {
			c.coros = append(c.coros, c.newCoroutine())
		}
		if !c.step(c.coros[i]) {
			return
		}
	}
	if c.waits {
		c.runThreads()
	}
}

// step lets a coroutine go on until it stops. It reports whether the launch still holds.
func (c *core) step(co *coroutine) bool {
	at, ok := co.next()
	if !ok { // its thread has panicked
		return false
	}
	if at != returned {
		c.b.used, c.waits = true, true
		c.b.at[co.t.rank], c.held[co.t.rank], c.b.looked[co.t.rank] = at, co, co.t.moves
	}
	return !c.failed()
}

// runThreads runs the threads that wait, until all have returned.
func (c *core) runThreads() {
	var since time.Time // from when on all have paused
	for again := true; again; {
		again = false
		switch {
		case c.moved:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > time.Millisecond && c.next.Load() < int64(c.blocks):
			c.more() // they may wait for a block that has not begun
			since = time.Time{}
		default:
			runtime.Gosched()
		}
		c.moved = false
		for rank := 0; rank < len(c.b.at); rank += warpSize {
			first, end, err := c.b.release(rank)
			if err != nil {
				c.accuse(err)
				return
			}
			again = again || end > first
			for i := first; i < end; i++ {
				if c.b.at[i] == running && !c.resume(i) {
					return
				}
			}
		}
	}
	if err := c.b.stuck(); err != nil {
		c.accuse(err)
	}
}

// resume lets a thread go on that has waited. Its coroutine then begins no other: all have begun.
func (c *core) resume(rank int) bool {
	c.b.at[rank] = returned
	ok := c.step(c.held[rank])
	c.moved = c.moved || c.b.at[rank] != paused
	return ok
}

// accuse lets a thread that waits say where it does.
func (c *core) accuse(err error) {
	c.held[c.b.waiting()].t.verdict = err
	c.held[c.b.waiting()].next()
}

func (c *core) newCoroutine() *coroutine {
	co := &coroutine{}
	co.next, co.end = iter.Pull(func(yield func(stop) bool) {
		co.yield = yield
		c.threads(co)
	})
	return co
}

// threads runs threads of block after block.
func (c *core) threads(co *coroutine) {
	defer func() {
		if cause := recover(); cause != nil && cause != (any(abort{})) {
			c.fail(failed(&co.t, cause))
		}
	}()
	t := &co.t
	for {
		for c.begun < len(c.b.at) && !c.failed() {
			rank := c.begun
			c.begun++
			*t = c.thread(c.b, c.number, rank)
			t.wait = co.wait
			c.b.at[rank] = running
			c.kernel(t)
			c.b.at[rank] = returned
			c.b.used = c.b.used || t.vars
		}
		if !co.yield(returned) {
			return
		}
	}
}

// wait is what a thread does at a barrier or a warp function.
func (co *coroutine) wait(t *Thread, at stop) {
	if !co.yield(at) {
		panic(abort{})
	}
	if t.verdict != nil {
		panic(t.verdict)
	}
}

// end ends the coroutines, and notes if the kernel has ended this goroutine.
func (c *core) end(cause any, ended bool) {
	if cause != nil || !ended {
		e := &Error{Block: c.Grid.place(c.number), Err: errGoexit}
		if cause != nil {
			e.Err = fmt.Errorf("panic: %v", cause)
		}
		c.fail(e)
	}
	for _, co := range c.coros {
		co.end()
	}
}
