package arena_test

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
)

// machine is a driver with the context of one device.
type machine struct {
	*driver.Binding
	mu      sync.Mutex
	cleanup []error // what the binding was told that no caller waits for
	pools   []driver.MemPool
}

// poolWatch notes the pools that are made.
type poolWatch struct {
	driver.API
	m *machine
}

func (w poolWatch) MemPoolCreate(props driver.MemPoolProps) (driver.MemPool, driver.Result) {
	pool, r := w.API.MemPoolCreate(props)
	if r == driver.Success {
		w.m.pools = append(w.m.pools, pool)
	}
	return pool, r
}

// newMachine opens the context of device 0 until the end of the test.
func newMachine(t testing.TB, api driver.API) *machine { return machineAt(t, api, 0, false) }

func machineAt(t testing.TB, api driver.API, ordinal int32, needsCurrent bool) *machine {
	t.Helper()
	require.Equal(t, driver.Success, api.Init(0))
	device, r := api.DeviceGet(ordinal)
	require.Equal(t, driver.Success, r)
	context, r := api.DevicePrimaryCtxRetain(device)
	require.Equal(t, driver.Success, r)
	t.Cleanup(func() { assert.Equal(t, driver.Success, api.DevicePrimaryCtxRelease(device)) })
	m := &machine{}
	m.Binding = &driver.Binding{API: poolWatch{api, m}, Context: context, Ordinal: int(ordinal), NeedsCurrent: needsCurrent,
		OnCleanup: func(err error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.cleanup = append(m.cleanup, err)
		}}
	return m
}

// complaints are the errors that no caller has waited for.
func (m *machine) complaints() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]error(nil), m.cleanup...)
}

// device makes an arena that is closed at the end of the test, without blocks in use.
func (m *machine) device(t testing.TB, c arena.DeviceConfig) *arena.Device {
	t.Helper()
	d, err := arena.NewDevice(m.Binding, c)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, d.Close())
		assert.Empty(t, d.Leaks())
	})
	return d
}

// handle makes a stream of the driver.
func (m *machine) handle(t testing.TB) (h driver.Stream) {
	t.Helper()
	require.NoError(t, m.Do(func() error {
		var r driver.Result
		h, r = m.API.StreamCreate(driver.StreamNonBlocking)
		return m.Failed("cuStreamCreate", r)
	}))
	return h
}

// stream makes a stream of the arena. It is destroyed when the arena, which was made
// before, is closed.
func (m *machine) stream(t testing.TB, d *arena.Device) *arena.Stream {
	t.Helper()
	h := m.handle(t)
	s := d.NewStream(h)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.Equal(t, driver.Success, destroy(m, h))
	})
	return s
}

// hostBytes is page-locked memory of the driver.
func hostBytes(p unsafe.Pointer, bytes uint64) []byte { return unsafe.Slice((*byte)(p), bytes) }
