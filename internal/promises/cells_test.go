package promises_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/internal/promises"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// await waits for a channel that is closed or gets a value.
func await[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(promises.Patience):
		require.FailNow(t, "it hangs: "+what)
	}
	return v
}

// inBackground does a request on a goroutine of its own, which the request may end.
func inBackground(do request, ctx context.Context, f functions) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		defer close(done)
		done <- do(ctx, f)
	}()
	return done
}

// both calls a test with each of the functions that a door calls: on a device, and on the CPU.
func both(t *testing.T, d door, test func(t *testing.T, do request, with func(func() error) functions)) {
	if d.way != always {
		t.Run("gpu", func(t *testing.T) {
			rt, _ := machine(t)
			test(t, d.open(t, rt, limits{}), func(f func() error) functions {
				return functions{gpu: func(context.Context, *runtime.Stream) error { return f() }}
			})
		})
	}
	if d.way == onCPU || d.way == always {
		t.Run("cpu", func(t *testing.T) {
			test(t, d.open(t, without(t), limits{}), func(f func() error) functions {
				return functions{cpu: func(context.Context) error { return f() }}
			})
		})
	}
}

func nothing() error { return nil }

func panics(t *testing.T, _ string, d door) {
	both(t, d, func(t *testing.T, do request, with func(func() error) functions) {
		mine := errors.New("mine")
		a := await(t, "the panic", inBackground(do, t.Context(), with(func() error { panic(mine) })))
		assert.ErrorIs(t, a.Err, mine)
		assert.NoError(t, await(t, "the next request", inBackground(do, t.Context(), with(nothing))).Err)
	})
}

// bad is an error whose methods panic where it is nil.
type bad struct{ cause error }

func (b *bad) Error() string { return b.cause.Error() }
func (b *bad) Unwrap() error { return b.cause }

func nilError(t *testing.T, _ string, d door) {
	both(t, d, func(t *testing.T, do request, with func(func() error) functions) {
		a := await(t, "the error", inBackground(do, t.Context(), with(func() error { return (*bad)(nil) })))
		assert.True(t, a.Err != nil, "the error is gone")
		assert.NotPanics(t, func() { assert.NotEmpty(t, fmt.Sprint(a.Err)) })
		assert.NoError(t, await(t, "the next request", inBackground(do, t.Context(), with(nothing))).Err)
	})
}

func goexit(t *testing.T, _ string, d door) {
	both(t, d, func(t *testing.T, do request, with func(func() error) functions) {
		await(t, "the request whose function ends its goroutine", inBackground(do, t.Context(), with(func() error { goruntime.Goexit(); return nil })))
		assert.NoError(t, await(t, "the next request", inBackground(do, t.Context(), with(nothing))).Err)
	})
}

// ownError does many requests at the same time. Each second one fails.
func ownError(t *testing.T, _ string, d door) {
	both(t, d, func(t *testing.T, do request, with func(func() error) functions) {
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				var mine error
				if i%2 == 1 {
					mine = fmt.Errorf("of request %d", i)
				}
				a := do(t.Context(), with(func() error { return mine }))
				if mine == nil {
					assert.NoError(t, a.Err)
				} else {
					assert.ErrorIs(t, a.Err, mine)
				}
			})
		}
		all.Wait()
	})
}

// endedContext ends the ctx before a request, and while its function runs.
func endedContext(t *testing.T, _ string, d door) {
	both(t, d, func(t *testing.T, do request, with func(func() error) functions) {
		mine := errors.New("the caller has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(mine)
		var ran atomic.Bool
		a := await(t, "a request whose ctx has ended", inBackground(do, ctx, with(func() error { ran.Store(true); return nil })))
		assert.ErrorIs(t, a.Err, mine)
		assert.False(t, ran.Load(), "its function ran")

		ctx, cancel = context.WithCancelCause(t.Context())
		f := with(func() error { cancel(mine); return nil })
		if onGPU := f.gpu; onGPU != nil {
			f.gpu = func(ctx context.Context, s *runtime.Stream) error {
				_ = onGPU(ctx, s)
				<-ctx.Done()
				return context.Cause(ctx)
			}
		} else {
			onCPU := f.cpu
			f.cpu = func(ctx context.Context) error {
				_ = onCPU(ctx)
				<-ctx.Done()
				return context.Cause(ctx)
			}
		}
		a = await(t, "a request whose ctx ends", inBackground(do, ctx, f))
		assert.ErrorIs(t, a.Err, mine)
		assert.NoError(t, await(t, "the next request", inBackground(do, t.Context(), with(nothing))).Err)
	})
}

// bound fills the streams and the queue of a door on one device, with two streams and two places.
func bound(t *testing.T, _ string, d door) {
	rt, _ := machine(t)
	do := d.open(t, rt, limits{streams: 2, queue: 2})
	var running, most atomic.Int64
	begun, release := make(chan struct{}, 100), make(chan struct{})
	f := functions{gpu: func(context.Context, *runtime.Stream) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		begun <- struct{}{}
		<-release
		return nil
	}}
	var first []<-chan answer
	for range d.running {
		first = append(first, inBackground(do, t.Context(), f))
		await(t, "a request begins", begun)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("the caller has left")
	var waiting []<-chan answer
	full := make(chan answer, 100)
	for len(waiting) < 2+3 { // two have places, three have none
		c := inBackground(do, ctx, f)
		waiting = append(waiting, c)
		go func() { full <- <-c }()
	}
	for range 3 {
		assert.ErrorIs(t, await(t, "one more than may wait", full).Err, pool.ErrQueueFull)
	}
	cancel(mine)
	for range 2 {
		assert.ErrorIs(t, await(t, "a ctx ends the wait", full).Err, mine)
	}
	close(release)
	for _, c := range first {
		assert.NoError(t, await(t, "those that ran", c).Err)
	}
	assert.LessOrEqual(t, most.Load(), int64(d.running))
}

// leak forgets memory in a function.
func leak(t *testing.T, _ string, d door) {
	rt, _ := machine(t, runtime.WithMemory(arena.DeviceConfig{Sites: true}))
	do := d.open(t, rt, limits{})
	var forgotten *runtime.Ref[byte]
	a := do(t.Context(), functions{gpu: func(_ context.Context, s *runtime.Stream) (err error) {
		forgotten, err = runtime.Alloc[byte](s, 1<<20)
		return err
	}})
	require.NoError(t, a.Err)
	c, err := rt.Context(0)
	require.NoError(t, err)
	var named []string
	for _, l := range c.Leaks() {
		named = append(named, fmt.Sprint(l))
	}
	assert.Contains(t, fmt.Sprint(named), "cells_test.go:", "the line of the function")
	require.NoError(t, forgotten.Close())
}
