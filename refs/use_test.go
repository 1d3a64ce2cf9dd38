package refs_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
)

// Streams wait for each other as the data asks for it. The first stream is held back, so
// that a second one which does not wait is certain to be too early: bypassing Use shows it.
func TestOrderBetweenStreams(t *testing.T) {
	const n = 64
	for _, c := range []struct {
		name string
		// first is put on a stream that is held back, second on another one; what is
		// read in the end is compared.
		first, second func(*fixture) error
		want, without uint32
	}{
		{name: "read after write", want: 2, without: 1,
			first:  func(f *fixture) error { return f.write(f.s1, 2) },
			second: func(f *fixture) error { return f.readTo(f.s2) }},
		{name: "write after read", want: 1, without: 2,
			first:  func(f *fixture) error { return f.readTo(f.s1) },
			second: func(f *fixture) error { return f.write(f.s2, 2) }},
		{name: "write after write", want: 3, without: 2,
			first:  func(f *fixture) error { return f.write(f.s1, 2) },
			second: func(f *fixture) error { return f.write(f.s2, 3) }},
	} {
		for _, bypass := range []bool{false, true} {
			name := c.name
			if bypass {
				name += ", without Use"
			}
			t.Run(name, func(t *testing.T) {
				m := newMachine(t, drivertest.Config{})
				f := &fixture{machine: m, bypass: bypass, s1: m.stream(t), s2: m.stream(t), to: m.target(t, n)}
				f.r = alloc(t, m, f.s1, n)
				defer f.r.Close()
				require.NoError(t, m.fill(f.r, f.s1, 1))
				m.wait(t, f.s1)

				release := m.hold(t, f.s1)
				require.NoError(t, c.first(f))
				require.NoError(t, c.second(f))
				if bypass {
					m.wait(t, f.s2) // it does not wait, so it gets there
				} else {
					time.Sleep(time.Millisecond)
					assert.Equal(t, driver.ResultNotReady, m.gpu.StreamQuery(f.s2.Handle()))
				}
				release()
				m.wait(t, f.s1)
				m.wait(t, f.s2)
				if c.name == "write after write" {
					require.NoError(t, f.readTo(f.s2))
					m.wait(t, f.s2)
				}
				want := c.want
				if bypass {
					want = c.without
				}
				for _, v := range f.to.data {
					require.Equal(t, want, v)
				}
			})
		}
	}
}

// fixture is a Ref on two streams.
type fixture struct {
	*machine
	bypass bool
	s1, s2 *arena.Stream
	r      *refs.Ref[uint32]
	to     *target
}

func (f *fixture) write(s *arena.Stream, v uint32) error {
	if !f.bypass {
		return f.fill(f.r, s, v)
	}
	return f.binding.Failed("cuMemsetD32Async", f.gpu.MemsetD32Async(f.r.Core().Ptr(), v, uint64(f.r.Len()), s.Handle()))
}

func (f *fixture) readTo(s *arena.Stream) error {
	if !f.bypass {
		return f.read(f.r, s, f.to)
	}
	return f.copy(f.r.Core().Ptr(), s, f.to, f.r.Bytes())
}

// A freed block is not written by work from before: the free is after all streams that
// used the block. Without Use the late work is certain to hit the block's next owner.
func TestFreeIsBehindAllStreams(t *testing.T) {
	for _, bypass := range []bool{false, true} {
		m := newMachine(t, drivertest.Config{})
		f := &fixture{machine: m, bypass: bypass, s1: m.stream(t), s2: m.stream(t), to: m.target(t, 64)}
		s3 := m.stream(t)
		f.r = alloc(t, m, f.s1, 64)
		release := m.hold(t, f.s2)
		require.NoError(t, f.write(f.s2, 1))
		if !bypass {
			require.NoError(t, f.read(f.r, s3, m.target(t, 64))) // after s2
			require.NoError(t, f.read(f.r, f.s1, m.target(t, 64)))
		}
		ptr := f.r.Core().Ptr()
		require.NoError(t, f.r.Close())

		next := alloc(t, m, f.s1, 64)
		assert.Equal(t, ptr, next.Core().Ptr(), "the block is used again")
		require.NoError(t, m.fill(next, f.s1, 2))
		if bypass {
			m.wait(t, f.s1)
		}
		release()
		m.wait(t, f.s2)
		require.NoError(t, m.read(next, f.s1, f.to))
		m.wait(t, f.s1)
		want := uint32(2)
		if bypass {
			want = 1
		}
		for _, v := range f.to.data {
			require.Equal(t, want, v)
		}
		require.NoError(t, next.Close())
	}
}

// Work that is under way while somebody else uses the memory counts for whoever comes
// after: between Use and the call that puts the work on the stream it cannot be waited for.
func TestWorkUnderWay(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s1, s2, s3 := m.stream(t), m.stream(t), m.stream(t)
	r := alloc(t, m, s1, 64)
	defer r.Close()
	require.NoError(t, m.fill(r, s1, 1))

	// s2 is about to write.
	p, err := r.Acquire()
	require.NoError(t, err)
	require.NoError(t, r.Core().Use(s2, true))
	// s1 writes meanwhile and is done.
	require.NoError(t, m.fill(r, s1, 2))
	m.wait(t, s1)
	assert.Same(t, s1, r.Core().LastWriteStream())
	// s2 does it now, and is slow.
	release := m.hold(t, s2)
	require.Equal(t, driver.Success, m.gpu.MemsetD32Async(p, 3, 64, s2.Handle()))
	r.Release()

	to := m.target(t, 64)
	require.NoError(t, m.read(r, s3, to))
	time.Sleep(time.Millisecond)
	assert.Equal(t, driver.ResultNotReady, m.gpu.StreamQuery(s3.Handle()), "s3 waits for s2 as well")
	release()
	m.wait(t, s3)
	assert.Equal(t, uint32(3), to.data[0])
	m.wait(t, s2)
}

// A stream waits once for a write, however often it reads.
func TestReadersWaitOnce(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s1, s2 := m.stream(t), m.stream(t)
	r := alloc(t, m, s1, 64)
	defer r.Close()
	to1, to2 := m.target(t, 64), m.target(t, 64) // one for each stream: nothing orders their reads
	waits := func() int { return m.gpu.Calls("cuStreamWaitEvent") }
	for range 3 {
		require.NoError(t, m.fill(r, s1, 1))
	}
	assert.Zero(t, waits())
	for range 3 {
		require.NoError(t, m.read(r, s2, to2))
	}
	assert.Equal(t, 1, waits())
	require.NoError(t, m.read(r, s1, to1)) // its own work
	assert.Equal(t, 1, waits())
	require.NoError(t, m.fill(r, s1, 2)) // after the reader
	assert.Equal(t, 2, waits())
	require.NoError(t, m.fill(r, s1, 3))
	assert.Equal(t, 2, waits())
	require.NoError(t, m.fill(r, s2, 4))
	require.NoError(t, m.read(r, s1, to1)) // after the write of the other one
	assert.Equal(t, 4, waits())
	m.wait(t, s1)
	m.wait(t, s2)
}

// A memory that many streams read does not remember all of them, and a writer is still
// after each.
func TestManyReaders(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s := m.stream(t)
	r := alloc(t, m, s, 64)
	defer r.Close()
	require.NoError(t, m.fill(r, s, 1))
	var all []*target
	var streams []*arena.Stream
	for range 60 {
		streams = append(streams, m.stream(t))
	}
	release := m.hold(t, streams[0])
	for _, reader := range streams {
		to := m.target(t, 64)
		require.NoError(t, m.read(r, reader, to))
		all = append(all, to)
	}
	before := m.gpu.Calls("cuStreamWaitEvent")
	require.NoError(t, m.fill(r, s, 2))
	assert.LessOrEqual(t, m.gpu.Calls("cuStreamWaitEvent")-before, 20)
	release()
	m.wait(t, s)
	for i, to := range all {
		m.wait(t, streams[i])
		require.Equal(t, uint32(1), to.data[0])
	}
}

// What cannot be proven is leaked, counted, and never used again.
func TestLeakedOnPurpose(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s1, s2 := m.stream(t), m.stream(t)
	r := alloc(t, m, s1, 64)
	release := m.hold(t, s2)
	defer release()
	noRecord := func() {
		for n := range 4 {
			m.gpu.Fail("cuEventRecord", n+1, driver.ResultUnknown)
		}
	}
	require.NoError(t, m.fill(r, s2, 1))
	ptr := r.Core().Ptr()
	require.NoError(t, r.Core().Use(s1, false)) // two streams now
	noRecord()
	err := r.Close()
	assert.ErrorIs(t, err, driver.ResultUnknown)
	assert.ErrorContains(t, err, "leaked on purpose")
	assert.Equal(t, refs.Stats{Leaked: 1, LeakedBytes: 256}, m.state.Stats())
	next := alloc(t, m, s1, 64)
	assert.NotEqual(t, ptr, next.Core().Ptr())
	require.NoError(t, next.Close())

	// The same where nobody waits for the answer.
	r = alloc(t, m, s1, 64)
	require.NoError(t, m.fill(r, s2, 1))
	require.NoError(t, r.Core().Use(s1, false))
	_, err = r.Acquire()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	noRecord()
	r.Release()
	require.Len(t, m.cleanup, 1)
	assert.ErrorContains(t, m.cleanup[0], "leaked on purpose")
	assert.Equal(t, uint64(2), m.state.Stats().Leaked)
}

// An order that cannot be had is an error, and nothing is forgotten for it.
func TestUseFails(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s1, s2 := m.stream(t), m.stream(t)
	r := alloc(t, m, s1, 64)
	defer r.Close()
	release := m.hold(t, s1)
	require.NoError(t, m.fill(r, s1, 1))
	m.gpu.Fail("cuEventRecord", 1, driver.ResultUnknown)
	to := m.target(t, 64)
	assert.ErrorIs(t, m.read(r, s2, to), driver.ResultUnknown)
	require.NoError(t, m.read(r, s2, to))
	release()
	m.wait(t, s2)
	assert.Equal(t, uint32(1), to.data[0])
}

// The block goes back on another stream if the last one was closed.
func TestFreeAfterTheStreamWasClosed(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s1, s2 := m.stream(t), m.stream(t)
	r := alloc(t, m, s1, 64)
	require.NoError(t, m.fill(r, s1, 1))
	m.wait(t, s1)
	require.NoError(t, s1.Close())
	to := m.target(t, 64)
	require.NoError(t, m.read(r, s2, to), "waiting for a closed stream is harmless")
	m.wait(t, s2)
	assert.Equal(t, uint32(1), to.data[0])
	require.NoError(t, r.Close())
	assert.Equal(t, refs.Stats{Freed: 1}, m.state.Stats())
}

// A Ref that is closed after all streams that used it, as the order of defers has it, leaks
// nothing, whether their work is done or not, and none of it is waited for.
func TestFreeAfterAllStreamsWereClosed(t *testing.T) {
	for _, streams := range []int{1, 2} {
		for _, pending := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d streams, pending %v", streams, pending), func(t *testing.T) {
				m := newMachine(t, drivertest.Config{})
				all := []*arena.Stream{m.stream(t), m.stream(t)}[:streams]
				r := alloc(t, m, all[0], 64)
				ptr := r.Core().Ptr()
				release := func() {}
				if pending {
					release = sync.OnceFunc(m.hold(t, all[0]))
					defer release()
				}
				for _, s := range all {
					require.NoError(t, m.fill(r, s, 1))
					if !pending {
						m.wait(t, s)
					}
				}
				for _, s := range all {
					require.NoError(t, s.Close())
				}
				require.NoError(t, r.Close())
				assert.Equal(t, refs.Stats{Freed: 1}, m.state.Stats())
				assert.Zero(t, m.arena.Stats().InUse)
				assert.Equal(t, uint64(512), m.arena.Stats().Cached)

				s := m.stream(t)
				if pending {
					other := alloc(t, m, s, 64)
					assert.NotEqual(t, ptr, other.Core().Ptr(), "work still uses it")
					require.NoError(t, m.fill(other, s, 2))
					m.wait(t, s) // after no work of others
					defer other.Close()
				}
				release()
				for _, s := range all {
					m.wait(t, s)
				}
				next := alloc(t, m, s, 64)
				assert.Equal(t, ptr, next.Core().Ptr())
				require.NoError(t, next.Close())
				assert.Empty(t, m.cleanup)
			})
		}
	}
}

// Work of another device's stream counts as well.
func TestFreeAfterAnotherDevice(t *testing.T) {
	m := newMachine(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	far := &machine{gpu: m.gpu}
	require.NoError(t, far.open(1))
	t.Cleanup(far.close)
	s, o := m.stream(t), far.stream(t)
	r := alloc(t, m, s, 64)
	release := sync.OnceFunc(m.hold(t, o))
	defer release()
	require.NoError(t, r.Core().Use(o, true))
	ptr := r.Core().Ptr()
	require.NoError(t, s.Close())
	require.NoError(t, r.Close())
	assert.Equal(t, refs.Stats{Freed: 1}, m.state.Stats())
	s2 := m.stream(t)
	other := alloc(t, m, s2, 64)
	defer other.Close()
	assert.NotEqual(t, ptr, other.Core().Ptr(), "work still uses it")
	release()
	m.wait(t, o)
	next := alloc(t, m, s2, 64)
	assert.Equal(t, ptr, next.Core().Ptr())
	require.NoError(t, next.Close())
}

// Goroutines share a Ref on streams of their own. They settle the order by a lock; the
// waits are the Ref's.
func TestSharedByGoroutines(t *testing.T) {
	m := newMachine(t, drivertest.Config{Chaos: &drivertest.Chaos{Seed: 1, SlowWork: 0.3, MaxDelay: 100 * time.Microsecond}})
	home := m.stream(t)
	r := alloc(t, m, home, 64)
	var turn sync.Mutex
	value := uint32(1)
	require.NoError(t, m.fill(r, home, value))
	var wg sync.WaitGroup
	for range 8 {
		s := m.stream(t)
		mine := r.Retain()
		wg.Go(func() {
			defer mine.Close()
			for range 30 {
				to := m.target(t, 64)
				turn.Lock()
				want := value
				assert.NoError(t, m.read(mine, s, to))
				value++
				assert.NoError(t, m.fill(mine, s, value))
				turn.Unlock()
				m.gpu.StreamSynchronize(s.Handle())
				for _, v := range to.data {
					if v != want {
						t.Errorf("read %d, want %d", v, want)
						return
					}
				}
			}
		})
	}
	require.NoError(t, r.Close())
	wg.Wait()
	assert.Equal(t, refs.Stats{Freed: 1}, m.state.Stats())
}
