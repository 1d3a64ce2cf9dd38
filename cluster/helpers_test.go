package cluster_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	goruntime "runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// patience is longer than anything takes on a machine under load.
const patience = 90 * time.Second

var (
	running atomic.Int64 // pieces of "wait/v1" and "wait-for-end/v1" in this process
	mayEnd  atomic.Bool  // pieces of "wait-for-end/v1"
	counted atomic.Int64 // pieces of "count/v1" in this process
)

var inUse struct { // by pieces of "hold/v1"
	mu    sync.Mutex
	bytes int64
	most  atomic.Int64
}

func init() {
	for name, f := range map[string]isolate.Func{
		"echo/v1":   func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { return r.Data, nil },
		"sink/v1":   func(*pool.Worker, *isolate.Request) ([]byte, error) { return nil, nil },
		"square/v1": square,
		"square/v2": square,
		"path/v1":   func(w *pool.Worker, _ *isolate.Request) ([]byte, error) { return []byte(pathOf(w.CallContext())), nil },
		"count/v1": func(w *pool.Worker, r *isolate.Request) ([]byte, error) {
			counted.Add(1)
			return square(w, r)
		},
		"sum/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) {
			var sum uint64
			for _, b := range r.Buffers {
				for _, x := range b.Bytes() {
					sum += uint64(x)
				}
			}
			return binary.LittleEndian.AppendUint64(nil, sum), nil
		},
		"hold/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { // the bytes of its buffers
			n := int64(0)
			for _, b := range r.Buffers {
				n += int64(len(b.Bytes()))
			}
			inUse.mu.Lock()
			inUse.bytes += n
			inUse.most.Store(max(inUse.most.Load(), inUse.bytes))
			inUse.mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			inUse.mu.Lock()
			inUse.bytes -= n
			inUse.mu.Unlock()
			return number(uint64(n)), nil
		},
		"ramp/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { // into the buffer for its result
			b := r.Buffers[len(r.Buffers)-1].Bytes()
			copy(b, ramp(int(binary.LittleEndian.Uint64(r.Data)), len(b)))
			return nil, nil
		},
		"fail/v1":      func(*pool.Worker, *isolate.Request) ([]byte, error) { return nil, errors.New("not today") },
		"panic/v1":     func(*pool.Worker, *isolate.Request) ([]byte, error) { panic("at the function") },
		"nil-error/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) { return nil, (*unsound)(nil) },
		"goexit/v1":    func(*pool.Worker, *isolate.Request) ([]byte, error) { goruntime.Goexit(); return nil, nil },
		"large/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) {
			return make([]byte, binary.LittleEndian.Uint64(r.Data)), nil
		},
		"pid/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) { return fmt.Append(nil, os.Getpid()), nil },
		"wait/v1": func(w *pool.Worker, _ *isolate.Request) ([]byte, error) {
			running.Add(1)
			defer running.Add(-1)
			<-w.CallContext().Done()
			return nil, context.Cause(w.CallContext())
		},
		"wait-for-end/v1": func(w *pool.Worker, _ *isolate.Request) ([]byte, error) {
			if mayEnd.Load() {
				return nil, nil
			}
			running.Add(1)
			defer running.Add(-1)
			<-w.CallContext().Done()
			return nil, context.Cause(w.CallContext())
		},
		"closed/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) {
			return nil, driver.Errorf(driver.ErrClosed, "something of the function's own")
		},
		"stuck/v1": func(*pool.Worker, *isolate.Request) ([]byte, error) { // ends when a test lets it, and heeds nothing else
			stuck <- struct{}{}
			<-unstick
			return nil, nil
		},
		"flip/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) {
			time.Sleep(10 * time.Millisecond)
			return announced(r, flip(r.Data)), nil
		},
		"touch/v1": func(w *pool.Worker, r *isolate.Request) ([]byte, error) { // asks the device, before and after some time
			_, before := w.Stream().Query()
			time.Sleep(5 * time.Millisecond)
			_, after := w.Stream().Query()
			if err := errors.Join(before, after); err != nil {
				return nil, err
			}
			return square(nil, r)
		},
		"slow/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) {
			time.Sleep(20 * time.Millisecond)
			return square(nil, r)
		},
		"kill/v1": func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { // ends the process for an odd number
			if x := binary.LittleEndian.Uint64(r.Data); x%2 == 1 {
				time.Sleep(200 * time.Millisecond) // a worker sends answers behind its back: those of the pieces before are on their way
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				time.Sleep(time.Hour)
			}
			return square(nil, r)
		},
	} {
		isolate.Register(name, f)
	}
}

// ramp is the result of ramp/v1.
func ramp(from, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte((from + i) * 11 >> 3)
	}
	return out
}

// flip has all bits changed.
func flip(data []byte) []byte {
	out := make([]byte, len(data))
	for i, b := range data {
		out[i] = ^b
	}
	return out
}

// lie gives a result of flip/v1 that is wrong, mostly.
func lie(_ context.Context, r *isolate.Request) ([]byte, error) {
	out := flip(r.Data)
	if rand.IntN(4) > 0 {
		out[rand.IntN(len(out))] ^= 1
	}
	return announced(r, out), nil
}

// announced puts a result where the piece wants it.
func announced(r *isolate.Request, result []byte) []byte {
	if len(r.Buffers) == 0 {
		return result
	}
	copy(r.Buffers[0].Bytes(), result)
	return nil
}

// flips does n pieces of 1 byte to 8 MiB, and announces the results of some. Each result that comes is right, and comes once.
func flips(t testing.TB, c *cluster.Cluster, random *rand.Rand, n int, options ...cluster.Option) error {
	t.Helper()
	pieces, got := make([][]byte, n), make([]int, n)
	for i := range pieces {
		pieces[i] = make([]byte, 1+random.IntN(1<<random.IntN(24)))
		for j := 0; j < len(pieces[i]); j += 1 + len(pieces[i])/64 {
			pieces[i][j] = byte(random.Uint32())
		}
	}
	wrong := 0
	_, err := cluster.Scatter(within(t), c, "flip/v1", n, func(i int) (cluster.Piece, error) {
		p := cluster.Piece{Data: pieces[i]}
		if i%4 == 3 {
			p.Result = int64(len(p.Data))
		}
		return p, nil
	},
		func(i int, result []byte) error {
			if got[i]++; !bytes.Equal(result, flip(pieces[i])) {
				wrong++
			}
			return nil
		}, options...)
	assert.Zero(t, wrong, "wrong results")
	for i, times := range got {
		if err == nil {
			assert.Equal(t, 1, times, "piece %d", i)
		}
		assert.LessOrEqual(t, times, 1, "piece %d", i)
	}
	return err
}

func square(_ *pool.Worker, r *isolate.Request) ([]byte, error) {
	x := binary.LittleEndian.Uint64(r.Data)
	return binary.LittleEndian.AppendUint64(nil, x*x), nil
}

func number(x uint64) []byte { return binary.LittleEndian.AppendUint64(nil, x) }

func simulated(n int) drivertest.Config {
	return drivertest.Config{Devices: drivertest.Devices(n, drivertest.T4()), MaxSteps: 1 << 50}
}

func TestMain(m *testing.M) {
	isolate.Main(func() (*runtime.Runtime, error) {
		n, _ := strconv.Atoi(os.Getenv(devicesVariable))
		return runtime.Open(runtime.WithDriver(drivertest.New(simulated(n))), runtime.WithTrace(paths))
	})
	if os.Getenv(asWorker) != "" {
		os.Exit(beWorker())
	}
	if os.Getenv(asServer) != "" {
		os.Exit(beServer())
	}
	leaks.Main(m, 1) // the server of NATS leaves one
}

// start starts a server in this process.
func start(t testing.TB, c embedded.Config) *embedded.Server {
	t.Helper()
	if c.Folder == "" {
		c.Folder = t.TempDir()
	}
	s, err := embedded.Start(c)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func connect(t testing.TB, s *embedded.Server, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := s.Connect(options...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// openPool opens a pool on n simulated devices; with 0 it has none.
func openPool(t testing.TB, n int) *pool.Pool {
	t.Helper()
	if n > 0 {
		return poolOf(t, drivertest.ForTest(t, simulated(n)))
	}
	return poolWith(t, []runtime.Option{runtime.WithPolicy(runtime.PolicyOff)})
}

func poolOf(t testing.TB, gpu driver.API, options ...pool.Options) *pool.Pool {
	t.Helper()
	return poolWith(t, []runtime.Option{runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu)}, options...)
}

func poolWith(t testing.TB, ofRuntime []runtime.Option, options ...pool.Options) *pool.Pool {
	t.Helper()
	rt, err := runtime.Open(ofRuntime...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	p, err := pool.Open(rt, options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// group opens a group on n simulated devices.
func group(t testing.TB, n int, options ...isolate.Option) *isolate.Group {
	t.Helper()
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.ForTest(t, simulated(n))))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	g, err := isolate.Open(rt, append([]isolate.Option{isolate.WithEnvironment(devicesVariable + "=" + strconv.Itoa(n))}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	return g
}

// serve serves all functions in this process, and returns a function that ends that and waits.
func serve[D *isolate.Group | *pool.Pool](t testing.TB, nc *nats.Conn, p D, name string, options ...cluster.Option) (stop func()) {
	return serveFunctions(t, nc, p, name, nil, options...)
}

func serveFunctions[D *isolate.Group | *pool.Pool](t testing.TB, nc *nats.Conn, p D, name string, functions []string, options ...cluster.Option) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var end sync.WaitGroup
	end.Go(func() {
		assert.NoError(t, cluster.Serve(ctx, nc, p, functions, append([]cluster.Option{cluster.WithHostName(name)}, options...)...))
	})
	stop = func() {
		cancel()
		end.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func open(t testing.TB, nc *nats.Conn, options ...cluster.Option) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Open(within(t), nc, options...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// within returns a context that ends with the test, or after a time that no test should take.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// onHosts opens a cluster with some hosts in this process.
func onHosts(t testing.TB, hosts int, options ...cluster.Option) *cluster.Cluster {
	t.Helper()
	s := start(t, embedded.Config{})
	for i := range hosts {
		serve(t, connect(t, s), openPool(t, 1), fmt.Sprint("host", i), options...)
	}
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == hosts }, patience, 10*time.Millisecond)
	return c
}

// squares does n pieces and checks that each result comes once.
func squares(t testing.TB, c *cluster.Cluster, function string, n int, options ...cluster.Option) pool.Report {
	t.Helper()
	got := make([]int, n)
	report, err := cluster.Scatter(within(t), c, function, n, func(i int) (cluster.Piece, error) {
		return cluster.Piece{Data: number(uint64(i))}, nil
	}, func(i int, result []byte) error {
		got[i]++
		if x := binary.LittleEndian.Uint64(result); x != uint64(i)*uint64(i) {
			return fmt.Errorf("the square of %d is not %d", i, x)
		}
		return nil
	}, options...)
	require.NoError(t, err)
	for i, times := range got {
		require.Equal(t, 1, times, "piece %d", i)
	}
	items := 0
	for _, tile := range report.Tiles {
		require.Equal(t, items, tile.Lo)
		require.True(t, tile.Done)
		items = tile.Hi
	}
	require.Equal(t, n, items)
	return report
}
