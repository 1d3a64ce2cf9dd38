package runtime_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/runtime"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// bg is the context of copies that nobody gives up.
var bg = context.Background()

// TestMain fails when the tests leave goroutines behind.
func TestMain(m *testing.M) { leaks.Main(m, 0) }

// open opens a runtime on a simulated driver. What leaks, and every mistake that the
// driver finds, is an error of the test.
func open(t testing.TB, config drivertest.Config, options ...runtime.Option) (*runtime.Runtime, *drivertest.Driver) {
	t.Helper()
	gpu := drivertest.ForTest(t, config)
	return openOn(t, gpu, options...), gpu
}

// openFaulty is open for tests that make the device fail or the driver complain,
// which is no error of the test then.
func openFaulty(t testing.TB, config drivertest.Config, options ...runtime.Option) (*runtime.Runtime, *drivertest.Driver) {
	t.Helper()
	gpu := drivertest.New(config)
	t.Cleanup(func() { assert.NoError(t, gpu.Close()) })
	return openOn(t, gpu, options...), gpu
}

// openOn opens a runtime on any driver and closes it at the end of the test. Its memory is
// cached on the simulated driver as well, where by default it is not.
func openOn(t testing.TB, api driver.API, options ...runtime.Option) *runtime.Runtime {
	t.Helper()
	options = append([]runtime.Option{runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(api),
		runtime.WithMemory(arena.DeviceConfig{CacheBytes: arena.DefaultCacheBytes})}, options...)
	rt, err := runtime.Open(options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	return rt
}

// twoDevices is the machine that most tests simulate.
func twoDevices() drivertest.Config {
	return drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())}
}

// onDrivers runs a test on a simulated driver and on the one of this machine.
func onDrivers(t *testing.T, f func(t *testing.T, rt *runtime.Runtime)) {
	t.Run("simulated", func(t *testing.T) {
		rt, _ := open(t, twoDevices())
		f(t, rt)
	})
	t.Run("hardware", func(t *testing.T) { f(t, openOn(t, hardware.Open(t))) })
}

// contextOf opens the context of the best device.
func contextOf(t testing.TB, rt *runtime.Runtime) *runtime.Context {
	t.Helper()
	return contextAt(t, rt, 0)
}

// contextAt opens the context of the device that stands at a place of the list, and
// skips the test if there are not so many.
func contextAt(t testing.TB, rt *runtime.Runtime, place int) *runtime.Context {
	t.Helper()
	devices := rt.Devices()
	if place >= len(devices) {
		t.Skipf("needs %d devices, and there are %d", place+1, len(devices))
	}
	c, err := rt.Context(devices[place].Ordinal)
	require.NoError(t, err)
	return c
}

func newStream(t testing.TB, c *runtime.Context) *runtime.Stream {
	t.Helper()
	s, err := c.NewStream()
	require.NoError(t, err)
	return s
}

func newEvent(t testing.TB, c *runtime.Context) *runtime.Event {
	t.Helper()
	e, err := c.NewEvent()
	require.NoError(t, err)
	return e
}

func alloc[T any](t testing.TB, s *runtime.Stream, n int) *runtime.Ref[T] {
	t.Helper()
	x, err := runtime.Alloc[T](s, n)
	require.NoError(t, err)
	return x
}

func allocHost[T any](t testing.TB, c *runtime.Context, n int) *runtime.HostBuffer[T] {
	t.Helper()
	h, err := runtime.AllocHost[T](c, n)
	require.NoError(t, err)
	return h
}

func allocManaged[T any](t testing.TB, s *runtime.Stream, n int) *runtime.Managed[T] {
	t.Helper()
	m, err := runtime.AllocManaged[T](s, n)
	if s != nil && !s.Context().Device().ConcurrentManagedAccess {
		require.ErrorIs(t, err, driver.ErrUnsupported)
		t.Skip("the device has no concurrent managed access")
	}
	require.NoError(t, err)
	return m
}

// hostMemory is page-locked memory by AllocHost or by LeaseHost.
func hostMemory[T any](leased bool, c *runtime.Context, n int) (*runtime.HostBuffer[T], error) {
	if leased {
		return runtime.LeaseHost[T](c, n)
	}
	return runtime.AllocHost[T](c, n)
}

// upload makes memory with the given content.
func upload[T any](t testing.TB, s *runtime.Stream, data []T) *runtime.Ref[T] {
	t.Helper()
	x := alloc[T](t, s, len(data))
	require.NoError(t, runtime.Upload(bg, s, x, data))
	return x
}

// download returns the content of memory.
func download[T any](t testing.TB, s *runtime.Stream, x *runtime.Ref[T]) []T {
	t.Helper()
	data := make([]T, x.Len())
	require.NoError(t, runtime.Download(bg, s, data, x))
	return data
}

func synchronize(t testing.TB, s *runtime.Stream) {
	t.Helper()
	require.NoError(t, s.Synchronize(context.Background()))
}

// hold stops a stream until the returned function is called, and at the latest at the
// end of the test. Meanwhile the test must not load or allocate: on hardware that may
// wait for all work of the device.
func hold(t testing.TB, s *runtime.Stream) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	require.NoError(t, s.LaunchHostFunc(func() { <-gate }))
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	return release
}

// count returns n, n+1, ... up to length elements.
func count(from uint32, length int) []uint32 {
	data := make([]uint32, length)
	for i := range data {
		data[i] = from + uint32(i)
	}
	return data
}

// eventually waits for what another goroutine brings about. Unlike require.Eventually
// it starts none itself.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(t, "this did not happen: "+what)
		}
	}
}

// await waits for the end of a goroutine that sends what it returns.
func await[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "this did not happen: "+what)
		panic("unreachable")
	}
}

// async runs f on another goroutine.
func async[T any](f func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- f() }()
	return result
}

// allCalls counts the calls of all functions of a simulated driver.
func allCalls(gpu *drivertest.Driver) (sum int) {
	for _, e := range driver.Entries() {
		sum += gpu.Calls(e.Name)
	}
	return sum
}

// callsOfLost is allCalls of a driver that is lost, once the goroutines have ended that were asking it about streams.
func callsOfLost(gpu *drivertest.Driver) int {
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if !bytes.Contains(stacks[:goruntime.Stack(stacks, true)], []byte("wait.(*Device).ask(")) {
			break
		}
	}
	return allCalls(gpu)
}

// children marks the processes that inProcess starts.
const childVariable = "PURECUDA_RUNTIME_TEST_CHILD"

// inProcess repeats the running test in a process of its own, with more variables in
// its environment, and reports whether this is that process. Of what a process has only
// once, a test gets a fresh one there.
func inProcess(t *testing.T, environment ...string) bool {
	t.Helper()
	if os.Getenv(childVariable) == t.Name() {
		return true
	}
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	child := exec.Command(os.Args[0], "-test.run="+pattern, "-test.v", "-test.count=1")
	child.Env = append(os.Environ(), append(environment, childVariable+"="+t.Name())...)
	output, err := child.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: "+t.Name(), "the test did not run in its own process:\n%s", output)
	return false
}
