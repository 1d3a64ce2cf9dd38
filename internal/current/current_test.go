//go:build linux && (amd64 || arm64)

package current

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
)

// library is the one that internal/ffi is tested with: its push and pop are those of a driver with a context for each thread.
func library(t *testing.T) *dl.Library {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build ffitest.c with")
	}
	path := filepath.Join(t.TempDir(), "libcurrenttest.so")
	out, err := exec.Command(cc, "-shared", "-fPIC", "-O2", "-o", path, "../ffi/testdata/ffitest.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	lib, _, err := dl.Open(path)
	require.NoError(t, err)
	return lib
}

// stuck is a driver that says which context is current, and takes one off at the second try.
type stuck struct {
	driver.API
	current driver.Context
	pops    int
}

func (s *stuck) CtxGetCurrent() (driver.Context, driver.Result) { return s.current, driver.Success }

func (s *stuck) CtxPopCurrent() (driver.Context, driver.Result) {
	s.pops++
	if s.pops == 1 {
		return 0, driver.ResultUnknown
	}
	s.current = 0
	return 0, driver.Success
}

func TestCall(t *testing.T) {
	lib := library(t)
	fn := lib.Symbol("within7")
	var errs, cleanups []error
	on := func(context driver.Context, api driver.API) *Context {
		errs, cleanups = nil, nil
		c := of(&driver.Binding{API: api, Context: context, OnError: func(err *driver.Error) { errs = append(errs, err) },
			OnCleanup: func(err error) { cleanups = append(cleanups, err) }},
			func(name string) uintptr {
				return lib.Symbol(map[string]string{"cuCtxPushCurrent_v2": "push", "cuCtxPopCurrent_v2": "pop"}[name])
			})
		require.NotNil(t, c)
		return c
	}
	call := func(c *Context) uintptr {
		var block struct {
			ffi.Frame
			args [ffi.RegisterWords]uintptr
		}
		block.args[0] = 5
		return c.Call(&block.Frame, fn, 7, 0)
	}
	c := on(1<<40, nil)
	assert.EqualValues(t, 1<<40+5, call(c))
	require.NoError(t, c.Failed())
	assert.Empty(t, errs)

	c = on(0, nil) // which the library refuses
	assert.Equal(t, ffi.Unavailable, call(c))
	require.ErrorIs(t, c.Failed(), driver.Result(201))
	require.NoError(t, c.Failed(), "it is told once")
	assert.Len(t, errs, 1, "the runtime hears of it")

	// 13 is taken off with an error: once it is off, and once it is not.
	for _, current := range []driver.Context{0, 13} {
		api := &stuck{current: current}
		c = on(13, api)
		assert.EqualValues(t, 13+5, call(c))
		require.NoError(t, c.Failed(), "the call was made")
		assert.Zero(t, api.current)
		assert.NotEmpty(t, cleanups)
		assert.EqualValues(t, 5, call(on(1<<40, nil))-1<<40, "the thread has none of before")
	}
	assert.Nil(t, of(&driver.Binding{}, func(string) uintptr { return 0 }), "a driver without them")
	assert.Nil(t, Of(&driver.Binding{API: &stuck{}}), "a driver that is none of C's")
	var none *Context
	require.NoError(t, none.Failed())
}
