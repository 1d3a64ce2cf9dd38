package refs_test

import (
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"time"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/race"
	"github.com/purecuda/purecuda/refs"
)

const elements = 256 // of the largest memory

// worker is one goroutine of a campaign, with a stream in the world that it knows.
type worker struct {
	*campaign
	chance *rand.Rand
	at     *world
	s      *arena.Stream
	to     []*target
	reads  []pendingRead // on the stream
}

// pendingRead is a copy that is on the stream, and what it must have found.
type pendingRead struct {
	to   *target
	want []uint32
	from *content
}

func collectNow() {
	goruntime.GC()
	time.Sleep(100 * time.Microsecond)
}

func (c *campaign) worker(chance *rand.Rand) {
	w := &worker{campaign: c, chance: chance}
	for range 3 {
		if to := c.target(elements); to != nil {
			w.to = append(w.to, to)
		}
	}
	for range c.steps {
		if w.s == nil || w.at != c.world.Load() {
			w.settle() // if its world is still there
			w.reads, w.s = nil, nil
			w.at = c.world.Load()
			var err error
			if w.s, err = w.at.stream(c); err != nil {
				c.explained("stream", err)
				time.Sleep(50 * time.Microsecond)
				continue
			}
		}
		w.step()
		if w.chance.IntN(25) == 0 {
			w.closeStream()
		}
	}
	w.settle()
}

// closeStream ends the arena's use of the stream, with the work that is on it, and at times
// destroys it at once. Others that used the same memory have to wait for that work still.
func (w *worker) closeStream() {
	s := w.s
	if w.explained("close stream", s.Close()) {
		w.tally.unproven.Add(1)
	}
	w.tally.closed.Add(1)
	w.settle()
	w.s = nil
	if w.chance.IntN(2) == 0 {
		w.at.destroy(w.campaign, s.Handle())
	}
}

func (w *worker) step() {
	if w.chance.IntN(4) == 0 {
		w.alloc()
		return
	}
	x := w.pick()
	if x == nil {
		w.alloc()
		return
	}
	x.mu.Lock()
	if len(x.refs) == 0 {
		x.mu.Unlock()
		w.drop(x)
		return
	}
	r := x.refs[w.chance.IntN(len(x.refs))]
	if w.chance.IntN(12) == 0 && !race.Enabled { // without the lock, a data race on the device
		x.wild.Store(true)
		x.mu.Unlock()
		w.fill(x, r, false)
		return
	}
	defer x.mu.Unlock()
	switch w.chance.IntN(12) {
	case 0, 1, 2:
		w.fill(x, r, true)
	case 3, 4, 5:
		w.read(x, r)
	case 6, 7:
		x.refs = append(x.refs, r.Retain())
	case 8:
		w.close(x, r)
	case 9:
		x.refs = slices.DeleteFunc(x.refs, func(o *refs.Ref[uint32]) bool { return o == r })
		w.tally.forgot.Add(1) // and so closed by the garbage collector
	case 10:
		w.lease(x, r)
	case 11:
		w.settle()
	}
}

func (w *worker) pick() *content {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.shared) == 0 {
		return nil
	}
	return w.shared[w.chance.IntN(len(w.shared))]
}

func (w *worker) drop(x *content) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shared = slices.DeleteFunc(w.shared, func(o *content) bool { return o == x })
}

func (w *worker) alloc() {
	n := []int{1 + w.chance.IntN(elements), elements, elements}[w.chance.IntN(3)]
	r, err := refs.New[uint32](w.state, w.s, n)
	if w.explained("alloc", err) {
		return
	}
	x := &content{refs: []*refs.Ref[uint32]{r}, n: n}
	w.fill(x, r, true)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shared = append(w.shared, x)
}

// enqueue makes one use of a Ref; without Use if that is the mistake to be found.
func (w *worker) enqueue(what string, r *refs.Ref[uint32], write bool, op string, f func(driver.DevicePtr) driver.Result) bool {
	p, err := r.Acquire()
	if w.explained(what, err) {
		return false
	}
	defer r.Release()
	if w.at != w.world.Load() {
		return false // the memory may be newer than the stream
	}
	if !w.bypass {
		if w.explained(what, r.Core().Use(w.s, write)) {
			return false
		}
	}
	if w.chance.IntN(8) == 0 {
		goruntime.Gosched()
	}
	return !w.explained(what, w.at.binding.Failed(op, f(p)))
}

// fill writes all or a part of a memory. known says that the content's lock is held.
func (w *worker) fill(x *content, r *refs.Ref[uint32], known bool) {
	i, j, v := 0, x.n, w.chance.Uint32()
	part := r
	if w.chance.IntN(3) == 0 {
		i = w.chance.IntN(x.n)
		j = i + 1 + w.chance.IntN(x.n-i)
		part = r.Slice(i, j)
	}
	ok := w.enqueue("fill", part, true, "cuMemsetD32Async", func(p driver.DevicePtr) driver.Result {
		return w.gpu.MemsetD32Async(p, v, uint64(j-i), w.s.Handle())
	})
	if !known || !ok {
		return
	}
	switch {
	case i == 0 && j == x.n:
		x.want = slices.Repeat([]uint32{v}, x.n)
	case x.want != nil:
		x.want = slices.Clone(x.want)
		for k := i; k < j; k++ {
			x.want[k] = v
		}
	}
}

func (w *worker) read(x *content, r *refs.Ref[uint32]) {
	if len(w.to) == len(w.reads) {
		w.settle()
	}
	if len(w.to) == len(w.reads) {
		return
	}
	to := w.to[len(w.reads)]
	if w.enqueue("read", r, false, "cuMemcpyDtoHAsync", func(p driver.DevicePtr) driver.Result {
		return w.gpu.MemcpyDtoHAsync(pointer(to.data), p, r.Bytes(), w.s.Handle())
	}) {
		w.reads = append(w.reads, pendingRead{to, x.want, x})
	}
}

// settle waits for the stream and compares what was read.
func (w *worker) settle() {
	if w.s == nil || len(w.reads) == 0 {
		return
	}
	w.at.mu.RLock()
	done := !w.at.dead && w.gpu.StreamSynchronize(w.s.Handle()) == driver.Success
	w.at.mu.RUnlock()
	if !done {
		w.at.mu.RLock()
		dead := w.at.dead
		w.at.mu.RUnlock()
		if !dead && w.gpu.Sticky() == driver.Success {
			w.campaign.fail("a stream cannot be waited for")
		}
		w.reads = nil
		return
	}
	for _, p := range w.reads {
		if p.want == nil || p.from.wild.Load() || w.gpu.Sticky() != driver.Success {
			continue
		}
		w.tally.reads.Add(1)
		for i, v := range p.want {
			if p.to.data[i] != v {
				w.campaign.fail("element %d of %d is %#x, want %#x", i, p.from.n, p.to.data[i], v)
				break
			}
		}
	}
	w.reads = nil
}

func (w *worker) close(x *content, r *refs.Ref[uint32]) {
	w.explained("close", r.Close())
	w.explained("close again", r.Close())
	if _, err := r.Access(); err == nil {
		w.campaign.fail("a Ref that is closed was accessed")
	}
	x.refs = slices.DeleteFunc(x.refs, func(o *refs.Ref[uint32]) bool { return o == r })
}

// lease closes a Ref under a lease, and uses it.
func (w *worker) lease(x *content, r *refs.Ref[uint32]) {
	last := r.Retain()
	p, err := last.Acquire()
	if w.explained("acquire", err) {
		w.explained("close", last.Close())
		return
	}
	w.explained("close", last.Close())
	if w.at == w.world.Load() && !w.explained("use", last.Core().Use(w.s, true)) {
		v := w.chance.Uint32()
		if !w.explained("fill", w.at.binding.Failed("cuMemsetD32Async", w.gpu.MemsetD32Async(p, v, uint64(x.n), w.s.Handle()))) {
			x.want = slices.Repeat([]uint32{v}, x.n)
		}
	}
	last.Release()
}
