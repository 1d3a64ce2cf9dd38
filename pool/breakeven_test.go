package pool_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
)

// timed is a work whose sides take as long as they are told by a clock that only they move.
type timed struct {
	now      time.Time
	cpu, gpu func(n int) time.Duration
	runs     map[pool.Place]int
	largest  map[pool.Place]int
	p        *pool.Pool
	b        *pool.BreakEven
}

func newTimed(t *testing.T, p *pool.Pool, largest int, cpu, gpu func(n int) time.Duration) *timed {
	w := &timed{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), cpu: cpu, gpu: gpu, p: p,
		runs: map[pool.Place]int{}, largest: map[pool.Place]int{}}
	w.b = w.open(t, pool.BreakEvenConfig{Name: "test/v1", Largest: largest, Dir: "off"})
	return w
}

// open makes a break-even of the work.
func (w *timed) open(t *testing.T, config pool.BreakEvenConfig) *pool.BreakEven {
	t.Helper()
	config.Run = func(ctx context.Context, n int) error {
		_, err := w.call(ctx, n)
		return err
	}
	config.SetNow(func() time.Time { return w.now })
	b, err := pool.NewBreakEven(w.p, config)
	require.NoError(t, err)
	return b
}

// call is the work as a program does it.
func (w *timed) call(ctx context.Context, n int) (pool.Report, error) {
	spend := func(where pool.Place, d time.Duration) {
		w.now = w.now.Add(d)
		w.runs[where]++
		w.largest[where] = max(w.largest[where], n)
	}
	return w.p.Scatter(ctx, n, func(*pool.Worker, pool.Tile) error {
		spend(pool.OnGPU, w.gpu(n))
		return nil
	}, pool.ScatterOptions{Chunk: math.MaxInt, ItemBytes: 0, BreakEven: w.b,
		Fallback: func(_ context.Context, lo, hi int) error {
			if lo == 0 { // one of the cores spends all of it
				spend(pool.OnCPU, w.cpu(n))
			}
			return nil
		}})
}

// line is start + n*item.
func line(start, item time.Duration) func(n int) time.Duration {
	return func(n int) time.Duration { return start + time.Duration(n)*item }
}

// curve is lines through the microseconds that 1, 4, 16, 64, ... items take.
func curve(took ...float64) func(n int) time.Duration {
	return func(n int) time.Duration {
		i := 0
		for i < len(took)-2 && n > 4<<(2*i) {
			i++
		}
		least := 1 << (2 * i)
		part := float64(n-least) / float64(3*least)
		return time.Duration((took[i] + part*(took[i+1]-took[i])) * float64(time.Microsecond))
	}
}

func TestBreakEvenFindsTheSize(t *testing.T) {
	for name, c := range map[string]struct {
		cpu, gpu func(int) time.Duration
		size     int // 0: none
		measured []int
	}{
		// 0.95 (1000 n + 1000) >= 50000 + 10 n from 53 on
		"later": {line(time.Microsecond, time.Microsecond), line(50*time.Microsecond, 10), 55,
			[]int{1, 4, 16, 40, 52, 55, 58, 64, 256, 1024, 4096, 10_000}},
		"never":           {line(time.Microsecond, 100), line(50*time.Microsecond, 100), 0, nil},
		"hardly":          {line(time.Microsecond, 1000), line(time.Microsecond, 960), 0, nil},
		"always":          {line(time.Millisecond, 1000), line(time.Microsecond, 10), 1, nil},
		"at once":         {line(time.Millisecond, 0), line(time.Microsecond, 0), 1, nil},
		"small ones only": {line(time.Millisecond, 100), line(time.Microsecond, 200), 0, nil},
		// As on a host with one H200, where no line fits: 20 µs to 3.94 ms and 157 µs to 3 ms.
		"bent": {curve(20, 46.6, 98.1, 283, 382, 778, 1450, 2760), curve(157, 137, 142, 169, 231, 459, 1300, 2170), 32,
			[]int{1, 4, 16, 28, 31, 32, 34, 40, 64, 256, 1024, 4096, 10_000}},
		// One size between at which the cores win, by chance or not.
		"twice": {line(time.Microsecond, time.Microsecond), func(n int) time.Duration {
			if n == 256 {
				return time.Millisecond
			}
			return line(2*time.Microsecond, 100)(n)
		}, 268, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := open(t, machine(1))
			w := newTimed(t, p, 10_000, c.cpu, c.gpu)
			assert.True(t, w.b.Wins(1), "nothing learned: all to the devices")
			assert.Contains(t, w.b.String(), "nothing learned")
			require.NoError(t, w.b.Learn(context.Background()))
			n, ok := w.b.Report().Size()
			assert.Equal(t, c.size > 0, ok)
			assert.Equal(t, c.size, n)
			for _, n := range []int{1, c.size - 1, c.size, c.size + 1, 1000, 1 << 30} {
				assert.Equal(t, ok && n >= c.size, w.b.Wins(n), "%d items", n)
			}
			var measured []int
			for _, p := range w.b.Report().Points {
				measured = append(measured, p.Items)
				assert.Equal(t, c.cpu(p.Items), p.CPU)
				assert.Equal(t, c.gpu(p.Items), p.GPU)
			}
			if c.measured != nil {
				assert.Equal(t, c.measured, measured)
			}
		})
	}
}

func TestBreakEvenDispatches(t *testing.T) {
	p, gpu := open(t, machine(1))
	w := newTimed(t, p, 1000, line(1, time.Microsecond), line(50*time.Microsecond, 10))
	require.NoError(t, w.b.Learn(context.Background()))
	size, ok := w.b.Report().Size()
	require.True(t, ok)
	before := gpu.Calls("cuStreamSynchronize")
	report, err := w.call(context.Background(), size-1)
	require.NoError(t, err)
	assert.Equal(t, pool.OnCPU, report.Where)
	assert.ErrorContains(t, report.Err, "break-even")
	assert.Equal(t, pool.MeasuredSlower, report.Reason)
	assert.Equal(t, before, gpu.Calls("cuStreamSynchronize"))
	report, err = w.call(context.Background(), size)
	require.NoError(t, err)
	assert.Equal(t, pool.OnGPU, report.Where)
	assert.NoError(t, report.Err)
}

// A request is dispatched by its items.
func TestBreakEvenOfRequests(t *testing.T) {
	p, _ := open(t, machine(1))
	var b *pool.BreakEven
	now := time.Now()
	do := func(ctx context.Context, n int) (pool.Report, error) {
		return p.Do(ctx, func(*pool.Worker) error {
			now = now.Add(50*time.Microsecond + time.Duration(n))
			return nil
		}, pool.DoOptions{Items: n, BreakEven: b, Fallback: func(context.Context) error {
			now = now.Add(time.Duration(n) * time.Microsecond)
			return nil
		}})
	}
	config := pool.BreakEvenConfig{Name: "do", Largest: 1000, Dir: "off", Run: func(ctx context.Context, n int) error {
		_, err := do(ctx, n)
		return err
	}}
	config.SetNow(func() time.Time { return now })
	b, err := pool.NewBreakEven(p, config)
	require.NoError(t, err)
	require.NoError(t, b.Learn(context.Background()))
	size, ok := b.Report().Size()
	require.True(t, ok)
	assert.Equal(t, 55, size)
	report, err := do(context.Background(), size-1)
	require.NoError(t, err)
	assert.Equal(t, pool.OnCPU, report.Where)
	assert.Equal(t, pool.MeasuredSlower, report.Reason)
	report, err = do(context.Background(), size)
	require.NoError(t, err)
	assert.Equal(t, pool.OnGPU, report.Where)
	assert.Empty(t, report.Reason)
	assert.Positive(t, p.Stats().Reasons[pool.MeasuredSlower])
	_, err = do(context.Background(), -1)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	require.NoError(t, p.Close())
	_, err = do(context.Background(), 1)
	assert.ErrorIs(t, err, driver.ErrClosed, "on the CPU as well")
}

// A measurement times the side that it asks for, and never a fallback for the devices.
func TestBreakEvenMeasuresBothSides(t *testing.T) {
	p, gpu := open(t, machine(1))
	w := newTimed(t, p, 50, line(1, time.Microsecond), line(1, 10*time.Microsecond))
	require.NoError(t, w.b.Measure(context.Background()))
	assert.Equal(t, map[pool.Place]int{pool.OnCPU: 50, pool.OnGPU: 50}, w.largest)
	var items []int
	for _, point := range w.b.Report().Points {
		items = append(items, point.Items)
		assert.Equal(t, w.cpu(point.Items), point.CPU)
		assert.Equal(t, w.gpu(point.Items), point.GPU)
	}
	assert.Equal(t, []int{1, 4, 16, 50}, items)

	known := w.b.Report()
	boom := errors.New("boom")
	w.gpu = func(int) time.Duration { panic(boom) }
	require.ErrorIs(t, w.b.Measure(context.Background()), boom)
	assert.Same(t, known, w.b.Report(), "what was known stays")
	assert.Zero(t, gpu.Calls("cuLaunchKernel"))
}

// A side that takes long is not measured at sizes at which it would take hours.
func TestBreakEvenStopsASlowSide(t *testing.T) {
	p, _ := open(t, machine(1))
	w := newTimed(t, p, 1<<20, line(0, 200*time.Millisecond), line(10*time.Millisecond, 1))
	require.NoError(t, w.b.Learn(context.Background()))
	assert.Equal(t, 4, w.largest[pool.OnCPU])
	assert.Equal(t, 1<<20, w.largest[pool.OnGPU])
	assert.Contains(t, w.b.String(), "     -  ")
	n, ok := w.b.Report().Size()
	assert.True(t, ok)
	assert.Equal(t, 1, n)
	assert.Less(t, w.now.Sub(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), 10*time.Second, "by its clock")
}

func TestBreakEvenIsKept(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	config := pool.BreakEvenConfig{Name: "kept/v1", Largest: 100, Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	p, _ := open(t, machine(2))
	w := newTimed(t, p, 100, line(1, time.Microsecond), line(30*time.Microsecond, 10))
	learn := func(config pool.BreakEvenConfig, p *pool.Pool) (*pool.BreakEven, bool) {
		was := w.p
		w.p = p
		defer func() { w.p = was }()
		clear(w.runs)
		w.b = w.open(t, config)
		require.NoError(t, w.b.Learn(context.Background()))
		return w.b, len(w.runs) > 0
	}
	first, measured := learn(config, p)
	assert.True(t, measured)
	assert.Contains(t, first.String(), "measured 2026-01-02 03:04")
	again, measured := learn(config, p)
	assert.False(t, measured, "it is on disk")
	assert.Equal(t, first.Report().Points, again.Report().Points)
	size, _ := first.Report().Size()
	kept, _ := again.Report().Size()
	assert.Equal(t, 32, size)
	assert.Equal(t, size, kept)
	assert.Contains(t, again.String(), "kept on disk since 2026-01-02 03:04")
	require.NoError(t, again.Learn(context.Background()))
	require.NoError(t, again.Measure(context.Background()))
	assert.NotEmpty(t, w.runs, "asked to")

	other := config
	other.Name = "kept/v2"
	_, measured = learn(other, p)
	assert.True(t, measured, "another work")
	one, _ := open(t, machine(1))
	_, measured = learn(config, one)
	assert.True(t, measured, "another machine")
	_, measured = learn(config, one)
	assert.False(t, measured)
	assert.Empty(t, log.String())

	files, err := filepath.Glob(filepath.Join(dir, "artifacts", "*"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		require.NoError(t, os.WriteFile(file, []byte("damaged"), 0o600))
	}
	_, measured = learn(config, p)
	assert.True(t, measured)
	assert.Contains(t, log.String(), "an artifact is not used")
	_, measured = learn(config, p)
	assert.False(t, measured, "it was written again")

	off := config
	off.Dir = "off"
	_, measured = learn(off, p)
	assert.True(t, measured)
}

func TestBreakEvenDrifts(t *testing.T) {
	p, _ := open(t, machine(1))
	w := newTimed(t, p, 100, line(1, time.Microsecond), line(30*time.Microsecond, 10))
	w.b = w.open(t, pool.BreakEvenConfig{Name: "drifts", Largest: 1000, Dir: t.TempDir()})
	require.NoError(t, w.b.Learn(context.Background()))
	calls := func(count, n int) {
		for range count {
			_, err := w.call(context.Background(), n)
			require.NoError(t, err)
		}
	}
	calls(100, 80)
	assert.False(t, w.b.Drifted(), "as expected")
	fast := w.gpu
	w.gpu = line(300*time.Microsecond, 10)
	calls(16, 80)
	w.gpu = fast
	calls(16, 80)
	assert.False(t, w.b.Drifted(), "half of the calls were slow")
	w.gpu = line(300*time.Microsecond, 10)
	calls(17, 80)
	assert.True(t, w.b.Drifted())
	before, _ := w.b.Report().Size()
	require.NoError(t, w.b.Learn(context.Background()))
	assert.False(t, w.b.Drifted())
	after, _ := w.b.Report().Size()
	assert.Greater(t, after, before)
}

// Calls that meet do not count: each waits for the other.
func TestBreakEvenCountsCallsThatAreAlone(t *testing.T) {
	p, _ := open(t, machine(1))
	w := newTimed(t, p, 100, line(1, time.Millisecond), line(30*time.Microsecond, 10))
	require.NoError(t, w.b.Learn(context.Background()))
	inside, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error)
	go func() {
		_, err := p.Scatter(context.Background(), 80, func(*pool.Worker, pool.Tile) error {
			close(inside)
			<-release
			return nil
		}, pool.ScatterOptions{BreakEven: w.b, Devices: []int{0}})
		ended <- err
	}()
	<-inside
	for range 100 { // on the cores, which need no device
		_, err := p.Scatter(context.Background(), 0, w.none, pool.ScatterOptions{BreakEven: w.b})
		require.NoError(t, err)
	}
	w.now = w.now.Add(time.Hour)
	close(release)
	require.NoError(t, <-ended)
	assert.False(t, w.b.Drifted())
}

func (w *timed) none(*pool.Worker, pool.Tile) error { return nil }

func TestBreakEvenWithoutCUDA(t *testing.T) {
	p := without(t)
	w := newTimed(t, p, 100, line(1, 1), line(1, 1))
	require.NoError(t, w.b.Learn(context.Background()))
	assert.Empty(t, w.runs)
	assert.Contains(t, w.b.String(), "CUDA_ERROR_NO_DEVICE")
	assert.ErrorIs(t, w.b.Measure(context.Background()), driver.ErrDriverLibraryUnavailable)
	report, err := w.call(context.Background(), 10)
	require.NoError(t, err)
	assert.Equal(t, pool.OnCPU, report.Where)
	assert.ErrorIs(t, report.Err, driver.ErrDriverLibraryUnavailable)
}

func TestBreakEvenBadArguments(t *testing.T) {
	p, gpu := open(t, machine(1))
	run := func(context.Context, int) error { return nil }
	for name, c := range map[string]struct {
		p      *pool.Pool
		config pool.BreakEvenConfig
	}{
		"no pool": {nil, pool.BreakEvenConfig{Name: "x", Largest: 1, Run: run}}, "no name": {p, pool.BreakEvenConfig{Largest: 1, Run: run}},
		"no run": {p, pool.BreakEvenConfig{Name: "x", Largest: 1}}, "no size": {p, pool.BreakEvenConfig{Name: "x", Run: run}},
		"nothing": {new(pool.Pool), pool.BreakEvenConfig{}},
	} {
		_, err := pool.NewBreakEven(c.p, c.config)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
	}
	var none *pool.BreakEven
	assert.ErrorIs(t, none.Learn(context.Background()), driver.ErrInvalidArgument)
	assert.ErrorIs(t, new(pool.BreakEven).Measure(context.Background()), driver.ErrInvalidArgument)
	assert.True(t, none.Wins(1))
	assert.False(t, none.Drifted())
	assert.Nil(t, none.Report())
	assert.Contains(t, none.String(), "nothing learned")
	_, ok := none.Report().Size()
	assert.False(t, ok)
	assert.NotEmpty(t, none.Report().String())

	stopped := pool.BreakEvenConfig{Name: "x", Largest: 1, Run: run, Dir: "off"}
	stopped.SetNow(func() time.Time { return time.Time{} })
	still, err := pool.NewBreakEven(p, stopped)
	require.NoError(t, err)
	assert.ErrorContains(t, still.Learn(context.Background()), "no time by the clock")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errData)
	assert.ErrorIs(t, still.Learn(ctx), errData)

	// A function without a fallback has one side only.
	calls := atomic.Int64{}
	var half *pool.BreakEven
	half, err = pool.NewBreakEven(p, pool.BreakEvenConfig{Name: "x", Largest: 1, Dir: "off", Run: func(ctx context.Context, n int) error {
		calls.Add(1)
		_, err := p.Scatter(ctx, n, func(*pool.Worker, pool.Tile) error { return nil }, pool.ScatterOptions{BreakEven: half})
		return err
	}})
	require.NoError(t, err)
	assert.ErrorIs(t, half.Learn(context.Background()), driver.ErrInvalidArgument)
	assert.EqualValues(t, 1, calls.Load())
	assert.Zero(t, gpu.Calls("cuLaunchKernel"))
}

func TestBreakEvenPrints(t *testing.T) {
	p, _ := open(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	w := newTimed(t, p, 64, line(1200, 250), line(10*time.Microsecond, 2))
	require.NoError(t, w.b.Learn(context.Background()))
	lines := strings.Split(w.b.String(), "\n")
	assert.Regexp(t, `^test/v1 on 2 x NVIDIA H100 80GB HBM3 \(9.0\), driver .*CUDA 13.0; .+, GOMAXPROCS \d+$`, lines[0])
	assert.Equal(t, []string{
		"     items       CPU       GPU    GPU is",
		"         1    1.45µs      10µs    0.145x",
		"         4     2.2µs      10µs     0.22x",
		"        16     5.2µs      10µs    0.518x",
		"        28     8.2µs    10.1µs    0.815x",
		"        34     9.7µs    10.1µs    0.963x",
		"        37    10.5µs    10.1µs     1.04x",
		"        38    10.7µs    10.1µs     1.06x",
		"        40    11.2µs    10.1µs     1.11x",
		"        64    17.2µs    10.1µs      1.7x",
		"the GPU wins from 38 items on (measured 2026-01-02 03:04:05)",
	}, lines[1:])
}
