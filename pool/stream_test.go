package pool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// upTo is a source of 0, 1, ... n-1, and then of an error, if it is not nil.
func upTo(n int, err error) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

// streamOptions are those of the tests: pieces and results are numbers.
type streamOptions = pool.StreamOptions[int, int]

// square is a function of pieces.
func square(_ *pool.Worker, i int, _ *runtime.HostBuffer[byte]) (int, error) { return i * i, nil }

func squareOnCPU(_ context.Context, i int, _ []byte) (int, error) { return i * i, nil }

// collect is what a stream yields.
func collect(all iter.Seq2[int, error]) (got []int, err error) {
	for x, failed := range all {
		if failed != nil {
			if err != nil {
				return nil, errors.New("two errors")
			}
			err = failed
			continue
		}
		got = append(got, x)
	}
	return got, err
}

func squares(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i * i
	}
	return all
}

func TestStream(t *testing.T) {
	for _, devices := range []int{0, 1, 3} {
		for _, n := range []int{0, 1, 2, 100, 1000} {
			t.Run(fmt.Sprintf("%d devices, %d pieces", devices, n), func(t *testing.T) {
				p := without(t)
				if devices > 0 {
					p, _ = open(t, machine(devices))
				}
				var report pool.Report
				got, err := collect(pool.Stream(t.Context(), p, upTo(n, nil), square, streamOptions{Fallback: squareOnCPU, Report: &report}))
				require.NoError(t, err)
				assert.Equal(t, squares(n), append([]int{}, got...))
				sum := 0
				for _, tile := range report.Tiles {
					sum += tile.Len()
					assert.Equal(t, devices == 0, tile.Device == driver.NoDevice)
				}
				if n > 0 {
					assert.Equal(t, devices == 0, report.Where == pool.OnCPU)
					assert.Contains(t, report.String(), fmt.Sprintf("%d of %d items on the ", n, n))
				}
				assert.Equal(t, n, sum)
				if devices == 0 && n > 0 {
					assert.Equal(t, pool.Absent, report.Reason)
					assert.ErrorIs(t, report.Err, driver.ErrDriverLibraryUnavailable)
				} else {
					assert.Empty(t, report.Reason)
				}
				assert.EqualValues(t, n, p.Stats().Requests, "its pieces")
			})
		}
	}
}

// What a piece is read into is page-locked, and f and the fallback get what was read.
func TestStreamReads(t *testing.T) {
	read := func(_ context.Context, i int, buffer []byte) (int, error) {
		n := i % (len(buffer) + 1)
		for k := range n {
			buffer[k] = byte(i)
		}
		return n, nil
	}
	check := func(i int, data []byte) (int, error) {
		if len(data) != i%101 {
			return 0, fmt.Errorf("%d bytes", len(data))
		}
		for _, b := range data {
			if b != byte(i) {
				return 0, fmt.Errorf("piece %d has the data of %d", i, b)
			}
		}
		return i * i, nil
	}
	onGPU := func(w *pool.Worker, i int, data *runtime.HostBuffer[byte]) (int, error) {
		memory, err := runtime.Alloc[byte](w.Stream(), data.Len())
		if err != nil {
			return 0, err
		}
		defer memory.Close()
		back := make([]byte, data.Len())
		if err := runtime.UploadHost(w.Stream(), memory, data); err != nil {
			return 0, err
		}
		if err := runtime.Download(w.CallContext(), w.Stream(), back, memory); err != nil {
			return 0, err
		}
		return check(i, back)
	}
	onCPU := func(_ context.Context, i int, data []byte) (int, error) { return check(i, data) }
	for name, p := range map[string]*pool.Pool{"cpu": without(t), "gpu": first(open(t, machine(2)))} {
		for _, cores := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, and %d cores beside", name, cores), func(t *testing.T) {
				var report pool.Report
				got, err := collect(pool.Stream(t.Context(), p, upTo(500, nil), onGPU,
					streamOptions{Read: read, BufferBytes: 100, Fallback: onCPU, Cores: cores, Report: &report}))
				require.NoError(t, err)
				assert.Equal(t, squares(500), got)
				if name == "gpu" {
					assert.Empty(t, report.Reason)
				}
			})
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

// No core works beside a device under PolicyRequired.
func TestStreamRequired(t *testing.T) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.ForTest(t, machine(1))))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	got, err := collect(pool.Stream(t.Context(), openOn(t, rt), upTo(200, nil), square, streamOptions{Cores: 2,
		Fallback: func(context.Context, int, []byte) (int, error) { return 0, errors.New("the CPU must not") }}))
	require.NoError(t, err)
	assert.Equal(t, squares(200), got)
}

func TestStreamRefuses(t *testing.T) {
	p, _ := open(t, machine(1))
	read := func(context.Context, int, []byte) (int, error) { return 0, nil }
	nested := func(w *pool.Worker, _ int, _ *runtime.HostBuffer[byte]) (int, error) {
		return 0, second(collect(pool.Stream(w.CallContext(), p, upTo(1, nil), square, streamOptions{})))
	}
	for name, s := range map[string]iter.Seq2[int, error]{
		"nil ctx":               pool.Stream(context.Context(nil), p, upTo(1, nil), square, streamOptions{}),
		"nil pool":              pool.Stream(t.Context(), nil, upTo(1, nil), square, streamOptions{}),
		"zero pool":             pool.Stream(t.Context(), new(pool.Pool), upTo(1, nil), square, streamOptions{}),
		"nil source":            pool.Stream(t.Context(), p, nil, square, streamOptions{}),
		"nil function":          pool.Stream[int, int](t.Context(), p, upTo(1, nil), nil, streamOptions{}),
		"a buffer without Read": pool.Stream(t.Context(), p, upTo(1, nil), square, streamOptions{BufferBytes: 1}),
		"cores without a way":   pool.Stream(t.Context(), p, upTo(1, nil), square, streamOptions{Cores: 1}),
		"a pool of processes":   pool.Stream(t.Context(), first(open(t, machine(1), pool.Options{Remote: func(int, bool) error { return nil }})), upTo(1, nil), square, streamOptions{Read: read, BufferBytes: 1}),
		"negative":              pool.Stream(t.Context(), p, upTo(1, nil), square, streamOptions{Ahead: -1}),
		"too far ahead":         pool.Stream(t.Context(), p, upTo(1, nil), square, streamOptions{Ahead: math.MaxInt}),
		"too many cores":        pool.Stream(t.Context(), p, upTo(1, nil), square, streamOptions{Cores: math.MaxInt, Fallback: squareOnCPU}),
		"too many readers":      pool.Stream(t.Context(), p, upTo(1, nil), square, streamOptions{Readers: math.MaxInt}),
		"too many of a device":  pool.Stream(t.Context(), p, upTo(1, nil), square, streamOptions{PerDevice: math.MaxInt}),
		"in a function":         pool.Stream(t.Context(), p, upTo(1, nil), nested, streamOptions{}),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collect(s)
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.Empty(t, got)
		})
	}
}

func second[A, B any](_ A, b B) B { return b }

// Whatever fails, the caller hears of it once, and what comes after it is not done.
func TestStreamFailures(t *testing.T) {
	const n, bad = 1000, 500
	cause := errors.New("injected")
	at := func(f func() error) func(*pool.Worker, int, *runtime.HostBuffer[byte]) (int, error) {
		return func(w *pool.Worker, i int, _ *runtime.HostBuffer[byte]) (int, error) {
			if i == bad {
				return 0, f()
			}
			return i * i, nil
		}
	}
	fails, panics, exits := func() error { return cause }, func() error { panic(cause) }, func() error { goruntime.Goexit(); return nil }
	readAt := func(f func() error) func(context.Context, int, []byte) (int, error) {
		return func(_ context.Context, i int, _ []byte) (int, error) {
			if i == bad {
				return 0, f()
			}
			return 0, nil
		}
	}
	sourceAt := func(f func() error) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range n {
				if i == bad && !yield(0, f()) || i != bad && !yield(i, nil) {
					return
				}
			}
		}
	}
	tests := []struct {
		name   string
		source iter.Seq2[int, error]
		f      func(*pool.Worker, int, *runtime.HostBuffer[byte]) (int, error)
		o      streamOptions
		text   string // of the error; "" for the cause
		all    bool   // results before it come
	}{
		{name: "source", source: sourceAt(fails), all: true},
		{name: "source panics", source: sourceAt(panics), all: true},
		{name: "source ends the goroutine", source: sourceAt(exits), text: "ended its goroutine"},
		{name: "read", o: streamOptions{Read: readAt(fails), BufferBytes: 1}},
		{name: "read panics", o: streamOptions{Read: readAt(panics), BufferBytes: 1}},
		{name: "read ends the goroutine", o: streamOptions{Read: readAt(exits), BufferBytes: 1}, text: "ended its goroutine"},
		{name: "read more than there is room", o: streamOptions{Read: func(context.Context, int, []byte) (int, error) { return 2, nil }, BufferBytes: 1}, text: "2 bytes into a buffer of 1"},
		{name: "huge buffers", o: streamOptions{Read: readAt(fails), BufferBytes: 1 << 61}, text: "byte"},
		{name: "f", f: at(fails)},
		{name: "f panics", f: at(panics)},
		{name: "f ends the goroutine", f: at(exits), text: "ended its goroutine"},
		{name: "fallback", f: at(fails), o: streamOptions{Fallback: func(context.Context, int, []byte) (int, error) { return 0, cause }}},
	}
	for _, tt := range tests {
		for _, devices := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, %d devices", tt.name, devices), func(t *testing.T) {
				p := without(t)
				source, f, o := tt.source, tt.f, tt.o
				if devices > 0 {
					p, _ = open(t, machine(devices))
				} else if o.Fallback = squareOnCPU; f != nil {
					o.Fallback = func(_ context.Context, i int, _ []byte) (int, error) { return tt.f(nil, i, nil) }
				}
				if source == nil {
					source = upTo(n, nil)
				}
				if f == nil {
					f = square
				}
				got, err := collect(pool.Stream(t.Context(), p, source, f, o))
				if tt.text == "" {
					require.ErrorIs(t, err, cause)
				} else {
					require.ErrorContains(t, err, tt.text)
				}
				assert.LessOrEqual(t, len(got), bad)
				if tt.all {
					assert.Len(t, got, bad)
				}
				assert.Equal(t, squares(len(got)), append([]int{}, got...))
				got, err = collect(pool.Stream(t.Context(), p, upTo(3, nil), square, streamOptions{Fallback: squareOnCPU}))
				assert.NoError(t, err, "the next stream")
				assert.Equal(t, squares(3), got)
			})
		}
	}
}

// Leaving the loop ends all functions, and waits for them.
func TestStreamEndsEarly(t *testing.T) {
	mine := errors.New("mine")
	for name, leave := range map[string]func(cancel func()) (on bool){
		"break":             func(func()) bool { return false },
		"panic":             func(func()) bool { panic(mine) },
		"goexit":            func(func()) bool { goruntime.Goexit(); return false },
		"the ctx has ended": func(cancel func()) bool { cancel(); return true },
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := open(t, machine(2))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var running atomic.Int64
			var stopped atomic.Bool
			source := func(yield func(int, error) bool) {
				defer stopped.Store(true)
				upTo(1<<30, nil)(yield)
			}
			f := func(w *pool.Worker, i int, _ *runtime.HostBuffer[byte]) (int, error) {
				running.Add(1)
				defer running.Add(-1)
				if i > 10 {
					<-w.CallContext().Done()
				}
				return i * i, nil
			}
			var got []int
			var err error
			ended := make(chan any, 1)
			go func() {
				defer func() { ended <- recover() }()
				for x, failed := range pool.Stream(ctx, p, source, f, streamOptions{}) {
					if err = failed; failed != nil {
						continue
					}
					if got = append(got, x); len(got) == 5 && !leave(func() { cancel(mine) }) {
						break
					}
				}
			}()
			panicked := <-ended
			assert.Zero(t, running.Load())
			assert.True(t, stopped.Load(), "the source goes on")
			assert.Equal(t, squares(5), got)
			switch name {
			case "panic":
				assert.Equal(t, mine, panicked)
			case "the ctx has ended":
				assert.ErrorIs(t, err, mine)
			}
		})
	}
}

// A piece that is held up must not let the others run away.
func TestStreamIsBounded(t *testing.T) {
	p, _ := open(t, machine(1))
	var pulled, reading, most atomic.Int64
	release := make(chan struct{})
	source := func(yield func(int, error) bool) {
		for i := range 1000 {
			if pulled.Add(1); !yield(i, nil) {
				return
			}
		}
	}
	o := streamOptions{BufferBytes: 1, Readers: 3, PerDevice: 8, Ahead: 20}
	o.Read = func(context.Context, int, []byte) (int, error) {
		most.Store(max(most.Load(), reading.Add(1)))
		time.Sleep(time.Microsecond)
		reading.Add(-1)
		return 1, nil
	}
	f := func(_ *pool.Worker, i int, _ *runtime.HostBuffer[byte]) (int, error) {
		if i == 0 {
			<-release
		}
		return i * i, nil
	}
	next, stop := iter.Pull2(pool.Stream(t.Context(), p, source, f, o))
	defer stop()
	go func() {
		for pulled.Load() < 20 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
		close(release)
	}()
	x, err, _ := next()
	require.NoError(t, err)
	assert.Zero(t, x)
	time.Sleep(20 * time.Millisecond)
	assert.LessOrEqual(t, pulled.Load(), int64(21), "Ahead, and what the source has in hand")
	for i := 1; i < 1000; i++ {
		x, err, ok := next()
		require.True(t, ok && err == nil && x == i*i)
	}
	assert.LessOrEqual(t, most.Load(), int64(3))
}

// What Do promises for a request holds for a piece.
func TestStreamWhenDevicesFail(t *testing.T) {
	t.Run("a device whose setup fails", func(t *testing.T) {
		p, _ := open(t, machine(3), pool.Options{Setup: []pool.Setup{pool.PerStream(func(w *pool.Worker) (int, error) {
			if w.Device().Ordinal == 1 {
				return 0, io.ErrUnexpectedEOF
			}
			return 0, nil
		})}})
		var report pool.Report
		got, err := collect(pool.Stream(t.Context(), p, upTo(300, nil), square, streamOptions{Report: &report}))
		require.NoError(t, err)
		assert.Equal(t, squares(300), got)
		for _, tile := range report.Tiles {
			assert.NotEqual(t, 1, tile.Device)
		}
		require.Len(t, report.Skipped, 1)
		assert.Equal(t, 1, report.Skipped[0].Ordinal)
		assert.ErrorIs(t, report.Skipped[0].Err, io.ErrUnexpectedEOF)
	})
	t.Run("all setups fail", func(t *testing.T) {
		p, _ := open(t, machine(2), pool.Options{Setup: []pool.Setup{pool.PerStream(func(*pool.Worker) (int, error) { return 0, io.ErrUnexpectedEOF })}})
		_, err := collect(pool.Stream(t.Context(), p, upTo(3, nil), square, streamOptions{}))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		var report pool.Report
		got, err := collect(pool.Stream(t.Context(), p, upTo(30, nil), square, streamOptions{Fallback: squareOnCPU, Report: &report}))
		require.NoError(t, err)
		assert.Equal(t, squares(30), got)
		assert.NotEmpty(t, report.Reason)
		assert.Error(t, report.Err)
	})
	t.Run("retry", func(t *testing.T) {
		p, _ := open(t, machine(2))
		var tried sync.Map
		f := func(w *pool.Worker, i int, _ *runtime.HostBuffer[byte]) (int, error) {
			if on, again := tried.LoadOrStore(i, w.Index()); i%3 == 0 && (!again || on == w.Index()) {
				return 0, io.ErrUnexpectedEOF
			}
			return i * i, nil
		}
		var report pool.Report
		got, err := collect(pool.Stream(t.Context(), p, upTo(300, nil), f, streamOptions{Retry: 1, Report: &report}))
		require.NoError(t, err)
		assert.Equal(t, squares(300), got)
		retries := 0
		for _, tile := range report.Tiles {
			retries += tile.Retries
		}
		assert.Equal(t, 100, retries)
	})
	t.Run("lost", func(t *testing.T) {
		p, gpu := open(t, machine(2))
		read := func(_ context.Context, i int, b []byte) (int, error) { b[0] = byte(i); return 1, nil }
		f := func(w *pool.Worker, i int, data *runtime.HostBuffer[byte]) (int, error) {
			if i == 50 {
				gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
			}
			_, err := w.Stream().Query()
			return i * i, err
		}
		fallback := func(_ context.Context, i int, data []byte) (int, error) {
			if len(data) != 1 || data[0] != byte(i) {
				return 0, errors.New("the data are gone")
			}
			return i * i, nil
		}
		var report pool.Report
		got, err := collect(pool.Stream(t.Context(), p, upTo(300, nil), f, streamOptions{Read: read, BufferBytes: 1, Fallback: fallback, Report: &report}))
		require.NoError(t, err)
		assert.Equal(t, squares(300), got)
		assert.NotEmpty(t, report.Reason)
	})
}

// Close lets a stream that has begun go on, and waits for it.
func TestStreamOutlivesClose(t *testing.T) {
	gpu := drivertest.ForTest(t, machine(2))
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	p, err := pool.Open(rt)
	require.NoError(t, err)
	closed := make(chan error, 1)
	var got []int
	for x, err := range pool.Stream(t.Context(), p, upTo(500, nil), square, streamOptions{}) {
		require.NoError(t, err)
		if got = append(got, x); len(got) == 1 {
			go func() { closed <- p.Close() }()
			for second(p.Do(t.Context(), func(*pool.Worker) error { return nil })) == nil {
				goruntime.Gosched()
			}
		}
	}
	assert.Equal(t, squares(500), got)
	assert.NoError(t, <-closed)
	_, err = collect(pool.Stream(t.Context(), p, upTo(1, nil), square, streamOptions{}))
	assert.ErrorIs(t, err, driver.ErrClosed)
}

// A stream may be the source of another one, of the same pool.
func TestStreamOfAStream(t *testing.T) {
	p, _ := open(t, machine(1))
	inner := pool.Stream(t.Context(), p, upTo(200, nil), func(_ *pool.Worker, i int, _ *runtime.HostBuffer[byte]) (int, error) { return i, nil }, streamOptions{})
	got, err := collect(pool.Stream(t.Context(), p, inner, square, streamOptions{}))
	require.NoError(t, err)
	assert.Equal(t, squares(200), got)
}

// However slow one device is, the others do not wait for it: a stream runs at nearly the sum of the rates.
func TestStreamWithASlowDevice(t *testing.T) {
	for _, rates := range [][]float64{{1, 1, 1, 1}, {1, 1, 1, 0.5}, {1, 1, 1, 0.1}, {1, 0.05, 1, 1}, {0.05, 1}, {1, 0.5, 0.25, 0.125}} {
		t.Run(fmt.Sprint(rates), func(t *testing.T) {
			p, _ := open(t, machine(len(rates)))
			synctest.Test(t, func(t *testing.T) {
				const n, piece = 4000, time.Millisecond // on a device of rate 1, one after the other
				busy := make([]chan struct{}, len(rates))
				sum := 0.0
				for i, rate := range rates {
					busy[i] = make(chan struct{}, 1)
					sum += rate
				}
				f := func(w *pool.Worker, i int, _ *runtime.HostBuffer[byte]) (int, error) {
					busy[w.Index()] <- struct{}{}
					time.Sleep(time.Duration(float64(piece) / rates[w.Index()]))
					<-busy[w.Index()]
					return i * i, nil
				}
				began := time.Now()
				var report pool.Report
				got, err := collect(pool.Stream(t.Context(), p, upTo(n, nil), f, streamOptions{PerDevice: 16, Ahead: 512, Report: &report}))
				require.NoError(t, err)
				assert.Equal(t, squares(n), got)
				ideal := n * piece.Seconds() / sum
				t.Logf("%.2f of the ideal rate", ideal/time.Since(began).Seconds())
				assert.Less(t, time.Since(began).Seconds(), ideal*1.15)
			})
		})
	}
}

// Random streams beside requests and calls of all devices, on devices that fail, with callers who leave.
func TestStreamCampaign(t *testing.T) {
	seeds.Each(t, 30, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(2, seed))
		devices := random.IntN(4)
		p := without(t)
		if devices > 0 {
			p, _ = open(t, machine(devices), pool.Options{Streams: 1 + random.IntN(6)})
		}
		flaky := random.IntN(2) == 0
		var all sync.WaitGroup
		for range 1 + random.IntN(3) {
			o := streamOptions{Ahead: random.IntN(20), PerDevice: random.IntN(5), Readers: random.IntN(4), Fallback: squareOnCPU, Retry: random.IntN(2)}
			if random.IntN(2) == 0 {
				o.Cores = random.IntN(3)
			}
			if random.IntN(2) == 0 {
				o.BufferBytes = 1 + random.IntN(1000)
				o.Read = func(context.Context, int, []byte) (int, error) { return 0, nil }
			}
			n, leave, failAt := random.IntN(300), random.IntN(600), random.IntN(600)
			pauses := random.IntN(3) == 0
			all.Go(func() {
				cause := errors.New("mine")
				f := func(w *pool.Worker, i int, _ *runtime.HostBuffer[byte]) (int, error) {
					if flaky && i%7 == 3 {
						return 0, io.ErrNoProgress
					}
					return i * i, w.Stream().Synchronize(w.CallContext())
				}
				source := upTo(n, nil)
				if failAt < n {
					source = upTo(failAt, cause)
				}
				var got []int
				for x, err := range pool.Stream(t.Context(), p, source, f, o) {
					if err != nil {
						assert.ErrorIs(t, err, cause)
						assert.Len(t, got, failAt)
						break
					}
					if pauses && x%5 == 0 {
						goruntime.Gosched()
					}
					if got = append(got, x); len(got) == leave {
						break
					}
				}
				assert.Len(t, got, min(n, failAt, max(leave, 0)+n*b2i(leave == 0)))
				assert.Equal(t, squares(len(got)), append([]int{}, got...))
			})
		}
		for range random.IntN(20) {
			_, err := p.Do(t.Context(), func(w *pool.Worker) error { return nil }, pool.DoOptions{Fallback: func(context.Context) error { return nil }})
			assert.NoError(t, err)
			_, err = p.Scatter(t.Context(), 100, func(*pool.Worker, pool.Tile) error { return nil }, pool.ScatterOptions{Fallback: func(context.Context, int, int) error { return nil }})
			assert.NoError(t, err)
		}
		all.Wait()
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// What a piece costs by itself.
func BenchmarkStream(b *testing.B) {
	for _, devices := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("%d devices", devices), func(b *testing.B) {
			p := without(b)
			if devices > 0 {
				p, _ = open(b, machine(devices))
			}
			b.ReportAllocs()
			n := 0
			for _, err := range pool.Stream(b.Context(), p, upTo(b.N, nil), square, streamOptions{Fallback: squareOnCPU}) {
				if n++; err != nil {
					b.Fatal(err)
				}
			}
			if n != b.N {
				b.Fatal(n)
			}
		})
	}
}
