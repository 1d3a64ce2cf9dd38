package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// reporting is a kernel that reports a failed check with a number, unless that is 0, as gpuc writes it.
const reporting = `.version 6.4
.target sm_75
.address_size 64
.visible .entry check(.param .u64 number, .param .u64 report)
{
	.reg .b64 %rd<4>;
	.reg .pred %p;
	ld.param.u64 %rd3, [number];
	setp.eq.u64 %p, %rd3, 0;
	@%p exit;
	ld.param.u64 %rd1, [report];
	atom.global.cas.b64 %rd2, [%rd1], 0, -1;
	setp.ne.u64 %p, %rd2, 0;
	@%p exit;
	st.global.u64 [%rd1+8], %rd3;
	membar.sys;
	atom.global.exch.b64 %rd2, [%rd1], 1;
	exit;
}`

type failedCheck uint64

func (f failedCheck) Error() string { return fmt.Sprint("check ", uint64(f)) }

type checker struct {
	kernel *runtime.Kernel
	checks *runtime.Checks
}

func newChecker(t testing.TB, c *runtime.Context) *checker {
	t.Helper()
	m, err := c.CachedModule(runtime.Image{Code: []byte(reporting)})
	require.NoError(t, err)
	k := &checker{}
	k.kernel, err = m.Kernel("check")
	require.NoError(t, err)
	k.checks, err = c.NewChecks(func(words [runtime.CheckWords]uint64) error { return failedCheck(words[1]) })
	require.NoError(t, err)
	return k
}

func (k *checker) launch(s *runtime.Stream, number uint64) error {
	return k.kernel.Launch(s, runtime.Shape1D(1, 1), runtime.Value(number), k.checks.Arg())
}

// is asserts that an error is a failed check with a number, or nil for 0.
func is(t testing.TB, number uint64, err error, why ...any) {
	t.Helper()
	if number == 0 {
		assert.NoError(t, err, why...)
		return
	}
	var failed failedCheck
	if assert.ErrorAs(t, err, &failed, why...) {
		assert.EqualValues(t, number, failed, why...)
	}
}

// checking opens a simulated device without a leak check of checks that nobody asks for.
func checking(t testing.TB) (*runtime.Runtime, *runtime.Context, *checker) {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})), runtime.WithPolicy(runtime.PolicyAuto))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	c, err := rt.Context(0)
	require.NoError(t, err)
	return rt, c, newChecker(t, c)
}

// TestEveryWaitTellsAFailedCheckOnce goes through all ways to wait for a launch.
func TestEveryWaitTellsAFailedCheckOnce(t *testing.T) { onDrivers(t, everyWaitTells) }

func everyWaitTells(t *testing.T, rt *runtime.Runtime) {
	c := contextOf(t, rt)
	k := newChecker(t, c)
	ctx := t.Context()
	s, other := newStream(t, c), newStream(t, c)
	e, err := c.NewEvent()
	require.NoError(t, err)
	x, err := runtime.Alloc[int32](s, 4)
	require.NoError(t, err)
	require.NoError(t, runtime.Zero(s, x))
	// others are for what may be a part of the work on s, which is then told as well.
	others := map[string]bool{"an event": true, "another stream": true, "Download of another stream": true}
	for name, wait := range map[string]func() error{
		"Synchronize": func() error { return s.Synchronize(ctx) },
		"Check":       func() error { return s.Check(ctx) },
		"Download":    func() error { return runtime.Download(ctx, s, make([]int32, 4), x) },
		"Download2D":  func() error { return runtime.Download2D(ctx, s, make([]int32, 4), 2, x, 2, 2, 2) },
		"Query": func() error {
			for {
				if done, err := s.Query(); done || err != nil {
					return err
				}
			}
		},
		"AfterFunc": func() error {
			told := make(chan error, 1)
			s.AfterFunc(func(err error) { told <- err })
			return <-told
		},
		"an event":       func() error { return errors.Join(e.Record(s), e.Synchronize(ctx)) },
		"another stream": func() error { return errors.Join(e.Record(s), other.Wait(e), other.Synchronize(ctx)) },
		"Download of another stream": func() error {
			return errors.Join(e.Record(s), other.Wait(e), runtime.Download(ctx, other, make([]int32, 4), x))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(3) {
				require.NoError(t, k.launch(s, i))
				is(t, i, wait(), i)
				is(t, 0, other.Synchronize(ctx))
				if err := s.Synchronize(ctx); !others[name] {
					is(t, 0, err, "it is told once")
				}
				require.NoError(t, k.launch(s, 0))
				is(t, 0, wait(), "a good launch behind it")
				is(t, 0, errors.Join(s.Synchronize(ctx), other.Synchronize(ctx)))
			}
		})
	}
	require.NoError(t, x.Close())
}

// TestAFailedCheckBelongsToItsLaunch has many goroutines on one Checks, each with a stream.
func TestAFailedCheckBelongsToItsLaunch(t *testing.T) {
	for name, delay := range map[string]time.Duration{"at once": 0, "later": time.Millisecond / 2} {
		t.Run(name, func(t *testing.T) {
			onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
				c := contextOf(t, rt)
				k := newChecker(t, c)
				var all sync.WaitGroup
				for g := range uint64(64) {
					s := newStream(t, c)
					all.Go(func() {
						for i := range uint64(10) {
							number := uint64(0)
							if (g+i)%8 == 0 || delay == 0 && (g+i)%2 == 0 {
								number = 1 + g*10 + i
							}
							assert.NoError(t, k.launch(s, number))
							time.Sleep(delay)
							is(t, number, s.Synchronize(t.Context()))
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// TestClosesTellFailedChecks waits for nothing.
func TestClosesTellFailedChecks(t *testing.T) {
	for name, tell := range map[string]func(rt *runtime.Runtime, c *runtime.Context, k *checker, s *runtime.Stream) error{
		"the context": func(_ *runtime.Runtime, c *runtime.Context, _ *checker, _ *runtime.Stream) error {
			return c.Synchronize()
		},
		"the runtime": func(rt *runtime.Runtime, _ *runtime.Context, _ *checker, _ *runtime.Stream) error { return rt.Close() },
		"the stream, or the runtime": func(rt *runtime.Runtime, _ *runtime.Context, _ *checker, s *runtime.Stream) error {
			return errors.Join(s.Close(), rt.Close())
		},
		"Checks, or the runtime": func(rt *runtime.Runtime, _ *runtime.Context, k *checker, _ *runtime.Stream) error {
			return errors.Join(k.checks.Close(), rt.Close())
		},
		"Checks after the work": func(_ *runtime.Runtime, c *runtime.Context, k *checker, s *runtime.Stream) error {
			e, _ := c.NewEvent()
			_ = e.Record(s)
			for done := false; !done; {
				done, _ = e.Query()
			}
			return s.Synchronize(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})), runtime.WithPolicy(runtime.PolicyAuto))
			require.NoError(t, err)
			defer rt.Close()
			c, err := rt.Context(0)
			require.NoError(t, err)
			k, s := newChecker(t, c), newStream(t, c)
			require.NoError(t, k.launch(s, 5))
			is(t, 5, tell(rt, c, k, s))
		})
	}
}

// TestReportsAreUsedAgain makes and closes Checks and streams. Their reports must not add up.
func TestReportsAreUsedAgain(t *testing.T) {
	_, c, k := checking(t)
	ctx := t.Context()
	s := newStream(t, c)
	for i := range 200 {
		own := newChecker(t, c)
		number := uint64(i % 3)
		require.NoError(t, own.launch(s, number))
		is(t, number, s.Synchronize(ctx))
		require.NoError(t, own.checks.Close())
		assert.Error(t, own.launch(newStream(t, c), 1), "the Checks are closed")
		short := newStream(t, c)
		require.NoError(t, k.launch(short, 0))
		require.NoError(t, short.Synchronize(ctx))
		require.NoError(t, short.Close())
	}
	assert.LessOrEqual(t, runtime.Reports(c), 4)
}

// TestGraphsReport launches one executable graph on several streams.
func TestGraphsReport(t *testing.T) { onDrivers(t, graphsReport) }

func graphsReport(t *testing.T, rt *runtime.Runtime) {
	c := contextOf(t, rt)
	k := newChecker(t, c)
	ctx := t.Context()
	origin, a, b := newStream(t, c), newStream(t, c), newStream(t, c)
	record := func(number uint64) *runtime.Graph {
		g, err := origin.Capture(func(s *runtime.Stream) error { return k.launch(s, number) })
		require.NoError(t, err)
		return g
	}
	bad, good := record(3), record(0)
	x, err := bad.Instantiate()
	require.NoError(t, err)
	require.NoError(t, bad.Close())
	is(t, 0, origin.Synchronize(ctx), "a capture runs nothing")
	require.NoError(t, origin.Close(), "the stream that captured is not that which launches")
	require.NoError(t, k.launch(b, 0))
	for range 3 {
		require.NoError(t, x.Launch(a))
		is(t, 0, b.Synchronize(ctx), "it has not launched the graph")
		is(t, 3, a.Synchronize(ctx))
		is(t, 0, a.Synchronize(ctx))
	}
	require.NoError(t, errors.Join(x.Launch(a), x.Launch(b)))
	is(t, 3, a.Synchronize(ctx), "both are told")
	is(t, 3, b.Synchronize(ctx), "both are told")
	is(t, 0, errors.Join(a.Synchronize(ctx), b.Synchronize(ctx)))
	require.NoError(t, x.Launch(a))
	require.NoError(t, x.Update(good))
	is(t, 3, a.Synchronize(ctx), "the launch before the update")
	require.NoError(t, x.Launch(a))
	is(t, 0, a.Synchronize(ctx))
	require.NoError(t, errors.Join(x.Close(), good.Close()))
	_, err = a.Capture(func(s *runtime.Stream) error { return errors.Join(k.launch(s, 9), errors.New("given up")) })
	assert.EqualError(t, err, "given up")
	is(t, 0, errors.Join(a.Synchronize(ctx), b.Synchronize(ctx)))
	assert.LessOrEqual(t, runtime.Reports(c), 2, "graphs that are closed keep none")
}

// TestASharedStreamTellsAll has goroutines that share a stream. Each gets the error of a launch of its own, or of another one.
func TestASharedStreamTellsAll(t *testing.T) {
	_, c, k := checking(t)
	ctx := t.Context()
	s := newStream(t, c)
	e, err := c.NewEvent()
	require.NoError(t, err)
	require.NoError(t, e.Record(s))
	require.NoError(t, e.Synchronize(ctx))
	require.NoError(t, k.launch(s, 0))
	require.NoError(t, e.Record(s))
	require.NoError(t, k.launch(s, 4))
	for runtime.Written(s) == 0 {
		time.Sleep(time.Millisecond)
	}
	is(t, 4, e.Synchronize(ctx), "it may be that of the launch before the event")
	is(t, 4, s.Synchronize(ctx), "and it is that of the launch behind it")
	is(t, 0, s.Synchronize(ctx))
}

func TestChecksOfNothing(t *testing.T) {
	rt, c, k := checking(t)
	s := newStream(t, c)
	var none *runtime.Checks
	assert.NoError(t, none.Close())
	assert.Error(t, k.kernel.Launch(s, runtime.Shape1D(1, 1), runtime.Value(uint64(0)), none.Arg()))
	assert.Error(t, k.kernel.Launch(s, runtime.Shape1D(1, 1), runtime.Value(uint64(0)), new(runtime.Checks).Arg()))
	assert.ErrorContains(t, k.kernel.Launch(s, runtime.Shape1D(1, 1), k.checks.Arg(), runtime.Value(uint64(0))), "last argument")
	assert.Error(t, s.Submit("x", nil, k.checks.Arg()))
	_, err := c.NewChecks(nil)
	assert.Error(t, err)
	_, err = (*runtime.Context)(nil).NewChecks(func([runtime.CheckWords]uint64) error { return nil })
	assert.Error(t, err)
	assert.Error(t, (*runtime.Stream)(nil).Check(t.Context()))
	panics, err := c.NewChecks(func([runtime.CheckWords]uint64) error { panic("in describe") })
	require.NoError(t, err)
	require.NoError(t, k.kernel.Launch(s, runtime.Shape1D(1, 1), runtime.Value(uint64(1)), panics.Arg()))
	assert.ErrorContains(t, s.Synchronize(t.Context()), "in describe")
	require.NoError(t, c.Reset(t.Context()))
	assert.Error(t, k.launch(newStream(t, c), 1), "of the context before the reset")
	assert.NoError(t, k.checks.Close())
	_ = rt
}

// While somebody else describes a failed check, a wait for its launch waits too, and returns it.
func TestFailedCheckThatIsTakenMeanwhile(t *testing.T) {
	_, c, k := checking(t)
	described, goOn := make(chan struct{}), make(chan struct{})
	checks, err := c.NewChecks(func(words [runtime.CheckWords]uint64) error {
		close(described)
		<-goOn
		return failedCheck(words[1])
	})
	require.NoError(t, err)
	s := newStream(t, c)
	require.NoError(t, k.kernel.Launch(s, runtime.Shape1D(1, 1), runtime.Value(uint64(7)), checks.Arg()))
	var others sync.WaitGroup
	others.Go(func() { is(t, 7, c.Synchronize()) })
	<-described
	answer := make(chan error, 1)
	others.Go(func() { answer <- s.Synchronize(bg) })
	select {
	case err := <-answer:
		assert.Fail(t, "the wait did not wait for the text of its failed check", "%v", err)
		close(goOn)
	case <-time.After(50 * time.Millisecond):
		close(goOn)
		is(t, 7, <-answer)
	}
	others.Wait()
}

// held is a driver whose launches wait in front of the driver.
type held struct {
	driver.API
	arrived, goOn chan struct{}
}

func (h held) LaunchKernel(f driver.Function, grid, block driver.Dim3, shared uint32, s driver.Stream, params []unsafe.Pointer) driver.Result {
	h.arrived <- struct{}{}
	<-h.goOn
	return h.API.LaunchKernel(f, grid, block, shared, s, params)
}

// TestCloseOfChecksBesideALaunch closes Checks while a launch has the address of the report and has not come to the driver.
func TestCloseOfChecksBesideALaunch(t *testing.T) {
	for _, tt := range []struct {
		name            string
		before, between bool // another launch has ended before, and a wait comes between the Close and the launch
	}{{"first", false, false}, {"later", true, false}, {"wait", false, true}, {"later, wait", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			h := held{drivertest.ForTest(t, drivertest.Config{}), make(chan struct{}), make(chan struct{})}
			rt, err := runtime.Open(runtime.WithDriver(h))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, rt.Close()) })
			c := contextOf(t, rt)
			k, s := newChecker(t, c), newStream(t, c)
			launch := func(number uint64) chan error {
				launched := make(chan error, 1)
				go func() { launched <- k.launch(s, number) }()
				<-h.arrived
				return launched
			}
			if tt.before {
				launched := launch(0)
				h.goOn <- struct{}{}
				require.NoError(t, <-launched)
				require.NoError(t, s.Synchronize(bg))
			}
			launched := launch(7)
			require.NoError(t, k.checks.Close())
			if tt.between {
				require.NoError(t, s.Synchronize(bg))
			}
			assert.Equal(t, 1, runtime.Reports(c), "the launch is going to write it")
			h.goOn <- struct{}{}
			require.NoError(t, <-launched)
			is(t, 7, s.Synchronize(bg))
			require.ErrorContains(t, k.launch(s, 1), "closed")
			is(t, 0, s.Synchronize(bg))
			assert.Zero(t, runtime.Reports(c))
		})
	}
}

// TestEventsTellWhoeverLooksFirst has somebody else find a failed check before those who wait for an event behind the launch.
func TestEventsTellWhoeverLooksFirst(t *testing.T) {
	first := map[string]func(c *runtime.Context, s *runtime.Stream, e *runtime.Event) error{
		"Event.Query":         func(_ *runtime.Context, _ *runtime.Stream, e *runtime.Event) error { _, err := e.Query(); return err },
		"Event.Synchronize":   func(_ *runtime.Context, _ *runtime.Stream, e *runtime.Event) error { return e.Synchronize(bg) },
		"Context.Synchronize": func(c *runtime.Context, _ *runtime.Stream, _ *runtime.Event) error { return c.Synchronize() },
		"Stream.Synchronize":  func(_ *runtime.Context, s *runtime.Stream, _ *runtime.Event) error { return s.Synchronize(bg) },
		"Stream.Close":        func(_ *runtime.Context, s *runtime.Stream, _ *runtime.Event) error { return s.Close() },
		"another stream": func(c *runtime.Context, _ *runtime.Stream, e *runtime.Event) error {
			other := newStream(t, c)
			require.NoError(t, other.Wait(e))
			return other.Synchronize(bg)
		},
	}
	for name, find := range first {
		for device := range 2 {
			t.Run(fmt.Sprint(name, ", device ", device), func(t *testing.T) {
				rt, _ := open(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.T4())})
				c, there := contextAt(t, rt, 0), contextAt(t, rt, device)
				k, s, before, after := newChecker(t, c), newStream(t, c), newStream(t, there), newStream(t, there)
				e, done := newEvent(t, c), make(chan struct{})
				require.NoError(t, k.launch(s, 7))
				require.NoError(t, e.Record(s))
				require.NoError(t, before.Wait(e))
				require.NoError(t, s.LaunchHostFunc(func() { close(done) }))
				<-done
				is(t, 7, find(c, s, e), "who looks first")
				require.NoError(t, after.Wait(e))
				is(t, 7, after.Synchronize(bg), "a stream that waits for the event later")
				is(t, 0, after.Synchronize(bg), "once")
				is(t, 7, before.Synchronize(bg), "a stream that waited for the event before")
				is(t, 7, e.Synchronize(bg), "the event itself")
				next := newStream(t, c)
				require.NoError(t, k.launch(next, 0))
				require.NoError(t, e.Record(next))
				require.NoError(t, after.Wait(e))
				is(t, 0, errors.Join(after.Synchronize(bg), e.Synchronize(bg)), "the next record")
				if name == "Stream.Close" {
					is(t, 7, c.Synchronize(), "the error of a Close is easily missed")
				}
			})
		}
	}
}

// TestReportsOfSeveralDevices has streams of two devices wait for the launches of each other, at the same time.
func TestReportsOfSeveralDevices(t *testing.T) {
	rt, _ := open(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.T4())})
	var all sync.WaitGroup
	for device := range 2 {
		c, other := contextAt(t, rt, device), contextAt(t, rt, 1-device)
		k := newChecker(t, c)
		for range 4 {
			all.Go(func() {
				s, follows := newStream(t, c), newStream(t, other)
				e := newEvent(t, c)
				for i := range uint64(50) {
					assert.NoError(t, errors.Join(k.launch(s, i%2*9), e.Record(s), follows.Wait(e)))
					is(t, i%2*9, follows.Synchronize(bg))
					is(t, i%2*9, s.Synchronize(bg))
				}
			})
		}
	}
	all.Wait()
}
