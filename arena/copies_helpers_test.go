package arena_test

import (
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// copyBed is a simulated device with what a copier needs. The test gives back what it makes
// with it; the bed gives back the rest at the end.
type copyBed struct {
	*driver.Binding
	gpu    *drivertest.Driver
	device driver.Device

	mu       sync.Mutex
	cleanups []error // that the binding was told
}

// newCopyBed opens a device whose leaks and findings are errors of the test.
func newCopyBed(t testing.TB, config drivertest.Config) *copyBed {
	t.Helper()
	return copyBedOn(t, drivertest.ForTest(t, config), config, 0)
}

// newFaultyBed is newCopyBed for tests that make the driver fail or poison it.
func newFaultyBed(t testing.TB, config drivertest.Config) *copyBed {
	t.Helper()
	gpu := drivertest.New(config)
	t.Cleanup(func() { assert.NoError(t, gpu.Close()) })
	return copyBedOn(t, gpu, config, 0)
}

func copyBedOn(t testing.TB, gpu *drivertest.Driver, config drivertest.Config, ordinal int) *copyBed {
	t.Helper()
	goroutinesAreGone(t)
	require.Equal(t, driver.Success, gpu.Init(0))
	bed := &copyBed{gpu: gpu, device: driver.Device(ordinal)}
	handle, r := gpu.DevicePrimaryCtxRetain(bed.device)
	require.Equal(t, driver.Success, r)
	t.Cleanup(func() { gpu.DevicePrimaryCtxRelease(bed.device) })
	bed.Binding = &driver.Binding{API: gpu, Context: handle, Ordinal: ordinal, NeedsCurrent: config.HotPathNeedsContext,
		OnCleanup: func(err error) {
			bed.mu.Lock()
			defer bed.mu.Unlock()
			bed.cleanups = append(bed.cleanups, err)
		}}
	return bed
}

// reported are the failures that nobody waited for.
func (b *copyBed) reported() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]error(nil), b.cleanups...)
}

// goroutinesAreGone fails the test if it leaves goroutines behind.
func goroutinesAreGone(t testing.TB) {
	before := goruntime.NumGoroutine()
	t.Cleanup(func() {
		awaitStacks(t, func(stacks string) bool {
			return goruntime.NumGoroutine() <= before || !strings.Contains(stacks, "arena.(*Workers)")
		})
	})
}

// awaitStacks waits until the stacks of all goroutines are as wanted.
func awaitStacks(t testing.TB, wanted func(stacks string) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:goruntime.Stack(stacks, true)]
		if wanted(string(stacks)) {
			return
		}
		if time.Now().After(end) {
			assert.Fail(t, "goroutines are left", "%s", stacks)
			return
		}
	}
}

func (b *copyBed) stream(t testing.TB) driver.Stream {
	t.Helper()
	var s driver.Stream
	require.NoError(t, b.Do(func() error {
		var r driver.Result
		s, r = b.API.StreamCreate(driver.StreamNonBlocking)
		return b.Failed("cuStreamCreate", r)
	}))
	t.Cleanup(func() { b.Cleanup(b.hot(func() driver.Result { return b.API.StreamDestroy(s) })) })
	return s
}

func (b *copyBed) memory(t testing.TB, bytes int) driver.DevicePtr {
	t.Helper()
	var p driver.DevicePtr
	require.NoError(t, b.Do(func() error {
		var r driver.Result
		p, r = b.API.MemAlloc(uint64(bytes))
		return b.Failed("cuMemAlloc", r)
	}))
	t.Cleanup(func() {
		b.Cleanup(b.Do(func() error {
			if r := b.API.CtxSynchronize(); r != driver.Success {
				return b.Fault("cuCtxSynchronize", r)
			}
			return b.Failed("cuMemFree", b.API.MemFree(p))
		}))
	})
	return p
}

// hot makes a call that names a stream.
func (b *copyBed) hot(f func() driver.Result) error {
	if err := b.Push(); err != nil {
		return err
	}
	defer b.Pop()
	return b.Failed("a call on a stream", f())
}

func (b *copyBed) synchronize(t testing.TB, s driver.Stream) {
	t.Helper()
	require.NoError(t, b.hot(func() driver.Result { return b.API.StreamSynchronize(s) }))
}

// content reads device memory after the work on a stream, without a Copier.
func (b *copyBed) content(t testing.TB, s driver.Stream, p driver.DevicePtr, n int) []byte {
	t.Helper()
	b.synchronize(t, s)
	data := make([]byte, n)
	if n > 0 {
		require.NoError(t, b.Do(func() error { return b.Failed("cuMemcpyDtoH", b.API.MemcpyDtoH(pointerTo(data), p, uint64(n))) }))
	}
	return data
}

// fill sets device memory, and waits for it.
func (b *copyBed) fill(t testing.TB, s driver.Stream, p driver.DevicePtr, data []byte) {
	t.Helper()
	b.synchronize(t, s)
	require.NoError(t, b.Do(func() error {
		return b.Failed("cuMemcpyHtoD", b.API.MemcpyHtoD(p, pointerTo(data), uint64(len(data))))
	}))
}

// hold stops a stream until the returned function is called.
func (b *copyBed) hold(t testing.TB, s driver.Stream) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	require.NoError(t, b.hot(func() driver.Result { return b.API.LaunchHostFunc(s, func() { <-gate }) }))
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	return release
}

// copies is a Copier with its own workers and pool, which are closed and checked at the end.
type copies struct {
	*arena.Copier
	workers *arena.Workers
	pinned  *arena.Pinned
}

// smallCopies makes buffers so small that little data goes through all paths.
var smallCopies = arena.CopierConfig{ChunkBytes: 64 << 10, Chunks: 6, SlotBytes: 8 << 10, Slots: 4, PieceBytes: 8 << 10, AloneBytes: 40 << 10, SmallUploadBytes: 1 << 10}

func (b *copyBed) copies(t testing.TB, pinned arena.PinnedConfig, config arena.CopierConfig) *copies {
	t.Helper()
	w := arena.NewWorkers(3)
	p := arena.NewPinned(b.Binding, pinned)
	c := &copies{arena.NewCopierWith(b.Binding, w, p, config), w, p}
	t.Cleanup(func() {
		assert.NoError(t, c.close())
		assert.Zero(t, p.Stats().Findings)
	})
	return c
}

// close closes everything and checks that the books are balanced.
func (c *copies) close() error {
	if err := c.Close(); err != nil {
		return err
	}
	c.workers.Close()
	if err := c.pinned.Close(); err != nil {
		return err
	}
	if s := c.pinned.Stats(); s.Leases != 0 || s.LeasedBytes != 0 || s.AskedBytes != 0 || s.CachedBytes != 0 || s.PendingBytes != 0 || s.LostBytes != 0 {
		return fmt.Errorf("pinned memory is left: %+v", s)
	}
	return nil
}

// random is data that no other call returns.
func random(n int) []byte {
	data := make([]byte, n)
	seed := rand.Uint64()
	for i := range data {
		if i%8 == 0 {
			seed = seed*6364136223846793005 + 1442695040888963407
		}
		data[i] = byte(seed >> (33 + i%8))
	}
	return data
}
