package gpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// crowd runs each thread of a block as a goroutine, so that the race detector sees what no barrier separates. Its
// own lock is hidden from the detector; what a barrier orders is told to it through edges.
type crowd struct {
	*launch
	b     *block
	mu    sync.Mutex
	moved sync.Cond
	// wrong is what is wrong with a barrier, and accused the thread that is there and says where.
	wrong   error
	accused int
	// An edge is an atomic that all threads of a warp or of the block touch before and after they wait. Four in
	// turn, because a fast thread is at the next barrier while a slow one leaves the last.
	barrier [4]atomic.Int32
	warps   [][4]atomic.Int32
	groups  []atomic.Int32
}

// maxGoroutines bounds how many threads run at once: the race detector takes 8128 goroutines.
const maxGoroutines = 4096

// runGoroutines runs the launch, as many blocks at once as maxGoroutines allows. A goroutine lives until all of them
// have ended: the detector cannot report a race with one that is long gone. So it finds races between blocks that
// run at once, and few others.
func (l *launch) runGoroutines() {
	threads := l.Block.count()
	atOnce := max(1, maxGoroutines/threads)
	var all sync.WaitGroup
	for first := 0; first < l.blocks && !l.failed(); first += atOnce {
		end := min(first+atOnce, l.blocks)
		var left atomic.Int64
		left.Store(int64((end - first) * threads))
		ended := make(chan struct{})
		for number := first; number < end; number++ {
			warps := (threads + warpSize - 1) / warpSize
			c := &crowd{launch: l, b: newBlock(threads, l.SharedBytes), warps: make([][4]atomic.Int32, warps), groups: make([]atomic.Int32, warps)}
			c.moved.L = &c.mu
			for rank := range threads {
				all.Go(func() {
					defer func() { // also where the kernel calls runtime.Goexit
						hide()
						if left.Add(-1) == 0 {
							close(ended)
						}
						<-ended
						show()
					}()
					c.thread(rank, number)
				})
			}
		}
		hide() // that a block begins when another has ended orders nothing on a GPU
		<-ended
		show()
	}
	all.Wait()
}

// thread runs one thread.
func (c *crowd) thread(rank, number int) {
	t := c.launch.thread(c.b, number, rank)
	t.wait = c.wait
	ended := false
	defer func() {
		cause := recover()
		switch {
		case cause == any(abort{}):
		case cause != nil:
			c.fail(failed(&t, cause))
		case !ended:
			c.fail(&Error{Block: t.block, Thread: t.thread, Err: errGoexit})
		}
		c.stopped(&t, returned)
	}()
	if !c.failed() {
		c.kernel(&t)
	}
	ended = true
}

// wait is what a thread does at a barrier or a warp function.
func (c *crowd) wait(t *Thread, at stop) {
	if at == paused {
		if runtime.Gosched(); c.failed() {
			panic(abort{})
		}
		return
	}
	if at == atTx { // the barrier itself orders
		if !c.stopped(t, at) {
			c.leave(t)
		}
		return
	}
	edge := &c.barrier[t.passed[at]&3]
	if at == atWarp {
		edge = &c.warps[t.Warp()][t.passed[at]&3]
	}
	if at == atGroup { // lanes come here as often as their groups: one for all, which hides a race at times
		edge = &c.groups[t.Warp()]
	}
	t.passed[at]++
	edge.Add(1)
	goesOn := c.stopped(t, at)
	edge.Add(1)
	if !goesOn {
		c.leave(t)
	}
}

// leave ends a thread that may not go on.
func (c *crowd) leave(t *Thread) {
	if t.verdict != nil {
		panic(t.verdict)
	}
	panic(abort{})
}

// stopped notes where a thread is, lets go who need not wait any longer, and waits with the others. It tells
// whether the thread may go on.
//
//go:norace
func (c *crowd) stopped(t *Thread, at stop) bool {
	hide()
	defer show()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.b.at[t.rank], c.b.looked[t.rank] = at, t.moves
	for rank := 0; rank < len(c.b.at); rank += warpSize {
		if own := t.rank - t.Lane(); (at == atWarp || at == atGroup) && rank != own {
			continue
		}
		if _, _, err := c.b.release(rank); err != nil && c.wrong == nil {
			c.wrong, c.accused = err, c.b.waiting()
		}
	}
	if err := c.b.stuck(); err != nil && c.wrong == nil {
		c.wrong, c.accused = err, c.b.waiting()
	}
	c.moved.Broadcast()
	for at != returned && c.b.at[t.rank] != running && !c.failed() && c.wrong == nil {
		c.moved.Wait()
	}
	if c.wrong != nil && at != returned && c.accused == t.rank {
		t.verdict = c.wrong
	}
	return c.wrong == nil && !c.failed()
}
