package arena_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
)

// TestDevice is what must hold for the memory of every device, however it gets it.
func TestDevice(t *testing.T) {
	plain := drivertest.Config{}
	noPools := drivertest.Config{Devices: []drivertest.DeviceConfig{{NoPools: true}}}
	old := drivertest.Config{Version: 11000}
	needs := drivertest.Config{HotPathNeedsContext: true}
	slow := drivertest.Config{Chaos: &drivertest.Chaos{Seed: 1, SlowWork: 0.5}}
	for _, v := range []struct {
		name   string
		driver drivertest.Config
		config arena.DeviceConfig
		pooled bool
	}{
		{"pools", plain, arena.DeviceConfig{}, true},
		{"device without pools", noPools, arena.DeviceConfig{}, false},
		{"driver without pools", old, arena.DeviceConfig{}, false},
		{"pools not wanted", plain, arena.DeviceConfig{NoPools: true}, false},
		{"limited", plain, arena.DeviceConfig{Limit: 64 << 20}, true},
		{"limited, without pools", noPools, arena.DeviceConfig{Limit: 64 << 20}, false},
		{"with sites", plain, arena.DeviceConfig{Sites: true}, true},
		{"zero and poison", plain, arena.DeviceConfig{Zero: true, Poison: true}, true},
		{"hot path needs a context", needs, arena.DeviceConfig{}, true},
		{"hot path needs a context, without pools", needs, arena.DeviceConfig{NoPools: true}, false},
		{"slow device", slow, arena.DeviceConfig{}, true},
		{"slow device without pools", slow, arena.DeviceConfig{NoPools: true}, false},
	} {
		t.Run(v.name, func(t *testing.T) {
			conform(t, func(t *testing.T) *machine {
				return machineAt(t, drivertest.ForTest(t, v.driver), 0, v.driver.HotPathNeedsContext)
			}, v.config)
			m := newMachine(t, drivertest.ForTest(t, v.driver))
			m.NeedsCurrent = v.driver.HotPathNeedsContext
			assert.Equal(t, v.pooled, m.device(t, v.config).Stats().Pooled)
		})
	}
	for _, c := range []arena.DeviceConfig{{}, {NoPools: true}} {
		t.Run(fmt.Sprintf("hardware, NoPools %v", c.NoPools), func(t *testing.T) {
			hardware.Open(t)
			conform(t, func(t *testing.T) *machine { return newMachine(t, hardware.Open(t)) }, c)
		})
	}
}

// conform runs the tests that hold for every resource.
func conform(t *testing.T, open func(t *testing.T) *machine, config arena.DeviceConfig) {
	for name, test := range map[string]func(t *testing.T, m *machine, config arena.DeviceConfig){
		"reuse on a stream":        testReuse,
		"content":                  testContent,
		"sizes":                    testSizes,
		"reuse across streams":     testAcross,
		"wait passes memory on":    testWait,
		"limit of the cache":       testCacheLimit,
		"trim":                     testTrim,
		"streams come and go":      testStreamsComeAndGo,
		"stale blocks":             testStale,
		"capture":                  testCapture,
		"leaks":                    testLeaks,
		"closing":                  testClosing,
		"abandoned":                testAbandoned,
		"concurrent use":           testConcurrent,
		"memory is not handed out": testNotHandedOut,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t), config) })
	}
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

func allocate(t testing.TB, s *arena.Stream, bytes uint64) arena.Block {
	t.Helper()
	return must[arena.Block](t)(s.Alloc(bytes))
}

// exact checks that the numbers of an arena belong together.
func exact(t testing.TB, d *arena.Device) arena.DeviceStats {
	t.Helper()
	s := d.Stats()
	assert.Equal(t, s.Held, s.InUse+s.Cached, "%+v", s)
	assert.LessOrEqual(t, s.Requested, s.InUse, "%+v", s)
	assert.LessOrEqual(t, s.Held, s.HighWater, "%+v", s)
	assert.Less(t, s.InUse|s.Cached|s.Requested, uint64(1)<<60, "below zero: %+v", s)
	assert.Equal(t, int(s.DriverAllocs-s.DriverFrees-s.LostBlocks) == 0, s.Held == 0, "%+v", s)
	return s
}

func testReuse(t *testing.T, m *machine, config arena.DeviceConfig) {
	d := m.device(t, config)
	s := m.stream(t, d)
	a := allocate(t, s, 5000)
	assert.True(t, a.Valid())
	assert.Equal(t, uint64(5000), a.Bytes())
	assert.Equal(t, uint64(5120), a.Size())
	assert.Zero(t, a.Ptr()%256)
	stats := exact(t, d)
	assert.Equal(t, uint64(5120), stats.InUse)
	assert.Equal(t, uint64(5000), stats.Requested)
	b := allocate(t, s, 5000)
	ptrs := []driver.DevicePtr{a.Ptr(), b.Ptr()}
	require.NoError(t, s.Free(a))
	require.NoError(t, s.Free(b))
	stats = exact(t, d)
	assert.Zero(t, stats.InUse+stats.Requested)
	assert.Equal(t, uint64(2*5120), stats.Cached)
	c := allocate(t, s, 5120)
	assert.Equal(t, ptrs[1], c.Ptr(), "the last freed one comes first")
	e := allocate(t, s, 4700)
	assert.Equal(t, ptrs[0], e.Ptr())
	assert.NotEqual(t, a, e)
	stats = exact(t, d)
	assert.Equal(t, [4]uint64{2, 0, 2, 2}, [4]uint64{stats.Hits, stats.Shared, stats.Misses, stats.Frees})
	assert.Equal(t, uint64(2*5120), stats.HighWater)
	require.NoError(t, s.Free(c))
	require.NoError(t, s.Free(e))
}

// content reads device memory after the work on a stream.
func content(t testing.TB, m *machine, s *arena.Stream, b arena.Block) []byte {
	t.Helper()
	bytes := b.Bytes()
	data := make([]byte, bytes)
	require.NoError(t, m.Do(func() error {
		p, r := m.API.MemHostAlloc(bytes, driver.HostAllocPortable)
		if r != driver.Success {
			return m.Fault("cuMemHostAlloc", r)
		}
		defer m.API.MemFreeHost(p)
		if r := m.MemcpyDtoHAsync(p, b.Ptr(), bytes, s.Handle()); r != driver.Success {
			return m.Fault("cuMemcpyDtoHAsync", r)
		}
		if r := m.API.StreamSynchronize(s.Handle()); r != driver.Success {
			return m.Fault("cuStreamSynchronize", r)
		}
		copy(data, hostBytes(p, bytes))
		return nil
	}))
	return data
}

// fill writes a byte all over a block, as work on a stream.
func fill(t testing.TB, m *machine, s *arena.Stream, b arena.Block, value byte) {
	t.Helper()
	require.NoError(t, write(m, s, b, value))
}

func write(m *machine, s *arena.Stream, b arena.Block, value byte) error {
	if err := m.Push(); err != nil {
		return err
	}
	defer m.Pop()
	return m.Failed("cuMemsetD8Async", m.MemsetD8Async(b.Ptr(), value, b.Bytes(), s.Handle()))
}

func all(data []byte, value byte) bool {
	for _, v := range data {
		if v != value {
			return false
		}
	}
	return true
}

func testContent(t *testing.T, m *machine, config arena.DeviceConfig) {
	d := m.device(t, config)
	s := m.stream(t, d)
	for i := range 8 {
		b := allocate(t, s, 3000)
		if config.Zero {
			assert.True(t, all(content(t, m, s, b), 0))
		}
		fill(t, m, s, b, byte(i))
		assert.True(t, all(content(t, m, s, b), byte(i)))
		require.NoError(t, s.Free(b))
	}
}

func testSizes(t *testing.T, m *machine, config arena.DeviceConfig) {
	d := m.device(t, config)
	s := m.stream(t, d)
	for _, bytes := range []uint64{0, 1<<47 + 1, 1 << 63, 1<<64 - 1} {
		b, err := s.Alloc(bytes)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, fmt.Sprint(bytes))
		assert.False(t, b.Valid())
	}
	_, err := s.Alloc(1 << 46)
	assert.ErrorIs(t, err, driver.ErrOutOfMemory)
	for _, bytes := range []uint64{1, 511, 512, 513, 1024, 1025, 4097, 1 << 20, 1<<20 + 1, 17 << 20} {
		b := allocate(t, s, bytes)
		assert.Equal(t, bytes, b.Bytes())
		assert.GreaterOrEqual(t, b.Size(), bytes)
		if bytes > 1024 {
			assert.LessOrEqual(t, float64(b.Size()), 1.125*float64(bytes))
		}
		require.NoError(t, s.Free(b))
	}
	exact(t, d)
}

func testAcross(t *testing.T, m *machine, config arena.DeviceConfig) {
	d := m.device(t, config)
	a, b := m.stream(t, d), m.stream(t, d)
	x := allocate(t, a, 1<<20)
	fill(t, m, a, x, 1)
	ptr := x.Ptr()
	require.NoError(t, a.Free(x))
	y := allocate(t, b, 1<<20)
	assert.Equal(t, ptr, y.Ptr())
	fill(t, m, b, y, 2)
	assert.True(t, all(content(t, m, b, y), 2), "the work of the stream that had it came later")
	require.NoError(t, b.Free(y))
	assert.Equal(t, uint64(1), exact(t, d).Shared)
}

func testWait(t *testing.T, m *machine, config arena.DeviceConfig) {
	d := m.device(t, config)
	a, b := m.stream(t, d), m.stream(t, d)
	for i := range 10 {
		x := allocate(t, a, 1<<16)
		fill(t, m, a, x, byte(i))
		require.NoError(t, b.Wait(a))
		assert.True(t, all(content(t, m, b, x), byte(i)))
		require.NoError(t, b.Free(x))
	}
	require.NoError(t, a.Wait(a))
	assert.ErrorIs(t, a.Wait(nil), driver.ErrInvalidArgument)
	exact(t, d)
}

func testCacheLimit(t *testing.T, m *machine, config arena.DeviceConfig) {
	config.CacheBytes = 1 << 20
	d := m.device(t, config)
	a, b := m.stream(t, d), m.stream(t, d)
	var blocks []arena.Block
	for i := range 40 {
		blocks = append(blocks, allocate(t, []*arena.Stream{a, b}[i%2], 100<<10))
	}
	for i, block := range blocks {
		require.NoError(t, []*arena.Stream{a, b}[i%2].Free(block))
		assert.LessOrEqual(t, exact(t, d).Cached, config.CacheBytes)
	}
	assert.GreaterOrEqual(t, d.Stats().Cached, uint64(900<<10), "the cache is used")
	big := allocate(t, a, 2<<20)
	require.NoError(t, a.Free(big))
	assert.GreaterOrEqual(t, exact(t, d).Cached, uint64(900<<10), "what is larger than the cache goes back at once")
	for i := range 20 { // what was just freed stays, what is old goes
		x := allocate(t, a, 50<<10)
		require.NoError(t, a.Free(x))
		if i > 0 {
			continue
		}
		y := allocate(t, a, 50<<10)
		require.NoError(t, a.Free(y))
		assert.NotZero(t, exact(t, d).Hits)
	}

	none := config
	none.CacheBytes = arena.NoCache
	d = m.device(t, none)
	s := m.stream(t, d)
	for range 3 {
		require.NoError(t, s.Free(allocate(t, s, 4096)))
		stats := exact(t, d)
		assert.Zero(t, stats.Cached)
		assert.Equal(t, stats.DriverAllocs, stats.DriverFrees)
	}
	assert.Empty(t, m.complaints())
}

func testTrim(t *testing.T, m *machine, config arena.DeviceConfig) {
	d := m.device(t, config)
	s := m.stream(t, d)
	var blocks []arena.Block
	for range 10 {
		blocks = append(blocks, allocate(t, s, 1<<20))
	}
	for _, b := range blocks {
		require.NoError(t, s.Free(b))
	}
	require.NoError(t, d.Trim(1<<40))
	assert.Equal(t, uint64(10<<20), exact(t, d).Cached)
	require.NoError(t, d.Trim(3<<20))
	assert.Equal(t, uint64(3<<20), exact(t, d).Cached)
	require.NoError(t, d.Trim(0))
	stats := exact(t, d)
	assert.Zero(t, stats.Held)
	assert.Equal(t, uint64(10<<20), stats.HighWater)
	require.NoError(t, s.Free(allocate(t, s, 1<<20)))
}

func testStreamsComeAndGo(t *testing.T, m *machine, config arena.DeviceConfig) {
	d := m.device(t, config)
	for i := range 30 {
		h := m.handle(t)
		s := d.NewStream(h)
		b := allocate(t, s, 1<<18)
		fill(t, m, s, b, byte(i))
		require.NoError(t, s.Free(b))
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		require.Equal(t, driver.Success, destroy(m, h))
		_, err := s.Alloc(1)
		assert.ErrorIs(t, err, driver.ErrClosed)
		assert.ErrorIs(t, s.Wait(m.stream(t, d)), driver.ErrClosed)
	}
	stats := exact(t, d)
	assert.Equal(t, stats.Frees, stats.Hits+stats.Shared+stats.Misses)
	assert.LessOrEqual(t, stats.Misses, uint64(3), "what closed streams leave is used")

	// A block in use outlives its stream.
	h := m.handle(t)
	s, o := d.NewStream(h), m.stream(t, d)
	b := allocate(t, s, 1<<18)
	fill(t, m, s, b, 7)
	require.NoError(t, o.Wait(s))
	require.NoError(t, s.Close())
	require.Equal(t, driver.Success, destroy(m, h))
	assert.ErrorIs(t, s.Free(b), driver.ErrClosed)
	assert.True(t, b.Valid())
	assert.True(t, all(content(t, m, o, b), 7))
	require.NoError(t, o.Free(b))
	exact(t, d)
}

func destroy(m *machine, h driver.Stream) driver.Result {
	if err := m.Push(); err != nil {
		return driver.ResultUnknown
	}
	defer m.Pop()
	return m.API.StreamDestroy(h)
}

func testStale(t *testing.T, m *machine, config arena.DeviceConfig) {
	d, other := m.device(t, config), m.device(t, config)
	s, foreign := m.stream(t, d), m.stream(t, other)
	b := allocate(t, s, 1000)
	assert.ErrorIs(t, foreign.Free(b), driver.ErrInvalidArgument)
	require.NoError(t, s.Free(b))
	for range 2 {
		err := s.Free(b)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, "freed before")
		if config.Sites {
			assert.Regexp(t, `allocated at conformance_test.go:\d+, freed at conformance_test.go:\d+`, err.Error())
		}
	}
	c := allocate(t, s, 1000)
	assert.Equal(t, c.Ptr() != 0, c.Valid())
	err := s.Free(b)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "in use again")
	assert.Zero(t, b.Ptr())
	assert.Zero(t, b.Bytes())
	assert.Zero(t, b.Size())
	assert.True(t, c.Valid(), "the stale free did not free it")
	assert.ErrorIs(t, s.Free(arena.Block{}), driver.ErrInvalidArgument)
	require.NoError(t, s.Free(c))

	// Of many that free the same block one succeeds.
	x := allocate(t, s, 1000)
	var freed sync.WaitGroup
	results := make(chan error, 8)
	for range cap(results) {
		freed.Add(1)
		go func() { defer freed.Done(); results <- s.Free(x) }()
	}
	freed.Wait()
	close(results)
	ok := 0
	for err := range results {
		if err == nil {
			ok++
		}
	}
	assert.Equal(t, 1, ok)
	exact(t, d)
}

func testCapture(t *testing.T, m *machine, config arena.DeviceConfig) {
	// A capture of this mode belongs to its thread.
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	config.CacheBytes = 1 << 20
	d := m.device(t, config)
	s, o := m.stream(t, d), m.stream(t, d)
	x, y := allocate(t, s, 1<<20), allocate(t, s, 1<<20)
	kept := allocate(t, s, 4096)
	s.Capture(true)
	s.Capture(true) // harmless
	require.NoError(t, m.Do(func() error {
		return m.Failed("cuStreamBeginCapture", m.API.StreamBeginCapture(s.Handle(), driver.CaptureGlobal))
	}))
	_, err := s.Alloc(4096)
	assert.ErrorIs(t, err, driver.ErrCaptureFailed)
	assert.ErrorContains(t, err, "before the capture")
	require.NoError(t, s.Free(x))
	require.NoError(t, s.Free(y), "nothing goes to the driver, though it is more than the cache holds")
	assert.Equal(t, uint64(2<<20), exact(t, d).Cached)
	// Another stream goes on, and gets nothing from the one that captures.
	z := allocate(t, o, 1<<20)
	assert.Equal(t, uint64(0), exact(t, d).Shared)
	fill(t, m, s, kept, 3)
	require.NoError(t, o.Free(z))
	require.NoError(t, d.Trim(0))
	assert.Equal(t, uint64(2<<20), exact(t, d).Cached, "memory of the capture stays")
	var graph driver.Graph
	require.NoError(t, m.Do(func() error {
		var r driver.Result
		graph, r = m.API.StreamEndCapture(s.Handle())
		return m.Failed("cuStreamEndCapture", r)
	}))
	nodes, r := m.API.GraphGetNodes(graph)
	require.Equal(t, driver.Success, r)
	assert.Len(t, nodes, 1, "the arena put nothing into the graph")
	require.Equal(t, driver.Success, m.API.GraphDestroy(graph))
	s.Capture(false)
	assert.LessOrEqual(t, exact(t, d).Cached, config.CacheBytes, "the cache is within its limit again")
	require.NoError(t, s.Free(allocate(t, s, 1<<20)))
	require.NoError(t, s.Free(kept))
	assert.Empty(t, m.complaints())
}

func testLeaks(t *testing.T, m *machine, config arena.DeviceConfig) {
	d := m.device(t, config)
	s := m.stream(t, d)
	assert.Empty(t, d.Leaks())
	a, b := allocate(t, s, 100), allocate(t, s, 200)
	leaks := d.Leaks()
	require.Len(t, leaks, 2)
	assert.ElementsMatch(t, []uint64{100, 200}, []uint64{leaks[0].Bytes, leaks[1].Bytes})
	if config.Sites {
		assert.Regexp(t, `bytes at 0x[0-9a-f]+, allocated at conformance_test.go:\d+`, leaks[0].String())
	}
	require.NoError(t, s.Free(a))
	require.NoError(t, s.Free(b))
	assert.Empty(t, d.Leaks())
}

func testClosing(t *testing.T, m *machine, config arena.DeviceConfig) {
	d := must[*arena.Device](t)(arena.NewDevice(m.Binding, config))
	h := m.handle(t)
	s := d.NewStream(h)
	a, b := allocate(t, s, 1000), allocate(t, s, 2000)
	fill(t, m, s, a, 1)
	require.NoError(t, s.Free(b))
	ptr := a.Ptr()
	require.NoError(t, d.Close(), "a block in use is no error")
	require.NoError(t, d.Close())
	assert.ErrorIs(t, d.Trim(0), driver.ErrClosed)
	leaks := d.Leaks()
	require.Len(t, leaks, 1)
	assert.Equal(t, [2]uint64{uint64(ptr), 1000}, [2]uint64{uint64(leaks[0].Ptr), leaks[0].Bytes})
	assert.False(t, a.Valid())
	_, err := s.Alloc(1)
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.ErrorIs(t, s.Free(a), driver.ErrClosed)
	_, err = d.NewStream(h).Alloc(1)
	assert.ErrorIs(t, err, driver.ErrClosed)
	require.NoError(t, s.Close())
	stats := exact(t, d)
	assert.Zero(t, stats.Held+stats.Lost)
	require.Equal(t, driver.Success, destroy(m, h))
	assert.Empty(t, m.complaints())
}

func testAbandoned(t *testing.T, m *machine, config arena.DeviceConfig) {
	// The machine is not poisoned: what the arena leaves behind is given back here.
	d := must[*arena.Device](t)(arena.NewDevice(m.Binding, config))
	h := m.handle(t)
	s := d.NewStream(h)
	closed := d.NewStream(h)
	a, b := allocate(t, s, 1000), allocate(t, s, 2000)
	pa, pb := a.Ptr(), b.Ptr()
	require.NoError(t, m.Do(func() error { return m.Failed("cuStreamSynchronize", m.API.StreamSynchronize(h)) }),
		"else closing makes an event, which would be lost")
	require.NoError(t, closed.Close())
	require.NoError(t, s.Free(b))
	cause := errors.New("the cause")
	d.Lose(cause)
	d.Lose(nil)
	_, err := s.Alloc(1000)
	assert.ErrorIs(t, err, driver.ErrDeviceLost)
	assert.ErrorIs(t, err, cause)
	assert.ErrorIs(t, s.Wait(d.NewStream(h)), cause)
	assert.ErrorIs(t, d.Trim(0), cause)
	require.NoError(t, closed.Free(a))
	require.NoError(t, s.Close())
	require.NoError(t, d.Close())
	stats := exact(t, d)
	assert.Zero(t, stats.Held)
	assert.Equal(t, uint64(2), stats.LostBlocks)
	assert.Equal(t, uint64(1024+2048), stats.Lost)
	require.NoError(t, m.Do(func() error {
		return errors.Join(m.Failed("cuStreamSynchronize", m.API.StreamSynchronize(h)),
			m.Failed("cuMemFree", m.API.MemFree(pa)), m.Failed("cuMemFree", m.API.MemFree(pb)))
	}))
	require.Equal(t, driver.Success, destroy(m, h))
	for _, pool := range m.pools {
		require.Equal(t, driver.Success, m.API.MemPoolDestroy(pool), "the pool is lost as well")
	}
}

func testConcurrent(t *testing.T, m *machine, config arena.DeviceConfig) {
	config.CacheBytes = 4 << 20
	d := m.device(t, config)
	streams := []*arena.Stream{m.stream(t, d), m.stream(t, d), m.stream(t, d)}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	var group sync.WaitGroup
	for g := range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			var mine []arena.Block
			s := streams[g%len(streams)]
			for i := 0; ctx.Err() == nil; i++ {
				if len(mine) < 4 && i%3 != 2 {
					b, err := s.Alloc(uint64(1000 * (1 + (i*7+g)%40)))
					if err != nil {
						t.Errorf("alloc: %v", err)
						return
					}
					mine = append(mine, b)
					if err := write(m, s, b, byte(g)); err != nil {
						t.Errorf("memset: %v", err)
						return
					}
				} else if len(mine) > 0 {
					if i%4 == 0 && !assert.True(t, all(content(t, m, s, mine[0]), byte(g)), "others have the memory as well") {
						return
					}
					if err := s.Free(mine[0]); err != nil {
						t.Errorf("free: %v", err)
						return
					}
					mine = mine[1:]
				}
				switch i % 50 {
				case 10:
					if err := s.Wait(streams[(g+1)%len(streams)]); err != nil {
						t.Errorf("wait: %v", err)
					}
				case 20:
					exact(t, d)
				case 30:
					if err := d.Trim(1 << 20); err != nil {
						t.Errorf("trim: %v", err)
					}
				}
			}
			for _, b := range mine {
				if err := s.Free(b); err != nil {
					t.Errorf("free: %v", err)
				}
			}
		}()
	}
	group.Wait()
	stats := exact(t, d)
	assert.Zero(t, stats.InUse)
	assert.Zero(t, stats.Lost)
	assert.LessOrEqual(t, stats.Cached, config.CacheBytes)
}

// testNotHandedOut allocates without ever freeing: no address comes twice.
func testNotHandedOut(t *testing.T, m *machine, config arena.DeviceConfig) {
	d := m.device(t, config)
	streams := []*arena.Stream{m.stream(t, d), m.stream(t, d)}
	var mu sync.Mutex
	var blocks []arena.Block
	var group sync.WaitGroup
	for g := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range 50 {
				b, err := streams[(g+i)%2].Alloc(4096)
				if err != nil {
					t.Errorf("alloc: %v", err)
					return
				}
				mu.Lock()
				blocks = append(blocks, b)
				mu.Unlock()
			}
		}()
	}
	group.Wait()
	seen := map[driver.DevicePtr]bool{}
	for _, b := range blocks {
		assert.False(t, seen[b.Ptr()])
		seen[b.Ptr()] = true
	}
	for i, b := range blocks {
		require.NoError(t, streams[i%2].Wait(streams[1-i%2]))
		require.NoError(t, streams[i%2].Free(b))
	}
}
