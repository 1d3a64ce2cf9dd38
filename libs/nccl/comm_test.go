package nccl_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/nccl"
	"github.com/purecuda/purecuda/libs/nccl/nccltest"
	"github.com/purecuda/purecuda/runtime"
)

// join makes a communicator of each part of the ranks, as so many processes would.
func (b bench) join(parts ...[]int) (all []*nccl.Comm) {
	b.Helper()
	id, err := nccl.UniqueID(b.api)
	require.NoError(b, err)
	type result struct {
		at  int
		c   *nccl.Comm
		err error
	}
	results := make(chan result, len(parts))
	for i, ranks := range parts {
		var streams []*runtime.Stream
		for _, r := range ranks {
			streams = append(streams, b.streams[r])
		}
		go func() {
			c, err := nccl.Join(bg, b.api, id, len(b.streams), ranks, streams, nccl.Options{})
			results <- result{i, c, err}
		}()
	}
	all = make([]*nccl.Comm, len(parts))
	for range parts {
		r := <-results
		require.NoError(b, r.err)
		all[r.at] = r.c
	}
	return all
}

// together runs f for all communicators at the same time.
func together(all []*nccl.Comm, f func(i int, c *nccl.Comm) error) (err error) {
	results := make(chan error, len(all))
	for i, c := range all {
		go func() { results <- f(i, c) }()
	}
	for range all {
		err = errors.Join(err, <-results)
	}
	return err
}

// Processes that have a rank each, and one that has two, in an order of its own.
func TestProcesses(t *testing.T) {
	b, _, _ := simulated(t, 4)
	comms := b.join([]int{1}, []int{3, 0}, []int{2})
	assert.Equal(t, []int{3, 0}, comms[1].Ranks())
	x := upload(b, [][]float64{{1}, {2}, {3}, {4}})
	of := func(c *nccl.Comm) (all []*runtime.Ref[float64]) {
		for _, r := range c.Ranks() {
			all = append(all, x[r])
		}
		return all
	}
	for range 20 {
		require.NoError(t, within(t, "Do", func() error {
			return together(comms, func(i int, c *nccl.Comm) error {
				var result *runtime.Ref[float64]
				if i == 1 {
					result = x[3]
				}
				err := c.Do(bg, nccl.Reduce(nccl.Sum, 3, of(c), result))
				err = errors.Join(err, c.Do(bg, nccl.Broadcast(3, of(c))))
				return errors.Join(err, c.Do(bg, nccl.AllReduce(nccl.Avg, of(c), of(c))))
			})
		}))
	}
	want := 10.0
	for range 19 {
		want *= 4
	}
	assert.Equal(t, []float64{want}, download(b, 2, x[2]))
	err := comms[0].Do(bg, nccl.Reduce(nccl.Sum, 3, of(comms[0]), x[3]))
	assert.ErrorContains(t, err, "want a Ref for the result if it is a rank of this process, and else nil")

	// Between processes Send and Recv are calls of their own.
	require.NoError(t, within(t, "Do", func() error {
		return together([]*nccl.Comm{comms[0], comms[2]}, func(i int, c *nccl.Comm) error {
			if i == 0 {
				return c.Do(bg, nccl.Send(1, 2, x[1]))
			}
			return c.Do(bg, nccl.Recv(2, 1, x[2]))
		})
	}))
	assert.NoError(t, within(t, "Close", func() error { return together(comms, func(_ int, c *nccl.Comm) error { return c.Close() }) }))
}

// Ranks that are joined by themselves are recorded, each in a graph of its own, which runs again and again.
func TestGraphs(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		comms := b.join([]int{0}, []int{1})
		defer func() {
			assert.NoError(t, within(t, "Close", func() error { return together(comms, func(_ int, c *nccl.Comm) error { return c.Close() }) }))
		}()
		x := upload(b, [][]int32{{1, 10}, {2, 20}})
		execs := make([]*runtime.GraphExec, len(comms))
		require.NoError(t, together(comms, func(i int, c *nccl.Comm) error {
			graph, err := b.streams[i].Capture(func(*runtime.Stream) error { return c.Do(bg, nccl.AllReduce(nccl.Sum, x[i:i+1], x[i:i+1])) })
			if err != nil {
				return err
			}
			execs[i], err = graph.Instantiate()
			return errors.Join(err, graph.Close())
		}))
		for range 3 {
			for i, e := range execs {
				require.NoError(t, e.Launch(b.streams[i]))
			}
		}
		for i, e := range execs {
			assert.Equal(t, []int32{12, 120}, download(b, i, x[i]))
			require.NoError(t, e.Close())
		}
	}, 2)
}

// A rank that never comes ends nobody's patience but that of the context.
func TestARankThatNeverJoins(t *testing.T) {
	b, _, lib := simulated(t, 2)
	id, err := nccl.UniqueID(lib)
	require.NoError(t, err)
	late := errors.New("too late")
	ctx, cancel := context.WithCancelCause(bg)
	joined := make(chan error, 1)
	go func() {
		_, err := nccl.Join(ctx, lib, id, 2, []int{0}, b.streams[:1], nccl.Options{})
		joined <- err
	}()
	for end := time.Now().Add(patience); lib.Left() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	cancel(late)
	err = <-joined
	require.ErrorIs(t, err, late)
	require.ErrorIs(t, err, driver.ErrTimeout)
	assert.ErrorContains(t, err, "not all ranks have come")
	assert.Zero(t, lib.Left())
}

// lost makes a communicator of two processes and puts work on the first, which the second one never joins.
func lost(t *testing.T, o nccl.Options) (b bench, lib *nccltest.Library, here, other *nccl.Comm, x *runtime.Ref[float32]) {
	b, _, lib = simulated(t, 2)
	id, err := nccl.UniqueID(lib)
	require.NoError(t, err)
	var comms [2]*nccl.Comm
	results := make(chan error, 2)
	for i, o := range []nccl.Options{o, {}} { // the other one has time to close
		go func() {
			var err error
			comms[i], err = nccl.Join(bg, lib, id, 2, []int{i}, b.streams[i:i+1], o)
			results <- err
		}()
	}
	require.NoError(t, errors.Join(<-results, <-results))
	x, err = runtime.UploadNew(bg, b.streams[0], []float32{1, 2, 3})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, x.Close()) })
	require.NoError(t, comms[0].Do(bg, nccl.AllReduce(nccl.Sum, []*runtime.Ref[float32]{x}, []*runtime.Ref[float32]{x})))
	return b, lib, comms[0], comms[1], x
}

// refused is what a communicator says that has ended.
func refused(t *testing.T, c *nccl.Comm, x *runtime.Ref[float32], target error) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(patience):
		require.FailNow(t, "the communicator goes on")
	}
	all := []*runtime.Ref[float32]{x}
	for _, err := range []error{c.Err(), c.Do(bg, nccl.Broadcast(0, all)), within(t, "Wait", func() error { return c.Wait(bg) })} {
		assert.ErrorIs(t, err, target)
	}
}

func TestALostRankEndsWithTheContext(t *testing.T) {
	b, _, c, other, x := lost(t, nccl.Options{})
	ctx, cancel := context.WithTimeout(bg, 10*time.Millisecond)
	defer cancel()
	err := within(t, "Wait", func() error { return c.Wait(ctx) })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, driver.ErrTimeout)
	assert.NoError(t, within(t, "the stream", func() error { return b.streams[0].Synchronize(bg) }), "the device is free")
	refused(t, c, x, driver.ErrTimeout)
	assert.NoError(t, c.Close())
	other.Abort()
	assert.NoError(t, other.Close())
}

// NCCL reports a fault while work is under way: nobody has to ask.
func TestALostRankThatIsNoticed(t *testing.T) {
	b, lib, c, other, x := lost(t, nccl.Options{})
	lib.LoseRank(nccl.StatusRemoteError)
	assert.NoError(t, within(t, "the stream", func() error { return b.streams[0].Synchronize(bg) }))
	refused(t, c, x, nccl.StatusRemoteError)
	refused(t, other, x, nccl.StatusRemoteError)
	assert.ErrorContains(t, c.Err(), "ncclRemoteError (6): another rank has ended, or the network to it: simulated")
	assert.NoError(t, within(t, "Close", func() error { return errors.Join(c.Close(), c.Close(), other.Close()) }))
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	b, _, c, other, x := lost(t, nccl.Options{CloseTimeout: 10 * time.Millisecond})
	err := within(t, "Close", c.Close)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.NoError(t, b.streams[0].Synchronize(bg))
	assert.ErrorIs(t, c.Do(bg, nccl.Broadcast(0, []*runtime.Ref[float32]{x})), driver.ErrClosed)
	assert.NoError(t, c.Close())
	assert.NoError(t, within(t, "Close", other.Close))
}

func TestAbort(t *testing.T) {
	b, _, c, other, x := lost(t, nccl.Options{})
	waiting := make(chan error, 1)
	go func() { waiting <- c.Wait(bg) }()
	c.Abort()
	c.Abort()
	assert.ErrorIs(t, <-waiting, driver.ErrClosed)
	assert.NoError(t, b.streams[0].Synchronize(bg))
	refused(t, c, x, driver.ErrClosed)
	other.Abort()
	assert.NoError(t, errors.Join(c.Close(), other.Close()))
}

// Close lets the work end, and what was closed refuses.
func TestClose(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		c, err := nccl.All(b.api, b.streams, nccl.Options{})
		require.NoError(t, err)
		x := wideOf(b)
		require.NoError(t, c.Do(bg, nccl.AllReduce(nccl.Sum, x, x)))
		require.NoError(t, within(t, "Close", c.Close))
		require.NoError(t, c.Close())
		assert.ErrorIs(t, c.Do(bg, nccl.AllReduce(nccl.Sum, x, x)), driver.ErrClosed)
		assert.ErrorIs(t, c.Err(), driver.ErrClosed)
		assert.ErrorIs(t, c.Wait(bg), driver.ErrClosed)
		c.Abort()
	}, 1, 2)
}

// A communicator ends with the first of its contexts, and a new one works.
func TestReset(t *testing.T) {
	b, _, lib := simulated(t, 3)
	c, err := nccl.All(b.api, b.streams, nccl.Options{})
	require.NoError(t, err)
	x := wideOf(b)
	require.NoError(t, c.Do(bg, nccl.Broadcast(0, x)))
	require.NoError(t, b.streams[1].Context().Reset(bg))
	assert.Zero(t, lib.Left())
	err = c.Do(bg, nccl.Broadcast(0, x))
	require.ErrorIs(t, err, driver.ErrRefStale)
	assert.ErrorContains(t, err, "make a new one")
	assert.NoError(t, c.Close())
	for i, s := range b.streams {
		b.streams[i], err = s.Context().NewStream()
		require.NoError(t, err)
	}
	c, y := b.all(), wideOf(b)
	assert.NoError(t, c.Do(bg, nccl.Broadcast(0, y)))
}

func TestRuntimeClose(t *testing.T) {
	b, _, lib := simulated(t, 2)
	c, err := nccl.All(b.api, b.streams, nccl.Options{})
	require.NoError(t, err)
	require.NoError(t, b.rt.Close())
	assert.Zero(t, lib.Left())
	<-c.Done()
	assert.NoError(t, c.Close())
}

// A communicator that nobody refers to ends.
func TestForgotten(t *testing.T) {
	b, _, lib := simulated(t, 2)
	func() {
		c, err := nccl.All(b.api, b.streams, nccl.Options{})
		require.NoError(t, err)
		x := wideOf(b)
		require.NoError(t, c.Do(bg, nccl.Broadcast(0, x)))
	}()
	for end := time.Now().Add(patience); lib.Left() > 0; time.Sleep(time.Millisecond) {
		goruntime.GC()
		require.True(t, time.Now().Before(end), "it goes on")
	}
}

// A graph keeps the communicator, which is freed after it.
func TestAGraphKeepsIt(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		c, err := nccl.All(b.api, b.streams, nccl.Options{})
		require.NoError(t, err)
		x := upload(b, [][]int64{{7}})
		graph, err := b.streams[0].Capture(func(*runtime.Stream) error { return c.Do(bg, nccl.AllReduce(nccl.Sum, x, x)) })
		require.NoError(t, err)
		exec, err := graph.Instantiate()
		require.NoError(t, err)
		require.NoError(t, graph.Close())
		require.NoError(t, within(t, "Close", c.Close))
		assert.NoError(t, c.Err(), "the graph has it")
		require.NoError(t, exec.Launch(b.streams[0]))
		assert.Equal(t, []int64{7}, download(b, 0, x[0]))
		require.NoError(t, exec.Close())
		select {
		case <-c.Done():
		case <-time.After(patience):
			require.Fail(t, "it goes on after the graph")
		}
	}, 1)
}

// A method of NCCL that fails ends the communicator, and leaves nothing.
func TestFaults(t *testing.T) {
	for method, during := range map[string]string{"UniqueID": "All", "InitRank": "All", "GroupStart": "Do", "GroupEnd": "Do", "Run": "Do", "Finalize": "Close", "Destroy": "Close"} {
		t.Run(method, func(t *testing.T) {
			config := drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100()), Kernels: nccltest.Kernels()}
			var gpu *drivertest.Driver
			if method == "GroupStart" { // without it nothing can be freed
				gpu = drivertest.New(config)
				t.Cleanup(func() { _ = gpu.Close() })
			} else {
				gpu = drivertest.ForTest(t, config)
			}
			lib := nccltest.New(gpu)
			b := on(t, gpu, lib, 2)
			if during == "All" {
				lib.Fail(method, nccl.StatusSystemError)
				_, err := nccl.All(lib, b.streams, nccl.Options{})
				require.ErrorIs(t, err, nccl.StatusSystemError)
				assert.Zero(t, lib.Left())
				return
			}
			c, err := nccl.All(lib, b.streams, nccl.Options{})
			require.NoError(t, err)
			x := wideOf(b)
			lib.Fail(method, nccl.StatusSystemError)
			if during == "Do" {
				require.ErrorIs(t, c.Do(bg, nccl.Broadcast(0, x)), nccl.StatusSystemError)
				refused(t, c, x[0], nccl.StatusSystemError)
				require.ErrorIs(t, c.Err(), driver.ErrDriverCallFailed)
				assert.NoError(t, c.Close())
			} else {
				require.ErrorIs(t, c.Close(), nccl.StatusSystemError)
			}
			if method != "GroupStart" {
				assert.Zero(t, lib.Left())
			}
		})
	}
}

// After the loss of a device the communicator ends, and Close does not wait.
func TestAfterALoss(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100()), Kernels: nccltest.Kernels()})
	t.Cleanup(func() { _ = gpu.Close() })
	b := on(t, gpu, nccltest.New(gpu), 2)
	c, err := nccl.All(b.api, b.streams, nccl.Options{})
	require.NoError(t, err)
	x := wideOf(b)
	gpu.Fail("cuMemsetD8Async", 1, driver.ResultIllegalAddress)
	require.Error(t, runtime.Zero(b.streams[0], x[0]))
	err = c.Do(bg, nccl.Broadcast(0, x))
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	select {
	case <-c.Done():
		assert.ErrorIs(t, c.Err(), driver.ErrDeviceLost)
	case <-time.After(patience):
		require.Fail(t, "the communicator goes on")
	}
	assert.NoError(t, within(t, "Close", c.Close))
}

// The ranks of processes that do not agree are a finding.
func TestRanksThatDoNotAgree(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100()), Kernels: nccltest.Kernels()})
	t.Cleanup(func() { _ = gpu.Close() })
	b := on(t, gpu, nccltest.New(gpu), 2)
	comms := b.join([]int{0}, []int{1})
	x := upload(b, [][]float32{{1, 2}, {3}})
	require.NoError(t, together(comms, func(i int, c *nccl.Comm) error { return c.Do(bg, nccl.Broadcast(0, x[i:i+1])) }))
	_ = comms[0].Wait(bg)
	require.NotEmpty(t, gpu.Findings())
	assert.Contains(t, gpu.Findings()[0].Detail, "the ranks do not agree: rank 0 runs ncclBroadcast")
}
