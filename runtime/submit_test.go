package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/runtime"
)

// foreign stands for another library: it calls the driver about a stream by itself.
type foreign struct{ api driver.API }

// add has dst[i] = src[i] + 0: a copy, which reads one memory and writes another.
func (f foreign) copy(s *runtime.Stream, dst, src *runtime.Ref[uint32]) error {
	return s.Submit("foreignCopy", func(stream driver.Stream, at []driver.DevicePtr) error {
		return failure(f.api.MemcpyDtoDAsync(at[0], at[1], dst.Bytes(), stream))
	}, runtime.InOut(dst), runtime.In(src))
}

func (f foreign) fill(s *runtime.Stream, dst *runtime.Ref[uint32], v uint32) error {
	return s.Submit("foreignFill", func(stream driver.Stream, at []driver.DevicePtr) error {
		return failure(f.api.MemsetD32Async(at[0], v, uint64(dst.Len()), stream))
	}, runtime.InOut(dst))
}

func failure(r driver.Result) error {
	if r == driver.Success {
		return nil
	}
	return r
}

// foreignStream is a stream that others own.
func foreignStream(t testing.TB, c *runtime.Context) (stream driver.Stream) {
	t.Helper()
	api := c.Runtime().Driver()
	require.NoError(t, c.Do(func() (err error) {
		var r driver.Result
		stream, r = api.StreamCreate(driver.StreamNonBlocking)
		return failure(r)
	}))
	t.Cleanup(func() { _ = c.Do(func() error { return failure(api.StreamDestroy(stream)) }) })
	return stream
}

// foreignMemory is memory that others own.
func foreignMemory(t testing.TB, c *runtime.Context, bytes uint64) (at driver.DevicePtr) {
	t.Helper()
	api := c.Runtime().Driver()
	require.NoError(t, c.Do(func() (err error) {
		var r driver.Result
		at, r = api.MemAlloc(bytes)
		return failure(r)
	}))
	t.Cleanup(func() { _ = c.Do(func() error { return failure(api.MemFree(at)) }) })
	return at
}

func TestForeignWorkIsOrderedAsALaunchIs(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 1000
		c := contextOf(t, rt)
		lib := foreign{rt.Driver()}
		first, second, third := newStream(t, c), newStream(t, c), newStream(t, c)
		x, y := upload(t, first, count(0, n)), alloc[uint32](t, second, n)
		k := kernel(t, c, "add")
		release := hold(t, first)
		require.NoError(t, lib.fill(first, x, 7))
		require.NoError(t, lib.copy(second, y, x), "it waits for the fill")
		require.NoError(t, addTo(k, third, y, 1), "it waits for the copy")
		require.NoError(t, lib.fill(third, x, 9), "it waits for the copy, which reads")
		done, err := third.Query()
		require.NoError(t, err)
		assert.False(t, done, "all of it waits for the first stream")
		require.NoError(t, x.Close())
		fresh := alloc[uint32](t, second, n) // may be the memory of x
		require.NoError(t, runtime.Fill(second, fresh, 1))
		release()
		got := download(t, first, y)
		for _, v := range got {
			require.EqualValues(t, 8, v)
		}
		for _, v := range download(t, first, fresh) {
			require.EqualValues(t, 1, v, "the fill of x came before")
		}
		assert.EqualValues(t, 3, c.Stats().Submits)
	})
}

func TestCaptureRecordsForeignWork(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 100
		c := contextOf(t, rt)
		lib := foreign{rt.Driver()}
		s := newStream(t, c)
		x, y := upload(t, s, count(0, n)), upload(t, s, count(0, n))
		library, destroyed := newLibrary(t, c)
		g := capture(t, s, func(s *runtime.Stream) error {
			return errors.Join(lib.fill(s, x, 3), lib.copy(s, y, x),
				s.Submit("with a handle", func(stream driver.Stream, at []driver.DevicePtr) error {
					return failure(lib.api.MemsetD32Async(at[1], 5, 1, stream))
				}, library.Arg(), runtime.InOut(y)))
		})
		assert.Equal(t, count(0, n), download(t, s, y), "nothing runs while it is captured")
		nodes, err := g.Nodes()
		require.NoError(t, err)
		assert.Equal(t, 3, nodes)
		exec := instantiate(t, g)
		keep := y.Retain()
		require.NoError(t, errors.Join(x.Close(), y.Close(), library.Close()))
		assert.False(t, destroyed(), "the graph uses it")
		require.NoError(t, exec.Launch(s))
		got := download(t, s, keep)
		assert.EqualValues(t, 5, got[0])
		assert.EqualValues(t, 3, got[n-1])
		require.NoError(t, exec.Close())
		assert.True(t, destroyed())
	})
}

func TestForeignWorkThatCannotBe(t *testing.T) {
	rt, _ := open(t, twoDevices())
	another, _ := open(t, twoDevices())
	c, other := contextAt(t, rt, 0), contextAt(t, rt, 1)
	s := newStream(t, c)
	x := alloc[uint32](t, s, 4)
	gone := alloc[uint32](t, s, 4)
	require.NoError(t, gone.Close())
	closed := newStream(t, c)
	require.NoError(t, closed.Close())
	far, stranger := alloc[uint32](t, newStream(t, other), 4), alloc[uint32](t, newStream(t, contextAt(t, another, 0)), 4)
	farHandle, _ := newLibrary(t, other)
	closedHandle, _ := newLibrary(t, c)
	require.NoError(t, closedHandle.Close())
	pinned := allocHost[uint32](t, c, 1)
	require.NoError(t, pinned.Close())
	never := func(driver.Stream, []driver.DevicePtr) error { t.Error("it must not run"); return nil }
	for _, test := range []struct {
		name string
		on   *runtime.Stream
		f    func(driver.Stream, []driver.DevicePtr) error
		uses []runtime.Arg
		kind driver.Kind
		text string
	}{
		{"no stream", nil, never, nil, driver.ErrInvalidArgument, "a stream that was never made"},
		{"zero stream", new(runtime.Stream), never, nil, driver.ErrInvalidArgument, "a stream that was never made"},
		{"no function", s, nil, nil, driver.ErrInvalidArgument, "work: Submit takes a function that is not nil"},
		{"closed stream", closed, never, nil, driver.ErrClosed, "stream"},
		{"closed Ref", s, never, []runtime.Arg{runtime.In(gone)}, driver.ErrClosed, "the Ref was closed before"},
		{"nil Ref", s, never, []runtime.Arg{runtime.In[uint32](nil)}, driver.ErrInvalidArgument, "never allocated"},
		{"view out of bounds", s, never, []runtime.Arg{runtime.InOut(x.Slice(2, 9))}, driver.ErrInvalidArgument, "slice [2:9] of a Ref of 4 elements"},
		{"value", s, never, []runtime.Arg{runtime.In(x), runtime.Value(uint32(1))}, driver.ErrInvalidArgument,
			"work uses a uint32 as argument 1: want In, InOut, HostBuffer.Arg or LibraryHandle.Arg"},
		{"zero argument", s, never, make([]runtime.Arg, 1), driver.ErrInvalidArgument, "argument 0: want In"},
		{"structure", s, never, []runtime.Arg{runtime.Struct(&[2]uint64{})}, driver.ErrInvalidArgument, "a structure of 16 bytes as argument 0"},
		{"memory of another device", s, never, []runtime.Arg{runtime.In(far)}, driver.ErrInvalidArgument, "work uses memory of device 1 as argument 0, and the stream is of device 0 (see Context.EnablePeer)"},
		{"memory of another runtime", s, never, []runtime.Arg{runtime.In(stranger)}, driver.ErrInvalidArgument, "belongs to another runtime"},
		{"closed buffer", s, never, []runtime.Arg{pinned.Arg()}, driver.ErrClosed, "host memory"},
		{"nil handle", s, never, []runtime.Arg{(*runtime.LibraryHandle)(nil).Arg()}, driver.ErrInvalidArgument, "a library handle that was never made"},
		{"handle of another device", s, never, []runtime.Arg{farHandle.Arg()}, driver.ErrInvalidArgument, "work uses a library handle of device 1 as argument 0, and the stream is of device 0"},
		{"closed handle", s, never, []runtime.Arg{closedHandle.Arg()}, driver.ErrClosed, "library handle"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.on.Submit("work", test.f, test.uses...)
			require.ErrorIs(t, err, test.kind)
			assert.ErrorContains(t, err, test.text)
		})
	}
	handle, _ := newLibrary(t, c)
	k := kernel(t, c, "add")
	err := k.Launch(s, one, handle.Arg(), handle.Arg(), handle.Arg())
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "argument 0 is a library handle, which only Stream.Submit takes")
}

func TestForeignWorkOnMemoryOfAPeer(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c, other := contextAt(t, rt, 0), contextAt(t, rt, 1)
	s, farStream := newStream(t, c), newStream(t, other)
	x, far := alloc[uint32](t, s, 8), upload(t, farStream, count(5, 8))
	_, err := c.EnablePeer(other)
	require.NoError(t, err)
	require.NoError(t, foreign{rt.Driver()}.copy(s, x, far))
	assert.Equal(t, count(5, 8), download(t, s, x))
}

func TestForeignWorkHasItsContextCurrent(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		x, h := alloc[uint32](t, s, 4), allocHost[uint32](t, c, 4)
		current := func() driver.Context {
			current, r := rt.Driver().CtxGetCurrent()
			assert.Equal(t, driver.Success, r)
			return current
		}
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		before := current()
		require.NoError(t, s.Submit("work", func(stream driver.Stream, at []driver.DevicePtr) error {
			assert.Equal(t, c.Handle(), current())
			assert.Equal(t, s.Handle(), stream)
			assert.Len(t, at, 3)
			assert.Equal(t, x.Core().Ptr()+4, at[0])
			assert.NotZero(t, at[1])
			assert.Equal(t, at[1]+8, at[2])
			return nil
		}, runtime.In(x.Slice(1, 2)), h.Arg(), h.Slice(2, 4).Arg()))
		require.NoError(t, c.Do(func() error {
			assert.Equal(t, c.Handle(), current())
			return nil
		}))
		assert.Equal(t, before, current())
	})
}

// f fails in one of these ways; the stream, the Ref and the context are well afterwards.
func TestForeignFunctionThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		f    func() error
		want error
		text string
	}{
		"error":        {func() error { return io.ErrUnexpectedEOF }, io.ErrUnexpectedEOF, "work: unexpected EOF"},
		"result":       {func() error { return driver.ResultInvalidValue }, driver.ResultInvalidValue, "work: CUDA_ERROR_INVALID_VALUE"},
		"panic":        {func() error { panic(io.ErrNoProgress) }, io.ErrNoProgress, "work: panic: "},
		"nil function": {func() error { var f func() error; return f() }, nil, "work: panic: "},
	} {
		t.Run(name, func(t *testing.T) {
			rt, _ := open(t, twoDevices())
			c := contextOf(t, rt)
			s := newStream(t, c)
			x := upload(t, s, count(0, 4))
			f := func(driver.Stream, []driver.DevicePtr) error { return test.f() }
			check := func(err error) {
				require.ErrorContains(t, err, test.text)
				if test.want != nil {
					assert.ErrorIs(t, err, test.want)
				}
			}
			check(s.Submit("work", f, runtime.InOut(x)))
			_, err := s.Capture(func(s *runtime.Stream) error {
				_ = s.Submit("work", f, runtime.InOut(x))
				return nil
			})
			check(err)
			err = c.Do(test.f)
			assert.Error(t, err)
			assert.Equal(t, count(0, 4), download(t, s, x))
			require.NoError(t, c.Reset(bg), "no lease is left")
		})
	}
	t.Run("Goexit", func(t *testing.T) {
		rt, _ := open(t, twoDevices())
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := upload(t, s, count(0, 4))
		for _, call := range []func(){
			func() {
				_ = s.Submit("work", func(driver.Stream, []driver.DevicePtr) error { goruntime.Goexit(); return nil }, runtime.InOut(x))
			},
			func() { _ = c.Do(func() error { goruntime.Goexit(); return nil }) },
		} {
			require.Error(t, contain.Hook(call))
		}
		assert.Equal(t, count(0, 4), download(t, s, x))
		require.NoError(t, c.Reset(bg), "nobody is inside any more")
	})
}

func TestForeignWorkAfterALoss(t *testing.T) {
	for name, lose := range map[string]func(gpu *drivertest.Driver, s *runtime.Stream) error{
		"by the runtime": func(gpu *drivertest.Driver, s *runtime.Stream) error {
			gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
			_, err := s.Query()
			return err
		},
		"by the foreign function": func(gpu *drivertest.Driver, s *runtime.Stream) error {
			return s.Submit("cublasSgemm", func(driver.Stream, []driver.DevicePtr) error {
				return fmt.Errorf("CUBLAS_STATUS_EXECUTION_FAILED: %w", driver.ResultIllegalAddress)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt, gpu := openFaulty(t, twoDevices())
			c := contextOf(t, rt)
			s := newStream(t, c)
			x := alloc[uint32](t, s, 4)
			h, destroyed := newLibrary(t, c)
			err := lose(gpu, s)
			require.ErrorIs(t, err, driver.ResultIllegalAddress)
			assert.ErrorIs(t, rt.Err(), driver.ResultIllegalAddress)
			never := func(driver.Stream, []driver.DevicePtr) error { t.Error("it must not run"); return nil }
			for _, uses := range [][]runtime.Arg{nil, {runtime.In(x)}, {h.Arg()}} {
				err := s.Submit("work", never, uses...)
				require.ErrorIs(t, err, driver.ErrDeviceLost)
				assert.ErrorIs(t, err, driver.ResultIllegalAddress, "the first cause")
			}
			assert.ErrorIs(t, c.Do(func() error { t.Error("it must not run"); return nil }), driver.ErrDeviceLost)
			require.NoError(t, errors.Join(h.Close(), rt.Close()))
			assert.False(t, destroyed(), "what it would destroy is gone")
		})
	}
}

// Work of others is in traces.
func TestForeignWorkIsTraced(t *testing.T) {
	kernels, launches := make(chan runtime.TraceKernel, 1), make(chan runtime.TraceLaunch, 1)
	rt, _ := open(t, twoDevices(), runtime.WithTrace(&runtime.Trace{
		Launch: func(_ context.Context, l runtime.TraceLaunch) { launches <- l },
		Kernel: func(_ context.Context, k runtime.TraceKernel) { kernels <- k },
	}))
	s := newStream(t, contextOf(t, rt))
	require.NoError(t, foreign{rt.Driver()}.fill(s, alloc[uint32](t, s, 4), 1))
	assert.Equal(t, "foreignFill", (<-launches).Kernel)
	k := await(t, "the work ends", kernels)
	assert.Equal(t, "foreignFill", k.Kernel)
	assert.NoError(t, k.TimeErr)
}
