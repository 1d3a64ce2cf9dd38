package drivertest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

func TestLeaksAreNamed(t *testing.T) {
	g := start(t, drivertest.Config{})
	ptr := g.alloc(100)
	host, r := g.MemHostAlloc(64, 0)
	g.ok(r)
	s := g.stream()
	e, r := g.EventCreate(0)
	g.ok(r)
	m, _, r := g.ModuleLoadData([]byte(ptx), driver.JIT{})
	g.ok(r)
	l, _, r := g.LibraryLoadData([]byte(ptx), driver.JIT{})
	g.ok(r)
	graph, r := g.GraphCreate(0)
	g.ok(r)
	x, r := g.GraphInstantiate(graph, 0)
	g.ok(r)
	pool, r := g.MemPoolCreate(driver.MemPoolProps{AllocType: driver.MemAllocationPinned,
		Location: driver.MemLocation{Type: driver.MemLocationDevice}})
	g.ok(r)

	leaks := g.Leaks()
	assert.Len(t, leaks, 10)
	for _, want := range []string{
		"100 bytes of device memory", "cuMemAlloc at util_test.go",
		"64 bytes of page-locked host memory", "stream 0x", "event 0x", "module 0x", "library 0x",
		"graph 0x", "executable graph 0x", "memory pool 0x", "primary context of device 0 retained 1 times",
	} {
		contains(t, leaks, want)
	}

	g.ok(g.MemPoolDestroy(pool))
	g.ok(g.GraphExecDestroy(x))
	g.ok(g.GraphDestroy(graph))
	g.ok(g.LibraryUnload(l))
	g.ok(g.ModuleUnload(m))
	g.ok(g.EventDestroy(e))
	g.ok(g.StreamDestroy(s))
	g.ok(g.MemFreeHost(host))
	g.ok(g.MemFree(ptr))
	g.ok(g.DevicePrimaryCtxRelease(0))
	assert.Empty(t, g.Leaks())
}

func TestReleaseWithThingsLeftIsALeak(t *testing.T) {
	g := start(t, drivertest.Config{Stacks: true})
	g.alloc(100)
	g.stream()
	g.ok(g.DevicePrimaryCtxRelease(0))
	leaks := g.Leaks()
	assert.Len(t, leaks, 2)
	contains(t, leaks, "destroyed with its context by cuDevicePrimaryCtxRelease")
	contains(t, leaks, "TestReleaseWithThingsLeftIsALeak")
}

func TestResetIsOnPurpose(t *testing.T) {
	g := start(t, drivertest.Config{})
	g.alloc(100)
	g.ok(g.DevicePrimaryCtxReset(0))
	g.ok(g.DevicePrimaryCtxRelease(0))
	assert.Empty(t, g.Leaks())
}

// recorder is a testing.TB that keeps what it is told.
type recorder struct {
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestForTestReportsAtTheEnd(t *testing.T) {
	var tb recorder
	d := drivertest.ForTest(&tb, drivertest.Config{})
	assert.Equal(t, driver.Success, d.Init(0))
	_, r := d.DevicePrimaryCtxRetain(0)
	assert.Equal(t, driver.Success, r)
	assert.Equal(t, driver.ResultInvalidValue, d.MemFree(99))
	for _, f := range tb.cleanups {
		f()
	}
	assert.Len(t, tb.errors, 2)
	contains(t, tb.errors, "cuMemFree: freed an address that no allocation has")
	contains(t, tb.errors, "leaked: primary context of device 0")
}

func TestForTestReportsFaultsThatNeverStruck(t *testing.T) {
	var tb recorder
	d := drivertest.ForTest(&tb, drivertest.Config{})
	d.Fail("cuInit", 1, driver.ResultUnknown)
	d.Fail("cuMemAlloc", 3, driver.ResultOutOfMemory)
	assert.Equal(t, driver.ResultUnknown, d.Init(0))
	d.MemAlloc(1)
	for _, f := range tb.cleanups {
		f()
	}
	assert.Equal(t, []string{`simulated driver: Fail("cuMemAlloc", 3, CUDA_ERROR_OUT_OF_MEMORY) has not struck: the program called it 1 times`}, tb.errors)
}
