package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// capture records a graph.
func capture(t testing.TB, s *runtime.Stream, f func(s *runtime.Stream) error) *runtime.Graph {
	t.Helper()
	g, err := s.Capture(f)
	require.NoError(t, err)
	return g
}

// instantiate makes a graph ready to run and closes it.
func instantiate(t testing.TB, g *runtime.Graph) *runtime.GraphExec {
	t.Helper()
	x, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, g.Close())
	return x
}

// adding is a capture of so many launches of the kernel add.
func adding(k *runtime.Kernel, x *runtime.Ref[uint32], launches int, amount uint32) func(*runtime.Stream) error {
	return func(s *runtime.Stream) (err error) {
		for range launches {
			err = errors.Join(err, addTo(k, s, x, amount))
		}
		return err
	}
}

// zeroing is a capture of a fill.
func zeroing[T any](x *runtime.Ref[T]) func(*runtime.Stream) error {
	return func(s *runtime.Stream) error { return runtime.Zero(s, x) }
}

// Ten launches and the same as a graph do the same.
func TestGraphDoesWhatLaunchesDo(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n, launches, rounds = 1000, 10, 5
		c := contextOf(t, rt)
		s := newStream(t, c)
		k := kernel(t, c, "add")
		launched, replayed := upload(t, s, count(0, n)), upload(t, s, count(0, n))
		g := capture(t, s, adding(k, replayed, launches, 3))
		assert.NotZero(t, g.Handle())
		assert.Same(t, c, g.Context())
		nodes, err := g.Nodes()
		require.NoError(t, err)
		assert.Equal(t, launches, nodes)
		assert.Equal(t, count(0, n), download(t, s, replayed), "nothing runs while it is captured")
		x := instantiate(t, g)
		assert.NotZero(t, x.Handle())
		require.NoError(t, x.Upload(s))
		for range rounds {
			require.NoError(t, adding(k, launched, launches, 3)(s))
			require.NoError(t, x.Launch(s))
		}
		assert.Equal(t, count(3*launches*rounds, n), download(t, s, launched))
		assert.Equal(t, count(3*launches*rounds, n), download(t, s, replayed))
		stats := c.Stats()
		assert.EqualValues(t, rounds, stats.GraphLaunches)
		assert.EqualValues(t, 0, stats.Graphs)
		assert.EqualValues(t, 1, stats.GraphExecs)
		require.NoError(t, x.Close())
		require.NoError(t, x.Close())
		assert.ErrorIs(t, x.Launch(s), driver.ErrClosed)
		assert.ErrorIs(t, x.Upload(s), driver.ErrClosed)
		assert.ErrorIs(t, x.Update(g), driver.ErrClosed)
		_, err = g.Nodes()
		assert.ErrorIs(t, err, driver.ErrClosed)
		_, err = g.Instantiate()
		assert.ErrorIs(t, err, driver.ErrClosed)
	})
}

// Everything that can be recorded, on two streams.
func TestGraphOfEverything(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 256
		c := contextOf(t, rt)
		s, other := newStream(t, c), newStream(t, c)
		fork, join := newEvent(t, c), newEvent(t, c)
		k := kernel(t, c, "add")
		x, y, z := alloc[uint32](t, s, n), alloc[uint32](t, s, n), alloc[uint32](t, s, n)
		in, out := allocHost[uint32](t, c, n), allocHost[uint32](t, c, n)
		called := 0
		g := capture(t, s, func(s *runtime.Stream) error {
			return errors.Join(
				runtime.UploadHost(s, x, in),
				fork.Record(s), other.Wait(fork),
				runtime.Fill(other, y, 5), addTo(k, other, y, 1),
				runtime.Zero(s, z), addTo(k, s, x, 10),
				join.Record(other), s.Wait(join),
				runtime.Copy(s, z.Slice(0, n/2), x.Slice(0, n/2)),
				runtime.Copy(s, z.Slice(n/2, n), y.Slice(n/2, n)),
				runtime.DownloadHost(s, out, z),
				s.LaunchHostFunc(func() { called++ }),
			)
		})
		nodes, err := g.Nodes()
		require.NoError(t, err)
		assert.Equal(t, 9, nodes)
		graph := instantiate(t, g)
		for round := range 3 {
			copy(in.Data(), count(uint32(1000*round), n))
			require.NoError(t, graph.Launch(s))
			synchronize(t, s)
			want := count(uint32(1000*round)+10, n)
			for i := n / 2; i < n; i++ {
				want[i] = 6
			}
			assert.Equal(t, want, out.Data())
			assert.Equal(t, round+1, called)
		}
		require.NoError(t, runtime.Fill(other, y, 1), "the second stream is an ordinary one again")
		synchronize(t, other)
	})
}

func TestGraphUpdate(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 100
		c := contextOf(t, rt)
		s := newStream(t, c)
		k := kernel(t, c, "add")
		a, b := upload(t, s, count(0, n)), upload(t, s, count(0, n))
		x := instantiate(t, capture(t, s, adding(k, a, 2, 1)))
		require.NoError(t, x.Launch(s))
		changed := capture(t, s, adding(k, b, 2, 50))
		require.NoError(t, x.Update(changed))
		require.NoError(t, changed.Close())
		require.NoError(t, x.Launch(s))
		assert.Equal(t, count(2, n), download(t, s, a))
		assert.Equal(t, count(100, n), download(t, s, b))

		for _, other := range []struct {
			name string
			f    func(*runtime.Stream) error
			text string
		}{
			{"more", adding(k, a, 3, 1), ": 2 operations became 3; instantiate the graph instead"},
			{"fewer", adding(k, a, 1, 1), ": 2 operations became 1"},
			{"another kind", func(s *runtime.Stream) error { return errors.Join(addTo(k, s, a, 1), runtime.Zero(s, a)) },
				": operation 1 was a launch of add and is a fill"},
		} {
			g := capture(t, s, other.f)
			err := x.Update(g)
			require.ErrorIs(t, err, driver.ResultGraphExecUpdateFailure, other.name)
			assert.ErrorContains(t, err, other.text, other.name)
			require.NoError(t, g.Close())
		}
		require.NoError(t, x.Launch(s), "it is as it was")
		assert.Equal(t, count(2, n), download(t, s, a))
		assert.Equal(t, count(200, n), download(t, s, b))
	})
}

// Updates and launches from many goroutines do not get in each other's way.
func TestGraphConcurrently(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n, each = 64, 50
		c := contextOf(t, rt)
		k := kernel(t, c, "add")
		setup := newStream(t, c)
		x := upload(t, setup, count(0, n))
		g := capture(t, setup, adding(k, x, 1, 1))
		graph, err := g.Instantiate()
		require.NoError(t, err)
		var done []<-chan error
		for i := range 8 {
			s := newStream(t, c)
			done = append(done, async(func() (err error) {
				for range each {
					if i%2 == 0 {
						err = errors.Join(err, graph.Launch(s))
					} else {
						err = errors.Join(err, graph.Update(g))
						again, captured := s.Capture(adding(k, x, 1, 1))
						if captured == nil {
							captured = errors.Join(graph.Update(again), again.Close())
						}
						err = errors.Join(err, captured)
					}
				}
				return errors.Join(err, s.Synchronize(context.Background()))
			}))
		}
		for _, d := range done {
			require.NoError(t, await(t, "it ends", d))
		}
		assert.Equal(t, count(4*each, n), download(t, setup, x))
	})
}

// oneByOne is a driver that counts calls about a graph which come beside another one: it does not lock graphs.
type oneByOne struct {
	*drivertest.Driver
	inside [2]atomic.Int32 // of graphs, and of executable graphs
	beside atomic.Int32
}

func (d *oneByOne) enter(kind int) (leave func()) {
	if d.inside[kind].Add(1) > 1 {
		d.beside.Add(1)
	}
	time.Sleep(time.Microsecond) // so that another caller may come
	return func() { d.inside[kind].Add(-1) }
}

func (d *oneByOne) GraphLaunch(x driver.GraphExec, s driver.Stream) driver.Result {
	defer d.enter(1)()
	return d.Driver.GraphLaunch(x, s)
}

func (d *oneByOne) GraphUpload(x driver.GraphExec, s driver.Stream) driver.Result {
	defer d.enter(1)()
	return d.Driver.GraphUpload(x, s)
}

func (d *oneByOne) GraphExecUpdate(x driver.GraphExec, g driver.Graph) (driver.GraphExecUpdateInfo, driver.Result) {
	defer d.enter(1)()
	defer d.enter(0)()
	return d.Driver.GraphExecUpdate(x, g)
}

func (d *oneByOne) GraphGetNodes(g driver.Graph) ([]driver.GraphNode, driver.Result) {
	defer d.enter(0)()
	return d.Driver.GraphGetNodes(g)
}

func (d *oneByOne) GraphInstantiate(g driver.Graph, flags uint64) (driver.GraphExec, driver.Result) {
	defer d.enter(0)()
	return d.Driver.GraphInstantiate(g, flags)
}

func TestCallsAboutAGraphComeOneByOne(t *testing.T) {
	gpu := &oneByOne{Driver: drivertest.ForTest(t, drivertest.Config{})}
	c := contextOf(t, openOn(t, gpu))
	s := newStream(t, c)
	x := upload(t, s, count(0, 64))
	g := capture(t, s, adding(kernel(t, c, "add"), x, 1, 1))
	graph, err := g.Instantiate()
	require.NoError(t, err)
	var done []<-chan error
	for i := range 6 {
		s := newStream(t, c)
		done = append(done, async(func() (err error) {
			for round := range 100 {
				switch {
				case round < 50: // nobody waits in a queue
					err = errors.Join(err, graph.Launch(s))
				case i == 0:
					err = errors.Join(err, graph.Update(g))
				case i == 1:
					again, failed := g.Instantiate()
					_, nodes := g.Nodes()
					if err = errors.Join(err, failed, nodes); failed == nil {
						err = errors.Join(err, again.Close())
					}
				case i == 2:
					err = errors.Join(err, graph.Upload(s))
				default:
					err = errors.Join(err, graph.Launch(s))
				}
			}
			return err
		}))
	}
	for _, d := range done {
		require.NoError(t, await(t, "it ends", d))
	}
	assert.Zero(t, gpu.beside.Load())
}

func TestGraphOfAnotherDevice(t *testing.T) {
	rt, _ := open(t, twoDevices())
	a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
	onA, onB := newStream(t, a), newStream(t, b)
	x := instantiate(t, capture(t, onA, zeroing(alloc[byte](t, onA, 8))))
	g := capture(t, onB, zeroing(alloc[byte](t, onB, 8)))
	for _, err := range []error{x.Launch(onB), x.Upload(onB), x.Update(g)} {
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, "device 1")
	}
}

// A graph on drivers without its functions, or where calls on a stream need a context.
func TestGraphOfOtherDrivers(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{HotPathNeedsContext: true})
	c := contextOf(t, rt)
	s := newStream(t, c)
	x := upload(t, s, count(0, 10))
	g := capture(t, s, adding(kernel(t, c, "add"), x, 2, 1))
	graph, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, errors.Join(graph.Upload(s), graph.Launch(s), graph.Update(g), graph.Launch(s)))
	assert.Equal(t, count(4, 10), download(t, s, x))
	assert.Equal(t, gpu.Calls("cuCtxPushCurrent"), gpu.Calls("cuCtxPopCurrent"))

	rt, _ = open(t, drivertest.Config{Version: 11000})
	c = contextOf(t, rt)
	s = newStream(t, c)
	g = capture(t, s, func(s *runtime.Stream) error { return nil })
	_, err = g.Instantiate()
	require.ErrorIs(t, err, driver.ErrSymbolMissing)
	assert.ErrorContains(t, err, "cuGraphInstantiateWithFlags needs CUDA driver API 11.4, found 11.0")
}

// After a sticky error a graph answers with it, and nothing hangs.
func TestGraphOfALostDevice(t *testing.T) {
	rt, gpu := openFaulty(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	x := instantiate(t, capture(t, s, zeroing(alloc[byte](t, s, 8))))
	gpu.Fail("cuGraphLaunch", 1, driver.ResultIllegalAddress)
	require.ErrorIs(t, x.Launch(s), driver.ErrDeviceLost)
	require.ErrorIs(t, x.Launch(s), driver.ErrDeviceLost)
	_, err := s.Capture(func(*runtime.Stream) error { return nil })
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	require.NoError(t, x.Close())

	rt, gpu = openFaulty(t, drivertest.Config{})
	c = contextOf(t, rt)
	s = newStream(t, c)
	b := alloc[uint32](t, s, 8)
	_, err = s.Capture(func(s *runtime.Stream) error {
		gpu.Fail("cuMemsetD8Async", 1, driver.ResultIllegalAddress)
		_ = runtime.Zero(s, b)
		return nil
	})
	require.ErrorIs(t, err, driver.ErrDeviceLost)
}

func ExampleStream_Capture() {
	if err := replay(); err != nil {
		fmt.Println(err)
	}
	// Output: [31 32 33 34]
}

func replay() error {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.New(drivertest.Config{})))
	if err != nil {
		return err
	}
	defer rt.Close()
	backend, err := rt.Probe("example")
	if err != nil {
		return err
	}
	module, err := backend.Context.LoadModule(runtime.Image{Code: kernelsPTX})
	if err != nil {
		return err
	}
	add, err := module.Kernel("add") // add(uint32 *x, uint64 n, uint32 amount)
	if err != nil {
		return err
	}
	data := []uint32{1, 2, 3, 4}
	x, err := runtime.Alloc[uint32](backend.Stream, len(data))
	if err != nil {
		return err
	}
	defer x.Close()

	graph, err := backend.Stream.Capture(func(s *runtime.Stream) error {
		for range 3 {
			err := add.Launch(s, runtime.Shape1D(len(data), 128), runtime.InOut(x), runtime.Value(uint64(len(data))), runtime.Value(uint32(5)))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	exec, err := graph.Instantiate()
	if err != nil {
		return err
	}
	defer exec.Close()
	s := backend.Stream
	if err := errors.Join(graph.Close(), runtime.Upload(bg, s, x, data), exec.Launch(s), exec.Launch(s), runtime.Download(bg, s, data, x)); err != nil {
		return err
	}
	fmt.Println(data)
	return nil
}
