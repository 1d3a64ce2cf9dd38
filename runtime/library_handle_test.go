package runtime_test

import (
	"errors"
	"io"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// newLibrary makes a handle that is an event of the driver, and tells whether it was destroyed.
func newLibrary(t testing.TB, c *runtime.Context) (h *runtime.LibraryHandle, destroyed func() bool) {
	t.Helper()
	api, gone := c.Runtime().Driver(), new(atomic.Int64)
	h, err := c.NewLibraryHandle("create", func() (func() error, error) {
		e, r := api.EventCreate(driver.EventDisableTiming)
		return func() error {
			current, _ := api.CtxGetCurrent()
			assert.NotZero(t, current, "the context is current")
			gone.Add(1)
			return failure(api.EventDestroy(e))
		}, failure(r)
	})
	require.NoError(t, err)
	return h, func() bool {
		assert.LessOrEqual(t, gone.Load(), int64(1), "it is destroyed once")
		return gone.Load() == 1
	}
}

func TestLibraryHandleEnds(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		closed, destroyed := newLibrary(t, c)
		assert.Same(t, c, closed.Context())
		assert.EqualValues(t, 1, c.Stats().Handles)
		require.NoError(t, errors.Join(closed.Close(), closed.Close()))
		assert.True(t, destroyed())
		assert.Zero(t, c.Stats().Handles)

		s := newStream(t, c)
		reset, destroyed := newLibrary(t, c)
		var atDestroy driver.Context
		before := c.Handle()
		_, err := c.NewLibraryHandle("create", func() (func() error, error) {
			return func() error { atDestroy, _ = rt.Driver().CtxGetCurrent(); return nil }, nil
		})
		require.NoError(t, err)
		require.NoError(t, c.Reset(bg))
		assert.True(t, destroyed())
		assert.Equal(t, before, atDestroy, "in the context that it was made in")
		never := func(driver.Stream, []driver.DevicePtr) error { t.Error("it must not run"); return nil }
		assert.ErrorIs(t, s.Submit("work", never, reset.Arg()), driver.ErrRefStale)
		err = newStream(t, c).Submit("work", never, reset.Arg())
		assert.ErrorIs(t, err, driver.ErrRefStale, "also on a stream of the new context")
		assert.ErrorContains(t, err, "context rebuilt")
		require.NoError(t, reset.Close())

		_, destroyed = newLibrary(t, c)
		require.NoError(t, rt.Close())
		assert.True(t, destroyed())
	})
}

func TestForgottenLibraryHandle(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c := contextOf(t, rt)
	destroyed := func() func() bool { _, destroyed := newLibrary(t, c); return destroyed }()
	eventually(t, "the collector finds the handle", func() bool {
		goruntime.GC()
		newEvent(t, c)
		return destroyed()
	})
}

// Close of a handle waits for who uses it.
func TestLibraryHandleIsKeptWhileItIsUsed(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c := contextOf(t, rt)
	s := newStream(t, c)
	h, destroyed := newLibrary(t, c)
	inside, goOn := make(chan struct{}), make(chan struct{})
	submitted := async(func() error {
		return s.Submit("work", func(driver.Stream, []driver.DevicePtr) error {
			close(inside)
			<-goOn
			assert.False(t, destroyed())
			return nil
		}, h.Arg())
	})
	await(t, "the work is submitted", inside)
	closing := async(h.Close)
	nothing := func(driver.Stream, []driver.DevicePtr) error { return nil }
	eventually(t, "Close has begun", func() bool { return errors.Is(s.Submit("work", nothing, h.Arg()), driver.ErrClosed) })
	resetting := async(func() error { return c.Reset(bg) })
	eventually(t, "Reset has begun", func() bool { return !c.State().Accepting() })
	assert.False(t, destroyed())
	close(goOn)
	require.NoError(t, await(t, "Submit returns", submitted))
	require.NoError(t, errors.Join(await(t, "Close returns", closing), await(t, "Reset returns", resetting)))
	assert.True(t, destroyed())
}

func TestLibraryHandleThatCannotBeMade(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c := contextOf(t, rt)
	for name, create := range map[string]func() (func() error, error){
		"nil":   nil,
		"error": func() (func() error, error) { return nil, io.ErrUnexpectedEOF },
		"panic": func() (func() error, error) { panic(io.ErrUnexpectedEOF) },
	} {
		h, err := c.NewLibraryHandle("cublasCreate", create)
		assert.Nil(t, h, name)
		require.ErrorContains(t, err, "cublasCreate: ", name)
		if create != nil {
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF, name)
		}
	}
	assert.Zero(t, c.Stats().Handles)
}

// A destroy that fails keeps nothing else from ending, and is heard of.
func TestLibraryHandleThatCannotBeDestroyed(t *testing.T) {
	for name, destroy := range map[string]func() error{
		"error":  func() error { return io.ErrUnexpectedEOF },
		"panic":  func() error { panic(io.ErrUnexpectedEOF) },
		"Goexit": func() error { goruntime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var heard []error
			rt, _ := open(t, twoDevices(), runtime.WithErrorHook(func(err error) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, err)
			}))
			c := contextOf(t, rt)
			create := func() (func() error, error) { return destroy, nil }
			h, err := c.NewLibraryHandle("create", create)
			require.NoError(t, err)
			assert.ErrorContains(t, h.Close(), "destroying a library handle of device 0")
			assert.NoError(t, h.Close())
			_, err = c.NewLibraryHandle("create", create)
			require.NoError(t, err)
			other, destroyed := newLibrary(t, c)
			require.NoError(t, c.Reset(bg))
			assert.True(t, destroyed())
			goruntime.KeepAlive(other)
			mu.Lock()
			defer mu.Unlock()
			require.NotEmpty(t, heard)
			assert.ErrorContains(t, errors.Join(heard...), "destroying a library handle of device 0")
		})
	}
}

// pushes counts how often a context is made current.
type pushes struct {
	driver.API
	n atomic.Int64
}

func (p *pushes) CtxPushCurrent(c driver.Context) driver.Result {
	p.n.Add(1)
	return p.API.CtxPushCurrent(c)
}

// Calls with a handle that make the context current are made without it.
func TestSubmitWhereCallsMakeTheContextCurrent(t *testing.T) {
	gpu := &pushes{API: drivertest.ForTest(t, drivertest.Config{})}
	c := contextOf(t, openOn(t, gpu))
	s := newStream(t, c)
	x := alloc[uint32](t, s, 1)
	h, _ := newLibrary(t, c)
	assert.Nil(t, h.Current(), "a simulated driver has no functions of C")
	submit := func() (made int64) {
		before := gpu.n.Load()
		require.NoError(t, s.Submit("call", func(_ driver.Stream, at []driver.DevicePtr) error {
			assert.Equal(t, []driver.DevicePtr{x.Core().Ptr(), 0}, at)
			return nil
		}, runtime.InOut(x), h.Arg()))
		return gpu.n.Load() - before
	}
	assert.EqualValues(t, 1, submit())
	runtime.MakesCurrent(h)
	assert.Zero(t, submit())
}
