package arena_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
)

// hold keeps a stream from going on until the function that it returns is called.
func hold(t *testing.T, m *machine, h driver.Stream) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	require.Equal(t, driver.Success, m.API.LaunchHostFunc(h, func() { <-gate }))
	return sync.OnceFunc(func() { close(gate) })
}

// TestStreamWaitForClosed: a stream that is closed can be waited for until its work is done
// and after, also by streams of other devices, and if it has no free blocks.
func TestStreamWaitForClosed(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	m, m1 := machineAt(t, gpu, 0, false), machineAt(t, gpu, 1, false)
	d, d1 := m.device(t, arena.DeviceConfig{}), m1.device(t, arena.DeviceConfig{})
	for _, freed := range []bool{false, true} {
		h := m.handle(t)
		s, o, far := d.NewStream(h), m.stream(t, d), m1.stream(t, d1)
		b := allocate(t, s, 4096)
		if freed {
			require.NoError(t, s.Free(allocate(t, s, 8192)))
		}
		release := hold(t, m, h)
		fill(t, m, s, b, 7)
		require.NoError(t, s.Close())
		require.Equal(t, driver.Success, destroy(m, h))
		assert.ErrorIs(t, s.Wait(o), driver.ErrClosed, "it is the one that is closed")

		require.NoError(t, o.Wait(s))
		require.NoError(t, far.Wait(s))
		require.NoError(t, d1.Trim(0)) // polls the closed streams
		_ = m.stream(t, d)             // so does this
		assert.Equal(t, driver.ResultNotReady, m.API.StreamQuery(o.Handle()))
		assert.Equal(t, driver.ResultNotReady, m1.API.StreamQuery(far.Handle()))
		release()
		assert.True(t, all(content(t, m, o, b), 7), "o was behind the work")
		require.Equal(t, driver.Success, m1.API.StreamSynchronize(far.Handle()))

		require.NoError(t, d.Trim(1<<40)) // polls the closed streams
		before := gpu.Calls("cuStreamWaitEvent")
		require.NoError(t, o.Wait(s))
		assert.Equal(t, before, gpu.Calls("cuStreamWaitEvent"), "the work is done")
		require.NoError(t, o.Free(b))
		exact(t, d)
	}
	assert.Empty(t, m.complaints())
}

// TestStreamClosedWithoutProof: when the work of a closed stream is done cannot be known.
// Waiting for it fails for good, and blocks in use are not given back by force.
func TestStreamClosedWithoutProof(t *testing.T) {
	for _, c := range []struct {
		name    string
		spoil   func(m *machine, gpu *drivertest.Driver, s *arena.Stream)
		becomes error
	}{
		{"capturing", func(_ *machine, _ *drivertest.Driver, s *arena.Stream) { s.Capture(true) }, driver.ErrCaptureFailed},
		{"no query", func(_ *machine, gpu *drivertest.Driver, _ *arena.Stream) {
			gpu.Fail("cuStreamQuery", 1, driver.ResultUnknown)
		}, driver.ResultUnknown},
		{"no event", func(_ *machine, gpu *drivertest.Driver, _ *arena.Stream) {
			gpu.Fail("cuEventCreate", 1, driver.ResultOutOfMemory)
		}, driver.ResultOutOfMemory},
		{"no record", func(_ *machine, gpu *drivertest.Driver, _ *arena.Stream) {
			gpu.Fail("cuEventRecord", 1, driver.ResultUnknown)
		}, driver.ResultUnknown},
	} {
		for _, inUse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in use %v", c.name, inUse), func(t *testing.T) {
				gpu := drivertest.New(drivertest.Config{}) // what is lost stays with it
				t.Cleanup(func() { _ = gpu.Close() })
				m := newMachine(t, gpu)
				d := must[*arena.Device](t)(arena.NewDevice(m.Binding, arena.DeviceConfig{}))
				s, o := d.NewStream(m.handle(t)), d.NewStream(m.handle(t))
				b := allocate(t, s, 4096)
				require.NoError(t, s.Free(allocate(t, s, 8192)))
				release := hold(t, m, s.Handle())
				defer release()
				c.spoil(m, gpu, s)
				require.ErrorIs(t, s.Close(), c.becomes)
				require.NoError(t, s.Close())
				for range 2 {
					err := o.Wait(s)
					require.ErrorIs(t, err, c.becomes)
					require.NotErrorIs(t, err, driver.ErrClosed)
					require.ErrorContains(t, err, "cannot be proven")
				}
				assert.Equal(t, uint64(8192), exact(t, d).Lost)
				if !inUse {
					require.NoError(t, o.Free(b)) // the caller says that it is in order
					release()
					require.NoError(t, d.Close())
					assert.Empty(t, d.Leaks())
					assert.Equal(t, uint64(8192), exact(t, d).Lost)
					return
				}
				release()
				err := d.Close()
				require.ErrorIs(t, err, c.becomes)
				require.ErrorContains(t, err, "1 blocks in use are lost")
				assert.Len(t, d.Leaks(), 1)
				assert.Equal(t, uint64(8192+4096), exact(t, d).Lost)
			})
		}
	}
}

// TestStreamsAreForgotten: thousands of streams that are opened, used and closed leave
// nothing behind once their work is done, and few events meanwhile.
func TestStreamsAreForgotten(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Chaos: &drivertest.Chaos{Seed: 1, SlowWork: 0.1, MaxDelay: 50 * time.Microsecond}})
	m := newMachine(t, gpu)
	d := m.device(t, arena.DeviceConfig{})
	stuck, o := m.handle(t), m.stream(t, d)
	release := hold(t, m, stuck)
	defer release()
	require.NoError(t, d.NewStream(stuck).Close()) // is in the way of none behind it
	var most int
	for i := range 3000 {
		h := m.handle(t)
		s := d.NewStream(h)
		b := allocate(t, s, 4096)
		fill(t, m, s, b, byte(i))
		require.NoError(t, s.Close())
		if i%10 == 0 {
			require.NoError(t, o.Wait(s))
		}
		require.Equal(t, driver.Success, m.API.StreamSynchronize(h))
		require.NoError(t, o.Free(b))
		require.Equal(t, driver.Success, destroy(m, h))
		most = max(most, d.Stats().Streams)
	}
	assert.LessOrEqual(t, most, 20)
	assert.LessOrEqual(t, gpu.Calls("cuEventCreate"), 20, "guards are used again")
	release()
	require.Equal(t, driver.Success, m.API.StreamSynchronize(stuck))
	require.Equal(t, driver.Success, destroy(m, stuck))

	// Many at once, all with work. Nothing is asked of all of them each time.
	var handles []driver.Stream
	var releases []func()
	gpu.ResetCalls()
	for range 500 {
		h := m.handle(t)
		handles, releases = append(handles, h), append(releases, hold(t, m, h))
		require.NoError(t, d.NewStream(h).Close())
	}
	assert.LessOrEqual(t, gpu.Calls("cuEventQuery"), 2*16*500)
	for i, h := range handles {
		releases[i]()
		require.Equal(t, driver.Success, m.API.StreamSynchronize(h))
		require.Equal(t, driver.Success, destroy(m, h))
	}
	for range 500/16 + 2 {
		require.NoError(t, d.Trim(1<<40))
	}
	assert.Equal(t, 1, d.Stats().Streams, "o alone is left")
	assert.Empty(t, m.complaints())
}

// TestStreamPairsClose closes two streams at the moment when each waits for the other. Who
// holds the gate of one stream and queues for that of the other hangs here, since whoever
// closes a stream keeps those behind him from it.
func TestStreamPairsClose(t *testing.T) {
	rounds := seeds.Count(150, 400, 400)
	m := newMachine(t, lateRecords{drivertest.ForTest(t, drivertest.Config{})})
	d := m.device(t, arena.DeviceConfig{})
	notHanging(t, func() {
		for range rounds {
			pair := [2]driver.Stream{m.handle(t), m.handle(t)}
			a, b := d.NewStream(pair[0]), d.NewStream(pair[1])
			var group sync.WaitGroup
			for range 2 {
				group.Go(func() { _ = a.Wait(b) })
				group.Go(func() { _ = b.Wait(a) })
			}
			for _, s := range []*arena.Stream{a, b} {
				group.Go(func() {
					time.Sleep(50 * time.Microsecond)
					if err := s.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				})
			}
			group.Wait()
			for _, h := range pair {
				m.API.StreamSynchronize(h)
				destroy(m, h)
			}
		}
	})
}

// lateRecords is a driver whose cuEventRecord takes a while after it is done.
type lateRecords struct{ driver.API }

func (l lateRecords) EventRecord(e driver.Event, s driver.Stream) driver.Result {
	r := l.API.EventRecord(e, s)
	time.Sleep(200 * time.Microsecond)
	return r
}

// notHanging ends the tests with all stacks if f takes too long: what a goroutine that
// waits for ever holds would keep the end of the test waiting as well.
func notHanging(t *testing.T, f func()) {
	dog := time.AfterFunc(30*time.Second, func() {
		stacks := make([]byte, 1<<20)
		panic(fmt.Sprintf("%s hangs\n%s", t.Name(), stacks[:goruntime.Stack(stacks, true)]))
	})
	defer dog.Stop()
	f()
}

// TestStreamsCrosswise: goroutines wait for each other's streams, of two devices, and take
// memory over from them, while the streams are closed. Nobody hangs.
func TestStreamsCrosswise(t *testing.T) {
	rounds := seeds.Count(6, 30, 30)
	for seed := range uint64(rounds) {
		notHanging(t, func() { crosswise(t, seed) })
	}
}

// crossing is one round.
type crossing struct {
	machines [2]*machine
	devices  [2]*arena.Device
	slots    [4]atomic.Pointer[arena.Stream]
	mu       sync.Mutex
	handles  [2][]driver.Stream // to be destroyed
	fail     func(format string, args ...any)
}

func crosswise(t *testing.T, seed uint64) {
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100()),
		Chaos: &drivertest.Chaos{Seed: seed, SlowWork: 0.1, SlowCalls: 0.02, MaxDelay: 50 * time.Microsecond}})
	defer gpu.Close()
	gpu.Init(0)
	c := &crossing{fail: t.Errorf}
	for i := range c.devices {
		context, _ := gpu.DevicePrimaryCtxRetain(driver.Device(i))
		c.machines[i] = &machine{Binding: &driver.Binding{API: gpu, Context: context, Ordinal: i}}
		var err error
		c.devices[i], err = arena.NewDevice(c.machines[i].Binding, arena.DeviceConfig{CacheBytes: 1 << 15, NoPools: seed%3 == 1})
		if err != nil {
			t.Errorf("open: %v", err)
			return
		}
	}
	for i := range c.slots {
		c.reopen(i)
	}
	var group sync.WaitGroup
	for g := range 12 {
		group.Go(func() { c.work(rand.New(rand.NewPCG(seed, uint64(g)))) })
	}
	if seed%2 == 1 { // the devices are closed in the midst of it
		time.Sleep(5 * time.Millisecond)
		for _, d := range c.devices {
			group.Go(func() {
				if err := d.Close(); err != nil {
					t.Errorf("close the device: %v", err)
				}
			})
		}
	}
	group.Wait()
	for i, d := range c.devices {
		if err := d.Close(); err != nil {
			t.Errorf("close the device: %v", err)
		}
		assert.Zero(t, d.Stats().Lost)
		for _, h := range c.handles[i] {
			destroy(c.machines[i], h)
		}
		gpu.DevicePrimaryCtxRelease(driver.Device(i))
	}
	for _, f := range gpu.Findings() {
		t.Errorf("round %d: %v", seed, f)
	}
	assert.Empty(t, gpu.Leaks(), "round %d", seed)
}

// reopen puts a new stream into a slot and closes the one that was there.
func (c *crossing) reopen(slot int) {
	on := slot % 2
	m := c.machines[on]
	var h driver.Stream
	if err := m.Do(func() error {
		var r driver.Result
		h, r = m.API.StreamCreate(driver.StreamNonBlocking)
		return m.Failed("cuStreamCreate", r)
	}); err != nil {
		c.fail("stream: %v", err)
		return
	}
	c.mu.Lock()
	c.handles[on] = append(c.handles[on], h)
	c.mu.Unlock()
	if old := c.slots[slot].Swap(c.devices[on].NewStream(h)); old != nil {
		if err := old.Close(); err != nil {
			c.fail("close: %v", err)
		}
	}
}

func (c *crossing) work(chance *rand.Rand) {
	for range 150 {
		a, b := c.slots[chance.IntN(len(c.slots))].Load(), c.slots[chance.IntN(len(c.slots))].Load()
		var err error
		switch chance.IntN(8) {
		case 0:
			c.reopen(chance.IntN(len(c.slots)))
		case 1:
			err = a.Device().Trim(0)
		case 2, 3, 4:
			err = a.Wait(b)
		default:
			var block arena.Block
			if block, err = a.Alloc(4096); err == nil {
				err = a.Free(block)
			}
		}
		// a may be closed by now.
		if err != nil && !errors.Is(err, driver.ErrClosed) {
			c.fail("%v", err)
		}
	}
}

// What was on a stream before it is captured can be waited for, and freed behind, meanwhile;
// an event that is recorded then would pull whoever waits into the capture.
func TestStreamWaitForCaptured(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{})
	m := newMachine(t, gpu)
	d := m.device(t, arena.DeviceConfig{})
	captured, other := d.NewStream(m.handle(t)), d.NewStream(m.handle(t))
	b := allocate(t, captured, 4096)
	release := hold(t, m, captured.Handle())
	captured.Capture(true)
	require.Equal(t, driver.Success, m.API.StreamBeginCapture(captured.Handle(), driver.CaptureRelaxed))
	require.NoError(t, other.Wait(captured))
	require.Equal(t, driver.ResultNotReady, m.API.StreamQuery(other.Handle()), "it waits for the work before")
	assert.ErrorIs(t, captured.Wait(other), driver.ErrCaptureFailed, "the wait would be part of the graph")
	require.NoError(t, d.FreeAfter(b, captured))
	release()
	require.Equal(t, driver.Success, m.API.StreamSynchronize(other.Handle()))
	graph, r := m.API.StreamEndCapture(captured.Handle())
	require.Equal(t, driver.Success, r)
	require.Equal(t, driver.Success, m.API.GraphDestroy(graph))
	captured.Capture(false)
	assert.Zero(t, exact(t, d).InUse)
	for _, s := range []*arena.Stream{captured, other} {
		require.NoError(t, s.Close())
		require.Equal(t, driver.Success, destroy(m, s.Handle()))
	}
}
