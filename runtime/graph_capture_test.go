package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// usable checks that a stream is an ordinary one.
func usable(t *testing.T, s *runtime.Stream, why string) {
	t.Helper()
	x := upload(t, s, count(7, 10))
	require.NoError(t, runtime.Zero(s, x), why)
	assert.Equal(t, make([]uint32, 10), download(t, s, x), why)
	require.NoError(t, x.Close(), why)
	require.NoError(t, capture(t, s, func(*runtime.Stream) error { return nil }).Close(), why)
}

// What cannot be recorded is named, whether the function passes the error on or not.
func TestCaptureRefuses(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 8
		c := contextOf(t, rt)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s, other := newStream(t, c), newStream(t, c)
		x := alloc[uint32](t, s, n)
		e, err := c.NewTimingEvent()
		require.NoError(t, err)
		outside := newEvent(t, c)
		ready := instantiate(t, capture(t, s, func(s *runtime.Stream) error { return runtime.Zero(s, x) }))
		recorded := func(f func() error) func() error {
			return func() error { return errors.Join(e.Record(s), f()) }
		}
		for _, c := range []struct {
			name string
			call func() error
			text string
		}{
			{"Synchronize", func() error { return s.Synchronize(ctx) }, "Stream.Synchronize while the stream is captured: nothing runs"},
			{"Query", func() error { _, err := s.Query(); return err }, "Stream.Query while the stream is captured: nothing runs"},
			{"Upload", func() error { return runtime.Upload(bg, s, x, make([]uint32, n)) }, "Upload while the stream is captured: it copies from or to Go memory"},
			{"Download", func() error { return runtime.Download(bg, s, make([]uint32, n), x) }, "Download while the stream is captured"},
			{"Capture", func() error { _, err := s.Capture(func(*runtime.Stream) error { return nil }); return err }, "the stream is captured already"},
			{"GraphExec.Launch", func() error { return ready.Launch(s) }, "GraphExec.Launch while the stream is captured"},
			{"Alloc", func() error { _, err := runtime.Alloc[byte](s, 1); return err }, "Alloc while the stream is captured: allocate before the capture or on another stream"},
			{"GraphExec.Upload", func() error { return ready.Upload(s) }, "GraphExec.Upload while the stream is captured"},
			{"Event.Query", recorded(func() error { _, err := e.Query(); return err }), "Event.Query of an event that was recorded while its stream was captured"},
			{"Event.Synchronize", recorded(func() error { return e.Synchronize(ctx) }), "Event.Synchronize of an event"},
			{"Event.Since", recorded(func() error { _, err := e.Since(e); return err }), "Event.Since of an event"},
			{"Context.Synchronize", c.Synchronize, "Context.Synchronize while a stream of the device is captured"},
			{"an event from outside", func() error { return s.Wait(outside) }, "recorded outside of the capture"},
			{"not joined", func() error { return errors.Join(e.Record(s), other.Wait(e), runtime.Zero(other, x)) }, "joined were streams "},
		} {
			require.NoError(t, outside.Record(other))
			require.NoError(t, e.Record(other))
			var heard error
			_, err := s.Capture(func(s *runtime.Stream) error {
				heard = errors.Join(runtime.Zero(s, x), c.call())
				return nil
			})
			if c.name == "Context.Synchronize" { // of nobody's stream
				require.NoError(t, err, c.name)
			} else if c.name == "Capture" {
				require.NoError(t, err, c.name)
			} else {
				require.ErrorIs(t, err, driver.ErrCaptureFailed, c.name)
				assert.ErrorContains(t, err, c.text, c.name)
			}
			if c.name != "not joined" {
				require.ErrorIs(t, heard, driver.ErrCaptureFailed, c.name)
				assert.ErrorContains(t, heard, c.text, c.name)
			}
			usable(t, s, c.name)
			usable(t, other, c.name)

			_, err = s.Capture(func(s *runtime.Stream) error { return errors.Join(runtime.Zero(s, x), c.call()) })
			require.ErrorIs(t, err, driver.ErrCaptureFailed, c.name)
			assert.ErrorContains(t, err, c.text, c.name)
			usable(t, s, c.name)
			usable(t, other, c.name)
		}
		_, err = s.Capture(nil)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	})
}

// What names no stream is not recorded and happens at once.
func TestCaptureAllows(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s, other := newStream(t, c), newStream(t, c)
		x, gone := alloc[uint32](t, s, 8), alloc[uint32](t, s, 8)
		ready := newEvent(t, c)
		require.NoError(t, ready.Record(other))
		synchronize(t, other)
		makeAndForget(t, c)
		goruntime.GC()
		time.Sleep(10 * time.Millisecond)
		var inside *runtime.Ref[uint32]
		g := capture(t, s, func(s *runtime.Stream) error {
			for _, calls := range [][]namedCall{hotCalls(t, c), coldCalls(t, c)} {
				for _, call := range calls {
					if call.name != "Synchronize" { // of the context
						require.NoError(t, call.call(), call.name)
					}
				}
			}
			inside = upload(t, other, count(1, 8))
			_, err := ready.Query()
			return errors.Join(err, gone.Close(), runtime.Copy(s, x, inside), ready.Synchronize(context.Background()))
		})
		require.NoError(t, instantiate(t, g).Launch(s))
		assert.Equal(t, count(1, 8), download(t, s, x))
	})
}

// The events of a capture mark nothing afterwards, until they are recorded again.
func TestEventsOfACapture(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s, other := newStream(t, c), newStream(t, c)
		e := newEvent(t, c)
		capture(t, s, e.Record)
		_, err := e.Query()
		require.ErrorIs(t, err, driver.ErrCaptureFailed)
		assert.ErrorContains(t, err, "until it is recorded again")
		assert.ErrorIs(t, e.Synchronize(context.Background()), driver.ErrCaptureFailed)
		assert.ErrorIs(t, other.Wait(e), driver.ErrCaptureFailed)
		require.NoError(t, e.Record(other))
		require.NoError(t, e.Synchronize(context.Background()))
		require.NoError(t, s.Wait(e))
	})
}

// Two captures at the same time, on one goroutine and on two, do not mix.
func TestCapturesDoNotMix(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		a, b := newStream(t, c), newStream(t, c)
		x, y := alloc[uint32](t, a, 8), alloc[uint32](t, b, 8)
		e := newEvent(t, c)
		var inner *runtime.Graph
		outer, err := a.Capture(func(a *runtime.Stream) (err error) {
			inner, err = b.Capture(func(b *runtime.Stream) error {
				return errors.Join(runtime.Zero(a, x), runtime.Zero(b, y), runtime.Fill(b, y, 3))
			})
			return err
		})
		require.NoError(t, err)
		for g, want := range map[*runtime.Graph]int{outer: 1, inner: 2} {
			nodes, err := g.Nodes()
			require.NoError(t, err)
			assert.Equal(t, want, nodes)
		}
		outer, err = a.Capture(func(a *runtime.Stream) error {
			_, err := b.Capture(func(b *runtime.Stream) error {
				return errors.Join(e.Record(a), b.Wait(e))
			})
			assert.ErrorIs(t, err, driver.ErrCaptureFailed)
			assert.ErrorContains(t, err, "two do not merge")
			return runtime.Zero(a, x)
		})
		require.NoError(t, err, "the other capture is not disturbed")
		require.NoError(t, instantiate(t, outer).Launch(a))
		synchronize(t, a)
	})
}

// The goroutine of a capture may change its thread, and others may help.
func TestCaptureOnSeveralThreads(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		k := kernel(t, c, "add")
		x := upload(t, s, count(0, 8))
		g := capture(t, s, func(s *runtime.Stream) (err error) {
			for range 10 {
				err = errors.Join(err, await(t, "it is captured", async(func() error {
					goruntime.LockOSThread() // never unlocked: the thread ends with the goroutine
					return addTo(k, s, x, 1)
				})))
			}
			return err
		})
		require.NoError(t, instantiate(t, g).Launch(s))
		assert.Equal(t, count(10, 8), download(t, s, x))
	})
}

// However the function ends, the stream is an ordinary one again and nothing is held.
func TestCaptureEnds(t *testing.T) {
	own := errors.New("of the function")
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := alloc[uint32](t, s, 8)
		_, err := s.Capture(func(s *runtime.Stream) error { return errors.Join(runtime.Zero(s, x), own) })
		require.ErrorIs(t, err, own)
		usable(t, s, "an error")
		_, err = s.Capture(func(s *runtime.Stream) error {
			require.NoError(t, runtime.Zero(s, x))
			panic("of the function")
		})
		require.EqualError(t, err, "panic: of the function")
		usable(t, s, "a panic")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = s.Capture(func(s *runtime.Stream) error {
				goruntime.Goexit()
				return nil
			})
		}()
		await(t, "the goroutine ends", ended)
		usable(t, s, "the end of the goroutine")
		before := c.Stats()
		require.NoError(t, x.Close())
		after := c.Stats()
		assert.Equal(t, before.Refs-1, after.Refs, "no graph holds it")
		assert.Zero(t, after.GraphExecs)
	})
}

// A stream that is closed while it is captured is given back afterwards.
func TestCaptureOfAStreamThatIsClosed(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s, other := newStream(t, c), newStream(t, c)
		x := alloc[uint32](t, s, 8)
		fork, join := newEvent(t, c), newEvent(t, c)
		streams := c.Stats().Streams
		g := capture(t, s, func(s *runtime.Stream) error {
			return errors.Join(fork.Record(s), other.Wait(fork), runtime.Zero(other, x), join.Record(other), s.Wait(join),
				other.Close(), s.Close(), fork.Close(), join.Close())
		})
		assert.Equal(t, streams-2, c.Stats().Streams)
		_, err := s.Capture(func(*runtime.Stream) error { return nil })
		assert.ErrorIs(t, err, driver.ErrClosed)
		last := newStream(t, c)
		require.NoError(t, instantiate(t, g).Launch(last))
		assert.Equal(t, make([]uint32, 8), download(t, last, x))
	})
}

// The runtime waits for a capture that is under way, and closes well.
func TestCloseWhileCapturing(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		rt = openOn(t, rt.Driver())
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := alloc[uint32](t, s, 8)
		var closed <-chan error
		g, err := s.Capture(func(s *runtime.Stream) error {
			require.NoError(t, runtime.Zero(s, x))
			closed = async(rt.Close)
			time.Sleep(20 * time.Millisecond)
			assert.Empty(t, closed)
			return nil
		})
		require.NoError(t, await(t, "the runtime closes", closed))
		if err == nil {
			_, err = g.Instantiate()
		}
		assert.ErrorIs(t, err, driver.ErrClosed)
	})
}

// Whatever call of the driver fails, nothing is left over and the next attempt works.
func TestGraphWithFaults(t *testing.T) {
	t.Run("driver 13", func(t *testing.T) { graphWithFaults(t, drivertest.Config{}) })
	t.Run("context needed", func(t *testing.T) { graphWithFaults(t, drivertest.Config{HotPathNeedsContext: true}) })
}

// ofSlowWaits are the calls that a wait makes on a slow machine only.
var ofSlowWaits = []string{"cuStreamQuery", "cuEventQuery", "cuEventCreate", "cuThreadExchangeStreamCaptureMode"}

func graphWithFaults(t *testing.T, config drivertest.Config) {
	rt, gpu := openFaulty(t, config)
	c := contextOf(t, rt)
	k := kernel(t, c, "add")
	s := newStream(t, c)
	x := upload(t, s, count(0, 8))
	all := func() (err error) {
		g, err := s.Capture(adding(k, x, 2, 1))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, g.Close()) }()
		graph, err := g.Instantiate()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, graph.Close()) }()
		return errors.Join(graph.Upload(s), graph.Launch(s), graph.Update(g), graph.Launch(s), s.Synchronize(context.Background()))
	}
	require.NoError(t, all())
	gpu.ResetCalls()
	require.NoError(t, all())
	calls := map[string]int{}
	for _, e := range driver.Entries() {
		if n := gpu.Calls(e.Name); n > 0 && !slices.Contains(ofSlowWaits, e.Name) {
			calls[e.Name] = n
		}
	}
	require.Greater(t, len(calls), 8)
	undestroyed := 0
	for op, n := range calls {
		for nth := range n {
			for _, r := range []driver.Result{driver.ResultUnknown, driver.ResultOutOfMemory, driver.ResultStreamCaptureInvalidated} {
				gpu.ResetCalls()
				gpu.Fail(op, nth+1, r)
				err := all()
				for try := 0; gpu.Calls(op) <= nth && try < 100; try++ { // there were fewer calls this time
					err = all()
				}
				switch {
				case op == "cuCtxPopCurrent": // of which the hook hears
				case err == nil && (op == "cuEventRecord" || op == "cuCtxPushCurrent"):
					// The end of the work before the capture is not marked, which nobody needs here.
				case err == nil && op == "cuStreamWriteValue64": // the wait records an event
				default:
					assert.ErrorIs(t, err, r, "call %d of %s", nth, op)
				}
				usable(t, s, op)
				require.NoError(t, all(), "after call %d of %s", nth, op)
				if op == "cuGraphDestroy" || op == "cuGraphExecDestroy" {
					undestroyed++
				}
			}
		}
	}
	require.NoError(t, newEvent(t, c).Close()) // gives back what could not be before
	live := c.Stats().Refs
	require.NoError(t, x.Close())
	assert.Equal(t, live-1, c.Stats().Refs, "nothing holds it")
	graphs := 0
	for _, leak := range gpu.Leaks() {
		if strings.Contains(leak, "graph 0x") {
			graphs++
		}
	}
	assert.Equal(t, undestroyed, graphs, "only what the driver refused to destroy is left")
}
