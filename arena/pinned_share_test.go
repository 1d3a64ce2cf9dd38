package arena_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/wait"
)

// copierOn makes a copier with workers of its own on a pool that others use too.
func copierOn(t *testing.T, b *copyBed, p *arena.Pinned, config arena.CopierConfig) *arena.Copier {
	t.Helper()
	w := arena.NewWorkers(3)
	c := arena.NewCopierWith(b.Binding, w, p, config)
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
		w.Close()
	})
	return c
}

// waitsOf makes a stream that tells when its work is done, by values or only if it is asked.
func waitsOf(t *testing.T, b *copyBed, s driver.Stream, values bool) *wait.Stream {
	t.Helper()
	device, err := new(wait.Poller).Open(b.Binding, wait.Config{NoWrites: !values})
	require.NoError(t, err)
	stream := device.NewStream(s)
	t.Cleanup(func() {
		stream.Close()
		device.Close(nil)
		assert.NoError(t, device.Free())
	})
	return stream
}

// What is returned while work uses it is leased again after the work, and makes room for nothing before.
func TestPinnedFreeAfter(t *testing.T) {
	for _, values := range []bool{true, false} {
		t.Run(fmt.Sprintf("values=%t", values), func(t *testing.T) {
			b := newCopyBed(t, drivertest.Config{})
			p := newPinned(t, b, arena.PinnedConfig{Limit: 64 << 10, Debug: true})
			s := b.stream(t)
			work := waitsOf(t, b, s, values)
			l := lease(t, p, 48<<10)
			first := l.Pointer()
			release := b.hold(t, s)
			work.Changed()
			ticket, err := work.Mark()
			require.NoError(t, err)
			require.NoError(t, l.FreeAfter(ticket, wait.Ticket{}))
			require.ErrorIs(t, l.FreeAfter(ticket), driver.ErrClosed)
			require.ErrorIs(t, l.Free(), driver.ErrClosed)
			assert.Nil(t, l.Bytes())
			stats := p.Stats()
			assert.Equal(t, [4]uint64{0, 0, 48 << 10, 1}, [4]uint64{uint64(stats.Leases), stats.CachedBytes, stats.PendingBytes, stats.Returns})
			_, err = p.Lease(32 << 10)
			require.ErrorIs(t, err, driver.ErrOutOfMemory)
			assert.ErrorContains(t, err, "49152 bytes are leased, and the limit is 65536")
			p.Trim(0)
			assert.EqualValues(t, 48<<10, p.Stats().PendingBytes)

			release()
			require.NoError(t, ticket.Wait(context.Background()))
			again := lease(t, p, 48<<10)
			assert.Equal(t, first, again.Pointer())
			require.NoError(t, again.FreeAfter(ticket), "whose work is done")
			assert.Equal(t, [2]uint64{48 << 10, 0}, [2]uint64{p.Stats().CachedBytes, p.Stats().PendingBytes})
			require.ErrorIs(t, arena.Lease{}.FreeAfter(), driver.ErrInvalidArgument)
		})
	}
}

// After the work of a pool that is lost nobody gets its memory, and Close frees what work has used.
func TestPinnedFreeAfterAndTheEnd(t *testing.T) {
	for _, lost := range []bool{false, true} {
		b := newCopyBed(t, drivertest.Config{})
		if lost {
			b = newFaultyBed(t, drivertest.Config{})
		}
		p := arena.NewPinned(b.Binding, arena.PinnedConfig{})
		s := b.stream(t)
		work := waitsOf(t, b, s, true)
		l, late := lease(t, p, 1), lease(t, p, 1)
		release := b.hold(t, s)
		work.Changed()
		ticket, err := work.Mark()
		require.NoError(t, err)
		require.NoError(t, l.FreeAfter(ticket))
		if lost {
			p.Lose()
			require.NoError(t, late.FreeAfter(ticket))
			assert.EqualValues(t, 8192, p.Stats().LostBytes)
		} else {
			require.NoError(t, late.Free())
		}
		release()
		require.NoError(t, ticket.Wait(context.Background()))
		require.NoError(t, p.Close())
		assert.Zero(t, p.Stats().PendingBytes+p.Stats().CachedBytes)
	}
}

// Two copiers and a lease share a limit: who has nothing gets what the others do not use.
func TestPinnedLimitIsShared(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	p := newPinned(t, b, arena.PinnedConfig{Limit: 1 << 20})
	one, two := copierOn(t, b, p, arena.CopierConfig{}), copierOn(t, b, p, arena.CopierConfig{})
	s := b.stream(t)
	data, device := make([]byte, 4<<20), b.memory(t, 4<<20)
	for range 3 {
		for _, c := range []*arena.Copier{one, two} {
			require.NoError(t, c.Upload(context.Background(), s, device, data))
			b.synchronize(t, s) // until then the copy uses its blocks, and another one may find none
		}
		require.NoError(t, lease(t, p, 1<<20).Free())
	}
	for _, c := range []*arena.Copier{one, two} {
		assert.Equal(t, [2]uint64{3, 0}, [2]uint64{c.Stats().Staged, c.Stats().Pageable})
		require.NoError(t, c.Stats().PageableCause)
	}
	assert.LessOrEqual(t, p.Stats().PeakBytes, uint64(1<<20))
}
