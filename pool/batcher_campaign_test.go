package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/seeds"
)

// Callers with one item and with many, some of which leave, meet batch functions that fail in all ways, and
// a Close in the middle. Every item gets exactly one answer, its own, and was in one batch at most.
func TestBatcherCampaign(t *testing.T) {
	var sum batcherTally
	seeds.Run(t, seeds.Count(300, 1500, 1500), func(seed uint64) *batcherCampaign {
		return &batcherCampaign{seed: seed, chance: rand.New(rand.NewPCG(seed, 0xba7c)), sum: &sum, seen: map[int]int{}}
	})
	t.Logf("%d items right, %d failed, %d left, %d refused; %d batches", sum.right.Load(), sum.failed.Load(), sum.left.Load(), sum.refused.Load(), sum.batches.Load())
}

type batcherTally struct{ right, failed, left, refused, batches atomic.Int64 }

var (
	errItem  = errors.New("the item fails")
	errBatch = errors.New("the batch fails")
	errLeft  = errors.New("the caller leaves")
)

type batcherCampaign struct {
	seed   uint64
	sum    *batcherTally
	config BatcherConfig[int, int]
	b      *Batcher[int, int]
	closes bool

	mu     sync.Mutex
	chance *rand.Rand
	seen   map[int]int // items by how many batches had them
	wrong  error
	right  int
}

// Describe implements [seeds.Program].
func (c *batcherCampaign) Describe() string { return fmt.Sprintf("%+v", c.config) }

// roll is a number below n, on any goroutine.
func (c *batcherCampaign) roll(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chance.IntN(n)
}

func (c *batcherCampaign) found(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = errors.Join(c.wrong, err)
}

func itemBytes(item int) int { return item % 10 }
func fails(item int) bool    { return item%13 == 5 }

// Run implements [seeds.Program].
func (c *batcherCampaign) Run() error {
	c.config = BatcherConfig[int, int]{MaxItems: 1 + c.roll(16), MaxDelay: time.Duration(c.roll(300)) * time.Microsecond,
		Queue: []int{-1, 20 + c.roll(60)}[c.roll(2)], Batches: 1 + c.roll(4)}
	if c.roll(2) == 0 {
		c.config.MaxBytes, c.config.Bytes = 9+c.roll(50), itemBytes
	}
	var err error
	if c.b, err = newBatcher(c.run, c.config); err != nil {
		return err
	}
	c.closes = c.roll(3) == 0
	var all sync.WaitGroup
	callers := 2 + c.roll(10)
	for caller := range callers {
		all.Go(func() { c.call(caller) })
	}
	if c.closes {
		all.Go(func() {
			time.Sleep(time.Duration(c.roll(1000)) * time.Microsecond)
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.roll(500))*time.Microsecond)
			defer cancel()
			if err := c.b.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				c.found(err)
			}
		})
	}
	all.Wait()
	if err := c.b.Close(); err != nil {
		c.found(err)
	}
	return errors.Join(c.wrong, c.check())
}

// check looks at what is left when all callers have their answers.
func (c *batcherCampaign) check() error {
	s := c.b.Stats()
	c.sum.right.Add(int64(s.Done))
	c.sum.failed.Add(int64(s.Failed))
	c.sum.left.Add(int64(s.Left))
	c.sum.refused.Add(int64(s.Refused))
	c.sum.batches.Add(int64(s.Sizes.Count()))
	b := c.b
	switch {
	case s.Accepted != s.Done+s.Failed+s.Left || s.Done != uint64(c.right):
		return fmt.Errorf("%d results, and %+v", c.right, s)
	case s.Sizes.Sum != uint64(len(c.seen)) || s.Delays.Count() != s.Sizes.Sum:
		return fmt.Errorf("%d items were in batches, and %+v", len(c.seen), s)
	case b.first != nil || b.last != nil || b.partial+b.queued+b.bytes+b.running != 0:
		return fmt.Errorf("left over: %d items, %d bytes, %d partial, %d running", b.queued, b.bytes, b.partial, b.running)
	}
	return nil
}

// call is one caller.
func (c *batcherCampaign) call(caller int) {
	item := caller * 10_000
	for range 3 + c.roll(15) {
		ctx, cancel := context.WithCancelCause(context.Background())
		if c.roll(4) == 0 {
			stop := time.AfterFunc(time.Duration(c.roll(400))*time.Microsecond, func() { cancel(errLeft) })
			defer stop.Stop()
		}
		in := make([]int, 1)
		if c.roll(3) == 0 {
			in = make([]int, 1+c.roll(20))
		}
		for i := range in {
			in[i] = item
			item++
		}
		var out []int
		var errs []error
		if len(in) == 1 {
			x, err := c.b.Do(ctx, in[0])
			out, errs = []int{x}, []error{err}
		} else {
			out, errs = c.b.DoAll(ctx, in)
		}
		for i := range in {
			if err := c.answer(ctx, in[i], out[i], errs[i]); err != nil {
				c.found(fmt.Errorf("item %d: %w", in[i], err))
			}
		}
		cancel(nil)
	}
}

// answer checks the answer of an item.
func (c *batcherCampaign) answer(ctx context.Context, item, out int, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var panicked *PanicError
	times := c.seen[item]
	switch {
	case times > 1:
		return fmt.Errorf("%d batches had it", times)
	case err == nil && (times != 1 || out != item*7+1 || fails(item)):
		return fmt.Errorf("result %d from %d batches", out, times)
	case err == nil:
		c.right++
	case errors.Is(err, errItem) && fails(item), errors.Is(err, errBatch), errors.As(err, &panicked):
		if times != 1 {
			return fmt.Errorf("no batch had it, and %w", err)
		}
	case errors.Is(err, errLeft) && ctx.Err() != nil:
	case errors.Is(err, ErrQueueFull) && c.config.Queue >= 0 && times == 0:
	case errors.Is(err, driver.ErrClosed) && c.closes && times == 0:
	case err.Error() == "the function ended its goroutine (runtime.Goexit)" && times == 1:
	default:
		return fmt.Errorf("in %d batches, and nothing explains %w", times, err)
	}
	return nil
}

// run is the batch function.
func (c *batcherCampaign) run(ctx context.Context, in, out []int, errs []error) error {
	bytes := 0
	c.mu.Lock()
	for _, item := range in {
		c.seen[item]++
		bytes += itemBytes(item)
	}
	c.mu.Unlock()
	if len(in) == 0 || len(in) > c.config.MaxItems || c.config.MaxBytes > 0 && bytes > c.config.MaxBytes || len(out) != len(in) || len(errs) != len(in) {
		c.found(fmt.Errorf("a batch of %d items and %d bytes", len(in), bytes))
	}
	how := c.roll(40)
	if how < 13 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(c.roll(300)) * time.Microsecond):
		}
	}
	for i, item := range in {
		if out[i] = item*7 + 1; fails(item) {
			errs[i] = errItem
		}
	}
	switch how {
	case 20:
		return errBatch
	case 21:
		panic("the batch panics")
	case 22:
		goruntime.Goexit()
	}
	return nil
}
