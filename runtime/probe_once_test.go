package runtime_test

import (
	"errors"
	goruntime "runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

func TestProbeOnceBuildsOnce(t *testing.T) {
	rt, _ := open(t, twoDevices())
	var builds atomic.Int64
	build := func(b *runtime.Backend) (*runtime.Module, error) {
		builds.Add(1)
		return b.Context.LoadModule(runtime.Image{Code: kernelsPTX})
	}
	type answer struct {
		m   *runtime.Module
		b   *runtime.Backend
		err error
	}
	var calls []<-chan answer
	for range 16 {
		calls = append(calls, asyncOf(func() (a answer) {
			a.m, a.b, a.err = runtime.ProbeOnce(rt, "a", build)
			return a
		}))
	}
	first := await(t, "the first ends", calls[0])
	require.NoError(t, first.err)
	for _, call := range calls[1:] {
		a := await(t, "all end", call)
		require.NoError(t, a.err)
		assert.True(t, a.m == first.m && a.b == first.b)
	}
	assert.Equal(t, int64(1), builds.Load())
	assert.Equal(t, uint64(1), rt.Stats().Modules)

	require.NoError(t, first.b.Stream.Close())
	m, b, err := runtime.ProbeOnce(rt, "a", build)
	require.NoError(t, err)
	assert.True(t, m == first.m, "a stream that was closed is no reason to build")
	synchronize(t, b.Stream)
	_, _, err = runtime.ProbeOnce(rt, "b", build)
	require.NoError(t, err)
	assert.Equal(t, int64(2), builds.Load(), "another label")

	require.NoError(t, b.Context.Reset(bg))
	m, b, err = runtime.ProbeOnce(rt, "a", build)
	require.NoError(t, err)
	assert.Equal(t, int64(3), builds.Load())
	assert.NoError(t, addTo(mustKernel(t, m, "add"), b.Stream, alloc[uint32](t, b.Stream, 1), 1))

	_, _, err = runtime.ProbeOnce(rt, "a", func(*runtime.Backend) (int, error) { return 1, nil })
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "*runtime.Module")
}

func mustKernel(t *testing.T, m *runtime.Module, name string) *runtime.Kernel {
	t.Helper()
	k, err := m.Kernel(name)
	require.NoError(t, err)
	return k
}

// asyncOf runs f on a goroutine, and sends what it returns.
func asyncOf[T any](f func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- f() }()
	return result
}

// A build that fails in whatever way keeps nothing, and the next call builds again.
func TestProbeOnceAfterAFailure(t *testing.T) {
	rt, _ := open(t, twoDevices())
	plain := errors.New("no tables")
	for name, build := range map[string]func(*runtime.Backend) (error, error){
		"no tables":   func(*runtime.Backend) (error, error) { return nil, plain },
		"panic: oops": func(*runtime.Backend) (error, error) { panic("oops") },
		"Goexit":      func(*runtime.Backend) (error, error) { goruntime.Goexit(); return nil, nil },
	} {
		_, _, err := runtime.ProbeOnce(rt, "a", build)
		require.ErrorContains(t, err, "a backend: ")
		require.ErrorContains(t, err, name)
	}
	v, b, err := runtime.ProbeOnce(rt, "a", func(*runtime.Backend) (error, error) { return nil, nil })
	require.NoError(t, err)
	assert.NoError(t, v, "nil is a result as well")
	assert.NotNil(t, b)

	for _, err := range []error{third2(runtime.ProbeOnce[int](rt, "a", nil)), second(rt.ProbeWith("a", nil)),
		third2(runtime.ProbeOnce(nil, "a", func(*runtime.Backend) (int, error) { return 0, nil }))} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}
	require.NoError(t, rt.Close())
	_, _, err = runtime.ProbeOnce(rt, "a", func(*runtime.Backend) (error, error) { return nil, nil })
	assert.ErrorIs(t, err, driver.ErrClosed)
}

func third2[T any](_ T, _ *runtime.Backend, err error) error { return err }

// A device that is lost while a label is built, or after, has it built on another.
func TestProbeOnceOnTheNextDevice(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	at := func() (int, error) {
		ordinal, b, err := runtime.ProbeOnce(rt, "a", func(b *runtime.Backend) (int, error) {
			return b.Device().Ordinal, b.Stream.Synchronize(bg)
		})
		if err == nil {
			assert.Equal(t, ordinal, b.Device().Ordinal)
		}
		return ordinal, err
	}
	contextOf(t, rt)
	gpu.Vanish(0)
	ordinal, err := at()
	require.NoError(t, err)
	assert.Equal(t, 1, ordinal)
	gpu.Return(0)
	require.NoError(t, rt.Refresh())
	gpu.Vanish(1)
	require.Error(t, works(contextAt(t, rt, 1)))
	ordinal, err = at()
	require.NoError(t, err)
	assert.Equal(t, 0, ordinal)
}

// Builds that wait for each other are an error that names the circle, and nobody hangs.
func TestProbeOnceInACircle(t *testing.T) {
	for name, c := range map[string]struct {
		builds map[string]string // the label that the build of a label asks for
		circle []string          // one of these texts
	}{
		"its own":     {map[string]string{"a": "a"}, []string{"a -> a"}},
		"two":         {map[string]string{"a": "b", "b": "a"}, []string{"b -> a -> b", "a -> b -> a"}},
		"three":       {map[string]string{"a": "b", "b": "c", "c": "a"}, []string{"c -> a -> b -> c", "a -> b -> c -> a", "b -> c -> a -> b"}},
		"behind one":  {map[string]string{"a": "b", "b": "c", "c": "b"}, []string{"c -> b -> c", "b -> c -> b"}},
		"no circle":   {map[string]string{"a": "b", "b": "c", "c": ""}, nil},
		"one for all": {map[string]string{"a": "d", "b": "d", "c": "d", "d": ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rt, _ := open(t, twoDevices())
			var probe func(label string) error
			probe = func(label string) error {
				_, err := rt.ProbeWith(label, func(*runtime.Backend) error {
					goruntime.Gosched()
					if next := c.builds[label]; next != "" {
						return probe(next)
					}
					return nil
				})
				return err
			}
			var calls []<-chan error
			for range 4 {
				for label := range c.builds {
					calls = append(calls, async(func() error { return probe(label) }))
				}
			}
			for _, call := range calls {
				err := await(t, "the call ends", call)
				if c.circle == nil {
					assert.NoError(t, err)
					continue
				}
				require.ErrorIs(t, err, driver.ErrInvalidArgument)
				assert.Condition(t, func() bool {
					return slices.ContainsFunc(c.circle, func(text string) bool { return strings.Contains(err.Error(), text) })
				}, err)
			}
		})
	}
}

// A circle through a goroutine that the build has started ends with Close.
func TestProbeOnceEndsWithClose(t *testing.T) {
	rt, _ := open(t, twoDevices())
	asking := make(chan struct{})
	call := async(func() error {
		_, err := rt.ProbeWith("a", func(*runtime.Backend) error {
			inner := async(func() error {
				close(asking)
				return second(rt.ProbeWith("a", func(*runtime.Backend) error { return nil }))
			})
			return <-inner
		})
		return err
	})
	<-asking
	require.NoError(t, rt.Close())
	assert.ErrorIs(t, await(t, "the call ends", call), driver.ErrClosed)
}

// An error of a build whose methods panic is an error like others.
func TestProbeOnceWithABadError(t *testing.T) {
	rt, _ := open(t, twoDevices())
	_, err := rt.ProbeWith("a", func(*runtime.Backend) error { return (*badError)(nil) })
	assert.ErrorContains(t, err, "a backend: an error of type *runtime_test.badError, whose methods panic")
}
