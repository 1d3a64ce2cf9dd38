package arena

import (
	goruntime "runtime"
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
	limit int
	spin  time.Duration

	mu       locks.Mutex[locks.Workers]
	closed   bool
	running  int
	idle     int // of the running ones, those that wait for work
	nextTask int // where next looks first
	tasks    []*transfer
	open     atomic.Int32   // how many tasks there are, for those that wait
	done     sync.WaitGroup // the running ones
}

const (
	mostWorkers = 1024 // that a caller can ask for
	maxWorkers  = 16   // where more do not help: the memory of the host is the limit

	// spinTime is how long workers spin while they wait for work. To start the threads of
	// idle processors takes nearly a millisecond, and copies often follow on each other. Where
	// there are few processors they are of more use to others.
	spinTime    = 500 * time.Microsecond
	spinAbove   = 4 // processors
	maxSpinning = defaultHelpers
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
		w.spin = spinTime
	}
	return w
}

// Limit is how many there are at most.
func (w *Workers) Limit() int { return zero.Or(w).limit }

// Close lets the workers end, and waits for it. Copies that are under way are completed by
// their callers, and so are later ones. It may be called twice.
func (w *Workers) Close() {
	w = zero.Or(w)
	w.mu.Lock()
	w.closed = true
	w.tasks = nil
	w.open.Store(1) // so that those that wait look
	w.mu.Unlock()
	w.done.Wait()
}

// run does all pieces of a transfer, together with the workers that are free, and returns
// when nobody touches its memory any more.
func (w *Workers) run(t *transfer) error {
	w.offer(t)
	h := pieceCopier{t: t}
	for {
		piece, ok := t.claim()
		if !ok {
			break
		}
		h.do(piece)
	}
	h.finish()
	w.withdraw(t)
	t.helpers.Wait()
	return t.failure()
}

// offer shows a transfer to the workers, and starts those that are missing.
func (w *Workers) offer(t *transfer) {
	wanted := t.helpersWanted()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || wanted <= 0 {
		return
	}
	w.tasks = append(w.tasks, t)
	w.open.Store(int32(len(w.tasks)))
	for range min(wanted-w.idle, w.limit-w.running) {
		w.running++
		w.done.Add(1)
		go w.work()
	}
}

// withdraw makes sure that no worker begins with the transfer any more.
func (w *Workers) withdraw(t *transfer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.tasks {
		if other == t {
			w.remove(i)
			return
		}
	}
}

func (w *Workers) remove(i int) {
	last := len(w.tasks) - 1
	w.tasks[i] = w.tasks[last]
	w.tasks[last] = nil
	w.tasks = w.tasks[:last]
	w.open.Store(int32(last))
}

// work is a worker.
func (w *Workers) work() {
	defer w.done.Done()
	var h pieceCopier
	for {
		t, piece := w.next(h.t)
		if t != h.t && h.t != nil {
			h.finish()
			h.t.helpers.Done()
		}
		h.t = t
		if t == nil {
			if !w.wait() {
				return
			}
			continue
		}
		h.do(piece)
	}
}

// wait waits a moment for work, and reports whether there is some. If not, the worker is
// counted out and must end.
func (w *Workers) wait() bool {
	w.mu.Lock()
	w.idle++
	if w.idle <= maxSpinning {
		w.mu.Unlock()
		for start := time.Now(); w.open.Load() == 0 && time.Since(start) < w.spin; {
			goruntime.Gosched()
		}
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	w.idle--
	for _, t := range w.tasks {
		if t.helping < t.helpersWanted() && !t.claimed() {
			return true
		}
	}
	w.running--
	return false
}

// next claims a piece of the next transfer that has use for a worker who was
// at another one. It returns nil where there is none.
func (w *Workers) next(before *transfer) (t *transfer, piece uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nextTask++
	for i := 0; i < len(w.tasks); {
		at := (w.nextTask + i) % len(w.tasks)
		t := w.tasks[at]
		if t != before && t.helping >= t.helpersWanted() {
			i++
			continue
		}
		piece, ok := t.claim()
		if !ok {
			w.remove(at)
			continue
		}
		if t != before {
			t.helping++
			t.helpers.Add(1)
			leave(before)
		}
		return t, piece
	}
	leave(before)
	return nil, 0
}

// leave counts a worker out. w.mu is held.
func leave(t *transfer) {
	if t != nil {
		t.helping--
	}
}
