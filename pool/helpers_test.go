package pool_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// TestMain fails when the tests leave goroutines behind.
func TestMain(m *testing.M) { leaks.Main(m, 0) }

// machine is a simulated one with n devices.
func machine(n int) drivertest.Config {
	return drivertest.Config{Devices: drivertest.Devices(n, drivertest.T4())}
}

// open opens a pool on a simulated driver, and closes it at the end of the test.
func open(t testing.TB, config drivertest.Config, options ...pool.Options) (*pool.Pool, *drivertest.Driver) {
	t.Helper()
	gpu := drivertest.ForTest(t, config)
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	return openOn(t, rt, options...), gpu
}

func openOn(t testing.TB, rt *runtime.Runtime, options ...pool.Options) *pool.Pool {
	t.Helper()
	p, err := pool.Open(rt, options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// without opens a pool on a machine that has no CUDA.
func without(t testing.TB, options ...pool.Options) *pool.Pool {
	t.Helper()
	p, _ := open(t, drivertest.Config{InitResult: driver.ResultNoDevice}, options...)
	return p
}

// done counts how often each item was done.
type done struct {
	mu    sync.Mutex
	times []int
	by    map[int]int // items by the index of their device
	calls []pool.Tile
}

func newDone(n int) *done { return &done{times: make([]int, n), by: map[int]int{}} }

func (d *done) note(t pool.Tile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := t.Lo; i < t.Hi; i++ {
		d.times[i]++
	}
	d.by[t.Index] += t.Len()
	d.calls = append(d.calls, t)
}

func (d *done) do(_ *pool.Worker, t pool.Tile) error {
	d.note(t)
	return nil
}

// once checks that every item was done once.
func (d *done) once(t testing.TB) {
	t.Helper()
	for i, times := range d.times {
		require.Equal(t, 1, times, "item %d", i)
	}
}

// tilesOf are the ranges of a report.
func tilesOf(r pool.Report) (tiles []pool.Tile) {
	for _, t := range r.Tiles {
		tiles = append(tiles, t.Tile)
	}
	return tiles
}

// checkCovers checks that tiles are [0, n) in order.
func checkCovers(t testing.TB, n int, tiles []pool.TileReport) {
	t.Helper()
	require.NoError(t, covers(n, tiles))
}

func covers(n int, tiles []pool.TileReport) error {
	at := 0
	for _, tile := range tiles {
		if tile.Lo != at || tile.Hi <= tile.Lo {
			return fmt.Errorf("tile [%d, %d) does not begin at %d", tile.Lo, tile.Hi, at)
		}
		at = tile.Hi
	}
	if at != n {
		return fmt.Errorf("tiles end at %d and not at %d", at, n)
	}
	return nil
}

// triple computes 3x+1, after the data has gone through the memory of the device. It
// goes to the driver directly, except for the wait, which tells the runtime when CUDA is
// lost. Work that is left on the device uses none of the caller's memory.
func triple(w *pool.Worker, in, out []uint32) error {
	api, s := w.Context().Runtime().Driver(), w.Stream().Handle()
	failed := func(op string, r driver.Result) error {
		err := driver.Failed(op, r)
		err.Device = w.Device().Ordinal
		_, _ = w.Stream().Query()
		return err
	}
	bytes := uint64(len(in)) * 4
	memory, r := api.MemAllocAsync(bytes, s)
	if r != driver.Success {
		return failed("cuMemAllocAsync", r)
	}
	defer api.MemFreeAsync(memory, s)
	w.Phase(pool.Upload)
	up, down := slices.Clone(in), make([]uint32, len(in))
	if r := api.MemcpyHtoDAsync(memory, unsafe.Pointer(&up[0]), bytes, s); r != driver.Success {
		return failed("cuMemcpyHtoDAsync", r)
	}
	w.Phase(pool.Download)
	if r := api.MemcpyDtoHAsync(unsafe.Pointer(&down[0]), memory, bytes, s); r != driver.Success {
		return failed("cuMemcpyDtoHAsync", r)
	}
	if err := w.Stream().Synchronize(w.CallContext()); err != nil {
		return err
	}
	w.Phase(pool.Compute)
	for i, x := range down {
		out[i] = 3*x + 1
	}
	return nil
}

// count returns 0, 1, 2, ...
func count(n int) []uint32 {
	data := make([]uint32, n)
	for i := range data {
		data[i] = uint32(i)
	}
	return data
}

// tripled is what triple makes of count.
func tripled(n int) []uint32 {
	data := count(n)
	for i, x := range data {
		data[i] = 3*x + 1
	}
	return data
}
