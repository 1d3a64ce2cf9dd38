package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
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
			a.m, a.b, a.err = runtime.ProbeOnce(bg, rt, "a", build)
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
	m, b, err := runtime.ProbeOnce(bg, rt, "a", build)
	require.NoError(t, err)
	assert.True(t, m == first.m, "a stream that was closed is no reason to build")
	synchronize(t, b.Stream)
	_, _, err = runtime.ProbeOnce(bg, rt, "b", build)
	require.NoError(t, err)
	assert.Equal(t, int64(2), builds.Load(), "another label")

	require.NoError(t, b.Context.Reset(bg))
	m, b, err = runtime.ProbeOnce(bg, rt, "a", build)
	require.NoError(t, err)
	assert.Equal(t, int64(3), builds.Load())
	assert.NoError(t, addTo(mustKernel(t, m, "add"), b.Stream, alloc[uint32](t, b.Stream, 1), 1))

	_, _, err = runtime.ProbeOnce(bg, rt, "a", func(*runtime.Backend) (int, error) { return 1, nil })
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
		_, _, err := runtime.ProbeOnce(bg, rt, "a", build)
		require.ErrorContains(t, err, "a backend: ")
		require.ErrorContains(t, err, name)
	}
	v, b, err := runtime.ProbeOnce(bg, rt, "a", func(*runtime.Backend) (error, error) { return nil, nil })
	require.NoError(t, err)
	assert.NoError(t, v, "nil is a result as well")
	assert.NotNil(t, b)

	for _, err := range []error{third2(runtime.ProbeOnce[int](bg, rt, "a", nil)), second(probeWith(bg, rt, "a", nil)),
		third2(runtime.ProbeOnce(bg, nil, "a", func(*runtime.Backend) (int, error) { return 0, nil }))} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}
	require.NoError(t, rt.Close())
	_, _, err = runtime.ProbeOnce(bg, rt, "a", func(*runtime.Backend) (error, error) { return nil, nil })
	assert.ErrorIs(t, err, driver.ErrClosed)
}

func third2[T any](_ T, _ *runtime.Backend, err error) error { return err }

// A device that is lost while a label is built, or after, has it built on another.
func TestProbeOnceOnTheNextDevice(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	at := func() (int, error) {
		ordinal, b, err := runtime.ProbeOnce(bg, rt, "a", func(b *runtime.Backend) (int, error) {
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
				_, err := probeWith(bg, rt, label, func(*runtime.Backend) error {
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
		_, err := probeWith(bg, rt, "a", func(*runtime.Backend) error {
			inner := async(func() error {
				close(asking)
				return second(probeWith(bg, rt, "a", func(*runtime.Backend) error { return nil }))
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
	_, err := probeWith(bg, rt, "a", func(*runtime.Backend) error { return (*badError)(nil) })
	assert.ErrorContains(t, err, "a backend: an error of type *runtime_test.badError, whose methods panic")
}

// closing counts its Close, which does what it is told to.
type closing struct {
	closed *atomic.Int64
	do     func() error
}

func (c closing) Close() error {
	c.closed.Add(1)
	return c.do()
}

// What a build replaces is closed once, and what its Close does wrong harms nobody.
func TestProbeOnceClosesWhatItReplaces(t *testing.T) {
	for name, do := range map[string]func() error{
		"well":   func() error { return nil },
		"error":  func() error { return errors.New("it does not close") },
		"panic":  func() error { panic("it does not close") },
		"goexit": func() error { goruntime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			var heard []error
			rt, _ := open(t, twoDevices(), runtime.WithErrorHook(func(err error) { heard = append(heard, err) }))
			var closed atomic.Int64
			build := func(*runtime.Backend) (closing, error) { return closing{&closed, do}, nil }
			for range 3 {
				_, b, err := runtime.ProbeOnce(bg, rt, "a", build)
				require.NoError(t, err)
				_, _, err = runtime.ProbeOnce(bg, rt, "a", build)
				require.NoError(t, err)
				require.NoError(t, b.Context.Reset(bg))
			}
			assert.EqualValues(t, 2, closed.Load())
			assert.Equal(t, name != "well", len(heard) > 0, "%v", heard)
		})
	}
}

// The end of ctx ends the wait of its caller. The build goes on for others.
func TestProbeOnceWithAContext(t *testing.T) {
	rt, _ := open(t, twoDevices())
	begun, release := make(chan struct{}), make(chan struct{})
	build := func(*runtime.Backend) (int, error) {
		close(begun)
		<-release
		return 5, nil
	}
	why := errors.New("the request has ended")
	ctx, cancel := context.WithCancelCause(bg)
	first := async(func() error { _, _, err := runtime.ProbeOnce(ctx, rt, "a", build); return err })
	<-begun
	second := asyncOf(func() int { v, _, _ := runtime.ProbeOnce(bg, rt, "a", build); return v })
	cancel(why)
	assert.ErrorIs(t, await(t, "the first ends", first), why)
	_, _, err := runtime.ProbeOnce(ctx, rt, "a", build)
	assert.ErrorIs(t, err, why, "ctx has ended before")
	close(release)
	assert.Equal(t, 5, await(t, "the second gets it", second))
	//lint:ignore SA1012 it is refused
	_, _, err = runtime.ProbeOnce(nil, rt, "a", build)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = probeWith(ctx, rt, "b", func(*runtime.Backend) error { return nil })
	assert.ErrorIs(t, err, why)
}

// Required and absent is a kind of its own, and never the one that leads to the CPU.
func TestProbeOnceRequiredAndAbsent(t *testing.T) {
	t.Setenv(runtime.PolicyVariable, "required")
	rt, _ := open(t, drivertest.Config{InitResult: driver.ResultNoDevice}, runtime.WithPolicy(runtime.PolicyAuto))
	_, _, err := runtime.ProbeOnce(bg, rt, "a", func(*runtime.Backend) (int, error) { return 1, nil })
	assert.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
	assert.NotErrorIs(t, err, driver.ErrRequired)
	_, err = runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{InitResult: driver.ResultNoDevice})))
	assert.ErrorIs(t, err, driver.ErrRequired)
	assert.NotErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
}
