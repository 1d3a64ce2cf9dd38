package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/runtime"
)

// Batcher joins the small requests of many goroutines into one call of a device. A kernel for 256 requests
// takes about as long as one for a single request, and each call costs a launch, copies and a wait.
//
//	b, err := pool.NewBatcher(p, scoreOnGPU, pool.BatcherConfig[Query, Score]{
//		MaxItems: 256, MaxDelay: time.Millisecond, Fallback: scoreOnCPU,
//	})
//	if err != nil {
//		return err
//	}
//	defer b.Close()
//	score, err := b.Do(ctx, query) // on any number of goroutines
//
// Items go into batches in the order of their arrival. The items of one [Batcher.DoAll] share the batches
// with the items of other callers: a batch takes one item of each caller in turn.
//
// A Batcher is safe for concurrent use. Close it before its pool.
type Batcher[In, Out any] struct {
	config BatcherConfig[In, Out]
	run    func(ctx context.Context, in []In, out []Out, errs []error) error
	rt     *runtime.Runtime // whose Trace is called for the items
	key    any              // of the contexts of its batches
	calls  sync.Pool

	arrived atomic.Pointer[batchCall[In, Out]] // new calls that are not accepted yet, the last one first

	mu          sync.Mutex
	first, last *batchCall[In, Out] // the queue: calls with items that wait, the next one first
	partial     int                 // calls in the queue with some items in batches
	queued      int                 // items that wait
	bytes       int                 // of the items that wait
	running     int                 // batches under way
	timer       *time.Timer
	armed       bool          // the timer runs
	closed      bool          // no more items are accepted
	ended       chan struct{} // closed when no item and no batch is left after that
	stats       BatcherStats
	answered    *batchCall[In, Out] // calls to wake after mu is unlocked
}

// BatcherConfig sets how large batches are and how long items wait. The zero value is usable.
type BatcherConfig[In, Out any] struct {
	// MaxItems is the most items of a batch. The default is 256.
	MaxItems int
	// MaxBytes is the most bytes of a batch, by Bytes. 0 is no limit.
	MaxBytes int
	// Bytes returns the size of an item. It is called on the goroutine of the caller.
	Bytes func(in In) int
	// MaxDelay is how long an item waits for other items while a batch that is not full could start. With
	// 0 items do not wait, and batches grow only while all Batches run.
	MaxDelay time.Duration
	// Queue is how many items may wait. If there is no room, calls fail with ErrQueueFull. The default is
	// 64 batches. With a negative number calls wait until their ctx ends.
	Queue int
	// Batches is how many batches may run at the same time. The default is 2 for each device: one is
	// copied while the other one is computed.
	Batches int
	// Fallback does a batch on the CPU if the devices do not, as DoOptions.Fallback.
	Fallback func(ctx context.Context, in []In, out []Out, errs []error) error
	// The others are as in [DoOptions], for a batch. Its items are those of BreakEven. With Retry the function may
	// run again for the same items: out and errs are cleared before.
	Retry     int
	Devices   []int
	Suits     func(runtime.Device) bool
	Cost      time.Duration
	Priority  int
	Reserve   uint64
	Label     string
	BreakEven *BreakEven
}

const (
	defaultBatchItems       = 256
	defaultQueuedBatches    = 64
	defaultBatchesPerDevice = 2
)

// NewBatcher makes a Batcher on the devices of a pool.
//
// f does a batch. It writes the result of in[i] to out[i], or the error of that item to errs[i]. An error
// that f returns, or its panic, is the error of all items without an error of their own. f must not keep
// the slices. f may run several times at the same time, each with a Worker of its own. The rules for the
// function of [Pool.Do] hold for f.
//
// An errs[i] that says that the device fails, such as one of kind driver.ErrDeviceLost, is a failure of the device for
// that item. It counts for quarantine, and the tries of Retry and the fallback do only such items again.
func NewBatcher[In, Out any](p *Pool, f func(w *Worker, in []In, out []Out, errs []error) error, config BatcherConfig[In, Out]) (*Batcher[In, Out], error) {
	if p == nil || p.rt == nil || f == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a batcher needs a pool of Open and a function")
	}
	// The items were accepted: the batch does not fail because the queue of the pool is full.
	all := DoOptions{Wait: true, ofBatcher: true, Retry: config.Retry, Devices: config.Devices, Suits: config.Suits, Cost: config.Cost, Priority: config.Priority,
		Reserve: config.Reserve, Label: config.Label, BreakEven: config.BreakEven}
	if err := all.check(); err != nil {
		return nil, err
	}
	if config.Batches == 0 {
		config.Batches = defaultBatchesPerDevice * max(len(p.Devices()), 1)
	}
	b, err := newBatcher(func(ctx context.Context, in []In, out []Out, errs []error) error {
		t := &tries[In, Out]{in: in, out: out, errs: errs}
		options := all
		options.Items = len(in)
		if config.Fallback != nil {
			options.Fallback = func(ctx context.Context) error {
				return t.do(func(in []In, out []Out, errs []error) error { return config.Fallback(ctx, in, out, errs) })
			}
		}
		_, err := p.Do(ctx, func(w *Worker) error {
			return t.do(func(in []In, out []Out, errs []error) error { return f(w, in, out, errs) })
		}, options)
		return t.settle(err)
	}, config)
	if err == nil {
		b.rt = p.rt
	}
	return b, err
}

// newBatcher makes a Batcher that calls run for each batch.
func newBatcher[In, Out any](run func(ctx context.Context, in []In, out []Out, errs []error) error, config BatcherConfig[In, Out]) (*Batcher[In, Out], error) {
	switch {
	case config.MaxItems < 0 || config.MaxBytes < 0 || config.MaxDelay < 0 || config.Batches < 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a batcher with MaxItems %d, MaxBytes %d, MaxDelay %v, Batches %d: want numbers that are not negative",
			config.MaxItems, config.MaxBytes, config.MaxDelay, config.Batches)
	case config.MaxBytes > 0 && config.Bytes == nil:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "MaxBytes %d needs Bytes, the size of an item", config.MaxBytes)
	}
	setDefault := func(value *int, otherwise int) {
		if *value == 0 {
			*value = otherwise
		}
	}
	setDefault(&config.MaxItems, defaultBatchItems)
	setDefault(&config.Queue, defaultQueuedBatches*config.MaxItems)
	setDefault(&config.Batches, defaultBatchesPerDevice)
	b := &Batcher[In, Out]{config: config, run: run, ended: make(chan struct{})}
	b.key = withinBatch{b}
	return b, nil
}

// batchCall is a call of Do or DoAll.
type batchCall[In, Out any] struct {
	in    []In
	bytes []int // of the items, if MaxBytes is set
	out   []Out
	errs  []error

	previous, next *batchCall[In, Out]
	taken          int               // items that went into batches
	answered       int               // items whose batch has ended
	batches        []*batch[In, Out] // with items of the call, the last one at the end
	since          time.Time         // of its arrival
	left           bool              // its ctx has ended
	done           chan struct{}     // has a value when all items have their answers
	one            struct {          // the memory of Do
		in      [1]In
		out     [1]Out
		err     [1]error
		batches [1]*batch[In, Out]
	}
}

// batch is a list of items that are done together.
type batch[In, Out any] struct {
	in      []In
	out     []Out
	errs    []error
	items   []batchItem[In, Out] // of the items
	callers int                  // callers that have not left
	ended   bool
	cancel  context.CancelCauseFunc
	ctx     context.Context
}

type batchItem[In, Out any] struct {
	call *batchCall[In, Out]
	item int
}

// errAbandoned is the cause of a batch that was cancelled because no caller waits for it any more.
var errAbandoned = errors.New("all callers of the batch have left")

// withinBatch marks the contexts of batches.
type withinBatch struct{ batcher any }

// Do does one item and returns its result. It blocks until the batch of the item has ended.
//
// If ctx ends first, Do returns its cause. An item in the queue is removed. An item whose batch runs may
// still be read by the batch function, so its memory must not be reused. Other errors are those of the
// batch function, [ErrQueueFull], driver.ErrClosed after Close, and driver.ErrInvalidArgument for an
// item of more than MaxBytes. A call with the context of a batch would wait for its own batch, and
// fails with driver.ErrInvalidArgument.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	if b == nil || b.run == nil {
		var none Out
		return none, errNoBatcher()
	}
	c, _ := b.calls.Get().(*batchCall[In, Out])
	c = zero.Or(c)
	c.one.in[0] = in
	c.in, c.out, c.errs, c.batches = c.one.in[:], c.one.out[:], c.one.err[:], c.one.batches[:0]
	b.do(ctx, c)
	out, err := c.out[0], c.errs[0]
	if !c.left { // else its batch may still refer to it
		*c = batchCall[In, Out]{done: c.done}
		b.calls.Put(c)
	}
	return out, err
}

func errNoBatcher() error {
	return driver.Errorf(driver.ErrInvalidArgument, "a batcher of NewBatcher and a context are needed")
}

// DoAll does some items and returns their results and their errors, both in the order of in. It is as
// [Batcher.Do] for all items at the same time, but either all items are accepted or none is.
func (b *Batcher[In, Out]) DoAll(ctx context.Context, in []In) (out []Out, errs []error) {
	c := &batchCall[In, Out]{in: in, out: make([]Out, len(in)), errs: make([]error, len(in))}
	b.do(ctx, c)
	return c.out, c.errs
}

// errUnanswered marks an item without an answer.
var errUnanswered = errors.New("no answer")

// do puts a call into the queue and waits for its answers.
func (b *Batcher[In, Out]) do(ctx context.Context, c *batchCall[In, Out]) {
	if len(c.in) == 0 {
		return
	}
	if ctx, end := zero.Or(b).rt.TraceRequest(ctx, "pool.Batcher"); end != nil {
		b.doTraced(ctx, c, end)
		return
	}
	b.wait(ctx, c)
}

// wait is do for some items, of which nobody hears.
func (b *Batcher[In, Out]) wait(ctx context.Context, c *batchCall[In, Out]) {
	for i := range c.errs {
		c.errs[i] = errUnanswered
	}
	if err := b.check(ctx, c); err != nil {
		c.fail(err)
		return
	}
	if c.done == nil {
		c.done = make(chan struct{}, 1)
	}
	c.since = time.Now()
	b.enqueue(c)
	if ctx.Done() == nil {
		<-c.done
		return
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		b.abandon(c, context.Cause(ctx))
	}
}

// fail sets the error of the items that have no answer.
func (c *batchCall[In, Out]) fail(err error) {
	for i := range c.errs {
		if c.errs[i] == errUnanswered {
			c.errs[i] = err
		}
	}
}

// measure counts the bytes of the items.
func (b *Batcher[In, Out]) measure(c *batchCall[In, Out]) error {
	if b.config.MaxBytes == 0 {
		return nil
	}
	c.bytes = make([]int, len(c.in))
	return contain.Do(func() error {
		for i, in := range c.in {
			n := b.config.Bytes(in)
			if n < 0 || n > b.config.MaxBytes {
				return driver.Errorf(driver.ErrInvalidArgument, "an item of %d bytes: a batch has 0 to %d", n, b.config.MaxBytes)
			}
			c.bytes[i] = n
		}
		return nil
	})
}

// check returns the error of a call that can never be accepted.
func (b *Batcher[In, Out]) check(ctx context.Context, c *batchCall[In, Out]) error {
	switch {
	case b == nil || b.run == nil || ctx == nil:
		return errNoBatcher()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ctx.Value(b.key) != nil:
		return driver.Errorf(driver.ErrInvalidArgument, "a call within a batch of the same batcher would wait for its own batch")
	case b.config.Queue >= 0 && len(c.in) > b.config.Queue:
		return driver.Errorf(driver.ErrInvalidArgument, "%d items at once: the queue has room for %d", len(c.in), b.config.Queue)
	}
	return b.measure(c)
}

// enqueue posts a call for the holder of mu, so that hundreds of callers do not wait for mu.
func (b *Batcher[In, Out]) enqueue(c *batchCall[In, Out]) {
	for {
		c.next = b.arrived.Load()
		if b.arrived.CompareAndSwap(c.next, c) {
			break
		}
	}
	if b.mu.TryLock() {
		b.unlock()
	}
}

// unlock accepts the calls that have arrived, unlocks mu, and wakes the callers that were answered.
func (b *Batcher[In, Out]) unlock() {
	for {
		b.accept()
		b.start()
		answered := b.answered
		b.answered = nil
		b.mu.Unlock()
		for c := answered; c != nil; {
			next := c.next // the send hands c to its caller
			c.done <- struct{}{}
			c = next
		}
		// Calls that arrived while mu was held were left to this goroutine.
		if b.arrived.Load() == nil || !b.mu.TryLock() {
			return
		}
	}
}

// accept moves the calls that have arrived into the queue, in their order.
func (b *Batcher[In, Out]) accept() {
	var first *batchCall[In, Out]
	for c := b.arrived.Swap(nil); c != nil; {
		next := c.next
		c.next, first = first, c
		c = next
	}
	for c := first; c != nil; {
		next := c.next
		if err := b.full(len(c.in)); err != nil {
			b.stats.Refused += uint64(len(c.in))
			c.fail(err)
			b.answer(c)
		} else {
			b.append(c)
			b.stats.Accepted += uint64(len(c.in))
			b.queued += len(c.in)
			for _, n := range c.bytes {
				b.bytes += n
			}
			b.start()
		}
		c = next
	}
}

// full returns the error if so many items cannot be accepted now.
func (b *Batcher[In, Out]) full(items int) error {
	switch {
	case b.closed:
		return driver.Errorf(driver.ErrClosed, "the batcher was closed before")
	case b.config.Queue >= 0 && items > b.config.Queue-b.queued:
		return fmt.Errorf("%w: %d items wait, and %d may: these are %d more", ErrQueueFull, b.queued, b.config.Queue, items)
	}
	return nil
}

// answer lets unlock wake the caller of a call. All its items have their answers.
func (b *Batcher[In, Out]) answer(c *batchCall[In, Out]) {
	c.answered = len(c.in)
	c.next, b.answered = b.answered, c
}

// start starts the batches that can start, and the timer for the next one. It is called with mu held,
// after every change.
func (b *Batcher[In, Out]) start() {
	for b.first != nil && b.running < b.config.Batches {
		full := b.queued >= b.config.MaxItems || b.config.MaxBytes > 0 && b.bytes >= b.config.MaxBytes
		if wait := b.config.MaxDelay - time.Since(b.first.since); wait > 0 && !full && !b.closed && b.partial == 0 {
			b.arm(wait)
			return
		}
		b.running++
		go b.runBatch(b.nextBatch())
	}
	if b.closed && b.first == nil && b.running == 0 && b.ended != nil {
		select {
		case <-b.ended:
		default:
			close(b.ended)
		}
	}
}

// arm makes the timer call start. The timer is never too late, because the first call is the oldest one.
func (b *Batcher[In, Out]) arm(wait time.Duration) {
	switch {
	case b.armed:
		return
	case b.timer == nil:
		b.timer = time.AfterFunc(wait, b.due)
	default:
		b.timer.Reset(wait)
	}
	b.armed = true
}

func (b *Batcher[In, Out]) due() {
	b.mu.Lock()
	b.armed = false
	b.unlock()
}

// nextBatch makes a batch of the items at the start of the queue, one of each call in turn.
func (b *Batcher[In, Out]) nextBatch() *batch[In, Out] {
	n := min(b.queued, b.config.MaxItems)
	k := &batch[In, Out]{in: make([]In, 0, n), items: make([]batchItem[In, Out], 0, n)}
	now, bytes := time.Now(), 0
	for c := b.first; c != nil && len(k.in) < n; c = b.first {
		i := c.taken
		if c.bytes != nil {
			if bytes += c.bytes[i]; bytes > b.config.MaxBytes {
				break
			}
			b.bytes -= c.bytes[i]
		}
		b.remove(c)
		k.in, k.items = append(k.in, c.in[i]), append(k.items, batchItem[In, Out]{c, i})
		b.stats.Delays.add(uint64(now.Sub(c.since).Microseconds()))
		if len(c.batches) == 0 || c.batches[len(c.batches)-1] != k {
			c.batches = append(c.batches, k)
			k.callers++
		}
		if c.taken++; c.taken < len(c.in) {
			b.append(c)
		}
	}
	b.queued -= len(k.in)
	b.stats.Sizes.add(uint64(len(k.in)))
	k.out, k.errs = make([]Out, len(k.in)), make([]error, len(k.in))
	k.ctx, k.cancel = context.WithCancelCause(context.WithValue(context.Background(), b.key, true))
	return k
}

// runBatch does a batch.
func (b *Batcher[In, Out]) runBatch(k *batch[In, Out]) {
	contain.Call(func() error {
		return b.run(k.ctx, k.in, k.out, k.errs)
	}, func(err error) {
		k.cancel(nil)
		b.finish(k, err)
	})
}

// finish gives the callers of a batch their answers.
func (b *Batcher[In, Out]) finish(k *batch[In, Out], err error) {
	b.mu.Lock()
	k.ended = true
	b.running--
	for i, p := range k.items {
		c := p.call
		c.answered++
		if c.left {
			continue
		}
		if c.out[p.item], c.errs[p.item] = k.out[i], k.errs[i]; c.errs[p.item] == nil {
			c.errs[p.item] = err
		}
		if c.errs[p.item] != nil {
			b.stats.Failed++
		} else {
			b.stats.Done++
		}
		if c.answered == len(c.in) {
			b.answer(c)
		}
	}
	b.unlock()
}

// abandon removes the items of a call whose ctx has ended. It cancels the batches for which no other caller
// waits. Items that have their answers keep them.
func (b *Batcher[In, Out]) abandon(c *batchCall[In, Out], cause error) {
	b.mu.Lock()
	b.accept() // c may be among the new calls
	if c.answered == len(c.in) {
		b.unlock()
		<-c.done
		return
	}
	b.stats.Left += uint64(len(c.in) - c.answered)
	c.left = true
	c.fail(cause)
	if c.taken < len(c.in) {
		b.remove(c)
		b.queued -= len(c.in) - c.taken
		for i := c.taken; c.bytes != nil && i < len(c.in); i++ {
			b.bytes -= c.bytes[i]
		}
	}
	for _, k := range c.batches {
		if k.callers--; k.callers == 0 && !k.ended {
			k.cancel(errAbandoned)
		}
	}
	b.unlock()
}

// append puts a call at the end of the queue.
func (b *Batcher[In, Out]) append(c *batchCall[In, Out]) {
	if c.previous, c.next = b.last, nil; b.last != nil {
		b.last.next = c
	} else {
		b.first = c
	}
	b.last = c
	if c.taken > 0 {
		b.partial++
	}
}

func (b *Batcher[In, Out]) remove(c *batchCall[In, Out]) {
	if c.taken > 0 {
		b.partial--
	}
	if c.previous != nil {
		c.previous.next = c.next
	} else {
		b.first = c.next
	}
	if c.next != nil {
		c.next.previous = c.previous
	} else {
		b.last = c.previous
	}
	c.previous, c.next = nil, nil
}

// Close refuses new items, and returns when all accepted items have their answers. A second call does
// nothing. The function of a batch must not call it: it would wait for its own batch, for ever.
func (b *Batcher[In, Out]) Close() error { return b.Shutdown(context.Background()) }

// Shutdown is as Close until ctx ends. Then the items in the queue fail with an error of kind
// driver.ErrClosed. The error of Shutdown has ctx's cause, and says how many items were in the queue and
// how many batches still run. Callers of those batches get their answers when the batches end. With the context
// of a batch it is an error of kind driver.ErrInvalidArgument.
func (b *Batcher[In, Out]) Shutdown(ctx context.Context) error {
	switch {
	case ctx == nil:
		return driver.Errorf(driver.ErrInvalidArgument, "Shutdown takes a context, and it is nil")
	case b == nil || b.run == nil:
		return nil
	case ctx.Value(b.key) != nil:
		return driver.Errorf(driver.ErrInvalidArgument, "Shutdown within a batch would wait for that batch: close the batcher after it")
	}
	b.mu.Lock()
	b.accept() // the calls that arrived before Close
	b.closed = true
	b.unlock()
	select {
	case <-b.ended:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.unlock()
	if b.first == nil && b.running == 0 {
		return nil
	}
	items := b.queued
	for c := b.first; c != nil; c = b.first {
		b.failQueued(c)
	}
	return fmt.Errorf("%d items were not done, and %d batches are still under way: %w", items, b.running, context.Cause(ctx))
}

// failQueued fails the items of a call that are in the queue.
func (b *Batcher[In, Out]) failQueued(c *batchCall[In, Out]) {
	b.remove(c)
	err := driver.Errorf(driver.ErrClosed, "the batcher was closed before the turn of the item")
	for ; c.taken < len(c.in); c.taken++ {
		c.errs[c.taken] = err
		c.answered++
		b.queued--
		b.stats.Failed++
		if c.bytes != nil {
			b.bytes -= c.bytes[c.taken]
		}
	}
	if c.answered == len(c.in) {
		b.answer(c)
	}
}
