package flight

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOneWorkForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[string, int]
		var calls, shared atomic.Int32
		for range 64 {
			go func() {
				v, joined, err := g.Do(t.Context(), "a", func(context.Context) (int, error) {
					calls.Add(1)
					time.Sleep(time.Second)
					return 7, nil
				})
				assert.NoError(t, err)
				assert.Equal(t, 7, v)
				if joined {
					shared.Add(1)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, calls.Load())
		assert.EqualValues(t, 63, shared.Load())
		assert.Empty(t, g.flights)
	})
}

func TestFailuresAreNotKept(t *testing.T) {
	var g Group[int, int]
	boom := errors.New("boom")
	_, _, err := g.Do(t.Context(), 1, func(context.Context) (int, error) { return 0, boom })
	require.ErrorIs(t, err, boom)
	v, joined, err := g.Do(t.Context(), 1, func(context.Context) (int, error) { return 5, nil })
	require.NoError(t, err)
	assert.False(t, joined)
	assert.Equal(t, 5, v)
}

func TestOneWaiterLeavesTheOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int]
		work := func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Minute):
				return 9, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		first, leave := context.WithCancel(t.Context())
		go func() {
			_, _, err := g.Do(first, 1, work)
			assert.ErrorIs(t, err, context.Canceled)
		}()
		synctest.Wait()
		go func() {
			v, joined, err := g.Do(t.Context(), 1, work)
			assert.NoError(t, err)
			assert.True(t, joined)
			assert.Equal(t, 9, v)
		}()
		synctest.Wait()
		leave()
		time.Sleep(2 * time.Minute)
	})
}

func TestWorkEndsWhenEverybodyHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int]
		ended := make(chan struct{})
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		_, _, err := g.Do(ctx, 1, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			time.Sleep(time.Minute) // it does not stop at once
			close(ended)
			return 0, ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		// Who asks now waits for the end of that work, and then has new work done.
		v, joined, err := g.Do(t.Context(), 1, func(context.Context) (int, error) {
			select {
			case <-ended:
			default:
				t.Error("two works for one key")
			}
			return 3, nil
		})
		require.NoError(t, err)
		assert.False(t, joined)
		assert.Equal(t, 3, v)
	})
}

func TestAbandonedWorkThatSucceedsIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int, int]
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		_, _, err := g.Do(ctx, 1, func(context.Context) (int, error) {
			time.Sleep(time.Minute) // it never looks at its context
			return 4, nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		v, joined, err := g.Do(t.Context(), 1, func(context.Context) (int, error) { return 0, errors.New("again") })
		require.NoError(t, err)
		assert.True(t, joined)
		assert.Equal(t, 4, v)
	})
}

func TestManyKeysAtRandom(t *testing.T) {
	var g Group[int, int]
	var running [5]atomic.Int32
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Millisecond)
			defer cancel()
			key := i % len(running)
			v, _, err := g.Do(ctx, key, func(ctx context.Context) (int, error) {
				assert.EqualValues(t, 1, running[key].Add(1))
				defer running[key].Add(-1)
				time.Sleep(time.Duration(i%3) * time.Millisecond)
				return key, ctx.Err()
			})
			if err == nil {
				assert.Equal(t, key, v)
			}
		})
	}
	wg.Wait()
}

// Work that panics or ends its goroutine fails for all who wait, and the key is free again.
func TestWorkThatDoesNotReturn(t *testing.T) {
	for name, work := range map[string]func(context.Context) (int, error){
		"panic":  func(context.Context) (int, error) { panic("trouble") },
		"Goexit": func(context.Context) (int, error) { goruntime.Goexit(); return 0, nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			var g Group[string, int]
			for range 3 {
				go func() {
					_, _, err := g.Do(t.Context(), "a", func(ctx context.Context) (int, error) {
						time.Sleep(time.Second)
						return work(ctx)
					})
					assert.ErrorContains(t, err, name)
				}()
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			v, _, err := g.Do(t.Context(), "a", func(context.Context) (int, error) { return 7, nil })
			require.NoError(t, err)
			assert.Equal(t, 7, v)
			assert.Empty(t, g.flights)
		})
	}
}
