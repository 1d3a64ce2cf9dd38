package runtime_test

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// closer is something that notes its end.
type closer struct{ close func() error }

func (c *closer) Close() error { return c.close() }

func TestScope(t *testing.T) {
	var order []string
	made := func(name string, err error) (*closer, error) {
		return &closer{func() error { order = append(order, name); return err }}, nil
	}
	var scope runtime.Scope
	second, third := errors.New("second"), errors.New("third")
	assert.NotNil(t, runtime.Keep(made("first", nil))(&scope))
	runtime.Keep(made("second", second))(&scope)
	runtime.Keep(made("third", third))(&scope)
	runtime.Keep(&closer{func() error { panic("fourth") }}, nil)(&scope)
	runtime.Keep[io.Closer](nil, nil)(&scope) // nothing
	runtime.Keep(&closer{func() error {       // as a function of testing.T.Cleanup may
		runtime.Keep(made("made while closing", nil))(&scope)
		return nil
	}}, nil)(&scope)
	require.NoError(t, scope.Err())
	assert.Nil(t, runtime.Keep[*closer](nil, second)(&scope))
	runtime.Keep[*closer](nil, third)(&scope)
	assert.Equal(t, second, scope.Err(), "the first one")

	err := scope.Close()
	assert.Equal(t, []string{"made while closing", "third", "second", "first"}, order)
	assert.ErrorIs(t, err, second)
	assert.ErrorIs(t, err, third)
	assert.ErrorContains(t, err, "panic: fourth")
	require.NoError(t, scope.Close())

	var late runtime.Scope
	require.NoError(t, late.Close())
	for _, s := range []*runtime.Scope{&late, nil} {
		order = nil
		runtime.Keep(made("late", third))(s)
		assert.Equal(t, []string{"late"}, order, "it is closed at once")
	}
	assert.ErrorIs(t, late.Err(), driver.ErrClosed)
	assert.ErrorIs(t, late.Err(), third)
	assert.ErrorIs(t, (*runtime.Scope)(nil).Err(), driver.ErrInvalidArgument)
	require.NoError(t, (*runtime.Scope)(nil).Close())
}

// What several goroutines leave to a scope that is closed meanwhile is closed once.
func TestScopeConcurrently(t *testing.T) {
	var scope runtime.Scope
	var all sync.WaitGroup
	var closed atomic.Int64
	for range 8 {
		all.Go(func() {
			for range 200 {
				runtime.Keep(&closer{func() error { closed.Add(1); return nil }}, nil)(&scope)
			}
		})
	}
	all.Go(func() { assert.NoError(t, scope.Close()) })
	all.Wait()
	require.NoError(t, scope.Close())
	assert.EqualValues(t, 1600, closed.Load())
}

// Whichever call fails, the scope says why, and everything is closed: the driver of open finds
// what is not.
func TestScopeWithFaults(t *testing.T) {
	work := func(c *runtime.Context) (got []uint32, err error) {
		var scope runtime.Scope
		defer func() { err = errors.Join(err, scope.Close()) }()
		s := runtime.Keep(c.NewStream())(&scope)
		m := runtime.Keep(c.LoadModule(runtime.Image{Code: addPTX()}))(&scope)
		x := runtime.Keep(runtime.UploadNew(bg, s, count(1, 1000)))(&scope)
		h := runtime.Keep(runtime.AllocHost[uint32](c, 10))(&scope)
		if err := scope.Err(); err != nil {
			return nil, err
		}
		k, err := m.Kernel("add")
		if err != nil {
			return nil, err
		}
		if err := k.Launch(s, runtime.Shape1D(1000, 128), runtime.InOut(x), runtime.Int(x.Len()), runtime.Int(5)); err != nil {
			return nil, err
		}
		if err := runtime.DownloadHost(s, h, x.Slice(0, 10)); err != nil {
			return nil, err
		}
		return runtime.DownloadNew(bg, s, x)
	}
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	got, err := work(c)
	require.NoError(t, err)
	require.Equal(t, count(6, 1000), got)
	for _, op := range []string{"cuStreamCreateWithPriority", "cuModuleLoadDataEx", "cuMemcpyHtoDAsync", "cuMemHostAlloc", "cuLaunchKernel", "cuMemcpyDtoHAsync"} {
		require.NoError(t, c.Trim()) // no stream and no memory is kept from before
		gpu.Fail(op, 1, driver.ResultUnknown)
		_, err := work(c)
		assert.ErrorIs(t, err, driver.ResultUnknown, op)
		left := c.Stats()
		assert.Zero(t, left.Streams+left.Modules+left.HostBuffers+left.Refs, op)
	}
}
