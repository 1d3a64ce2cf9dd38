package pool_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// requests are those that a trace was told, by name, and the copies within them.
type requests struct {
	mu     sync.Mutex
	ended  map[string][]runtime.TraceRequest
	copies map[string]int // by the request that they belong to
}

// requestName is the key of the name of a request in its context.
type requestName struct{}

func (r *requests) trace() *runtime.Trace {
	return &runtime.Trace{
		Copy: func(ctx context.Context, c runtime.TraceCopy) {
			r.mu.Lock()
			defer r.mu.Unlock()
			name, _ := ctx.Value(requestName{}).(string)
			r.copies[name]++
		},
		Request: func(ctx context.Context, name string) (context.Context, func(runtime.TraceRequest)) {
			return context.WithValue(ctx, requestName{}, name), func(end runtime.TraceRequest) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.ended[name] = append(r.ended[name], end)
			}
		},
	}
}

func openTraced(t *testing.T, config drivertest.Config, options ...pool.Options) (*pool.Pool, *requests) {
	t.Helper()
	r := &requests{ended: map[string][]runtime.TraceRequest{}, copies: map[string]int{}}
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.ForTest(t, config)), runtime.WithTrace(r.trace()))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	return openOn(t, rt, options...), r
}

// copies makes a copy on the device.
func copies(s *runtime.Stream) error {
	from, err := runtime.Alloc[byte](s, 10)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := runtime.Alloc[byte](s, 10)
	if err != nil {
		return err
	}
	defer to.Close()
	return errors.Join(runtime.Zero(s, from), runtime.Copy(s, to, from), s.Synchronize(context.Background()))
}

// Calls on the stream of a request have its context, and no longer.
func TestTraceOfRequests(t *testing.T) {
	p, r := openTraced(t, machine(2), pool.Options{Streams: 1})
	ctx := context.Background()
	in := make([]uint32, 300)
	var stream *runtime.Stream
	_, err := p.Do(ctx, func(w *pool.Worker) error {
		stream = w.Stream()
		assert.Equal(t, "pool.Do", w.CallContext().Value(requestName{}))
		return copies(w.Stream())
	}, pool.DoOptions{Items: 7})
	require.NoError(t, err)
	_, err = pool.Map(ctx, p, in, make([]uint32, len(in)), func(w *pool.Worker, _, _ []uint32) error { return copies(w.Stream()) })
	require.NoError(t, err)
	_, err = p.Scatter(ctx, 1, func(w *pool.Worker, _ pool.Tile) error { return copies(w.Stream()) })
	require.NoError(t, err)
	assert.Equal(t, 1, r.copies["pool.Do"])
	assert.Equal(t, 1, r.copies["pool.Scatter"])
	assert.Positive(t, r.copies["pool.Map"])
	require.Len(t, r.ended["pool.Do"], 1)
	end := r.ended["pool.Do"][0]
	assert.Equal(t, runtime.TraceRequest{Where: "gpu", Items: 7, Tries: 1, Ran: end.Ran}, end)
	assert.Equal(t, len(in), r.ended["pool.Map"][0].Items)
	assert.Equal(t, "gpu", r.ended["pool.Map"][0].Where)
	assert.Equal(t, driver.NoDevice, r.ended["pool.Scatter"][0].Device)
	_, _, err = pool.Reduce(ctx, p, 0, 1, func(*pool.Worker, int, int, []int) error { return nil }, func(a, b int) int { return a + b })
	require.NoError(t, err)
	assert.Len(t, r.ended["pool.Reduce"], 1)

	require.NoError(t, copies(stream))
	assert.Equal(t, 1, r.copies[""], "nothing of the request is left")
}

// What a request that failed, fell back or ended its goroutine was, is told once.
func TestTraceOfRequestsThatFail(t *testing.T) {
	p, r := openTraced(t, machine(2))
	ctx := context.Background()
	fail := func(*pool.Worker) error { return errData }
	_, err := p.Do(ctx, fail, pool.DoOptions{Retry: 1})
	require.ErrorIs(t, err, errData)
	_, err = p.Do(ctx, fail, pool.DoOptions{Fallback: func(ctx context.Context) error {
		assert.Equal(t, "pool.Do", ctx.Value(requestName{}))
		return nil
	}})
	require.NoError(t, err)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = p.Do(ctx, func(*pool.Worker) error { goruntime.Goexit(); return nil })
	}()
	<-gone
	_, err = p.Do(ctx, nil)
	require.ErrorIs(t, err, driver.ErrInvalidArgument, "no request")
	_, err = p.Scatter(ctx, 5, func(*pool.Worker, pool.Tile) error { return errData })
	require.ErrorIs(t, err, errData)
	got := r.ended["pool.Do"]
	require.Len(t, got, 3)
	assert.ErrorIs(t, got[0].Err, errData)
	assert.Equal(t, 2, got[0].Tries)
	assert.Equal(t, runtime.TraceRequest{Device: driver.NoDevice, Where: "cpu", Reason: "failed", Items: 1, Tries: 1, Ran: got[1].Ran}, got[1])
	assert.ErrorContains(t, got[2].Err, "Goexit")
	require.Len(t, r.ended["pool.Scatter"], 1)
	assert.ErrorIs(t, r.ended["pool.Scatter"][0].Err, errData)
}

// An item is a request, and so is a batch.
func TestTraceOfBatches(t *testing.T) {
	p, r := openTraced(t, machine(1))
	b, err := pool.NewBatcher(p, tripleBatch, pool.BatcherConfig[uint32, uint32]{})
	require.NoError(t, err)
	out, err := b.Do(context.Background(), 5)
	require.NoError(t, err)
	assert.EqualValues(t, 16, out)
	_, errs := b.DoAll(context.Background(), []uint32{1, 100, 3})
	assert.ErrorIs(t, errs[1], errData)
	require.NoError(t, b.Close())
	items := r.ended["pool.Batcher"]
	require.Len(t, items, 2)
	assert.Equal(t, runtime.TraceRequest{Device: driver.NoDevice, Items: 1}, items[0])
	assert.Equal(t, 3, items[1].Items)
	assert.ErrorIs(t, items[1].Err, errData)
	require.NotEmpty(t, r.ended["pool.Do"])
	assert.Equal(t, 1, r.ended["pool.Do"][0].Items)
}
