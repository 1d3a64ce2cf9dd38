package refs_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
)

// machine is a simulated driver with one device, its context, its arena and its state.
type machine struct {
	gpu     *drivertest.Driver
	binding *driver.Binding
	arena   *arena.Device
	state   *refs.State
	cleanup []error // guarded by nobody: the tests that look at it use one goroutine
	poison  bool
}

// newMachine starts a machine; what is left at the end of the test is an error.
func newMachine(t testing.TB, c drivertest.Config) *machine {
	t.Helper()
	if c.Devices == nil {
		c.Devices = []drivertest.DeviceConfig{drivertest.T4()}
	}
	_, benchmark := t.(*testing.B)
	m := &machine{gpu: drivertest.ForTest(t, c), poison: !benchmark}
	require.NoError(t, m.open(0))
	m.state = refs.NewState(0, refs.StateConfig{OnCleanup: func(err error) { m.cleanup = append(m.cleanup, err) }})
	t.Cleanup(func() {
		m.state.Close()
		m.close()
	})
	return m
}

// open makes the context of a device and its arena.
func (m *machine) open(ordinal int) error {
	if r := m.gpu.Init(0); r != driver.Success {
		return driver.Failed("cuInit", r)
	}
	ctx, r := m.gpu.DevicePrimaryCtxRetain(driver.Device(ordinal))
	if r != driver.Success {
		return driver.Failed("cuDevicePrimaryCtxRetain", r)
	}
	m.binding = &driver.Binding{API: m.gpu, Context: ctx, Ordinal: ordinal}
	var err error
	m.arena, err = arena.NewDevice(m.binding, arena.DeviceConfig{Poison: m.poison})
	return err
}

// close takes the arena and the context down. The driver reports whether all blocks were given
// back.
func (m *machine) close() {
	_ = m.arena.Close()
	m.gpu.DevicePrimaryCtxRelease(driver.Device(m.binding.Ordinal))
}

// stream makes a stream that is destroyed at the end of the test.
func (m *machine) stream(t testing.TB) *arena.Stream {
	t.Helper()
	var h driver.Stream
	require.NoError(t, m.binding.Do(func() (err error) {
		var r driver.Result
		h, r = m.gpu.StreamCreate(driver.StreamNonBlocking)
		return m.binding.Failed("cuStreamCreate", r)
	}))
	t.Cleanup(func() {
		m.gpu.StreamSynchronize(h)
		m.gpu.StreamDestroy(h)
	})
	s := m.arena.NewStream(h)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// wait waits for all work of a stream.
func (m *machine) wait(t testing.TB, s *arena.Stream) {
	t.Helper()
	require.Equal(t, driver.Success, m.gpu.StreamSynchronize(s.Handle()))
}

// hold keeps a stream from going on until the function that it returns is called.
func (m *machine) hold(t testing.TB, s *arena.Stream) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	require.Equal(t, driver.Success, m.gpu.LaunchHostFunc(s.Handle(), func() { <-gate }))
	return func() { close(gate) }
}

// fill puts a memset on a stream, in the way that all work with a Ref is put there.
func (m *machine) fill(r *refs.Ref[uint32], s *arena.Stream, value uint32) error {
	return use(r, s, true, func(p driver.DevicePtr) error {
		return m.binding.Failed("cuMemsetD32Async", m.gpu.MemsetD32Async(p, value, uint64(r.Len()), s.Handle()))
	})
}

// use makes one use of a Ref.
func use(r *refs.Ref[uint32], s *arena.Stream, write bool, work func(driver.DevicePtr) error) error {
	p, err := r.Acquire()
	if err != nil {
		return err
	}
	defer r.Release()
	if err := r.Core().Use(s, write); err != nil {
		return err
	}
	return work(p)
}

// target is page-locked memory that copies go to.
type target struct{ data []uint32 }

func (m *machine) target(t testing.TB, n int) *target {
	t.Helper()
	var p unsafe.Pointer
	require.NoError(t, m.binding.Do(func() error {
		var r driver.Result
		p, r = m.gpu.MemHostAlloc(uint64(n)*4, 0)
		return m.binding.Failed("cuMemHostAlloc", r)
	}))
	t.Cleanup(func() { _ = m.binding.Do(func() error { m.gpu.MemFreeHost(p); return nil }) })
	return &target{unsafe.Slice((*uint32)(p), n)}
}

// read puts a copy to a target on a stream.
func (m *machine) read(r *refs.Ref[uint32], s *arena.Stream, to *target) error {
	return use(r, s, false, func(p driver.DevicePtr) error { return m.copy(p, s, to, r.Bytes()) })
}

func (m *machine) copy(p driver.DevicePtr, s *arena.Stream, to *target, bytes uint64) error {
	return m.binding.Failed("cuMemcpyDtoHAsync",
		m.gpu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(to.data)), p, bytes, s.Handle()))
}

func pointer(data []uint32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(data)) }

// alloc allocates, or ends the test.
func alloc(t testing.TB, m *machine, on *arena.Stream, n int) *refs.Ref[uint32] {
	t.Helper()
	r, err := refs.New[uint32](m.state, on, n)
	require.NoError(t, err)
	return r
}
