package arena_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

var errStop = errors.New("stop")

// trigger runs something at the nth call of the driver from when it is armed.
type trigger struct {
	left  atomic.Int64
	armed atomic.Bool
	ops   map[string]bool // those that count; nil: all
	fire  func() driver.Result
}

func (g *trigger) onCall(op string) driver.Result {
	if !g.armed.Load() || g.ops != nil && !g.ops[op] || g.left.Add(-1) != 0 {
		return driver.Success
	}
	return g.fire()
}

func (g *trigger) arm(n int) {
	g.left.Store(int64(n))
	g.armed.Store(true)
}

// disarm reports whether it has fired.
func (g *trigger) disarm() bool {
	g.armed.Store(false)
	return g.left.Load() <= 0
}

// Every call of the driver within a copy fails once. The copy reports it, or has succeeded in
// another way; nothing is lost, and the next copy works.
func TestCopiesSurviveEveryFailure(t *testing.T) {
	for _, n := range []int{100, 7000, 30 << 10, 250 << 10} {
		for _, up := range []bool{true, false} {
			t.Run(fmt.Sprintf("bytes=%d/up=%t", n, up), func(t *testing.T) {
				for nth, fired := 1, true; fired; nth++ {
					fired = failNth(t, n, up, nth)
				}
			})
		}
	}
}

func failNth(t *testing.T, n int, up bool, nth int) (fired bool) {
	ok := t.Run(fmt.Sprint(nth), func(t *testing.T) {
		trap := &trigger{fire: func() driver.Result { return driver.ResultUnknown }}
		config := drivertest.Config{OnCall: trap.onCall, HotPathNeedsContext: nth%2 == 0}
		if nth%3 == 0 {
			config.Chaos = &drivertest.Chaos{SlowWork: 0.5, MaxDelay: 50 * time.Microsecond}
		}
		b := newCopyBed(t, config)
		c := b.copies(t, arena.PinnedConfig{Debug: nth%5 == 0}, smallCopies)
		s, p := b.stream(t), b.memory(t, n)
		src, dst := random(n), make([]byte, n)
		if !up {
			b.fill(t, s, p, src)
		}
		trap.arm(nth)
		var err error
		if up {
			err = c.Upload(background, s, p, src)
		} else {
			err = c.Download(background, s, dst, p)
		}
		fired = trap.disarm()
		stats := c.Stats()
		done := stats.Small + stats.Direct + stats.Staged + stats.Pageable
		if err != nil {
			require.True(t, fired)
			require.ErrorIs(t, err, driver.ResultUnknown)
			require.Zero(t, done, "a copy that failed is not counted")
		} else {
			require.Equal(t, uint64(1), done)
			if up {
				dst = b.content(t, s, p, n)
			}
			require.Equal(t, src, dst)
		}
		src = random(n)
		require.NoError(t, c.Upload(background, s, p, src))
		require.NoError(t, c.Download(background, s, dst, p))
		require.Equal(t, src, dst)
	})
	return fired && ok
}

// Both the event and the wait for the stream fail: nobody can tell when the device is done.
// The buffer is out of use until Close has waited for everything.
func TestCopiesKeepDoubtfulBuffers(t *testing.T) {
	for _, n := range []int{7000, 1 << 20} {
		b := newCopyBed(t, drivertest.Config{})
		c := b.copies(t, arena.PinnedConfig{}, smallCopies)
		s, p := b.stream(t), b.memory(t, n)
		b.gpu.Fail("cuEventRecord", 1, driver.ResultUnknown)
		b.gpu.Fail("cuStreamSynchronize", 1, driver.ResultUnknown)
		require.ErrorIs(t, c.Upload(background, s, p, random(n)), driver.ResultUnknown)
		require.Equal(t, 1, c.Stats().Doubtful)
		src := random(n)
		require.NoError(t, c.Upload(background, s, p, src))
		require.Equal(t, src, b.content(t, s, p, n))
		require.NoError(t, c.Close())
		assert.Zero(t, c.Stats().Doubtful)
		assert.Zero(t, c.pinned.Stats().Leases)
	}
}

// An event that fails for ever is asked once: the copy that waits for it fails, and no later one.
func TestCopiesRetireABuffer(t *testing.T) {
	for _, n := range []int{7000, 1 << 20} {
		var broken atomic.Bool
		var asked atomic.Int64
		b := newCopyBed(t, drivertest.Config{OnCall: func(called string) driver.Result {
			if called != "cuEventQuery" || !broken.Load() {
				return driver.Success
			}
			asked.Add(1)
			return driver.ResultInvalidValue
		}})
		c := b.copies(t, arena.PinnedConfig{}, smallCopies)
		s, p := b.stream(t), b.memory(t, n)
		src, dst := random(n), make([]byte, n)
		require.NoError(t, c.Upload(background, s, p, src))
		b.synchronize(t, s)
		broken.Store(true)
		require.ErrorIs(t, c.Download(background, s, dst, p), driver.ResultInvalidValue, "%d", n)
		broken.Store(false)
		require.Positive(t, asked.Load())
		require.EqualValues(t, asked.Load(), c.Stats().Doubtful, "each is kept and counted")
		require.NoError(t, c.Download(background, s, dst, p))
		require.Equal(t, src, dst)
		require.NoError(t, c.Close())
		assert.Zero(t, c.pinned.Stats().Leases)
	}
}

func TestCopiesAfterAStickyError(t *testing.T) {
	for _, n := range []int{100, 7000, 1 << 20} {
		for _, op := range []string{"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuEventRecord", "cuEventQuery", "cuStreamIsCapturing"} {
			for _, abandon := range []bool{true, false} {
				t.Run(fmt.Sprintf("bytes=%d/%s/abandon=%t", n, op, abandon), func(t *testing.T) {
					b := newFaultyBed(t, drivertest.Config{})
					w := arena.NewWorkers(3)
					p := arena.NewPinned(b.Binding, arena.PinnedConfig{})
					c := arena.NewCopierWith(b.Binding, w, p, smallCopies)
					s, memory := b.stream(t), b.memory(t, n)
					require.NoError(t, c.Upload(background, s, memory, make([]byte, n)))
					b.gpu.Fail(op, 2, driver.ResultIllegalAddress)
					var err error
					for i := 0; i < 100 && err == nil; i++ {
						if err = c.Upload(background, s, memory, make([]byte, n)); err == nil {
							err = c.Download(background, s, make([]byte, n), memory)
						}
						if n == 100 && i == 5 && err == nil {
							t.Skip("copies of this size do not make that call")
						}
					}
					require.ErrorIs(t, err, driver.ErrDeviceLost)
					require.ErrorIs(t, c.Upload(background, s, memory, make([]byte, n)), driver.ErrDeviceLost)
					if abandon {
						c.Lose()
						p.Lose()
						awaitStacks(t, func(stacks string) bool { // a question about a stream may be under way
							return !strings.Contains(stacks, "internal/wait.(*Device)")
						})
						b.gpu.ResetCalls()
						require.ErrorIs(t, c.Upload(background, s, memory, make([]byte, n)), driver.ErrDeviceLost)
						require.NoError(t, c.Close())
						require.NoError(t, p.Close())
						for _, e := range driver.Entries() {
							require.Zero(t, b.gpu.Calls(e.Name), e.Name)
						}
					} else {
						if err := c.Close(); err != nil {
							require.ErrorIs(t, err, driver.ErrDeviceLost)
						}
						require.NoError(t, p.Close())
					}
					w.Close()
					stats := p.Stats()
					assert.Zero(t, stats.Leases)
					assert.Zero(t, stats.CachedBytes)
				})
			}
		}
	}
}

// A copy is stopped at a piece. It returns the cause, and what is under way does no harm.
func TestCopiesAreStoppedBetweenPieces(t *testing.T) {
	for _, up := range []bool{true, false} {
		for nth := 1; nth <= 25; nth += 3 {
			t.Run(fmt.Sprintf("up=%t/%d", up, nth), func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(background)
				trap := &trigger{fire: func() driver.Result { cancel(errStop); return driver.Success },
					ops: map[string]bool{"cuMemcpyHtoDAsync": true, "cuMemcpyDtoHAsync": true}}
				b := newCopyBed(t, drivertest.Config{OnCall: trap.onCall, Chaos: &drivertest.Chaos{SlowWork: 0.5}})
				c := b.copies(t, arena.PinnedConfig{}, smallCopies)
				s := b.stream(t)
				const n = 1 << 20
				p := b.memory(t, n)
				src, dst := random(n), make([]byte, n)
				trap.arm(nth)
				var err error
				if up {
					err = c.Upload(ctx, s, p, src)
				} else {
					b.fill(t, s, p, src)
					err = c.Download(ctx, s, dst, p)
				}
				fired := trap.disarm()
				switch {
				case err != nil:
					require.ErrorIs(t, err, errStop)
					require.True(t, fired)
				case up:
					require.Equal(t, src, b.content(t, s, p, n), "stopped too late, and complete")
				default:
					require.Equal(t, src, dst, "stopped too late, and complete")
				}
				kept := string(dst)
				src = random(n)
				again := make([]byte, n)
				require.NoError(t, c.Upload(background, s, p, src))
				require.NoError(t, c.Download(background, s, again, p))
				require.Equal(t, src, again)
				require.Equal(t, kept, string(dst), "nobody writes to the memory of a call that has returned")
			})
		}
	}
}

// A stopped copy does not wait for work that is before it on the stream.
func TestCopiesAreStoppedWhileTheyWait(t *testing.T) {
	for _, n := range []int{1 << 20, 4 << 20} {
		for _, up := range []bool{true, false} {
			t.Run(fmt.Sprintf("bytes=%d/up=%t", n, up), func(t *testing.T) {
				b := newCopyBed(t, drivertest.Config{})
				c := b.copies(t, arena.PinnedConfig{}, smallCopies)
				s, p := b.stream(t), b.memory(t, n)
				release := b.hold(t, s)
				ctx, cancel := context.WithTimeoutCause(background, 5*time.Millisecond, errStop)
				defer cancel()
				data := random(n)
				var err error
				if up {
					err = c.Upload(ctx, s, p, data)
				} else {
					err = c.Download(ctx, s, data, p)
				}
				require.ErrorIs(t, err, errStop)
				kept := string(data)
				release()
				b.synchronize(t, s)
				require.Equal(t, kept, string(data))
			})
		}
	}
}

// A seed makes calls fail by chance, in many copies one after the other.
func TestCopiesInChaos(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chaos := drivertest.New(drivertest.Config{Chaos: &drivertest.Chaos{Seed: seed, Failures: 0.02, SlowWork: 0.1,
				Results: map[string][]driver.Result{"cuInit": {}, "cuDevicePrimaryCtxRetain": {}, "cuMemAlloc": {}, "cuStreamCreate": {},
					"cuCtxPushCurrent": {}, "cuCtxPopCurrent": {}, "cuCtxSynchronize": {}, "cuMemFree": {}, "cuMemFreeHost": {}, "cuEventDestroy": {}, "cuMemcpyDtoH": {}}}})
			t.Cleanup(func() { assert.NoError(t, chaos.Close()) })
			bed := copyBedOn(t, chaos, drivertest.Config{}, 0)
			w := arena.NewWorkers(3)
			p := arena.NewPinned(bed.Binding, arena.PinnedConfig{Limit: 2 << 20})
			c := arena.NewCopierWith(bed.Binding, w, p, smallCopies)
			var s driver.Stream
			var memory driver.DevicePtr
			for s == 0 || memory == 0 {
				_ = bed.Do(func() error {
					if s == 0 {
						s, _ = chaos.StreamCreate(driver.StreamNonBlocking)
					}
					if memory == 0 {
						memory, _ = chaos.MemAlloc(1 << 20)
					}
					return nil
				})
			}
			for i := range 40 {
				n := 1 << (6 + i%15)
				src, dst := random(n), make([]byte, n)
				if c.Upload(background, s, memory, src) == nil && c.Download(background, s, dst, memory) == nil {
					require.Equal(t, src, dst)
				}
			}
			closed := c.Close()
			w.Close()
			require.NoError(t, p.Close())
			stats := p.Stats()
			assert.Zero(t, stats.Leases)
			assert.Zero(t, stats.CachedBytes)
			if closed == nil {
				assert.Zero(t, stats.LostBytes)
			}
			assert.Empty(t, chaos.Findings())
			assert.Zero(t, chaos.Sticky())
		})
	}
}
