package runtime_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

// countdownPTX takes one from left, and adds it to sum.
const countdownPTX = `.version 6.4
.target sm_52
.address_size 64
.visible .entry countdown(.param .u64 left, .param .u64 sum)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [left];
	ld.param.u64 %rd2, [sum];
	cvta.to.global.u64 %rd3, %rd1;
	cvta.to.global.u64 %rd4, %rd2;
	ld.global.u32 %r1, [%rd3];
	ld.global.u32 %r2, [%rd4];
	add.u32 %r3, %r1, %r2;
	add.s32 %r4, %r1, -1;
	st.global.u32 [%rd4], %r3;
	st.global.u32 [%rd3], %r4;
	ret;
}
`

// onBoth runs a test on the simulated driver, and on hardware.
func onBoth(t *testing.T, test func(t *testing.T, rt *runtime.Runtime)) {
	t.Run("simulated", func(t *testing.T) {
		rt, _ := open(t, drivertest.Config{})
		test(t, rt)
	})
	t.Run("hardware", func(t *testing.T) { test(t, openOn(t, hardware.Open(t))) })
}

type counting struct {
	t         *testing.T
	c         *runtime.Context
	s         *runtime.Stream
	k         *runtime.Kernel
	left, sum *runtime.Ref[uint32]
}

func newCounting(t *testing.T, rt *runtime.Runtime) *counting {
	c, err := rt.Context(0)
	require.NoError(t, err)
	m, err := c.LoadModule(runtime.Image{Code: []byte(countdownPTX)})
	require.NoError(t, err)
	k, err := m.Kernel("countdown")
	require.NoError(t, err)
	s := newStream(t, c)
	return &counting{t, c, s, k, alloc[uint32](t, s, 1), alloc[uint32](t, s, 1)}
}

func (n *counting) step(s *runtime.Stream) error {
	return n.k.Launch(s, runtime.Shape1D(1, 1), runtime.InOut(n.left), runtime.InOut(n.sum))
}

func (n *counting) addStep(b *runtime.GraphBuilder) error {
	_, err := b.Add(n.step)
	return err
}

func fills(ref *runtime.Ref[uint32], v uint32) func(*runtime.Stream) error {
	return func(s *runtime.Stream) error { return runtime.Fill(s, ref, v) }
}

func (n *counting) build(f func(b *runtime.GraphBuilder) error) *runtime.Graph {
	n.t.Helper()
	g, err := n.c.BuildGraph(f)
	if errors.Is(err, driver.ErrSymbolMissing) || errors.Is(err, driver.ErrUnsupported) {
		n.t.Skipf("the driver is too old: %v", err)
	}
	require.NoError(n.t, err)
	return g
}

func (n *counting) run(g *runtime.Graph, want ...uint32) {
	n.t.Helper()
	x, err := g.Instantiate()
	require.NoError(n.t, err)
	for range 2 {
		require.NoError(n.t, x.Launch(n.s))
		assert.Equal(n.t, want[:1], download(n.t, n.s, n.left))
		assert.Equal(n.t, want[1:], download(n.t, n.s, n.sum))
	}
	require.NoError(n.t, x.Close())
}

func TestBuildGraph(t *testing.T) {
	onBoth(t, func(t *testing.T, rt *runtime.Runtime) {
		n := newCounting(t, rt)
		twice, err := n.s.Capture(func(s *runtime.Stream) error { return errors.Join(n.step(s), n.step(s)) })
		require.NoError(t, err)
		g := n.build(func(b *runtime.GraphBuilder) error {
			left, err := b.Add(fills(n.left, 10))
			if err != nil {
				return err
			}
			sum, err := b.Add(fills(n.sum, 100))
			if err != nil {
				return err
			}
			both, err := b.AddGraph(twice, left, sum)
			if err != nil {
				return err
			}
			_, err = b.Add(n.step, both, both)
			return err
		})
		require.NoError(t, twice.Close())
		nodes, err := g.Nodes()
		require.NoError(t, err)
		assert.Equal(t, 4, nodes)
		n.run(g, 7, 127)
		text, err := g.DOT()
		require.NoError(t, err)
		assert.Contains(t, text, "digraph")
		t.Logf("%d bytes of DOT, begins %.400s", len(text), text)
		require.NoError(t, g.Close())
		_, err = g.DOT()
		require.Error(t, err)
	})
}

func TestWhileAndIf(t *testing.T) {
	onBoth(t, func(t *testing.T, rt *runtime.Runtime) {
		n := newCounting(t, rt)
		g := n.build(func(b *runtime.GraphBuilder) error {
			start, err := b.Add(func(s *runtime.Stream) error { return errors.Join(fills(n.left, 10)(s), fills(n.sum, 0)(s)) })
			if err != nil {
				return err
			}
			loop, err := b.While(n.left, n.addStep, start)
			if err != nil {
				return err
			}
			// left is 0 now, and sum is not.
			never, err := b.If(n.left, func(b *runtime.GraphBuilder) error { _, err := b.Add(fills(n.sum, 1)); return err }, loop)
			if err != nil {
				return err
			}
			_, err = b.If(n.sum, func(b *runtime.GraphBuilder) error {
				four, err := b.Add(fills(n.left, 4))
				if err != nil {
					return err
				}
				_, err = b.While(n.left, n.addStep, four)
				return err
			}, never)
			return err
		})
		n.run(g, 0, 55+10)
		text, err := g.DOT()
		require.NoError(t, err)
		t.Logf("%d bytes of DOT", len(text))

		// What the graph uses outlives those that have closed it, and the graph itself.
		x, err := g.Instantiate()
		require.NoError(t, err)
		require.NoError(t, errors.Join(g.Close(), n.k.Module().Close()))
		require.NoError(t, x.Launch(n.s))
		assert.Equal(t, []uint32{65}, download(t, n.s, n.sum))
		require.NoError(t, x.Close())
	})
}

func TestBuildGraphFails(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	n := newCounting(t, rt)
	other := errors.New("mine")
	var kept *runtime.GraphBuilder
	var node runtime.GraphNode
	ignore := func(f func(b *runtime.GraphBuilder) error) func(*runtime.GraphBuilder) error {
		return func(b *runtime.GraphBuilder) error { _ = f(b); return nil }
	}
	for name, one := range map[string]struct {
		f    func(b *runtime.GraphBuilder) error
		kind error
		want string
	}{
		"own error":   {func(b *runtime.GraphBuilder) error { kept = b; node, _ = b.Add(n.step); return other }, other, "mine"},
		"panic":       {func(*runtime.GraphBuilder) error { panic("mine") }, nil, "panic: mine"},
		"no function": {nil, driver.ErrInvalidArgument, "no function builds"},
		"other graph": {func(b *runtime.GraphBuilder) error { _, err := b.Add(n.step, node); return err }, driver.ErrInvalidArgument, "of another graph or body"},
		"ignored":     {ignore(func(b *runtime.GraphBuilder) error { _, err := b.Add(n.step, node); return err }), driver.ErrInvalidArgument, "of another graph or body"},
		"no node":     {func(b *runtime.GraphBuilder) error { _, err := b.Add(n.step, runtime.GraphNode{}); return err }, driver.ErrInvalidArgument, "of another graph or body"},
		"no body":     {func(b *runtime.GraphBuilder) error { _, err := b.If(n.left, nil); return err }, driver.ErrInvalidArgument, "a body that no function adds to"},
		"no number":   {func(b *runtime.GraphBuilder) error { _, err := b.If(nil, n.addStep); return err }, driver.ErrInvalidArgument, "a condition of no number"},
		"for ever": {ignore(func(b *runtime.GraphBuilder) error {
			_, err := b.While(n.left, func(*runtime.GraphBuilder) error { return nil })
			return err
		}), driver.ErrInvalidArgument, "would run for ever"},
		"body fails": {ignore(func(b *runtime.GraphBuilder) error {
			_, err := b.While(n.left, func(*runtime.GraphBuilder) error { return other })
			return err
		}), other, "mine"},
		"no graph": {func(b *runtime.GraphBuilder) error { _, err := b.AddGraph(nil); return err }, driver.ErrInvalidArgument, "graph"},
		"host in a body": {func(b *runtime.GraphBuilder) error {
			_, err := b.If(n.left, func(b *runtime.GraphBuilder) error {
				_, err := b.Add(func(s *runtime.Stream) error { return s.LaunchHostFunc(func() {}) })
				return err
			})
			return err
		}, driver.ErrUnsupported, "the body of an If or a While has a call of the host"},
		"other stream": {ignore(func(b *runtime.GraphBuilder) error {
			_, err := b.Add(func(*runtime.Stream) error { return n.step(n.s) })
			return err
		}), driver.ErrInvalidArgument, "the function has not used its stream"},
		"nothing in a body": {func(b *runtime.GraphBuilder) error {
			_, err := b.If(n.left, func(b *runtime.GraphBuilder) error {
				_, err := b.Add(func(*runtime.Stream) error { return nil })
				return err
			})
			return err
		}, driver.ErrInvalidArgument, "the function has not used its stream"},
		"wait": {func(b *runtime.GraphBuilder) error {
			_, err := b.Add(func(s *runtime.Stream) error { return s.Synchronize(bg) })
			return err
		}, driver.ErrCaptureFailed, "Stream.Synchronize"},
	} {
		g, err := n.c.BuildGraph(one.f)
		require.Error(t, err, name)
		assert.Nil(t, g, name)
		if one.kind != nil {
			require.ErrorIs(t, err, one.kind, name)
		}
		assert.ErrorContains(t, err, one.want, name)
	}
	_, err := kept.Add(n.step)
	require.ErrorIs(t, err, driver.ErrClosed)
	assert.Equal(t, gpu.Calls("cuGraphCreate")+gpu.Calls("cuStreamEndCapture"), gpu.Calls("cuGraphDestroy"), "nothing is left")

	for _, call := range []string{"cuGraphCreate", "cuGraphAddChildGraphNode", "cuGraphConditionalHandleCreate", "cuGraphAddNode", "cuStreamBeginCapture"} {
		gpu.Fail(call, 1, driver.ResultOutOfMemory)
		_, err := n.c.BuildGraph(func(b *runtime.GraphBuilder) error { _, err := b.While(n.left, n.addStep); return err })
		require.ErrorIs(t, err, driver.ErrOutOfMemory, call)
	}
	n.run(n.build(func(b *runtime.GraphBuilder) error {
		start, err := b.Add(func(s *runtime.Stream) error { return errors.Join(fills(n.left, 2)(s), fills(n.sum, 0)(s)) })
		if err != nil {
			return err
		}
		_, err = b.While(n.left, n.addStep, start)
		return err
	}), 0, 3)
	var none *runtime.GraphBuilder
	_, err = none.Add(n.step)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = new(runtime.GraphBuilder).While(n.left, n.addStep)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
}

// A function that finds nothing to do makes an empty part.
func TestBuildGraphOfAnEmptyPart(t *testing.T) {
	_, c, k := checking(t)
	for name, call := range map[string]func(*runtime.Stream) error{
		"no blocks": func(s *runtime.Stream) error {
			return k.kernel.Launch(s, runtime.Shape1D(0, 32), runtime.Value(uint64(1)), k.checks.Arg())
		},
		"Err": (*runtime.Stream).Err,
	} {
		g, err := c.BuildGraph(func(b *runtime.GraphBuilder) error {
			first, err := b.Add(call)
			if err == nil {
				_, err = b.Add(call, first)
			}
			return err
		})
		require.NoError(t, err, name)
		require.NoError(t, g.Close())
	}
	s := newStream(t, c)
	require.NoError(t, s.Err())
	require.NoError(t, s.Close())
	require.ErrorContains(t, s.Err(), "closed")
}

// A driver before 12.3 has no conditional nodes, and says so by name. All else is there.
func TestBuildGraphOnAnOldDriver(t *testing.T) {
	rt, _ := open(t, drivertest.Config{Version: 12000})
	n := newCounting(t, rt)
	_, err := n.c.BuildGraph(func(b *runtime.GraphBuilder) error { _, err := b.While(n.left, n.addStep); return err })
	require.ErrorIs(t, err, driver.ErrSymbolMissing)
	assert.ErrorContains(t, err, "cuGraphConditionalHandleCreate needs CUDA driver API 12.3, found 12.0")
	n.run(n.build(func(b *runtime.GraphBuilder) error {
		start, err := b.Add(func(s *runtime.Stream) error { return errors.Join(fills(n.left, 2)(s), fills(n.sum, 0)(s)) })
		if err != nil {
			return err
		}
		_, err = b.Add(n.step, start)
		return err
	}), 1, 2)
}

// One builder serves several goroutines. Launches of the graph on several streams come one after the other.
func TestBuildGraphTogether(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	n := newCounting(t, rt)
	var sums [8]*runtime.Ref[uint32] // bodies that no order stands between write memory of their own
	for i := range sums {
		sums[i] = alloc[uint32](t, n.s, 1)
	}
	g := n.build(func(b *runtime.GraphBuilder) error {
		start, err := b.Add(func(s *runtime.Stream) error { return errors.Join(fills(n.left, 3)(s), fills(n.sum, 0)(s)) })
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		for _, sum := range sums {
			wg.Go(func() {
				_, err := b.If(n.left, func(b *runtime.GraphBuilder) error { _, err := b.Add(fills(sum, 7)); return err }, start)
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		return nil
	})
	text, err := g.DOT()
	require.NoError(t, err)
	assert.Equal(t, 8, strings.Count(text, `label="if"];`))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			x, err := g.Instantiate()
			assert.NoError(t, err)
			s := newStream(t, n.c)
			for range 4 {
				assert.NoError(t, x.Launch(s))
			}
			assert.NoError(t, s.Synchronize(bg))
			assert.NoError(t, x.Close())
		})
	}
	wg.Wait()
	for _, sum := range sums {
		assert.Equal(t, []uint32{7}, download(t, n.s, sum))
	}
}

// A part that another goroutine still adds when the function returns would be missing.
func TestBuildGraphWaitsForNoPart(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	b := newCounting(t, rt)
	for _, inBody := range []bool{false, true} {
		begun, goOn, late := make(chan struct{}), make(chan struct{}), make(chan error)
		leave := func(g *runtime.GraphBuilder) error {
			go func() {
				_, err := g.Add(func(*runtime.Stream) error { close(begun); <-goOn; return nil })
				late <- err
			}()
			<-begun
			return nil
		}
		g, err := b.c.BuildGraph(func(g *runtime.GraphBuilder) error {
			if !inBody {
				return leave(g)
			}
			_, err := g.If(b.left, leave)
			return err
		})
		close(goOn)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, "while 1 parts are being added")
		assert.Nil(t, g)
		assert.Error(t, <-late)
	}
}

// A body that never ends its While ends as a kernel that never ends.
func TestEndlessWhile(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{MaxSteps: 1 << 16}) // which finds something
	defer gpu.Close()
	rt := openOn(t, gpu)
	b := newCounting(t, rt)
	require.NoError(t, runtime.Fill(b.s, b.left, 1))
	g, err := b.c.BuildGraph(func(g *runtime.GraphBuilder) error {
		_, err := g.While(b.left, func(body *runtime.GraphBuilder) error {
			_, err := body.Add(func(s *runtime.Stream) error { return runtime.Zero(s, b.sum) })
			return err
		})
		return err
	})
	require.NoError(t, err)
	defer g.Close()
	x, err := g.Instantiate()
	require.NoError(t, err)
	defer x.Close()
	require.NoError(t, x.Launch(b.s))
	assert.ErrorIs(t, b.s.Synchronize(t.Context()), driver.ResultLaunchTimeout)
	require.Len(t, gpu.Findings(), 1)
	assert.Contains(t, gpu.Findings()[0].String(), "a while of more than 65 rounds")
}

// An update of a graph with bodies is refused, and what was instantiated is as it was. One without them is updated.
func TestUpdateOfABuiltGraph(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	n := newCounting(t, rt)
	build := func(first uint32, bodies bool) *runtime.Graph {
		g, err := n.c.BuildGraph(func(b *runtime.GraphBuilder) error {
			start, err := b.Add(func(s *runtime.Stream) error {
				return errors.Join(runtime.Fill(s, n.left, first), runtime.Zero(s, n.sum))
			})
			if err != nil {
				return err
			}
			if bodies {
				_, err = b.While(n.left, n.addStep, start)
			} else {
				_, err = b.Add(n.step, start)
			}
			return err
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
		return g
	}
	for _, bodies := range []bool{false, true} {
		x, err := build(4, bodies).Instantiate()
		require.NoError(t, err)
		err = x.Update(build(3, bodies))
		want := uint32(3)
		if bodies {
			want = 4 + 3 + 2 + 1
			assert.ErrorIs(t, err, driver.ResultGraphExecUpdateFailure)
			assert.ErrorContains(t, err, "an operation that cannot be updated")
			assert.ErrorContains(t, err, "instantiate the graph instead")
		} else {
			assert.NoError(t, err)
		}
		require.NoError(t, x.Launch(n.s))
		sum, err := runtime.DownloadNew(t.Context(), n.s, n.sum)
		require.NoError(t, err)
		assert.Equal(t, []uint32{want}, sum, "bodies %v", bodies)
		require.NoError(t, x.Close())
	}
}
