package pool_test

import (
	"context"
	"errors"
	"io"
	"math"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

var errData = errors.New("bad data")

// whole is the chunk that makes each device do its own tile in one piece.
const whole = math.MaxInt

func TestEachDeviceDoesItsTile(t *testing.T) {
	for devices := 1; devices <= 5; devices++ {
		p, _ := open(t, machine(devices))
		work := newDone(1000)
		report, err := p.Scatter(t.Context(), 1000, func(w *pool.Worker, tile pool.Tile) error {
			assert.Equal(t, w.Index(), tile.Index)
			assert.Equal(t, p.Devices()[tile.Index].Ordinal, w.Device().Ordinal)
			assert.Equal(t, w.Device().Ordinal, w.Context().Device().Ordinal)
			assert.Same(t, w.Context(), w.Stream().Context())
			return work.do(w, tile)
		}, pool.ScatterOptions{Chunk: whole})
		require.NoError(t, err)
		work.once(t)
		assert.Equal(t, pool.Partition(make([]float64, devices), 1000), tilesOf(report))
		assert.Equal(t, pool.OnGPU, report.Where)
		assert.NoError(t, report.Err)
		for _, tile := range report.Tiles {
			assert.True(t, tile.Done)
			assert.NoError(t, tile.Cause)
			assert.Equal(t, p.Devices()[tile.Index].Ordinal, tile.Device)
		}
	}
}

func TestPiecesOfATileAreReportedAsOne(t *testing.T) {
	p, _ := open(t, machine(1))
	work := newDone(1000)
	report, err := p.Scatter(t.Context(), 1000, work.do, pool.ScatterOptions{Chunk: 64, ItemBytes: 4})
	require.NoError(t, err)
	work.once(t)
	assert.Len(t, work.calls, 16)
	require.Len(t, report.Tiles, 1)
	assert.Equal(t, uint64(4000), report.Tiles[0].Bytes)
}

func TestPiecesFitTheMemoryBudget(t *testing.T) {
	gpu := drivertest.ForTest(t, machine(2))
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu),
		runtime.WithBudget(func(d runtime.Device) uint64 { return []uint64{1000, 2500}[d.Ordinal] }))
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	p := openOn(t, rt)
	defer p.Close()
	work := newDone(1000)
	_, err = p.Scatter(t.Context(), 1000, work.do, pool.ScatterOptions{ItemBytes: 100})
	require.NoError(t, err)
	work.once(t)
	for _, tile := range work.calls {
		assert.LessOrEqual(t, tile.Len(), []int{10, 25}[tile.Index])
	}

	_, err = p.Scatter(t.Context(), 1000, work.do, pool.ScatterOptions{ItemBytes: 3000})
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	var known *driver.Error
	require.ErrorAs(t, err, &known)
	assert.Equal(t, uint64(3000), known.Bytes)
}

func TestNothingToDo(t *testing.T) {
	p, gpu := open(t, machine(2))
	before := gpu.Calls("cuDevicePrimaryCtxRetain")
	report, err := p.Scatter(t.Context(), 0, func(*pool.Worker, pool.Tile) error { return errData })
	require.NoError(t, err)
	assert.Empty(t, report.Tiles)
	assert.Empty(t, report.Where)
	assert.Equal(t, before, gpu.Calls("cuDevicePrimaryCtxRetain"))
}

// As many devices take part as have enough to do, and the report says why not more.
func TestFewItems(t *testing.T) {
	p, gpu := open(t, machine(4))
	for _, c := range []struct {
		n       int
		options pool.ScatterOptions
		devices int
	}{
		{1, pool.ScatterOptions{}, 1},
		{127, pool.ScatterOptions{}, 1},
		{255, pool.ScatterOptions{}, 3},
		{256, pool.ScatterOptions{}, 4},
		{99, pool.ScatterOptions{MinPerDevice: 1}, 4},
		{3, pool.ScatterOptions{MinPerDevice: 1}, 3},
		{3, pool.ScatterOptions{MinPerDevice: 1}, 3},
		{47, pool.ScatterOptions{Cost: 5 * time.Millisecond}, 4},
		{2, pool.ScatterOptions{Cost: 5 * time.Millisecond}, 2},
		{47, pool.ScatterOptions{Cost: 5 * time.Microsecond}, 2},
		{10_000, pool.ScatterOptions{Cost: time.Nanosecond}, 1},
		{47, pool.ScatterOptions{ItemBytes: 1 << 20}, 4},
		{47, pool.ScatterOptions{ItemBytes: 1 << 16}, 2},
		{47, pool.ScatterOptions{ItemBytes: 1}, 1},
		{47, pool.ScatterOptions{ItemBytes: 1, MinPerDevice: 20}, 2},
	} {
		work := newDone(c.n)
		c.options.Chunk = whole
		report, err := p.Scatter(t.Context(), c.n, work.do, c.options)
		require.NoError(t, err)
		work.once(t)
		assert.Len(t, work.by, c.devices, "%d items", c.n)
		want := pool.Reason("")
		if c.devices < 4 {
			want = pool.TooSmall
		}
		assert.Equal(t, want, report.Reason, "%d items", c.n)
		if c.n == 127 {
			assert.Len(t, work.calls, 1)
			assert.Equal(t, 1, gpu.Calls("cuDevicePrimaryCtxRetain"), "the others stay closed")
		}
	}
	assert.EqualValues(t, 11, p.Stats().Reasons[pool.TooSmall])
}

func TestAFailingTileFailsTheCall(t *testing.T) {
	for _, c := range []struct {
		name  string
		fail  func() error
		check func(t *testing.T, err error)
	}{
		{"error", func() error { return errData }, func(t *testing.T, err error) {
			assert.ErrorIs(t, err, errData)
		}},
		{"panic", func() error { panic("so bad") }, func(t *testing.T, err error) {
			var p *pool.PanicError
			require.ErrorAs(t, err, &p)
			assert.Equal(t, "so bad", p.Value)
			assert.Contains(t, string(p.Stack), "scatter_test.go")
			assert.ErrorContains(t, err, "panic: so bad")
		}},
		{"panic with an error", func() error { panic(errData) }, func(t *testing.T, err error) {
			assert.ErrorIs(t, err, errData)
		}},
		{"panic of the language", func() error { var none []int; return []error{nil}[len(none)+1] }, func(t *testing.T, err error) {
			var e goruntime.Error
			assert.ErrorAs(t, err, &e)
		}},
		{"exit of the goroutine", func() error { goruntime.Goexit(); return nil }, func(t *testing.T, err error) {
			assert.ErrorContains(t, err, "Goexit")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := open(t, machine(3))
			report, err := p.Scatter(t.Context(), 300, func(w *pool.Worker, tile pool.Tile) error {
				if tile.Index == 1 {
					return c.fail()
				}
				<-w.CallContext().Done()
				return context.Cause(w.CallContext())
			}, pool.ScatterOptions{Chunk: whole})
			c.check(t, err)
			var failed *pool.Error
			require.ErrorAs(t, err, &failed)
			assert.NoError(t, failed.Devices)
			checkCovers(t, 300, failed.Tiles)
			checkCovers(t, 300, report.Tiles)
			for i, tile := range failed.Tiles {
				assert.Equal(t, i, tile.Index)
				if i != 1 {
					assert.ErrorIs(t, tile.Cause, pool.ErrStopped, "the others are told to end")
				}
			}
			for _, name := range []string{"device 0, items [0, 100): ", "device 1, items [100, 200): ", "device 2, items [200, 300): "} {
				assert.ErrorContains(t, err, name)
			}
			// The pool goes on.
			work := newDone(300)
			_, err = p.Scatter(t.Context(), 300, work.do)
			require.NoError(t, err)
			work.once(t)
		})
	}
}

// The rest of a tile that was not run is named as well.
func TestTilesThatWereNotRun(t *testing.T) {
	p, _ := open(t, machine(1))
	report, err := p.Scatter(t.Context(), 100, func(_ *pool.Worker, tile pool.Tile) error {
		if tile.Lo == 20 {
			return errData
		}
		return nil
	}, pool.ScatterOptions{Chunk: 10})
	var failed *pool.Error
	require.ErrorAs(t, err, &failed)
	assert.EqualError(t, err, "pool: not done: device 0, items [20, 30): bad data; "+
		"device 0, items [30, 100): stopped because another tile failed")
	checkCovers(t, 100, report.Tiles)
	assert.True(t, report.Tiles[0].Done)
}

func TestRetryOnAnotherDevice(t *testing.T) {
	p, _ := open(t, machine(3))
	var lost atomic.Int64
	work := newDone(900)
	report, err := p.Scatter(t.Context(), 900, func(w *pool.Worker, tile pool.Tile) error {
		if w.Index() == 1 {
			lost.Add(1)
			return errData
		}
		return work.do(w, tile)
	}, pool.ScatterOptions{Retry: 1})
	require.NoError(t, err)
	work.once(t)
	assert.EqualValues(t, 1, lost.Load(), "a device that has failed gets nothing more")
	checkCovers(t, 900, report.Tiles)
	retries := 0
	for _, tile := range report.Tiles {
		retries += tile.Retries
		if tile.Retries > 0 {
			assert.ErrorIs(t, tile.Cause, errData)
			assert.NotEqual(t, 1, tile.Index)
			assert.True(t, tile.Done)
		}
	}
	assert.Equal(t, 1, retries)
}

func TestRetriesEnd(t *testing.T) {
	for _, c := range []struct{ devices, retries, tries int }{{4, 0, 1}, {4, 2, 3}, {4, 9, 4}, {1, 5, 1}} {
		p, _ := open(t, machine(c.devices))
		var tries atomic.Int64
		_, err := p.Scatter(t.Context(), 10, func(*pool.Worker, pool.Tile) error {
			tries.Add(1)
			return errData
		}, pool.ScatterOptions{Retry: c.retries})
		require.ErrorIs(t, err, errData)
		assert.EqualValues(t, c.tries, tries.Load())
		var failed *pool.Error
		require.ErrorAs(t, err, &failed)
		require.Len(t, failed.Tiles, 1)
		assert.Equal(t, c.tries-1, failed.Tiles[0].Retries)
	}
}

func TestContextThatCannotBeOpened(t *testing.T) {
	for _, op := range []string{"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuStreamCreateWithPriority"} {
		t.Run(op, func(t *testing.T) {
			for _, retries := range []int{0, 1} {
				p, gpu := open(t, machine(2))
				gpu.Fail(op, 1, driver.ResultDeviceUnavailable)
				work := newDone(200)
				report, err := p.Scatter(t.Context(), 200, work.do, pool.ScatterOptions{Retry: retries})
				require.NoError(t, err)
				work.once(t)
				checkCovers(t, 200, report.Tiles)
				require.Len(t, report.Skipped, 1)
				assert.ErrorIs(t, report.Skipped[0].Err, driver.ResultDeviceUnavailable)
				assert.ErrorContains(t, report.Skipped[0].Err, "preparing device")
				assert.Equal(t, pool.Failed, report.Reason)
				// The next call tries again.
				work = newDone(200)
				_, err = p.Scatter(t.Context(), 200, work.do)
				require.NoError(t, err)
				work.once(t)
			}
		})
	}
}

func TestFallback(t *testing.T) {
	failing := func(*pool.Worker, pool.Tile) error { return errData }
	for _, c := range []struct {
		name    string
		pool    func(t *testing.T) *pool.Pool
		f       func(*pool.Worker, pool.Tile) error
		options pool.ScatterOptions
		why     error
		reason  pool.Reason
	}{
		{"absent", func(t *testing.T) *pool.Pool { return without(t) }, failing, pool.ScatterOptions{}, driver.ErrDriverLibraryUnavailable, pool.Absent},
		{"failing tile", func(t *testing.T) *pool.Pool { p, _ := open(t, machine(2)); return p }, failing, pool.ScatterOptions{}, errData, pool.Failed},
		{"no memory", func(t *testing.T) *pool.Pool { p, _ := open(t, machine(2)); return p }, failing,
			pool.ScatterOptions{ItemBytes: 1 << 50}, driver.ErrOutOfMemory, pool.Failed},
		{"lost", func(t *testing.T) *pool.Pool {
			p, gpu := open(t, machine(2))
			gpu.Fail("cuStreamWriteValue64", 1, driver.ResultIllegalAddress)
			return p
		}, func(w *pool.Worker, _ pool.Tile) error { return w.Stream().Synchronize(w.CallContext()) }, pool.ScatterOptions{}, driver.ErrDeviceLost, pool.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.pool(t)
			work := newDone(1000)
			options := c.options
			options.Fallback = func(ctx context.Context, lo, hi int) error {
				work.note(pool.Tile{Lo: lo, Hi: hi})
				return ctx.Err()
			}
			report, err := p.Scatter(t.Context(), 1000, c.f, options)
			require.NoError(t, err)
			work.once(t)
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.ErrorIs(t, report.Err, c.why)
			assert.Equal(t, c.reason, report.Reason)
			checkCovers(t, 1000, report.Tiles)
			for _, tile := range report.Tiles {
				assert.Equal(t, driver.NoDevice, tile.Device)
			}

			_, err = p.Scatter(t.Context(), 1000, c.f, c.options)
			require.ErrorIs(t, err, c.why, "without a fallback it is the error")

			options.Fallback = func(context.Context, int, int) error { return io.ErrUnexpectedEOF }
			_, err = p.Scatter(t.Context(), 1000, c.f, options)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the fallback fails as well")
			require.ErrorIs(t, err, c.why)
			var failed *pool.Error
			require.ErrorAs(t, err, &failed)
			assert.ErrorIs(t, failed.Devices, c.why)
		})
	}
}

// After CUDA is lost the next call makes no call of the driver.
func TestLostStaysLost(t *testing.T) {
	p, gpu := open(t, machine(2))
	gpu.Fail("cuStreamWriteValue64", 2, driver.ResultLaunchFailed)
	sync := func(w *pool.Worker, _ pool.Tile) error { return w.Stream().Synchronize(context.Background()) }
	_, err := p.Scatter(t.Context(), 1000, sync, pool.ScatterOptions{Retry: 5})
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	calls := gpu.Calls("cuStreamWriteValue64")
	_, err = p.Scatter(t.Context(), 1000, sync, pool.ScatterOptions{Retry: 5})
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	require.ErrorIs(t, err, driver.ResultLaunchFailed, "the first cause")
	assert.Equal(t, calls, gpu.Calls("cuStreamWriteValue64"))
}

func TestWeights(t *testing.T) {
	config := machine(2)
	config.Devices = append(config.Devices, drivertest.H100())
	p, _ := open(t, config)
	n := 10000
	scores := make([]float64, 3)
	for i, d := range p.Devices() {
		scores[i] = d.Score
	}
	assert.Equal(t, 2, p.Devices()[0].Ordinal, "the best first")
	report, err := p.Scatter(t.Context(), n, newDone(n).do, pool.ScatterOptions{Chunk: whole})
	require.NoError(t, err)
	assert.Equal(t, pool.Partition(scores, n), tilesOf(report))
}

func TestDevicesOfACall(t *testing.T) {
	p, _ := open(t, machine(4), pool.Options{Devices: []int{3, 1, 0}})
	require.Len(t, p.Devices(), 3)
	work := newDone(400)
	report, err := p.Scatter(t.Context(), 400, work.do, pool.ScatterOptions{Devices: []int{3, 1}, Chunk: whole})
	require.NoError(t, err)
	work.once(t)
	assert.Equal(t, []pool.Tile{{1, 0, 200}, {2, 200, 400}}, tilesOf(report))
	assert.Equal(t, 3, report.Tiles[1].Device)
	_, err = p.Scatter(t.Context(), 400, work.do, pool.ScatterOptions{Devices: []int{2}})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
}

func TestWrongArguments(t *testing.T) {
	p, _ := open(t, machine(2))
	var none context.Context
	f := func(*pool.Worker, pool.Tile) error { return nil }
	cpu := func(context.Context, int, int) error { return nil }
	scatter := func(n int, options pool.ScatterOptions) func() error {
		options.Fallback = cpu
		return func() error {
			_, err := p.Scatter(t.Context(), n, f, options)
			return err
		}
	}
	for name, call := range map[string]func() error{
		"no runtime":     func() error { _, err := pool.Open(nil); return err },
		"no pool":        func() error { _, err := (*pool.Pool)(nil).Scatter(t.Context(), 1, f); return err },
		"no function":    func() error { _, err := p.Scatter(t.Context(), 1, nil); return err },
		"no context":     func() error { _, err := p.Scatter(none, 1, f); return err },
		"negative items": scatter(-1, pool.ScatterOptions{}),
		"negative chunk": scatter(1, pool.ScatterOptions{Chunk: -1}),
		"negative bytes": scatter(1, pool.ScatterOptions{ItemBytes: -1}),
		"negative retry": scatter(1, pool.ScatterOptions{Retry: -1}),
		"two of a call": func() error {
			_, err := p.Scatter(t.Context(), 1, f, pool.ScatterOptions{}, pool.ScatterOptions{})
			return err
		},
		"two of Open":    func() error { _, err := pool.Open(nil, pool.Options{}, pool.Options{}); return err },
		"no such device": scatter(1, pool.ScatterOptions{Devices: []int{7}}),
	} {
		assert.ErrorIs(t, call(), driver.ErrInvalidArgument, name)
	}
	gpu := drivertest.ForTest(t, machine(1))
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	_, err = pool.Open(rt, pool.Options{Devices: []int{1}})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
}

func TestCallWithinACall(t *testing.T) {
	p, _ := open(t, machine(1))
	_, err := p.Scatter(t.Context(), 1, func(w *pool.Worker, _ pool.Tile) error {
		_, err := p.Scatter(w.CallContext(), 1, func(*pool.Worker, pool.Tile) error { return nil })
		return err
	})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
}

func TestCancel(t *testing.T) {
	p, _ := open(t, machine(2))
	why := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	never := pool.ScatterOptions{Retry: 3, Fallback: func(context.Context, int, int) error { panic("not after the end of the context") }}
	var began sync.WaitGroup
	began.Add(2)
	go func() {
		began.Wait()
		cancel(why)
	}()
	report, err := p.Scatter(ctx, 1000, func(w *pool.Worker, _ pool.Tile) error {
		began.Done()
		<-w.CallContext().Done()
		return context.Cause(w.CallContext())
	}, never)
	require.ErrorIs(t, err, why)
	checkCovers(t, 1000, report.Tiles)
	var failed *pool.Error
	require.ErrorAs(t, err, &failed)
	checkCovers(t, 1000, failed.Tiles)

	report, err = p.Scatter(ctx, 1000, func(*pool.Worker, pool.Tile) error { panic("not run") }, never)
	require.ErrorIs(t, err, why, "a context that has ended before")
	checkCovers(t, 1000, report.Tiles)
	assert.Equal(t, pool.Partition([]float64{1, 1}, 1000), tilesOf(report))
}

// A call that waits for a device behind another call can be cancelled at once.
func TestCancelWhileWaiting(t *testing.T) {
	p, _ := open(t, machine(1))
	release, began := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := p.Scatter(t.Context(), 1, func(*pool.Worker, pool.Tile) error {
			close(began)
			<-release
			return nil
		})
		first <- err
	}()
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := p.Scatter(ctx, 1, func(*pool.Worker, pool.Tile) error { panic("not run") })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(release)
	require.NoError(t, <-first)
}

// state is what a test keeps for each device.
type state struct {
	device int
	closed *atomic.Int64
}

func (s *state) Close() error {
	s.closed.Add(1)
	return nil
}

func TestSetup(t *testing.T) {
	var setups, closed atomic.Int64
	ofStream := pool.PerStream(func(w *pool.Worker) (*state, error) {
		setups.Add(1)
		return &state{w.Device().Ordinal, &closed}, w.Stream().Synchronize(w.CallContext())
	})
	p, _ := open(t, machine(3), pool.Options{Setup: []pool.Setup{ofStream}})
	for range 3 {
		_, err := p.Scatter(t.Context(), 300, func(w *pool.Worker, _ pool.Tile) error {
			assert.Equal(t, w.Device().Ordinal, ofStream.Of(w).device)
			return nil
		})
		require.NoError(t, err)
	}
	assert.EqualValues(t, 3, setups.Load(), "once for each device")
	assert.Zero(t, closed.Load())
	require.NoError(t, p.Close())
	assert.EqualValues(t, 3, closed.Load())
}

func TestSetupThatFails(t *testing.T) { synctest.Test(t, testSetupThatFails) }

func testSetupThatFails(t *testing.T) {
	var tries, closed atomic.Int64
	fail := []func() error{
		func() error { return errData },
		func() error { panic(errData) },
		func() error { goruntime.Goexit(); return nil },
		func() error { return nil },
	}
	p, _ := open(t, machine(1), pool.Options{Setup: []pool.Setup{
		pool.PerDevice(func(*runtime.Context) (*state, error) { return &state{0, &closed}, nil }),
		pool.PerStream(func(*pool.Worker) (*state, error) { return &state{0, &closed}, nil }),
		pool.PerStream(func(*pool.Worker) (int, error) { return 0, fail[tries.Add(1)-1]() }),
	}})
	for i := range fail {
		work := newDone(10)
		if i == len(fail)-1 {
			_, err := p.Scatter(t.Context(), 10, work.do)
			require.ErrorContains(t, err, "Goexit", "the last error: the device is quarantined")
			time.Sleep(time.Second)
			synctest.Wait()
		}
		_, err := p.Scatter(t.Context(), 10, work.do)
		if i == len(fail)-1 {
			require.NoError(t, err)
			work.once(t)
			continue
		}
		require.Error(t, err)
		assert.ErrorContains(t, err, "device 0, items [0, 10): preparing device 0: ")
		assert.EqualValues(t, 2*(i+1), closed.Load(), "nothing stays behind")
	}
}

func TestClose(t *testing.T) {
	p, _ := open(t, machine(2))
	release, began := make(chan struct{}), make(chan struct{}, 2)
	result := make(chan error, 1)
	go func() {
		_, err := p.Scatter(t.Context(), 200, func(*pool.Worker, pool.Tile) error {
			began <- struct{}{}
			<-release
			return nil
		}, pool.ScatterOptions{Chunk: whole})
		result <- err
	}()
	<-began
	<-began
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	for { // until the pool is closed for others
		_, err := p.Scatter(t.Context(), 0, func(*pool.Worker, pool.Tile) error { return nil })
		if err != nil {
			require.ErrorIs(t, err, driver.ErrClosed)
			break
		}
	}
	select {
	case <-closed:
		require.Fail(t, "Close does not wait for a call")
	default:
	}
	close(release)
	require.NoError(t, <-result)
	require.NoError(t, <-closed)
	require.NoError(t, p.Close())
	_, err := p.Scatter(t.Context(), 10, func(*pool.Worker, pool.Tile) error { return nil },
		pool.ScatterOptions{Fallback: func(context.Context, int, int) error { return nil }})
	require.ErrorIs(t, err, driver.ErrClosed)
}

// Calls from several goroutines share the devices: no worker is used twice at a time.
func TestConcurrentCalls(t *testing.T) {
	p, _ := open(t, machine(4))
	var busy [4]atomic.Bool
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for round := range 20 {
				n := 256 + 17*g + round
				work := newDone(n)
				_, err := p.Scatter(context.Background(), n, func(w *pool.Worker, tile pool.Tile) error {
					if busy[w.Index()].Swap(true) {
						return errors.New("two calls use one worker")
					}
					defer busy[w.Index()].Store(false)
					return work.do(w, tile)
				}, pool.ScatterOptions{MinPerDevice: 16})
				if !assert.NoError(t, err) {
					return
				}
				work.once(t)
			}
		})
	}
	all.Wait()
}

// A device may come later: the pool of a machine without a driver finds it.
func TestDriverThatComesLater(t *testing.T) {
	gpu := drivertest.ForTest(t, machine(2))
	gpu.Fail("cuInit", 1, driver.ResultNoDevice)
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	p := openOn(t, rt)
	defer p.Close()
	work := newDone(200)
	_, err = p.Scatter(t.Context(), 200, work.do)
	require.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
	assert.True(t, strings.HasPrefix(err.Error(), string(driver.ErrDriverLibraryUnavailable)), err)
	assert.Empty(t, p.Devices())
	require.NoError(t, rt.Refresh())
	_, err = p.Scatter(t.Context(), 200, work.do)
	require.NoError(t, err)
	work.once(t)
	assert.Len(t, p.Devices(), 2)
}

func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(2))
		report, err := p.Scatter(t.Context(), 200, func(w *pool.Worker, _ pool.Tile) error {
			time.Sleep(time.Second) // no mark yet
			w.Phase(pool.Upload)
			time.Sleep(2 * time.Second)
			w.Phase(pool.Compute)
			time.Sleep(4 * time.Second)
			w.Phase(pool.Download)
			time.Sleep(8 * time.Second)
			w.Phase(pool.Phase(99)) // does not end the download
			time.Sleep(16 * time.Second)
			return nil
		}, pool.ScatterOptions{Chunk: whole})
		require.NoError(t, err)
		for _, tile := range report.Tiles {
			assert.Equal(t, 2*time.Second, tile.Upload)
			assert.Equal(t, 5*time.Second, tile.Compute)
			assert.Equal(t, 24*time.Second, tile.Download)
			assert.Equal(t, 31*time.Second, tile.Time())
		}
		assert.Equal(t, 31*time.Second, report.Wall)
	})
}

// When the call returns, or the fallback runs, the devices have no work of tiles that
// have failed.
func TestFailedWorkIsWaitedFor(t *testing.T) {
	p, _ := open(t, machine(2))
	var running atomic.Int64
	_, err := p.Scatter(t.Context(), 200, func(w *pool.Worker, tile pool.Tile) error {
		running.Add(1)
		err := w.Stream().LaunchHostFunc(func() {
			time.Sleep(5 * time.Millisecond)
			running.Add(-1)
		})
		if err != nil || tile.Index == 0 {
			return errors.Join(err, errData)
		}
		return w.Stream().Synchronize(w.CallContext())
	}, pool.ScatterOptions{Chunk: whole, Fallback: func(context.Context, int, int) error {
		assert.Zero(t, running.Load())
		return nil
	}})
	require.NoError(t, err)
}

// What the loss of CUDA has ended is not tried on other devices.
func TestLossIsNotRetried(t *testing.T) {
	p, gpu := open(t, machine(4))
	_, err := p.Scatter(t.Context(), 400, newDone(400).do) // opens all devices
	require.NoError(t, err)
	var calls atomic.Int64
	_, err = p.Scatter(t.Context(), 100, func(w *pool.Worker, _ pool.Tile) error {
		calls.Add(1)
		gpu.Fail("cuStreamWriteValue64", 1, driver.ResultIllegalAddress)
		return w.Stream().Synchronize(context.Background())
	}, pool.ScatterOptions{Retry: 9})
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	assert.EqualValues(t, 1, calls.Load())
}

// A device that cannot be opened for a retry is named in the cause.
func TestNobodyForTheRetry(t *testing.T) {
	p, gpu := open(t, machine(2))
	gpu.Fail("cuDevicePrimaryCtxRetain", 2, driver.ResultDeviceUnavailable)
	_, err := p.Scatter(t.Context(), 10, func(*pool.Worker, pool.Tile) error { return errData }, pool.ScatterOptions{Retry: 9})
	require.ErrorIs(t, err, errData)
	require.ErrorIs(t, err, driver.ResultDeviceUnavailable)
	assert.ErrorContains(t, err, "preparing device 1")
}

// A rest that is not worth a call of its own goes with the piece before it.
func TestNoSmallRest(t *testing.T) {
	p, _ := open(t, machine(2))
	work := newDone(2 * 100)
	_, err := p.Scatter(t.Context(), 200, work.do)
	require.NoError(t, err)
	work.once(t)
	assert.Len(t, work.calls, 2)
}

func TestScatterAllocatesLittle(t *testing.T) {
	for devices, most := range map[int]float64{1: 7, 2: 8, 4: 10} {
		p, _ := open(t, machine(devices))
		nothing := func(*pool.Worker, pool.Tile) error { return nil }
		allocs.AtMost(t, most, 100, func() {
			_, err := p.Scatter(context.Background(), 64*devices, nothing)
			require.NoError(t, err)
		}, devices, " devices")
	}
}
