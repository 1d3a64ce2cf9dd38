package arena_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	goruntime "runtime"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/allocs"
)

var background = context.Background()

// thresholdSizes are the sizes around which smallCopies takes another way.
func thresholdSizes() (sizes []int) {
	c := smallCopies
	for _, at := range []uint64{1, 4096, uint64(c.SmallUploadBytes), c.SlotBytes, 2 * c.SlotBytes, c.AloneBytes, c.ChunkBytes,
		8 * c.SlotBytes, 24 * c.SlotBytes, 3*c.ChunkBytes + 24*c.SlotBytes} {
		for _, d := range []int{-1, 0, 1} {
			if n := int(at) + d; n >= 0 {
				sizes = append(sizes, n)
			}
		}
	}
	return sizes
}

func TestCopiesOfAllSizes(t *testing.T) {
	for name, config := range map[string]drivertest.Config{
		"plain":               {},
		"HotPathNeedsContext": {HotPathNeedsContext: true},
		"slow work":           {Chaos: &drivertest.Chaos{SlowWork: 0.3}},
		"an old driver":       {Version: 11000},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCopyBed(t, config)
			c := b.copies(t, arena.PinnedConfig{Debug: true}, smallCopies)
			s := b.stream(t)
			const room = 4 << 20
			p := b.memory(t, room)
			for _, n := range thresholdSizes() {
				offset := rand.IntN(999)
				src, at := random(n + offset)[offset:], p+driver.DevicePtr(offset)
				want := string(src)
				require.NoError(t, c.Upload(background, s, at, src))
				clear(src) // it is free to reuse
				require.Equal(t, want, string(b.content(t, s, at, n)), "upload of %d bytes", n)

				dst := make([]byte, n)
				require.NoError(t, c.Download(background, s, dst, at))
				require.Equal(t, want, string(dst), "download of %d bytes", n)
			}
			stats := c.Stats()
			assert.Zero(t, stats.Pageable)
			assert.Positive(t, stats.Small)
			assert.Positive(t, stats.Direct)
			assert.Positive(t, stats.Staged)
		})
	}
}

func TestCopiesAreOrderedOnTheStream(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	c := b.copies(t, arena.PinnedConfig{}, smallCopies)
	for _, n := range []int{100, 5000, 30 << 10} { // all fit into the buffers
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := b.stream(t)
			p, q := b.memory(t, n), b.memory(t, n)
			src := random(n)
			want := string(src)
			release := b.hold(t, s)
			require.Equal(t, driver.Success, b.MemsetD8Async(p, 0xEE, uint64(n), s)) // before
			require.NoError(t, c.Upload(background, s, p, src))
			clear(src)
			require.Equal(t, driver.Success, b.MemcpyDtoDAsync(q, p, uint64(n), s)) // after
			require.Equal(t, driver.Success, b.MemsetD8Async(p, 0x77, uint64(n), s))

			dst := make([]byte, n)
			done := make(chan error, 1)
			go func() { done <- c.Download(background, s, dst, p) }()
			select {
			case <-done:
				t.Fatal("the download did not wait for the work before it")
			case <-time.After(10 * time.Millisecond):
			}
			release()
			require.NoError(t, <-done)
			require.Equal(t, strings.Repeat("\x77", n), string(dst))
			require.Equal(t, want, string(b.content(t, s, q, n)))
		})
	}
}

func TestCopiesConcurrently(t *testing.T) {
	for name, config := range map[string]drivertest.Config{
		"fast":                {},
		"slow":                {Chaos: &drivertest.Chaos{SlowWork: 0.2, SlowCalls: 0.05}},
		"HotPathNeedsContext": {HotPathNeedsContext: true},
	} {
		for _, limit := range []uint64{0, 300 << 10, 20 << 10} { // enough, one chunk, two slots
			t.Run(fmt.Sprintf("%s/limit=%d", name, limit), func(t *testing.T) {
				b := newCopyBed(t, config)
				c := b.copies(t, arena.PinnedConfig{Limit: limit}, smallCopies)
				var wg sync.WaitGroup
				for range 6 {
					s := b.stream(t)
					p := b.memory(t, 1<<20)
					wg.Go(func() {
						for range 6 {
							n := 1 + rand.IntN(1<<(8+rand.IntN(13)))
							src, dst := random(n), make([]byte, n)
							want := string(src)
							if !assert.NoError(t, c.Upload(background, s, p, src)) {
								return
							}
							clear(src)
							if !assert.NoError(t, c.Download(background, s, dst, p)) || !assert.True(t, want == string(dst), "%d bytes", n) {
								return
							}
						}
					})
				}
				wg.Wait()
				assert.LessOrEqual(t, c.pinned.Stats().PeakBytes, c.pinned.Stats().Limit)
			})
		}
	}
}

func TestCopiesWithoutPinnedMemory(t *testing.T) {
	for name, setup := range map[string]struct {
		config drivertest.Config
		pinned arena.PinnedConfig
	}{
		"limit":  {drivertest.Config{}, arena.PinnedConfig{Limit: 4 << 10}},
		"driver": {drivertest.Config{HostMemory: 4 << 10}, arena.PinnedConfig{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newCopyBed(t, setup.config)
			config := smallCopies
			config.SmallUploadBytes = -1
			c := b.copies(t, setup.pinned, config)
			s := b.stream(t)
			p := b.memory(t, 1<<20)
			for _, n := range []int{10, 10000, 1 << 20} {
				src, dst := random(n), make([]byte, n)
				want := string(src)
				require.NoError(t, c.Upload(background, s, p, src))
				clear(src)
				require.NoError(t, c.Download(background, s, dst, p))
				require.Equal(t, want, string(dst))
			}
			assert.Equal(t, 6, b.gpu.Calls("cuStreamSynchronize"), "no copy of Go memory outlives the call")
			assert.Equal(t, uint64(6), c.Stats().Pageable)
			assert.Zero(t, c.Stats().Slots+c.Stats().Chunks)
		})
	}
}

func TestCopiesOnDevicesThatReadPageTables(t *testing.T) {
	device := drivertest.H100()
	device.Attributes = map[driver.DeviceAttribute]int32{driver.DeviceAttributePageableMemoryAccessUsesHostPageTables: 1}
	b := newCopyBed(t, drivertest.Config{Devices: []drivertest.DeviceConfig{device}})
	c := b.copies(t, arena.PinnedConfig{}, arena.CopierConfig{})
	s, p := b.stream(t), b.memory(t, 10)
	require.NoError(t, c.Upload(background, s, p, make([]byte, 10)))
	assert.Zero(t, c.Stats().Small)
	assert.Equal(t, uint64(1), c.Stats().Direct)
}

func TestCopiesAreRefused(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	c := b.copies(t, arena.PinnedConfig{}, smallCopies)
	s, p := b.stream(t), b.memory(t, 1<<20)
	for _, n := range []int{10, 10000, 1 << 20} {
		data := make([]byte, n)
		for _, stream := range []driver.Stream{0, 1, 2} {
			require.ErrorIs(t, c.Upload(background, stream, p, data), driver.ErrInvalidArgument)
			require.ErrorIs(t, c.Download(background, stream, data, p), driver.ErrInvalidArgument)
		}
		require.Equal(t, driver.Success, b.API.StreamBeginCapture(s, driver.CaptureRelaxed))
		require.ErrorIs(t, c.Upload(background, s, p, data), driver.ErrCaptureFailed)
		require.ErrorIs(t, c.Download(background, s, data, p), driver.ErrCaptureFailed)
		g, r := b.API.StreamEndCapture(s)
		require.Equal(t, driver.Success, r, "the capture goes on")
		require.Equal(t, driver.Success, b.API.GraphDestroy(g))

		ended, cancel := context.WithCancelCause(background)
		cancel(errStop)
		require.ErrorIs(t, c.Upload(ended, s, p, data), errStop)
		require.ErrorIs(t, c.Download(ended, s, data, p), errStop)
	}
	require.NoError(t, c.Upload(background, s, p, nil))
	require.NoError(t, c.Download(background, 0, nil, 0))
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Upload(background, s, p, make([]byte, 1)), driver.ErrClosed)
	require.ErrorIs(t, c.Download(background, s, make([]byte, 1), p), driver.ErrClosed)
	require.ErrorIs(t, c.Copy2D(s, p, 1, p, 1, 1, 1), driver.ErrClosed)
}

func TestCopierTrim(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{HotPathNeedsContext: true})
	c := b.copies(t, arena.PinnedConfig{}, smallCopies)
	s, p := b.stream(t), b.memory(t, 1<<20)
	data := make([]byte, 1<<20)
	require.NoError(t, c.Upload(background, s, p, data))
	b.synchronize(t, s)
	release := b.hold(t, s)
	require.NoError(t, c.Upload(background, s, p, data[:8000])) // in use by the device
	assert.Positive(t, c.Stats().Chunks)
	c.Trim()
	assert.Equal(t, 1, c.Stats().Slots)
	assert.Zero(t, c.Stats().Chunks)
	assert.Equal(t, 1, c.pinned.Stats().Leases)
	release()
	require.NoError(t, c.Upload(background, s, p, data))
}

// Workers that wait a moment for more work end all the same.
func TestWorkersLinger(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(8))
	b := newCopyBed(t, drivertest.Config{})
	c := b.copies(t, arena.PinnedConfig{}, smallCopies)
	for i := range 60 {
		s, p := b.stream(t), b.memory(t, 200<<10)
		src, dst := random(200<<10), make([]byte, 200<<10)
		require.NoError(t, c.Upload(background, s, p, src))
		if i%10 == 0 {
			time.Sleep(time.Millisecond) // and some have ended
		}
		require.NoError(t, c.Download(background, s, dst, p))
		require.Equal(t, src, dst)
	}
}

func TestWorkersAreBounded(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	c := b.copies(t, arena.PinnedConfig{}, smallCopies)
	var wg sync.WaitGroup
	var releases []func()
	for range 5 {
		s, p := b.stream(t), b.memory(t, 2<<20)
		releases = append(releases, b.hold(t, s))
		wg.Go(func() { assert.NoError(t, c.Upload(background, s, p, make([]byte, 2<<20))) })
	}
	for range 20 {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:goruntime.Stack(stacks, true)]
		assert.LessOrEqual(t, strings.Count(string(stacks), "arena.(*Workers).work("), 3)
		time.Sleep(time.Millisecond)
	}
	for _, release := range releases {
		release()
	}
	wg.Wait()
	c.workers.Close()
	c.workers.Close()
	s, p := b.stream(t), b.memory(t, 2<<20)
	require.NoError(t, c.Upload(background, s, p, make([]byte, 2<<20)), "callers do without workers")
}

// quiet is a driver whose hot path does nothing, so that what a copier itself allocates can
// be counted.
type quiet struct{ driver.API }

func (quiet) MemcpyHtoDAsync(driver.DevicePtr, unsafe.Pointer, uint64, driver.Stream) driver.Result {
	return driver.Success
}

func (quiet) MemcpyDtoHAsync(unsafe.Pointer, driver.DevicePtr, uint64, driver.Stream) driver.Result {
	return driver.Success
}

func (quiet) EventRecord(driver.Event, driver.Stream) driver.Result { return driver.Success }
func (quiet) EventQuery(driver.Event) driver.Result                 { return driver.Success }
func (quiet) EventSynchronize(driver.Event) driver.Result           { return driver.Success }
func (quiet) ThreadExchangeStreamCaptureMode(mode driver.CaptureMode) (driver.CaptureMode, driver.Result) {
	return mode, driver.Success
}
func (quiet) StreamIsCapturing(driver.Stream) (driver.CaptureStatus, driver.Result) {
	return driver.CaptureNone, driver.Success
}

func TestCopiesDoNotAllocate(t *testing.T) {
	b := newCopyBed(t, drivertest.Config{})
	b.API = quiet{b.gpu}
	c := b.copies(t, arena.PinnedConfig{}, arena.CopierConfig{})
	s := b.stream(t)
	for _, n := range []int{1 << 10, 100 << 10, 1 << 20, 32 << 20} {
		data := make([]byte, n)
		most := 0.0
		if n > 256<<10 {
			most = 8
		}
		for name, f := range map[string]func() error{
			"upload":   func() error { return c.Upload(background, s, 1<<20, data) },
			"download": func() error { return c.Download(background, s, data, 1<<20) },
		} {
			failed := 0
			run := func() {
				if f() != nil {
					failed++
				}
			}
			for range 20 { // until all buffers are made
				run()
			}
			allocs.AtMost(t, most, 20, run, name, " of ", n, " bytes")
			assert.Zero(t, failed)
		}
	}
}
