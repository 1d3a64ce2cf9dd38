package drivertest_test

import (
	goruntime "runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

const ptx = `.version 6.4
.target sm_75
.address_size 64
.visible .entry add_one(.param .u64 add_one_x, .param .u32 add_one_n) { ret; }
.visible .entry gate(.param .u64 gate_x) { ret; }
.visible .entry unbound() { ret; }
.visible .entry fails() { ret; }
.visible .entry panics() { ret; }
`

// gpu is a driver under test with its first context current on the test's thread.
type gpu struct {
	*drivertest.Driver
	t   *testing.T
	ctx driver.Context
}

func kernels() map[string]drivertest.KernelFunc {
	return map[string]drivertest.KernelFunc{
		"add_one": func(k *drivertest.Launch) error {
			x, err := drivertest.Slice[uint32](k, drivertest.Param[driver.DevicePtr](k, 0), uint64(drivertest.Param[uint32](k, 1)))
			for i := range x {
				x[i]++
			}
			return err
		},
		"gate": func(k *drivertest.Launch) error {
			_, err := k.Memory(drivertest.Param[driver.DevicePtr](k, 0), 1)
			return err
		},
		"fails":  func(*drivertest.Launch) error { return driver.ResultAssert },
		"panics": func(k *drivertest.Launch) error { drivertest.Param[uint32](k, 0); return nil },
	}
}

func start(t *testing.T, config drivertest.Config) *gpu {
	t.Helper()
	if config.Kernels == nil {
		config.Kernels = kernels()
	}
	g := &gpu{Driver: drivertest.New(config), t: t}
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	g.ok(g.Init(0))
	goruntime.LockOSThread()
	t.Cleanup(goruntime.UnlockOSThread)
	var r driver.Result
	g.ctx, r = g.DevicePrimaryCtxRetain(0)
	g.ok(r)
	g.ok(g.CtxPushCurrent(g.ctx))
	return g
}

func (g *gpu) ok(r driver.Result) {
	g.t.Helper()
	require.Equal(g.t, driver.Success, r)
}

func (g *gpu) is(want, r driver.Result) {
	g.t.Helper()
	require.Equal(g.t, want, r)
}

func (g *gpu) alloc(bytes uint64) driver.DevicePtr {
	g.t.Helper()
	ptr, r := g.MemAlloc(bytes)
	g.ok(r)
	return ptr
}

func (g *gpu) stream() driver.Stream {
	g.t.Helper()
	s, r := g.StreamCreate(driver.StreamNonBlocking)
	g.ok(r)
	return s
}

func (g *gpu) function(name string) driver.Function {
	g.t.Helper()
	m, log, r := g.ModuleLoadData([]byte(ptx), driver.JIT{})
	require.Equal(g.t, driver.Success, r, log.Error)
	f, r := g.ModuleGetFunction(m, name)
	g.ok(r)
	return f
}

func (g *gpu) launch(f driver.Function, s driver.Stream, params ...unsafe.Pointer) driver.Result {
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	return g.LaunchKernel(f, one, one, 0, s, params)
}

// finding returns the only finding.
func (g *gpu) finding() drivertest.Finding {
	g.t.Helper()
	all := g.Findings()
	require.Len(g.t, all, 1)
	return all[0]
}

// poll waits for a condition that another goroutine makes true.
func poll(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !f(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), what)
	}
}

func pointer[T any](v *T) unsafe.Pointer { return unsafe.Pointer(v) }

func contains(t *testing.T, all []string, want string) {
	t.Helper()
	assert.True(t, strings.Contains(strings.Join(all, "\n"), want), "%q is not in\n%s", want, strings.Join(all, "\n"))
}
