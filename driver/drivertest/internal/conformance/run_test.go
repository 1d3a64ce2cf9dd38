package conformance

import (
	goruntime "runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

// suite runs the tests on device 0. It leaves nothing behind, and the API must not be
// in use elsewhere meanwhile.
func suite(t *testing.T, api driver.API) {
	require.Equal(t, driver.Success, api.Init(0))
	// Making the context takes long: keep it from test to test.
	dev, r := api.DeviceGet(0)
	require.Equal(t, driver.Success, r)
	_, r = api.DevicePrimaryCtxRetain(dev)
	require.Equal(t, driver.Success, r)
	defer func() { assert.Equal(t, driver.Success, api.DevicePrimaryCtxRelease(dev)) }()
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					e := begin(t, api)
					test.run(e)
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(e *env)
}

var groups = []struct {
	name  string
	tests []test
}{
	{"device", deviceTests},
	{"context", contextTests},
	{"memory", memoryTests},
	{"pool", poolTests},
	{"copy", copyTests},
	{"virtual memory", virtualTests},
	{"managed memory", managedTests},
	{"IPC", ipcTests},
	{"array", arrayTests},
	{"tensor map", tensorTests},
	{"stream", streamTests},
	{"write", writeTests},
	{"event", eventTests},
	{"module", moduleTests},
	{"launch", launchTests},
	{"graph", graphTests},
}

// env is what a test works with: the primary context of device 0 is current on the
// test's thread.
type env struct {
	*testing.T
	api driver.API
	dev driver.Device
	ctx driver.Context
}

func begin(t *testing.T, api driver.API) *env {
	goruntime.LockOSThread()
	t.Cleanup(goruntime.UnlockOSThread)
	e := &env{T: t, api: api}
	var r driver.Result
	e.dev, r = api.DeviceGet(0)
	e.ok(r)
	e.ctx, r = api.DevicePrimaryCtxRetain(e.dev)
	e.ok(r)
	t.Cleanup(func() { e.ok(api.DevicePrimaryCtxRelease(e.dev)) })
	e.ok(api.CtxPushCurrent(e.ctx))
	t.Cleanup(func() {
		e.ok(api.CtxSynchronize())
		_, r := api.CtxPopCurrent()
		e.ok(r)
	})
	return e
}

// ok ends the test unless the call succeeded.
func (e *env) ok(r driver.Result) {
	e.Helper()
	e.is(driver.Success, r)
}

// is ends the test unless the call returned what was wanted.
func (e *env) is(want, r driver.Result) {
	e.Helper()
	require.Equal(e.T, want.String(), r.String())
}

// oneOf ends the test unless the call returned one of the results.
func (e *env) oneOf(r driver.Result, want ...driver.Result) {
	e.Helper()
	if !slices.Contains(want, r) {
		require.Failf(e.T, "wrong result", "%v is none of %v", r, want)
	}
}

// needs skips the test on a driver that is older than a version of CUDA.
func (e *env) needs(v driver.Version) {
	e.Helper()
	have, r := e.api.DriverGetVersion()
	e.ok(r)
	if have < v {
		e.Skipf("needs CUDA %v, the driver has %v", v, have)
	}
}

func (e *env) alloc(bytes uint64) driver.DevicePtr {
	e.Helper()
	ptr, r := e.api.MemAlloc(bytes)
	e.ok(r)
	e.Cleanup(func() { e.ok(e.api.MemFree(ptr)) })
	return ptr
}

func (e *env) pinned(bytes uint64) []byte {
	e.Helper()
	ptr, r := e.api.MemHostAlloc(bytes, 0)
	e.ok(r)
	e.Cleanup(func() { e.ok(e.api.MemFreeHost(ptr)) })
	return unsafe.Slice((*byte)(ptr), bytes)
}

func (e *env) stream() driver.Stream {
	e.Helper()
	s, r := e.api.StreamCreate(driver.StreamNonBlocking)
	e.ok(r)
	e.Cleanup(func() { e.ok(e.api.StreamDestroy(s)) })
	return s
}

func (e *env) event() driver.Event {
	e.Helper()
	ev, r := e.api.EventCreate(driver.EventDefault)
	e.ok(r)
	e.Cleanup(func() { e.ok(e.api.EventDestroy(ev)) })
	return ev
}

// block puts a host function on the stream that waits for release to be called.
// release may be called more than once.
func (e *env) block(s driver.Stream) (release func()) {
	e.Helper()
	gate := make(chan struct{})
	e.ok(e.api.LaunchHostFunc(s, func() { <-gate }))
	opened := false
	release = func() {
		if !opened {
			opened = true
			close(gate)
		}
	}
	e.Cleanup(release)
	return release
}

// upload and download move whole slices with the synchronous copies.
func upload[T any](e *env, dst driver.DevicePtr, src []T) {
	e.Helper()
	e.ok(e.api.MemcpyHtoD(dst, at(src), size(src)))
}

func download[T any](e *env, src driver.DevicePtr, n int) []T {
	e.Helper()
	dst := make([]T, n)
	e.ok(e.api.MemcpyDtoH(at(dst), src, size(dst)))
	return dst
}

func at[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func size[T any](s []T) uint64 {
	var element T
	return uint64(len(s)) * uint64(unsafe.Sizeof(element))
}

// function loads the kernels of the suite and finds one.
func (e *env) function(name string) driver.Function {
	e.Helper()
	m := e.module()
	f, r := e.api.ModuleGetFunction(m, name)
	e.ok(r)
	return f
}

// kernel is one of another module than that of the suite.
func (e *env) kernel(image, name string) driver.Function {
	e.Helper()
	f, r := e.api.ModuleGetFunction(e.load(image), name)
	e.ok(r)
	return f
}

func (e *env) module() driver.Module {
	e.Helper()
	return e.load(ramp)
}

func (e *env) load(image string) driver.Module {
	e.Helper()
	m, log, r := e.api.ModuleLoadData([]byte(image), driver.JIT{})
	require.Equal(e.T, driver.Success, r, log.Error)
	e.Cleanup(func() { e.ok(e.api.ModuleUnload(m)) })
	return m
}

var one = driver.Dim3{X: 1, Y: 1, Z: 1}

func dim(x uint32) driver.Dim3 { return driver.Dim3{X: x, Y: 1, Z: 1} }

// ramp launches the kernel of that name.
func (e *env) ramp(f driver.Function, s driver.Stream, out driver.DevicePtr, first, n uint32) driver.Result {
	params := []unsafe.Pointer{unsafe.Pointer(&out), unsafe.Pointer(&first), unsafe.Pointer(&n)}
	return e.api.LaunchKernel(f, dim((n+127)/128), dim(128), 0, s, params)
}

// rampFrom is what the kernel writes.
func rampFrom(first uint32, n int) []uint32 {
	want := make([]uint32, n)
	for i := range want {
		want[i] = first + uint32(i)
	}
	return want
}

// elsewhere runs f on a thread without a current context.
func (e *env) elsewhere(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		f()
	}()
	<-done
}

// counted checks that the free memory of the device is less by bytes between take and give, and the same again after them. It is that of
// the whole device, which the tests of other packages use at the same time, and other programs: so a real one gets more than one try.
func (e *env) counted(bytes uint64, take, give func()) {
	var before, during, after uint64
	tries := 1
	if _, library := e.api.(*driver.Library); library {
		tries = 100
	}
	for try := range tries {
		time.Sleep(time.Duration(try) * time.Millisecond)
		before = e.free()
		take()
		during = e.free()
		give()
		after = e.free()
		if before >= during+bytes && after == before {
			return
		}
	}
	assert.Fail(e, "free memory", "%d bytes before, %d while %d are taken, %d after: want at least %d less, and the same after", before, during, bytes, after, bytes)
}

func (e *env) free() uint64 {
	free, _, r := e.api.MemGetInfo()
	e.ok(r)
	return free
}
