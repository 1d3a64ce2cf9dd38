package arena

import (
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/zero"
)

// Workers are goroutines that copy between pageable and page-locked memory: one alone moves
// about 12 GB/s, a fifth of what the bus of a device carries. All devices of a process share them.
//
// They start when there is work, and end when there was none for a moment. The goroutine that asks
// for a copy does it together with as many free workers as are of use. If several copies are under
// way, workers change between them after each piece, so that no copy waits for the end of another.
// Workers are safe for concurrent use.
type Workers struct {
	limit    int
	spin     time.Duration
	spinners int // at most

	mu       locks.Mutex[locks.Workers]
	closed   bool
	idle     int // of the running ones, those that wait for work
	nextTask int // where join looks first
	tasks    []*transfer
	running  atomic.Int32   // written with the lock held
	open     atomic.Int32   // how many tasks there are; written with the lock held
	wanted   atomic.Int32   // how many workers all tasks together have use for; written with the lock held
	shown    atomic.Uint64  // counts what was shown, for those that wait
	done     sync.WaitGroup // the running ones
}

const (
	mostWorkers = 1024 // that a caller can ask for
	maxWorkers  = 16   // where more do not help: the memory of the host is the limit

	// spinTime is how long workers spin while they wait for work. To start the threads of
	// idle processors takes nearly a millisecond, and copies often follow on each other. Where
	// there are few processors they are of more use to others.
	spinTime  = 500 * time.Microsecond
	spinAbove = 4 // processors
)

// NewWorkers makes n workers at most. 0 means one for each processor that Go uses except the
// caller's, and at most 16. It starts no goroutine.
func NewWorkers(n int) *Workers {
	processors := goruntime.GOMAXPROCS(0)
	if n <= 0 {
		n = min(max(processors-1, 1), maxWorkers)
	}
	w := &Workers{limit: min(n, mostWorkers)}
	if processors > spinAbove {
		w.spin, w.spinners = spinTime, min(defaultHelpers, processors/2)
	}
	return w
}

// Close lets the workers end, and waits for it. Copies that are under way are completed by
// their callers, and so are later ones. It may be called twice.
func (w *Workers) Close() {
	w = zero.Or(w)
	w.mu.Lock()
	w.closed = true
	w.tasks = nil
	w.shown.Add(1) // so that those that wait look
	w.mu.Unlock()
	w.done.Wait()
}

// offer lets the workers take part in a transfer that has use for some, until withdraw.
func (w *Workers) offer(t *transfer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || t.wanted <= 0 {
		return
	}
	w.tasks = append(w.tasks, t)
	w.open.Add(1)
	w.wanted.Add(int32(t.wanted))
}

// withdraw makes sure that no worker begins with the transfer any more.
func (w *Workers) withdraw(t *transfer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.tasks, t); i >= 0 {
		w.tasks = slices.Delete(w.tasks, i, i+1)
		w.open.Add(-1)
		w.wanted.Add(int32(-t.wanted))
	}
}

// show tells the workers that there are more pieces, and starts workers that are missing.
func (w *Workers) show(t *transfer) {
	if t.wanted <= 0 {
		return
	}
	w.shown.Add(1)
	if int(w.running.Load()) >= min(int(w.wanted.Load()), w.limit) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	for int(w.running.Load()) < min(int(w.wanted.Load()), w.limit) {
		w.running.Add(1)
		w.done.Add(1)
		go w.work()
	}
}

// work is a worker.
func (w *Workers) work() {
	defer w.done.Done()
	for {
		seen := w.shown.Load()
		t := w.join()
		switch {
		case t != nil:
			for t.move() && w.open.Load() == 1 {
			}
			w.leave(t)
		case !w.wait(seen):
			return
		}
	}
}

// join lets a worker take part in the next transfer that has pieces to move and use for a worker, or returns nil.
func (w *Workers) join() *transfer {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nextTask++
	for i := range w.tasks {
		t := w.tasks[(w.nextTask+i)%len(w.tasks)]
		if t.helping < t.wanted && t.movable() {
			t.helping++
			t.helpers.Add(1)
			return t
		}
	}
	return nil
}

func (w *Workers) leave(t *transfer) {
	w.mu.Lock()
	t.helping--
	w.mu.Unlock()
	t.helpers.Done()
}

// wait waits a moment until something is shown that was not seen, and reports whether it was. If not, the worker is
// counted out and must end.
func (w *Workers) wait(seen uint64) bool {
	w.mu.Lock()
	w.idle++
	spins := w.idle <= w.spinners && !w.closed
	w.mu.Unlock()
	for start := time.Now(); spins && w.shown.Load() == seen && time.Since(start) < w.spin; {
		goruntime.Gosched()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle--
	if !w.closed && w.shown.Load() != seen {
		return true
	}
	w.running.Add(-1)
	return false
}
