package wait

import (
	"context"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

var background = context.Background()

// machine is a simulated driver with a poller, and the waits on all its devices.
type machine struct {
	testing.TB
	gpu     *drivertest.Driver
	api     driver.API // that devices are opened with, if not gpu
	poller  *Poller
	devices []*Device
	quiet   bool // calls fail by chance
}

// start makes a machine. At the end of the test nothing may be left of it.
func start(t *testing.T, config drivertest.Config, how Config) *machine {
	t.Helper()
	before := goruntime.NumGoroutine()
	m := &machine{TB: t, gpu: drivertest.New(config), poller: new(Poller)}
	t.Cleanup(func() { assert.NoError(t, m.gpu.Close()) })
	m.ok(m.gpu.Init(0))
	count, r := m.gpu.DeviceGetCount()
	m.ok(r)
	for ordinal := range int(count) {
		m.devices = append(m.devices, m.open(ordinal, how))
	}
	t.Cleanup(func() {
		m.close()
		poll(t, "goroutines are left", func() bool { return goruntime.NumGoroutine() <= before })
		assert.Zero(t, m.poller.spinning.Load())
		if m.gpu.Sticky() == driver.Success {
			assert.Empty(t, m.gpu.Leaks())
			assert.Empty(t, m.gpu.Findings())
		}
	})
	return m
}

// open opens the waits on a device.
func (m *machine) open(ordinal int, how Config) *Device {
	m.Helper()
	ctx, r := m.gpu.DevicePrimaryCtxRetain(driver.Device(ordinal))
	m.ok(r)
	var api driver.API = m.gpu
	if m.api != nil {
		api = m.api
	}
	d, err := m.poller.Open(&driver.Binding{API: api, Context: ctx, Ordinal: ordinal,
		OnCleanup: func(err error) { assert.True(m, err == nil || m.quiet, err) }}, how)
	require.NoError(m, err)
	return d
}

// errEnd is what waits end with at the end of a test.
var errEnd = driver.Errorf(driver.ErrClosed, "the test is over")

func (m *machine) close() {
	for _, d := range m.devices {
		m.end(d)
	}
	m.devices = nil
}

// end closes a device as package runtime does: free only what no work uses any more.
func (m *machine) end(d *Device) {
	d.Close(errEnd)
	err := d.binding.Do(func() error { return d.binding.Failed("cuCtxSynchronize", d.binding.API.CtxSynchronize()) })
	if err == nil {
		err = d.Free()
		assert.True(m, err == nil || m.quiet, err)
	}
	m.gpu.DevicePrimaryCtxRelease(driver.Device(d.binding.Ordinal))
}

// reopen opens the waits of device 0 once more, by another API.
func (m *machine) reopen(api driver.API) {
	m.Helper()
	m.end(m.devices[0])
	m.api = api
	m.devices[0] = m.open(0, Config{})
}

func (m *machine) ok(r driver.Result) {
	m.Helper()
	require.Equal(m.TB, driver.Success, r)
}

// stream makes a stream, which is closed and destroyed at the end.
func (m *machine) stream() *Stream { return m.streamOn(0) }

func (m *machine) streamOn(ordinal int) *Stream {
	m.Helper()
	d := m.devices[ordinal]
	var handle driver.Stream
	require.NoError(m, d.binding.Do(func() error {
		var r driver.Result
		handle, r = m.gpu.StreamCreate(driver.StreamNonBlocking)
		return d.binding.Failed("cuStreamCreate", r)
	}))
	s := d.NewStream(handle)
	m.Cleanup(func() {
		if !s.closed.Load() {
			s.Close()
			m.gpu.StreamDestroy(handle)
		}
	})
	return s
}

// destroy closes and destroys a stream.
func (m *machine) destroy(s *Stream) {
	s.Close()
	m.ok(m.gpu.StreamDestroy(s.handle))
}

// block puts work on a stream that lasts until release is called.
func (m *machine) block(s *Stream) (release func()) {
	m.Helper()
	gate := make(chan struct{})
	m.ok(m.gpu.LaunchHostFunc(s.handle, func() { <-gate }))
	s.Changed()
	var once atomic.Bool
	release = func() {
		if once.CompareAndSwap(false, true) {
			close(gate)
		}
	}
	m.Cleanup(release)
	return release
}

// work puts work on a stream that is done at once, and notes that it is.
func (m *machine) work(s *Stream) *atomic.Bool {
	m.Helper()
	var done atomic.Bool
	m.ok(m.gpu.LaunchHostFunc(s.handle, func() { done.Store(true) }))
	s.Changed()
	return &done
}

// longWork makes the work of the stream count as long. The poller still measures the last wait when that has ended.
func (s *Stream) longWork() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.long.Store(often)
}

// fault puts a kernel on the stream that writes to an address that is not there.
func (m *machine) fault(s *Stream) {
	m.Helper()
	d := s.dev
	require.NoError(m, d.binding.Do(func() error {
		module, _, r := m.gpu.ModuleLoadData([]byte(faulty), driver.JIT{})
		m.ok(r)
		f, r := m.gpu.ModuleGetFunction(module, "faulty")
		m.ok(r)
		at, one := driver.DevicePtr(0x40_0000), driver.Dim3{X: 1, Y: 1, Z: 1}
		m.ok(m.gpu.LaunchKernel(f, one, one, 0, s.handle, []unsafe.Pointer{unsafe.Pointer(&at)}))
		return nil
	}))
	s.Changed()
}

const faulty = `.version 6.4
.target sm_75
.address_size 64
.visible .entry faulty(.param .u64 p) {
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	st.global.u64 [%rd1], %rd1;
	ret;
}
`

// within fails the test unless c gets a value in time; the time is that of a machine that hangs.
func within[T any](t testing.TB, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(30 * time.Second):
		require.Fail(t, "nothing came")
	}
	return value
}

// wait waits on a goroutine.
func wait(ctx context.Context, s interface{ Wait(context.Context) error }) <-chan error {
	c := make(chan error, 1)
	go func() { c <- s.Wait(ctx) }()
	return c
}

// after registers a function.
func after(s interface{ AfterFunc(func(error)) func() bool }) (ran <-chan error, stop func() bool) {
	c := make(chan error, 2)
	return c, s.AfterFunc(func(err error) { c <- err })
}

// poll waits until something is so.
func poll(t testing.TB, otherwise string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			require.Fail(t, otherwise, "%s", stacks[:goruntime.Stack(stacks, true)])
		}
	}
}

// waiting returns when n waits have begun since the start.
func (m *machine) waiting(n int) {
	m.Helper()
	poll(m.TB, "nobody waits", func() bool { return m.poller.Stats().Waits >= uint64(n) })
}
