package pool

import (
	"context"
	"fmt"
	"io"
	"math"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

// batches notes the batches of a test, which end when they are released.
type batches struct {
	mu      sync.Mutex
	seen    [][]int
	at      []time.Duration // when they began
	ctxs    []context.Context
	start   time.Time
	release chan struct{} // nil: they end at once
	fail    func(in []int, errs []error) error
}

func (r *batches) run(ctx context.Context, in, out []int, errs []error) error {
	r.mu.Lock()
	r.seen, r.at, r.ctxs = append(r.seen, slices.Clone(in)), append(r.at, time.Since(r.start)), append(r.ctxs, ctx)
	r.mu.Unlock()
	if r.release != nil {
		<-r.release
	}
	for i, x := range in {
		out[i] = 10 * x
	}
	if r.fail != nil {
		return r.fail(in, errs)
	}
	return nil
}

func (r *batches) all() [][]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

func (r *batches) times() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.at)
}

func (r *batches) contexts() []context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ctxs)
}

// bubble runs a test whose time stands still while somebody works. r has the batches of b.
func bubble(t *testing.T, config BatcherConfig[int, int], test func(t *testing.T, b *Batcher[int, int], r *batches)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &batches{start: time.Now()}
		b, err := newBatcher(r.run, config)
		require.NoError(t, err)
		test(t, b, r)
		require.NoError(t, b.Close())
		s := b.Stats()
		assert.Equal(t, s.Accepted, s.Done+s.Failed+s.Left, "%+v", s)
		assert.Zero(t, s.Queued+s.Running)
		assert.Zero(t, b.bytes)
		assert.Zero(t, b.partial)
	})
}

// result is an answer.
type result struct {
	out int
	err error
}

// goDo calls Do on a goroutine of its own, and returns when it waits.
func goDo(ctx context.Context, b *Batcher[int, int], in int) chan result {
	answer := make(chan result, 1)
	go func() {
		out, err := b.Do(ctx, in)
		answer <- result{out, err}
	}()
	synctest.Wait()
	return answer
}

func TestBatcherWaitsForOthers(t *testing.T) {
	bubble(t, BatcherConfig[int, int]{MaxItems: 3, MaxDelay: time.Millisecond}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		ctx := context.Background()
		one, two := goDo(ctx, b, 1), goDo(ctx, b, 2)
		assert.Empty(t, r.all())
		three := goDo(ctx, b, 3)
		assert.Equal(t, [][]int{{1, 2, 3}}, r.all(), "it is full")
		for i, answer := range []chan result{one, two, three} {
			assert.Equal(t, result{out: 10 * (i + 1)}, <-answer)
		}
		time.Sleep(5 * time.Millisecond)
		four := goDo(ctx, b, 4)
		time.Sleep(300 * time.Microsecond)
		five := goDo(ctx, b, 5)
		assert.Equal(t, result{out: 40}, <-four)
		assert.Equal(t, result{out: 50}, <-five)
		assert.Equal(t, []time.Duration{0, 6 * time.Millisecond}, r.times(), "a delay after the first item")
		assert.Equal(t, []int{4, 5}, r.all()[1])

		s := b.Stats()
		assert.EqualValues(t, 5, s.Done)
		assert.EqualValues(t, 2, s.Sizes.Count())
		assert.EqualValues(t, 5, s.Sizes.Sum)
		assert.EqualValues(t, 1, s.Sizes.Counts[1], "two items")
		assert.EqualValues(t, 1, s.Sizes.Counts[2], "three or four")
		assert.EqualValues(t, 5, s.Delays.Count())
		assert.EqualValues(t, 3, s.Delays.Counts[0])
		assert.EqualValues(t, 2, s.Delays.Counts[10], "700 and 1000 us")
		assert.EqualValues(t, 1700, s.Delays.Sum)
	})
}

// Without a delay batches grow while others are under way, in the order in which items come.
func TestBatcherGrowsWhileBusy(t *testing.T) {
	bubble(t, BatcherConfig[int, int]{MaxItems: 4, Batches: 2}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		r.release = make(chan struct{})
		var answers []chan result
		for i := range 9 {
			answers = append(answers, goDo(context.Background(), b, i))
		}
		assert.Equal(t, [][]int{{0}, {1}}, r.all())
		assert.Equal(t, 2, b.Stats().Running)
		assert.Equal(t, 7, b.Stats().Queued)
		r.release <- struct{}{}
		synctest.Wait()
		assert.Equal(t, [][]int{{0}, {1}, {2, 3, 4, 5}}, r.all())
		close(r.release)
		for i, answer := range answers {
			assert.Equal(t, result{out: 10 * i}, <-answer)
		}
		assert.Equal(t, [][]int{{0}, {1}, {2, 3, 4, 5}, {6, 7, 8}}, r.all())
	})
}

func TestBatcherErrors(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(in []int, errs []error) error
		want func(item int) error
	}{
		"one item": {func(in []int, errs []error) error { errs[1] = io.EOF; return nil },
			func(item int) error { return map[int]error{1: io.EOF}[item] }},
		"all": {func(in []int, errs []error) error { return io.EOF }, func(int) error { return io.EOF }},
		"all, and one of its own": {func(in []int, errs []error) error { errs[2] = io.ErrShortWrite; return io.EOF },
			func(item int) error { return map[int]error{0: io.EOF, 1: io.EOF, 2: io.ErrShortWrite}[item] }},
		"panic": {func([]int, []error) error { panic(io.EOF) }, func(int) error { return io.EOF }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, BatcherConfig[int, int]{MaxItems: 3, MaxDelay: time.Hour}, func(t *testing.T, b *Batcher[int, int], r *batches) {
				r.fail = c.fail
				var answers []chan result
				for i := range 3 {
					answers = append(answers, goDo(context.Background(), b, i))
				}
				for i, answer := range answers {
					got := <-answer
					if want := c.want(i); want != nil {
						assert.ErrorIs(t, got.err, want)
					} else {
						assert.Equal(t, result{out: 10 * i}, got)
					}
				}
				r.fail = nil
				_, errs := b.DoAll(context.Background(), []int{1, 2, 3})
				assert.Equal(t, make([]error, 3), errs, "and the next one works")
			})
		})
	}
	bubble(t, BatcherConfig[int, int]{}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		r.fail = func([]int, []error) error { goruntime.Goexit(); return nil }
		_, err := b.Do(context.Background(), 1)
		assert.ErrorContains(t, err, "Goexit")
	})
}

func TestBatcherTakesItemsOut(t *testing.T) {
	bubble(t, BatcherConfig[int, int]{MaxItems: 2, MaxDelay: time.Second, Batches: 1}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		r.release = make(chan struct{})
		gone, cancel := context.WithCancelCause(context.Background())
		other, leave := context.WithCancel(context.Background())
		one := goDo(gone, b, 1)
		stays := goDo(context.Background(), b, 2)
		both := []chan result{goDo(gone, b, 3), goDo(other, b, 4)}
		late := []chan result{goDo(gone, b, 5), goDo(context.Background(), b, 6)}
		cancel(io.EOF)
		synctest.Wait()
		for _, answer := range []chan result{one, both[0], late[0]} {
			assert.Equal(t, result{err: io.EOF}, <-answer)
		}
		assert.Equal(t, [][]int{{1, 2}}, r.all())
		assert.NoError(t, r.contexts()[0].Err(), "somebody waits for the batch")
		assert.Equal(t, 2, b.Stats().Queued)
		r.release <- struct{}{}
		assert.Equal(t, result{out: 20}, <-stays)
		synctest.Wait()
		assert.Equal(t, [][]int{{1, 2}, {4, 6}}, r.all(), "those that have left are in no batch")
		leave()
		assert.ErrorIs(t, (<-both[1]).err, context.Canceled)
		assert.NoError(t, r.contexts()[1].Err())
		r.release <- struct{}{}
		assert.Equal(t, result{out: 60}, <-late[1])

		alone, end := context.WithCancel(context.Background())
		last := goDo(alone, b, 7)
		time.Sleep(time.Second)
		synctest.Wait()
		end()
		assert.ErrorIs(t, (<-last).err, context.Canceled)
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(r.contexts()[2]), errAbandoned)
		r.release <- struct{}{}
		synctest.Wait()
		assert.EqualValues(t, 5, b.Stats().Left)

		before := len(r.all())
		_, err := b.Do(gone, 8)
		assert.ErrorIs(t, err, io.EOF)
		assert.Len(t, r.all(), before)
		close(r.release)
	})
}

// What a DoAll has its answers of when its ctx ends, it keeps.
func TestDoAllThatIsCancelled(t *testing.T) {
	bubble(t, BatcherConfig[int, int]{MaxItems: 2, Batches: 1}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		r.release = make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		var out []int
		var errs []error
		ended := make(chan struct{})
		go func() {
			out, errs = b.DoAll(ctx, []int{1, 2, 3, 4, 5, 6})
			close(ended)
		}()
		r.release <- struct{}{}
		synctest.Wait()
		cancel()
		<-ended
		assert.Equal(t, []int{10, 20, 0, 0, 0, 0}, out)
		assert.Equal(t, []error{nil, nil, context.Canceled, context.Canceled, context.Canceled, context.Canceled}, errs)
		close(r.release)
		synctest.Wait()
		assert.Equal(t, [][]int{{1, 2}, {3, 4}}, r.all())
		assert.Equal(t, []int{10, 20, 0, 0, 0, 0}, out, "nobody writes there any more")
	})
}

func TestBatcherQueueIsBounded(t *testing.T) {
	bubble(t, BatcherConfig[int, int]{MaxItems: 1, Queue: 3, Batches: 1}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		r.release = make(chan struct{})
		for i := range 4 {
			goDo(context.Background(), b, i)
		}
		_, err := b.Do(context.Background(), 5)
		assert.ErrorIs(t, err, ErrQueueFull)
		assert.ErrorContains(t, err, "3 items wait, and 3 may: these are 1 more")
		r.release <- struct{}{}
		synctest.Wait()
		_, errs := b.DoAll(context.Background(), []int{6, 7})
		assert.ErrorIs(t, errs[0], ErrQueueFull)
		assert.ErrorIs(t, errs[1], ErrQueueFull)
		_, errs = b.DoAll(context.Background(), make([]int, 4))
		assert.ErrorIs(t, errs[0], driver.ErrInvalidArgument, "it would never fit")
		assert.EqualValues(t, 3, b.Stats().Refused)
		goDo(context.Background(), b, 8)
		close(r.release)
	})
	bubble(t, BatcherConfig[int, int]{MaxItems: 1, Queue: -1, Batches: 1}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		_, errs := b.DoAll(context.Background(), make([]int, 1000))
		assert.Equal(t, make([]error, 1000), errs)
	})
}

func TestBatcherCountsBytes(t *testing.T) {
	size := func(x int) int { return x }
	bubble(t, BatcherConfig[int, int]{MaxBytes: 10, Bytes: size, MaxDelay: time.Second, Batches: 1}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		for _, x := range []int{6, 3, 5} {
			goDo(context.Background(), b, x)
		}
		assert.Equal(t, [][]int{{6, 3}}, r.all(), "14 bytes wait; 5 do not fit")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, [][]int{{6, 3}, {5}}, r.all())
		for _, x := range []int{11, -1} {
			_, err := b.Do(context.Background(), x)
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		}
		out, errs := b.DoAll(context.Background(), []int{4, 4, 4, 10, 0})
		assert.Equal(t, []int{40, 40, 40, 100, 0}, out)
		assert.Equal(t, make([]error, 5), errs)
		assert.Equal(t, [][]int{{4, 4}, {4}, {10, 0}}, r.all()[2:])
	})
}

// A caller with thousands of items takes turns with one that has a single one.
func TestBatcherIsFair(t *testing.T) {
	bubble(t, BatcherConfig[int, int]{MaxItems: 4, Batches: 1, Queue: 2000}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		r.release = make(chan struct{})
		many := make([]int, 1000)
		ended := make(chan []error)
		go func() {
			_, errs := b.DoAll(context.Background(), many)
			ended <- errs
		}()
		synctest.Wait()
		single := []chan result{goDo(context.Background(), b, 1), goDo(context.Background(), b, 2)}
		r.release <- struct{}{}
		synctest.Wait()
		assert.Equal(t, [][]int{{0, 0, 0, 0}, {0, 1, 2, 0}}, r.all())
		close(r.release)
		assert.Equal(t, result{out: 10}, <-single[0])
		assert.Equal(t, result{out: 20}, <-single[1])
		assert.Equal(t, make([]error, 1000), <-ended)
	})
}

// What is left of a call that was due does not wait for company again.
func TestBatcherEndsWhatItBegan(t *testing.T) {
	bubble(t, BatcherConfig[int, int]{MaxItems: 4, MaxDelay: time.Second, Batches: 1}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		_, errs := b.DoAll(context.Background(), []int{1, 2, 3, 4, 5})
		assert.Equal(t, make([]error, 5), errs)
		assert.Equal(t, []time.Duration{0, 0}, r.times())
	})
}

func TestBatcherCloses(t *testing.T) {
	bubble(t, BatcherConfig[int, int]{MaxItems: 2, MaxDelay: time.Hour, Batches: 1}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		r.release = make(chan struct{})
		var answers []chan result
		for i := range 5 {
			answers = append(answers, goDo(context.Background(), b, i))
		}
		closed := make(chan error, 2)
		for range 2 {
			go func() { closed <- b.Close() }()
		}
		synctest.Wait()
		_, err := b.Do(context.Background(), 9)
		assert.ErrorIs(t, err, driver.ErrClosed)
		assert.Empty(t, closed, "it waits")
		close(r.release)
		for i, answer := range answers {
			assert.Equal(t, result{out: 10 * i}, <-answer)
		}
		assert.NoError(t, <-closed)
		assert.NoError(t, <-closed)
		assert.Equal(t, [][]int{{0, 1}, {2, 3}, {4}}, r.all())
	})
	bubble(t, BatcherConfig[int, int]{MaxItems: 2, Batches: 1}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		r.release = make(chan struct{})
		first := goDo(context.Background(), b, 0)
		second := goDo(context.Background(), b, 1)
		many := make(chan []error, 1)
		go func() {
			_, errs := b.DoAll(context.Background(), []int{2, 3, 4})
			many <- errs
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, io.EOF)
		defer cancel()
		err := b.Shutdown(ctx)
		assert.ErrorIs(t, err, io.EOF)
		assert.ErrorContains(t, err, "4 items were not done, and 1 batches are still under way")
		assert.ErrorIs(t, (<-second).err, driver.ErrClosed)
		for _, err := range <-many {
			assert.ErrorIs(t, err, driver.ErrClosed)
		}
		assert.Empty(t, first)
		close(r.release)
		assert.Equal(t, result{}, <-first)
		assert.NoError(t, b.Shutdown(ctx), "nothing is left")
	})
}

func TestBatcherWithinABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Batcher[int, int]
		var errs []error
		b, err := newBatcher(func(ctx context.Context, _, _ []int, _ []error) error {
			_, err := b.Do(ctx, 1)
			errs = append(errs, err, b.Shutdown(ctx))
			return nil
		}, BatcherConfig[int, int]{})
		require.NoError(t, err)
		_, err = b.Do(context.Background(), 1)
		require.NoError(t, err)
		require.Len(t, errs, 2)
		for _, err := range errs {
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		}
		require.NoError(t, b.Close())
	})
}

// A panic of Bytes is the error of its call.
func TestBatcherBytesPanics(t *testing.T) {
	size := func(in int) int {
		if in < 0 {
			panic("no size")
		}
		return in
	}
	bubble(t, BatcherConfig[int, int]{MaxBytes: 10, Bytes: size}, func(t *testing.T, b *Batcher[int, int], r *batches) {
		_, err := b.Do(t.Context(), -1)
		var panicked *PanicError
		require.ErrorAs(t, err, &panicked)
		assert.Equal(t, "no size", panicked.Value)
		_, err = b.Do(t.Context(), 1)
		require.NoError(t, err)
	})
}

func TestBatcherBadArguments(t *testing.T) {
	run := func(context.Context, []int, []int, []error) error { return nil }
	for i, config := range []BatcherConfig[int, int]{{MaxItems: -1}, {MaxBytes: -1}, {MaxBytes: 1}, {MaxDelay: -1}, {Batches: -1}} {
		_, err := newBatcher(run, config)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, fmt.Sprint(i))
	}
	_, err := NewBatcher(nil, func(*Worker, []int, []int, []error) error { return nil }, BatcherConfig[int, int]{})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = NewBatcher[int, int](&Pool{}, nil, BatcherConfig[int, int]{})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	for _, b := range []*Batcher[int, int]{nil, {}} {
		_, err := b.Do(context.Background(), 1)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		_, errs := b.DoAll(context.Background(), []int{1})
		assert.ErrorIs(t, errs[0], driver.ErrInvalidArgument)
		assert.NoError(t, b.Close())
		assert.Zero(t, b.Stats())
	}
	b, err := newBatcher(run, BatcherConfig[int, int]{})
	require.NoError(t, err)
	var none context.Context
	_, err = b.Do(none, 1)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	out, errs := b.DoAll(context.Background(), nil)
	assert.Empty(t, out)
	assert.Empty(t, errs)
	require.NoError(t, b.Close())
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, v := range []uint64{0, 1, 2, 3, 4, 5, 1 << 23, 1<<23 + 1, math.MaxUint64} {
		h.add(v)
	}
	want := Histogram{Sum: h.Sum}
	for i, n := range map[int]uint64{0: 2, 1: 1, 2: 2, 3: 1, 23: 1, 24: 2} {
		want.Counts[i] = n
	}
	assert.Equal(t, want, h)
	assert.EqualValues(t, 9, h.Count())
}

// With more callers than batches have room, nobody waits for longer than the others: each item for the batches
// of those before it.
func TestBatcherIsFairToManyCallers(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			const callers, each, took = 1024, 8, 100 * time.Microsecond
			b, err := newBatcher(func(context.Context, []int, []int, []error) error {
				time.Sleep(took)
				return nil
			}, BatcherConfig[int, int]{MaxDelay: delay})
			require.NoError(t, err)
			waited := make([]time.Duration, callers) // the longest of each
			var all sync.WaitGroup
			start := time.Now()
			for i := range callers {
				all.Go(func() {
					for range each {
						since := time.Now()
						_, err := b.Do(context.Background(), 1)
						assert.NoError(t, err)
						waited[i] = max(waited[i], time.Since(since))
					}
				})
			}
			all.Wait()
			const rounds = callers / defaultBatchItems / defaultBatchesPerDevice
			assert.LessOrEqual(t, slices.Max(waited), (rounds+1)*took)
			assert.LessOrEqual(t, time.Since(start), (rounds*each+2)*took, "the batches are full")
			require.NoError(t, b.Close())
		})
	}
}
