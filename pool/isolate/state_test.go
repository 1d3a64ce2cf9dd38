//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// session is a state: it counts its requests, on the device as well where there is one.
type session struct {
	requests int
	memory   *runtime.Ref[uint32]
	unsure   bool // an upload has failed, or was canceled: the memory may count that request
}

var closedSessions atomic.Int64

func (s *session) Close() error {
	closedSessions.Add(1)
	return s.memory.Close()
}

const sessionBytes = 1000

// count answers with the number of its request, the process, and how many states were closed there.
func count(ctx context.Context, w *pool.Worker) ([]byte, error) {
	s, err := isolate.StateOf(ctx, sessionBytes, func() (*session, error) {
		if w == nil {
			return &session{}, nil
		}
		memory, err := runtime.Alloc[uint32](w.Stream(), 16)
		if err == nil {
			err = runtime.Zero(w.Stream(), memory)
		}
		return &session{memory: memory}, err
	})
	if err != nil {
		return nil, err
	}
	seen := s.requests
	time.Sleep(time.Millisecond) // another request with the key would count the same
	if w != nil {
		words, err := runtime.DownloadNew(ctx, w.Stream(), s.memory)
		if err != nil {
			return nil, err
		}
		got := int(words[0])
		if got != seen && (!s.unsure || got != seen+1) {
			return nil, fmt.Errorf("the memory has %d, and %d requests have left it", got, seen)
		}
		seen, words[0], s.unsure = got, words[0]+1, true
		if err := runtime.Upload(ctx, w.Stream(), s.memory, words); err != nil {
			return nil, err
		}
		s.unsure = false
	}
	s.requests = seen + 1
	return fmt.Append(nil, s.requests, " ", os.Getpid(), " ", closedSessions.Load()), nil
}

func init() {
	isolate.Register("count/v1", func(w *pool.Worker, r *isolate.Request) ([]byte, error) { return count(w.CallContext(), w) })
	isolate.Register("fail-state/v1", func(w *pool.Worker, r *isolate.Request) ([]byte, error) {
		if _, err := count(w.CallContext(), w); err != nil {
			return nil, err
		}
		return nil, errors.New("not today")
	})
	isolate.Register("wrong-state/v1", func(w *pool.Worker, r *isolate.Request) ([]byte, error) {
		_, err := isolate.StateOf(w.CallContext(), 0, func() (string, error) { return "", nil })
		return nil, err
	})
	isolate.Register("panic-state/v1", func(w *pool.Worker, r *isolate.Request) ([]byte, error) {
		_, err := isolate.StateOf(w.CallContext(), 1, func() (string, error) { panic("at the state") })
		return nil, err
	})
}

// counted calls count with a key.
func counted(t testing.TB, g *isolate.Group, key string, options ...isolate.Option) (n, process, closed int) {
	t.Helper()
	result, _, err := g.Do(within(t), "count/v1", nil, append(options, isolate.WithKey(key))...)
	require.NoError(t, err)
	_, err = fmt.Sscan(string(result), &n, &process, &closed)
	require.NoError(t, err)
	return n, process, closed
}

// Requests with one key find what an earlier one has left, in one child and one after the other, until the key is dropped.
func TestState(t *testing.T) {
	onDrivers(t, func(t *testing.T, g *isolate.Group) {
		var first int
		for i := range 3 {
			n, process, _ := counted(t, g, "a", isolate.WithDevices(0))
			assert.Equal(t, i+1, n)
			if i == 0 {
				first = process
			}
			assert.Equal(t, first, process)
		}
		n, _, _ := counted(t, g, "b", isolate.WithDevices(0))
		assert.Equal(t, 1, n)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				_, _, err := g.Do(within(t), "count/v1", nil, isolate.WithKey("a"))
				assert.NoError(t, err)
			})
		}
		all.Wait()
		n, process, closed := counted(t, g, "a")
		assert.Equal(t, []int{24, first, 0}, []int{n, process, closed})
		assert.Equal(t, []string{"a", "b"}, g.Keys())
		require.NoError(t, g.Drop(within(t), "a"))
		require.NoError(t, g.Drop(within(t), "a"))
		assert.Equal(t, []string{"b"}, g.Keys())
		n, _, _ = counted(t, g, "a", isolate.WithDevices(0))
		assert.Equal(t, 1, n)
		assert.Eventually(t, func() bool { _, _, closed := counted(t, g, "b"); return closed == 1 }, time.Minute, time.Millisecond)
	})
}

// Where the children of all devices are ready, which take turns, requests with a key go to that of its state.
func TestStateBesideReadyChildren(t *testing.T) {
	onDrivers(t, func(t *testing.T, g *isolate.Group) {
		for _, d := range g.Stats().Devices {
			_, _, err := g.Do(within(t), "echo/v1", nil, isolate.WithDevices(d.Device))
			require.NoError(t, err)
		}
		var all sync.WaitGroup
		for key := range 4 {
			all.Go(func() {
				var first int
				for i := range 20 {
					n, process, _ := counted(t, g, fmt.Sprint(key))
					assert.Equal(t, i+1, n)
					if i == 0 {
						first = process
					}
					assert.Equal(t, first, process)
					_, _, err := g.Do(within(t), "echo/v1", nil)
					assert.NoError(t, err)
				}
			})
		}
		all.Wait()
		for _, d := range g.Stats().Devices {
			assert.Zero(t, d.Deaths)
		}
	})
}

// A key whose first request has failed has left nothing.
func TestStateOfAFailure(t *testing.T) {
	g := open(t, 1)
	_, _, err := g.Do(within(t), "fail-state/v1", nil, isolate.WithKey("a"))
	assert.ErrorContains(t, err, "not today")
	assert.Empty(t, g.Keys())
	n, _, _ := counted(t, g, "a")
	assert.Equal(t, 1, n)
	_, _, err = g.Do(within(t), "fail-state/v1", nil, isolate.WithKey("a"))
	assert.ErrorContains(t, err, "not today")
	n, _, _ = counted(t, g, "a")
	assert.Equal(t, 3, n, "a later failure takes nothing away")
}

// After the death of a child each request with the key says that its state is gone, until the key is dropped.
func TestStateIsGone(t *testing.T) {
	onDrivers(t, func(t *testing.T, g *isolate.Group) {
		_, before, _ := counted(t, g, "a", isolate.WithDevices(0))
		_, _, err := g.Do(within(t), "kill/v1", nil, isolate.WithKey("a"), isolate.WithRetry(3), isolate.WithFallback(cpu))
		assert.ErrorIs(t, err, isolate.ErrStateGone)
		assert.ErrorIs(t, err, isolate.ErrChildDied)
		for range 3 {
			_, _, err = g.Do(within(t), "count/v1", nil, isolate.WithKey("a"), isolate.WithFallback(cpu))
			assert.ErrorIs(t, err, isolate.ErrStateGone)
			assert.ErrorContains(t, err, "killed", "and why")
		}
		require.NoError(t, g.Drop(within(t), "a"))
		n, after, _ := counted(t, g, "a")
		assert.Equal(t, 1, n)
		assert.NotEqual(t, before, after)
		_, _, err = g.Do(within(t), "kill/v1", nil, isolate.WithKey("new"))
		assert.ErrorIs(t, err, isolate.ErrChildDied)
		assert.NotErrorIs(t, err, isolate.ErrStateGone, "it had none")
		assert.NotContains(t, g.Keys(), "new")
	}, isolate.WithRestarts(100, time.Hour))
}

// Keys and bytes are bounded, and what is dropped makes room.
func TestStatesAreBounded(t *testing.T) {
	g := open(t, 1, isolate.WithStates(3, 2*sessionBytes))
	do := func(name, key string) error {
		_, _, err := g.Do(within(t), name, nil, isolate.WithKey(key))
		return err
	}
	for _, key := range []string{"a", "b"} {
		require.NoError(t, do("count/v1", key))
	}
	err := do("count/v1", "c")
	assert.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.ErrorContains(t, err, "WithStates")
	require.NoError(t, do("echo/v1", "c"), "a key without state")
	err = do("echo/v1", "d")
	assert.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.ErrorContains(t, err, "3 keys")
	require.NoError(t, g.Drop(within(t), "a"))
	require.NoError(t, do("count/v1", "c"))
	require.NoError(t, g.Drop(within(t), "c"))
	for range 3 { // a state that panics keeps no bytes
		assert.ErrorContains(t, do("panic-state/v1", "e"), "at the state")
	}
	require.NoError(t, do("count/v1", "e"))
}

// One that waits for the turn of a key can give up, and no more wait than WithQueue says.
func TestTurnOfAKey(t *testing.T) {
	g := open(t, 1, isolate.WithQueue(1))
	counted(t, g, "a")
	ended := make(chan error)
	go func() {
		_, _, err := g.Do(within(t), "sleep/v1", []byte("300ms"), isolate.WithKey("a"))
		ended <- err
	}()
	require.Eventually(t, func() bool { return g.Stats().Devices[0].Busy == 1 }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, _, err := g.Do(ctx, "echo/v1", nil, isolate.WithKey("a"))
	assert.ErrorIs(t, err, driver.ErrTimeout)
	assert.ErrorIs(t, g.Drop(ctx, "a"), driver.ErrTimeout)
	errs := make(chan error, 2)
	for range cap(errs) {
		go func() {
			_, _, err := g.Do(within(t), "echo/v1", nil, isolate.WithKey("a"))
			errs <- err
		}()
	}
	assert.ErrorIs(t, <-errs, pool.ErrQueueFull)
	assert.NoError(t, <-ended)
	assert.NoError(t, <-errs)
}

func TestWhatAStateRefuses(t *testing.T) {
	g := open(t, 1)
	counted(t, g, "a")
	for name, do := range map[string]func() error{
		"no key":               func() error { _, _, err := g.Do(within(t), "count/v1", nil); return err },
		"isolate_test.session": func() error { _, _, err := g.Do(within(t), "wrong-state/v1", nil, isolate.WithKey("a")); return err },
		"1 to 255 bytes":       func() error { _, _, err := g.Do(within(t), "echo/v1", nil, isolate.WithKey("")); return err },
		"a key has": func() error {
			_, _, err := g.Do(within(t), "echo/v1", nil, isolate.WithKey(strings.Repeat("x", 256)))
			return err
		},
		"a size that is":          func() error { _, err := isolate.StateOf[int](t.Context(), -1, nil); return err },
		"Drop takes":              func() error { return (*isolate.Group)(nil).Drop(t.Context(), "a") },
		"WithStates is an option": func() error { _, _, err := g.Do(within(t), "echo/v1", nil, isolate.WithStates(1, 1)); return err },
	} {
		err := do()
		assert.ErrorContains(t, err, name)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
	}
	counted(t, g, strings.Repeat("x", 255))
	assert.Nil(t, (*isolate.Group)(nil).Keys())
}

// Where CUDA is absent the state stays in the program, and Close closes it.
func TestStateOnTheCPU(t *testing.T) {
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{InitResult: driver.ResultNoDevice})))
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	g, err := isolate.Open(rt, isolate.WithFallback(func(ctx context.Context, name string, _ *isolate.Request) ([]byte, error) {
		b, err := count(ctx, nil)
		if name == "exit/v1" {
			goruntime.Goexit()
		}
		return b, err
	}))
	require.NoError(t, err)
	var first sync.WaitGroup
	first.Go(func() { _, _, _ = g.Do(within(t), "exit/v1", nil, isolate.WithKey("a")) })
	first.Wait()
	assert.Empty(t, g.Keys(), "no request with the key has succeeded")
	before := closedSessions.Load()
	for i := range 3 {
		n, process, _ := counted(t, g, "a")
		assert.Equal(t, []int{i + 1, os.Getpid()}, []int{n, process})
	}
	require.NoError(t, g.Drop(within(t), "a"))
	assert.EqualValues(t, before+1, closedSessions.Load())
	n, _, _ := counted(t, g, "a")
	assert.Equal(t, 1, n)
	require.NoError(t, g.Close())
	assert.EqualValues(t, before+2, closedSessions.Load())
}
