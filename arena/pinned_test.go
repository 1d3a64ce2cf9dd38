package arena_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/internal/seeds"
)

// pointerTo is the address of the first byte.
func pointerTo(data []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(data)) }

func newPinned(t testing.TB, b *copyBed, config arena.PinnedConfig) *arena.Pinned {
	t.Helper()
	p := arena.NewPinned(b.Binding, config)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

func lease(t testing.TB, p *arena.Pinned, bytes uint64) arena.Lease {
	t.Helper()
	l, err := p.Lease(bytes)
	require.NoError(t, err)
	return l
}

func TestPinnedBlocksAreLentAgain(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	p := newPinned(t, b, arena.PinnedConfig{})
	l := lease(t, p, 5000)
	assert.Len(t, l.Bytes(), 5000)
	assert.Zero(t, uintptr(l.Pointer())%4096, "blocks begin at a page")
	copy(l.Bytes(), "hello")
	first := l.Pointer()
	assert.Equal(t, arena.PinnedStats{Leases: 1, LeasedBytes: 8192, AskedBytes: 5000, PeakBytes: 8192, Limit: 128 << 20, Misses: 1}, p.Stats())
	require.NoError(t, l.Free())
	assert.Nil(t, l.Bytes())
	assert.Nil(t, l.Pointer())

	again := lease(t, p, 8000)
	assert.Equal(t, first, again.Pointer())
	assert.Equal(t, 1, b.gpu.Calls("cuMemHostAlloc"))
	s := p.Stats()
	assert.Equal(t, uint64(1), s.Hits)
	assert.Equal(t, uint64(1), s.Returns)
	require.NoError(t, again.Free())
	assert.Equal(t, uint64(8192), p.Stats().CachedBytes)

	assert.Equal(t, uint64(8192), p.Trim(0))
	assert.Zero(t, p.Stats().CachedBytes)
	assert.Equal(t, 1, b.gpu.Calls("cuMemFreeHost"))
}

func TestPinnedHitsDoNotAllocate(t *testing.T) {
	p := newPinned(t, newCopyBed(t, drivertest.Config{}), arena.PinnedConfig{})
	require.NoError(t, lease(t, p, 1<<20).Free())
	allocs.AtMost(t, 0, 100, func() {
		l, err := p.Lease(1 << 20)
		if err != nil || len(l.Bytes()) != 1<<20 || l.Free() != nil {
			t.Error("a lease failed")
		}
	})
}

func TestPinnedDoubleReturnIsAnError(t *testing.T) {
	for _, debug := range []bool{false, true} {
		t.Run(fmt.Sprintf("debug=%t", debug), func(t *testing.T) {
			p := newPinned(t, newCopyBed(t, drivertest.Config{}), arena.PinnedConfig{Debug: debug})
			l := lease(t, p, 100)
			require.NoError(t, l.Free())
			require.ErrorIs(t, l.Free(), driver.ErrClosed)
			other := lease(t, p, 100)
			require.ErrorIs(t, l.Free(), driver.ErrClosed, "the block is that of another lease now")
			assert.Nil(t, l.Bytes())
			assert.Len(t, other.Bytes(), 100)
			assert.Equal(t, 1, p.Stats().Leases)
			require.NoError(t, other.Free())
			require.NoError(t, p.Close())
			require.ErrorIs(t, l.Free(), driver.ErrClosed)
			require.ErrorIs(t, arena.Lease{}.Free(), driver.ErrInvalidArgument)
			assert.Nil(t, arena.Lease{}.Bytes())
		})
	}
}

func TestPinnedFindsUseAfterReturn(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	p := newPinned(t, b, arena.PinnedConfig{Debug: true})
	first := lease(t, p, 9000)
	kept := first.Bytes()
	require.NoError(t, first.Free())
	kept[4200] = 1
	second := lease(t, p, 9000) // sees it
	require.Equal(t, 1, p.Stats().Findings)
	require.Len(t, b.reported(), 1)
	assert.Regexp(t, `written to at byte 4200 after it was returned; leased at pinned_test.go:\d+, returned at pinned_test.go:\d+`,
		b.reported()[0].Error())

	kept = second.Bytes()
	require.NoError(t, second.Free())
	kept[0] = 2
	p.Trim(0) // sees it as well
	require.Equal(t, 2, p.Stats().Findings)

	third := lease(t, p, 9000)
	clear(third.Bytes())
	require.NoError(t, third.Free())
	p.Trim(0)
	assert.Equal(t, 2, p.Stats().Findings, "what is written during a lease is nobody's business")
}

func TestPinnedLimit(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	p := newPinned(t, b, arena.PinnedConfig{Limit: 64 << 10})
	l := lease(t, p, 32<<10)
	_, err := p.Lease(40 << 10)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.ErrorContains(t, err, "32768 bytes are leased, and the limit is 65536")
	_, err = p.Lease(1 << 62)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	_, err = p.Lease(1<<64 - 1)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	_, err = p.Lease(0)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.Equal(t, 1, b.gpu.Calls("cuMemHostAlloc"))
	require.NoError(t, l.Free())
	big := lease(t, p, 64<<10) // what is cached makes room
	assert.Equal(t, 1, b.gpu.Calls("cuMemFreeHost"))
	assert.Equal(t, uint64(64<<10), p.Stats().PeakBytes)
	require.NoError(t, big.Free())
}

func TestPinnedTrimsWhenTheDriverIsOutOfMemory(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{HostMemory: 100 << 10})
	p := newPinned(t, b, arena.PinnedConfig{})
	require.NoError(t, lease(t, p, 64<<10).Free())
	big := lease(t, p, 80<<10)
	_, err := p.Lease(64 << 10)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.Equal(t, uint64(64<<10), err.(*driver.Error).Bytes)
	assert.Equal(t, uint64(80<<10), p.Stats().PeakBytes, "refused memory is no peak")
	require.NoError(t, big.Free())
	assert.Equal(t, uint64(80<<10), p.Stats().CachedBytes)
}

func TestPinnedEveryFailureOfTheDriver(t *testing.T) {
	for _, op := range []string{"cuMemHostAlloc", "cuCtxPushCurrent", "cuThreadExchangeStreamCaptureMode"} {
		t.Run(op, func(t *testing.T) {
			b := newCopyBed(t, drivertest.Config{})
			p := newPinned(t, b, arena.PinnedConfig{})
			b.gpu.Fail(op, 1, driver.ResultUnknown)
			l, err := p.Lease(1)
			if err != nil {
				require.ErrorIs(t, err, driver.ResultUnknown)
				require.Zero(t, p.Stats().Leases)
				l = lease(t, p, 1)
			}
			require.NoError(t, l.Free())
		})
	}
	t.Run("cuMemFreeHost", func(t *testing.T) {
		b := newFaultyBed(t, drivertest.Config{})
		p := newPinned(t, b, arena.PinnedConfig{})
		require.NoError(t, lease(t, p, 1).Free())
		b.gpu.Fail("cuMemFreeHost", 1, driver.ResultUnknown)
		p.Trim(0)
		require.Len(t, b.reported(), 1)
		require.ErrorIs(t, b.reported()[0], driver.ResultUnknown)
		assert.Equal(t, uint64(4096), p.Stats().LostBytes)
	})
}

// Where the driver cannot be asked to free a block, the block is not lost: it is leased again, or freed later.
func TestPinnedKeepsWhatItCouldNotTryToFree(t *testing.T) {
	for _, debug := range []bool{false, true} {
		b := newFaultyBed(t, drivertest.Config{})
		p := newPinned(t, b, arena.PinnedConfig{Debug: debug})
		require.NoError(t, lease(t, p, 1).Free())
		b.gpu.Fail("cuCtxPushCurrent", 1, driver.ResultUnknown)
		assert.Zero(t, p.Trim(0))
		require.Len(t, b.reported(), 1)
		assert.Equal(t, arena.PinnedStats{CachedBytes: 4096, PeakBytes: 4096, Limit: arena.DefaultPinnedLimit, Misses: 1, Returns: 1}, p.Stats())
		require.NoError(t, lease(t, p, 1).Free())
		assert.Equal(t, uint64(1), p.Stats().Hits)
		assert.Equal(t, uint64(4096), p.Trim(0))
		assert.Equal(t, 1, b.gpu.Calls("cuMemFreeHost"))
	}
}

func TestPinnedClose(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	p := arena.NewPinned(b.Binding, arena.PinnedConfig{})
	l := lease(t, p, 10)
	require.NoError(t, lease(t, p, 10).Free())
	require.ErrorContains(t, p.Close(), "1 leases of 4096 bytes are under way")
	require.NoError(t, p.Close())
	_, err := p.Lease(1)
	require.ErrorIs(t, err, driver.ErrClosed)
	assert.Len(t, l.Bytes(), 10)
	require.NoError(t, l.Free()) // and it is given back: the bed finds no leak
	assert.Zero(t, p.Stats().CachedBytes)
	assert.Equal(t, 2, b.gpu.Calls("cuMemFreeHost"))
}

func TestPinnedAbandonedMakesNoCalls(t *testing.T) {
	b := newFaultyBed(t, drivertest.Config{})
	p := arena.NewPinned(b.Binding, arena.PinnedConfig{})
	l := lease(t, p, 10)
	require.NoError(t, lease(t, p, 10).Free())
	b.gpu.Fail("cuCtxSynchronize", 1, driver.ResultIllegalAddress)
	_ = b.Do(func() error { return b.Failed("", b.API.CtxSynchronize()) })
	p.Lose()
	b.gpu.ResetCalls()
	_, err := p.Lease(1)
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	require.NoError(t, l.Free())
	p.Trim(0)
	require.NoError(t, p.Close())
	for _, op := range []string{"cuMemFreeHost", "cuMemHostAlloc", "cuCtxPushCurrent"} {
		assert.Zero(t, b.gpu.Calls(op), op)
	}
	assert.Equal(t, uint64(8192), p.Stats().LostBytes)
	assert.Empty(t, b.reported())
}

func TestPinnedDoesNotEndACapture(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	p := newPinned(t, b, arena.PinnedConfig{})
	s := b.stream(t)
	goruntime.LockOSThread() // such a capture ends on the thread that it began on
	defer goruntime.UnlockOSThread()
	require.Equal(t, driver.Success, b.API.StreamBeginCapture(s, driver.CaptureGlobal))
	done := make(chan error)
	go func() { // on another thread
		l, err := p.Lease(1)
		if err == nil {
			err = l.Free()
		}
		p.Trim(0)
		done <- err
	}()
	require.NoError(t, <-done)
	g, r := b.API.StreamEndCapture(s)
	require.Equal(t, driver.Success, r)
	require.Equal(t, driver.Success, b.API.GraphDestroy(g))
}

// What the pool does is compared with what a model says, for programs made by chance.
func TestPinnedAgainstModel(t *testing.T) {
	seeds.Each(t, 60, pinnedProgram)
}

type modelLease struct {
	arena.Lease
	mark  byte
	bytes uint64
}

func pinnedProgram(t *testing.T, seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 1))
	b := newCopyBed(t, drivertest.Config{})
	t.Cleanup(func() { b.gpu.MemHostAlloc(1, 0) }) // the last planned fault may wait for a call
	limit := uint64(64<<10 + chance.IntN(1<<20))
	p := newPinned(t, b, arena.PinnedConfig{Limit: limit, Debug: seed%2 == 0})
	var live, ended []modelLease
	check := func() {
		s := p.Stats()
		require.LessOrEqual(t, s.LeasedBytes+s.CachedBytes, limit)
		require.LessOrEqual(t, s.PeakBytes, limit)
		require.Equal(t, len(live), s.Leases)
		asked := uint64(0)
		for _, l := range live {
			asked += l.bytes
		}
		require.Equal(t, asked, s.AskedBytes)
		require.GreaterOrEqual(t, s.LeasedBytes, asked)
	}
	for range 300 {
		switch n := chance.IntN(10); {
		case n < 5:
			bytes := 1 + uint64(chance.Int64N(1<<(4+chance.IntN(16))))
			if chance.IntN(20) == 0 {
				b.gpu.Fail("cuMemHostAlloc", 1, driver.ResultOutOfMemory)
			}
			l, err := p.Lease(bytes)
			if err != nil {
				require.ErrorIs(t, err, driver.ErrOutOfMemory)
				break
			}
			m := modelLease{l, byte(chance.Uint32()), bytes}
			require.Len(t, l.Bytes(), int(bytes))
			for i := range l.Bytes() {
				l.Bytes()[i] = m.mark
			}
			live = append(live, m)
		case n < 8 && len(live) > 0:
			i := chance.IntN(len(live))
			m := live[i]
			// Nobody else has written to it.
			require.Equal(t, slices.Repeat([]byte{m.mark}, int(m.bytes)), m.Bytes())
			require.NoError(t, m.Free())
			live = slices.Delete(live, i, i+1)
			ended = append(ended, m)
		case n == 8:
			keep := uint64(chance.Int64N(int64(limit)))
			p.Trim(keep)
			require.LessOrEqual(t, p.Stats().CachedBytes, keep)
		case n == 9 && len(ended) > 0:
			m := ended[chance.IntN(len(ended))]
			require.ErrorIs(t, m.Free(), driver.ErrClosed)
			require.Nil(t, m.Bytes())
		}
		check()
	}
	for _, m := range live {
		require.NoError(t, m.Free())
	}
	require.Zero(t, p.Stats().Findings)
}

func TestPinnedWaste(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	p := newPinned(t, b, arena.PinnedConfig{Limit: 1 << 30})
	for bytes := uint64(32<<10 + 1); bytes < 64<<20; bytes += bytes/37 + 1 {
		l := lease(t, p, bytes)
		s := p.Stats()
		require.LessOrEqual(t, s.LeasedBytes, bytes+bytes/8+4096)
		require.NoError(t, l.Free())
		p.Trim(0)
	}
}

func TestPinnedConcurrently(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	p := newPinned(t, b, arena.PinnedConfig{Limit: 256 << 10, Debug: true})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(g), 2))
			for range 300 {
				l, err := p.Lease(1 + uint64(chance.IntN(60<<10)))
				if errors.Is(err, driver.ErrOutOfMemory) {
					continue
				}
				if !assert.NoError(t, err) {
					return
				}
				data := l.Bytes()
				data[0], data[len(data)-1] = byte(g), byte(g)
				if chance.IntN(10) == 0 {
					p.Trim(0)
				}
				assert.Equal(t, byte(g), data[0])
				assert.NoError(t, l.Free())
				assert.ErrorIs(t, l.Free(), driver.ErrClosed)
			}
		})
	}
	wg.Wait()
	s := p.Stats()
	assert.Zero(t, s.Leases)
	assert.LessOrEqual(t, s.PeakBytes, uint64(256<<10))
	assert.Zero(t, p.Stats().Findings)
}
