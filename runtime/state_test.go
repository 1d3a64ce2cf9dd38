package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/refs"
	"github.com/purecuda/purecuda/runtime"
)

// callClass is what a call has in common with others as to states.
type callClass string

const (
	puts    callClass = "puts something new on the device, on an object"
	makes   callClass = "puts something new on the device, on the context or the runtime"
	touches callClass = "uses a Ref"
	asks    callClass = "waits or asks, on an object"
	looks   callClass = "waits or asks, on the context"
	backend callClass = "asks the runtime for a backend that it has"
	knows   callClass = "tells what the program knows anyway"
	gives   callClass = "gives back"
)

// stateCall is a call of a method ("Stream.Query") or function.
type stateCall struct {
	name  string
	class callClass
	call  func() error
}

func second[T any](_ T, err error) error { return err }

// everyCall is at least one call of every exported method and of every function that takes
// objects. Those that give back come last.
func everyCall(t testing.TB, rt *runtime.Runtime, c, other *runtime.Context) []stateCall {
	t.Helper()
	const n = 64
	_, err := rt.Probe("old")
	require.NoError(t, err)
	s, t2 := newStream(t, c), newStream(t, c)
	x, y := upload(t, s, count(0, n)), upload(t, s, count(0, n))
	grows := growable[uint32](t, c, n)
	farStream := newStream(t, other)
	far := alloc[uint32](t, farStream, n)
	pinned := allocHost[uint32](t, other, n)                   // usable with all devices, and not of the context
	managed, err := runtime.AllocManaged[uint32](farStream, n) // Reset would refuse that of the context
	require.NoError(t, err)
	start, err := c.NewTimingEvent()
	require.NoError(t, err)
	end, err := c.NewTimingEvent()
	require.NoError(t, errors.Join(err, start.Record(s), end.Record(s)))
	image := runtime.Image{Code: kernelsPTX}
	cached, err := c.CachedModule(image)
	require.NoError(t, err)
	linked, err := c.LinkModule(image)
	require.NoError(t, err)
	t.Cleanup(func() { goruntime.KeepAlive([]*runtime.Module{cached, linked}) }) // a Trim leaves them where they are
	m := loadKernels(t, c)
	k, err := m.Kernel("add")
	require.NoError(t, err)
	answer, err := runtime.FindVariable[uint32](m, "answer")
	require.NoError(t, err)
	g := capture(t, s, zeroing(x))
	exec, err := g.Instantiate()
	require.NoError(t, err)
	library, err := c.NewLibraryHandle("new", func() (func() error, error) { return nil, nil })
	require.NoError(t, err)
	foreign := func(uses ...runtime.Arg) error {
		return s.Submit("work", func(driver.Stream, []driver.DevicePtr) error { return nil }, uses...)
	}
	nothing := capture(t, s, func(s *runtime.Stream) error { return s.LaunchHostFunc(func() {}) })
	nothingExec, err := nothing.Instantiate()
	require.NoError(t, err)
	data := make([]uint32, n)
	single := data[:1]
	ordinal := c.Device().Ordinal
	release := func(err error) error {
		if err == nil {
			x.Release()
		}
		return err
	}
	closing := func(name string, o interface{ Close() error }) stateCall {
		return stateCall{name + ".Close", gives, o.Close}
	}
	told := func(name string, f func()) stateCall {
		return stateCall{name, knows, func() error { f(); return nil }}
	}
	var ipc, ipcEnds []stateCall
	if goruntime.GOOS == "linux" { // where simulated devices share memory
		z, err := runtime.AllocIPC[uint32](s, n)
		require.NoError(t, err)
		handle, err := runtime.ExportIPC(bg, s, z)
		require.NoError(t, err)
		ipc = []stateCall{
			{"AllocIPC", puts, func() error {
				z, err := runtime.AllocIPC[uint32](s, n)
				return errors.Join(err, z.Close())
			}},
			{"ExportIPC", puts, func() error { return second(runtime.ExportIPC(bg, s, z)) }},
			{"OpenIPC", puts, func() error {
				_, err := runtime.OpenIPC[uint32](s, handle)
				if errors.Is(err, driver.ResultInvalidContext) { // the driver was asked, and this is its own process
					return nil
				}
				return err
			}},
		}
		ipcEnds = []stateCall{closing("Ref", z)}
	}
	return slices.Concat(ipc, []stateCall{
		{"Runtime.Context", knows, func() error { return second(rt.Context(ordinal)) }},
		{"Runtime.Device", knows, func() error { return second(rt.Device(ordinal)) }},
		{"Runtime.Budget", knows, func() error { return second(rt.Budget(ordinal)) }},
		told("Runtime.Devices", func() { rt.Devices() }),
		told("Runtime.OneIsland", func() { rt.OneIsland() }),
		told("Runtime.Contexts", func() { rt.Contexts() }),
		told("Runtime.Compiler", func() { _, _ = rt.Compiler() }),
		told("Runtime.Preload", func() { _ = rt.Preload(bg) }),
		told("Runtime.Trim", func() { _ = rt.Trim() }), // its contexts have said what they can do
		told("Runtime.Driver", func() { rt.Driver() }),
		told("Runtime.Version", func() { rt.Version() }),
		told("Runtime.Stats", func() { rt.Stats() }),
		told("Runtime.Policy", func() { rt.Policy() }),
		told("Runtime.Outcome", func() { rt.Outcome() }),
		{"Runtime.Err", knows, rt.Err},
		{"Runtime.Refresh", knows, rt.Refresh},
		{"Runtime.Probe", backend, func() error { return second(rt.Probe("old")) }},
		{"Runtime.Probe of a new label", makes, func() error { return second(rt.Probe("new")) }},

		{"Context.NewStream", makes, func() error { return second(c.NewStream()) }},
		{"Context.NewStreamWithPriority", makes, func() error { return second(c.NewStreamWithPriority(-1)) }},
		{"Context.NewEvent", makes, func() error { return second(c.NewEvent()) }},
		{"Context.NewBlockingEvent", makes, func() error { return second(c.NewBlockingEvent()) }},
		{"Context.NewTimingEvent", makes, func() error { return second(c.NewTimingEvent()) }},
		{"Context.LoadModule", makes, func() error { return second(c.LoadModule(image)) }},
		{"AllocHost", makes, func() error {
			h, err := runtime.AllocHost[byte](c, 1)
			if err == nil {
				err = h.Close()
			}
			return err
		}},
		{"LeaseHost", makes, func() error {
			h, err := runtime.LeaseHost[byte](c, 1)
			if err == nil {
				err = h.Close()
			}
			return err
		}},
		{"AllocGrowable", makes, func() error {
			g, err := runtime.AllocGrowable[byte](c, 1)
			if err == nil {
				err = errors.Join(g.Grow(1), g.Close())
			}
			return err
		}},
		{"RegisterHost", makes, func() error {
			h, err := runtime.RegisterHost(c, make([]byte, 1))
			if err == nil {
				err = h.Close()
			}
			return err
		}},
		{"AllocManaged", puts, func() error {
			m, err := runtime.AllocManaged[uint32](s, n)
			if err == nil {
				err = m.Close()
			}
			return err
		}},
		{"Managed.Prefetch", touches, func() error { return managed.Prefetch(s) }},
		{"Managed.PrefetchHost", touches, func() error { return managed.PrefetchHost(s) }},
		{"Managed.Advise", looks, func() error { return managed.Advise(c, driver.MemAdviseSetAccessedBy) }},
		told("Managed.AdviseHost", func() { _ = managed.AdviseHost(driver.MemAdviseSetAccessedBy) }),
		{"Context.Do", makes, func() error { return c.Do(func() error { return nil }) }},
		{"Context.NewLibraryHandle", makes, func() error {
			h, err := c.NewLibraryHandle("new", func() (func() error, error) { return nil, nil })
			if err == nil {
				err = h.Close()
			}
			return err
		}},
		{"Context.WrapStream", makes, func() error {
			theirs := driver.Stream(1 << 20) // refused before the driver is asked, where Do is
			_ = c.Do(func() error {
				theirs, _ = rt.Driver().StreamCreate(driver.StreamNonBlocking)
				return nil
			})
			a, err := c.WrapStream(theirs)
			if err != nil {
				return err
			}
			return errors.Join(a.Close(), c.Do(func() error { return failure(rt.Driver().StreamDestroy(theirs)) }))
		}},
		{"Context.CachedModule", looks, func() error { return second(c.CachedModule(image)) }},
		{"Context.LinkModule", looks, func() error { return second(c.LinkModule(image)) }},
		{"Context.EnsureStackSize", looks, func() error { return c.EnsureStackSize(1) }},
		{"Context.TrimModules", looks, func() error { return c.TrimModules(1 << 30) }},
		told("Context.Compile", func() { _, _ = c.Compile(bg, nvrtc.Program{}) }), // see compile_test.go
		{"Context.EnablePeer", looks, func() error { return second(c.EnablePeer(c)) }},
		{"Context.MemInfo", looks, func() error { _, _, err := c.MemInfo(); return err }},
		{"Context.Synchronize", looks, c.Synchronize},
		{"Context.TrimMemory", looks, func() error { return c.TrimMemory(0) }},
		{"Context.TrimPinned", looks, func() error { return c.TrimPinned(0) }},
		{"Context.Trim", looks, c.Trim},
		told("Context.OnTrim", func() { c.OnTrim(func() error { return nil })() }),
		told("Context.Leaks", func() { c.Leaks() }),
		told("Context.Device", func() { c.Device() }),
		told("Context.Handle", func() { c.Handle() }),
		told("Context.Runtime", func() { c.Runtime() }),
		told("Context.State", func() { c.State() }),
		told("Context.Stats", func() { c.Stats() }),

		{"Stream.LaunchHostFunc", puts, func() error { return s.LaunchHostFunc(func() {}) }},
		{"Stream.Capture", puts, func() error {
			return second(s.Capture(func(s *runtime.Stream) error { return s.LaunchHostFunc(func() {}) }))
		}},
		{"Context.BuildGraph", makes, func() error {
			return second(c.BuildGraph(func(b *runtime.GraphBuilder) error {
				_, err := b.Add(func(s *runtime.Stream) error { return s.LaunchHostFunc(func() {}) })
				return err
			}))
		}},
		{"Graph.DOT", asks, func() error { return second(g.DOT()) }},
		{"Stream.Wait", puts, func() error { return s.Wait(end) }},
		{"Stream.Submit", puts, func() error { return foreign() }},
		{"Stream.Submit with a handle", puts, func() error { return foreign(library.Arg()) }},
		{"Stream.Submit with a Ref", touches, func() error { return foreign(runtime.InOut(x)) }},
		{"Stream.Query", asks, func() error { return second(s.Query()) }},
		{"Stream.Err", puts, s.Err},
		{"Stream.Synchronize", asks, func() error { return s.Synchronize(bg) }},
		{"Stream.AfterFunc", asks, func() error {
			ran := make(chan error, 1)
			s.AfterFunc(func(err error) { ran <- err })
			return <-ran
		}},
		told("Stream.Context", func() { s.Context() }),
		told("Stream.Handle", func() { s.Handle() }),
		told("Stream.ID", func() { s.ID() }),
		{"Event.Record", puts, func() error { return errors.Join(start.Record(s), end.Record(s)) }},
		{"Event.Query", asks, func() error { return second(end.Query()) }},
		{"Event.Synchronize", asks, func() error { return end.Synchronize(bg) }},
		{"Event.Since", asks, func() error {
			if err := end.Synchronize(bg); err != nil {
				return err
			}
			return second(end.Since(start))
		}},
		told("Event.Context", func() { end.Context() }),
		told("Event.Handle", func() { end.Handle() }),

		{"Module.Kernel", asks, func() error { return second(m.Kernel("store")) }},
		{"Module.Kernels", asks, func() error {
			var k struct {
				Store *runtime.Kernel `cuda:"store"`
			}
			return m.Kernels(&k)
		}},
		{"Module.Kernel that is known", asks, func() error { return second(m.Kernel("add")) }},
		{"Module.Variable", asks, func() error { _, _, err := m.Variable("answer"); return err }},
		{"FindVariable", asks, func() error { return second(runtime.FindVariable[uint32](m, "answer")) }},
		told("Module.Context", func() { m.Context() }),
		told("Module.Handle", func() { m.Handle() }),
		told("Module.Image", func() { m.Image() }),
		told("Module.Log", func() { m.Log() }),
		{"Variable.Upload", puts, func() error { return answer.Upload(bg, s, single) }},
		{"Variable.Download", puts, func() error { return answer.Download(bg, s, single) }},
		{"Variable.UploadHost", puts, func() error { return answer.UploadHost(s, pinned.Slice(0, 1)) }},
		{"Variable.Zero", puts, func() error { return answer.Zero(s) }},
		told("Variable.Len", func() { answer.Len() }),
		{"Kernel.Launch without a Ref", puts, func() error {
			return k.Launch(s, one, runtime.Value(uint64(0)), runtime.Value(uint64(0)), runtime.Value(uint32(0)))
		}},
		{"Kernel.Launch", puts, func() error { return addTo(k, s, x, 1) }},
		{"Kernel.MaxPotentialBlockSize", asks, func() error { _, _, err := k.MaxPotentialBlockSize(0); return err }},
		{"Kernel.MaxActiveBlocks", asks, func() error { return second(k.MaxActiveBlocks(64, 0)) }},
		{"Kernel.Shape", asks, func() error { return second(k.Shape(n)) }},
		told("Kernel.Handle", func() { k.Handle() }),
		told("Kernel.MaxThreads", func() { k.MaxThreads() }),
		told("Kernel.Module", func() { k.Module() }),
		told("Kernel.Name", func() { k.Name() }),
		told("Kernel.Params", func() { k.Params() }),

		{"Graph.Instantiate", puts, func() error { return second(nothing.Instantiate()) }},
		{"Graph.Nodes", asks, func() error { return second(g.Nodes()) }},
		told("Graph.Context", func() { g.Context() }),
		told("Graph.Handle", func() { g.Handle() }),
		{"GraphExec.Launch", puts, func() error { return exec.Launch(s) }},
		{"GraphExec.Launch without a Ref", puts, func() error { return nothingExec.Launch(s) }},
		{"GraphExec.Upload", puts, func() error { return exec.Upload(s) }},
		{"GraphExec.Update", puts, func() error { return exec.Update(g) }},
		told("GraphExec.Context", func() { exec.Context() }),
		told("GraphExec.Handle", func() { exec.Handle() }),

		{"UploadNew", puts, func() error {
			r, err := runtime.UploadNew(bg, s, data)
			if err == nil {
				err = r.Close()
			}
			return err
		}},
		{"Alloc", puts, func() error { return second(runtime.Alloc[uint32](s, n)) }},
		{"Upload", touches, func() error { return runtime.Upload(bg, s, x, data) }},
		{"Download", touches, func() error { return runtime.Download(bg, s, data, x) }},
		{"UploadHost", touches, func() error { return runtime.UploadHost(s, x, pinned) }},
		{"DownloadHost", touches, func() error { return runtime.DownloadHost(s, pinned, x) }},
		{"Copy", touches, func() error { return runtime.Copy(s, x, y) }},
		{"Copy from another device", touches, func() error { return runtime.Copy(s, x, far) }},
		{"Copy to another device", touches, func() error { return runtime.Copy(farStream, far, x) }},
		{"Upload2D", touches, func() error { return runtime.Upload2D(bg, s, x, 1, data, 1, 1, n) }},
		{"Download2D", touches, func() error { return runtime.Download2D(bg, s, data, 1, x, 1, 1, n) }},
		{"Copy2D", touches, func() error { return runtime.Copy2D(s, x, 2, y, 2, 1, n/2) }},
		{"Upload3D", touches, func() error {
			return runtime.Upload3D(bg, s, x, runtime.Pitches{}, data, runtime.Pitches{}, runtime.Box{Width: n, Height: 1, Depth: 1})
		}},
		{"Download3D", touches, func() error {
			return runtime.Download3D(bg, s, data, runtime.Pitches{}, x, runtime.Pitches{}, runtime.Box{Width: n, Height: 1, Depth: 1})
		}},
		{"Copy3D", touches, func() error {
			return runtime.Copy3D(s, x, runtime.Pitches{}, y, runtime.Pitches{}, runtime.Box{Width: n, Height: 1, Depth: 1})
		}},
		{"DownloadNew", touches, func() error { return second(runtime.DownloadNew(bg, s, x)) }},
		{"Fill", touches, func() error { return runtime.Fill(s, x, 1) }},
		{"Zero", touches, func() error { return runtime.Zero(s, x) }},
		{"Zero of a view", touches, func() error { return runtime.Zero(s, x.Slice(1, 5)) }},
		{"Ref.Access", touches, func() error { return second(x.Access()) }},
		{"Ref.Acquire", touches, func() error { return release(second(x.Acquire())) }},
		{"Ref.Retain", touches, func() error { r := x.Retain(); return errors.Join(second(r.Access()), r.Close()) }},
		{"WrapRef", puts, func() error {
			r, err := runtime.WrapRef[uint32](s, x.Core().Ptr(), n)
			if err == nil {
				err = r.Close()
			}
			return err
		}},
		told("LibraryHandle.Arg", func() { library.Arg() }),
		told("LibraryHandle.Current", func() { library.Current() }),
		told("LibraryHandle.Context", func() { library.Context() }),
		told("Runtime.Degraded", func() { _ = rt.Degraded() }),
		{"Context.NewChecks", looks, func() error {
			return second(c.NewChecks(func([runtime.CheckWords]uint64) error { return nil }))
		}},
		told("Stream.Check", func() { _ = s.Check(bg) }), // it asks nothing where no launch has reported
		told("Runtime.FallBack", func() { _ = rt.FallBack("a test", nil) }),
		told("Runtime.Quarantine", func() { rt.Quarantine(0, io.EOF, nil)() }),
		told("Runtime.TraceRequest", func() { rt.TraceRequest(bg, "") }),
		told("Runtime.TraceParent", func() { rt.TraceParent(bg) }),
		told("Stream.SetTraceContext", func() { s.SetTraceContext(bg) }),
		told("Ref.Bytes", func() { x.Bytes() }),
		told("Ref.Core", func() { x.Core() }),
		told("Ref.GoString", func() { _ = x.GoString() }),
		told("Ref.Len", func() { x.Len() }),
		told("Ref.Release", func() {}), // a lease of nobody; see Acquire
		told("Ref.Slice", func() { x.Slice(1, 2) }),
		told("Ref.String", func() { _ = x.String() }),
		{"Growable.Grow", touches, func() error { return grows.Grow(n) }},
		told("Growable.Ref", func() { grows.Ref() }),
		told("Growable.Len", func() { grows.Len() }),
		told("Growable.Cap", func() { grows.Cap() }),
		told("HostBuffer.Arg", func() { pinned.Arg() }),
		told("HostBuffer.Data", func() { pinned.Data() }),
		told("HostBuffer.Len", func() { pinned.Len() }),
		told("HostBuffer.Slice", func() { pinned.Slice(0, 1) }),
		told("Managed.Data", func() { managed.Data() }),
		told("Managed.Len", func() { managed.Len() }),
		told("Managed.Ref", func() { managed.Ref() }),
		told("Managed.Slice", func() { managed.Slice(0, 1) }),

		closing("LibraryHandle", library), closing("GraphExec", exec), closing("GraphExec", nothingExec), closing("Graph", g), closing("Graph", nothing),
		closing("Growable", grows), closing("Ref", x), closing("Ref", y), closing("Ref", far), closing("HostBuffer", pinned), closing("Managed", managed), closing("Event", end),
		closing("Event", start), closing("Module", m), closing("Stream", s), closing("Stream", t2), closing("Stream", s),
	}, ipcEnds)
}

// The list above is complete.
func TestEveryCallHasItsAnswerInEveryState(t *testing.T) {
	rt, _ := open(t, twoDevices())
	var names []string
	for _, call := range everyCall(t, rt, contextAt(t, rt, 0), contextAt(t, rt, 1)) {
		name, _, _ := strings.Cut(call.name, " ")
		names = append(names, name)
	}
	elsewhere := []string{"Runtime.Close", "Context.Reset", "Runtime.Revive"} // they are what changes the state
	for _, v := range []any{rt, (*runtime.Context)(nil), (*runtime.Stream)(nil), (*runtime.Event)(nil), (*runtime.Module)(nil),
		(*runtime.Kernel)(nil), (*runtime.Graph)(nil), (*runtime.GraphExec)(nil), (*runtime.HostBuffer[uint32])(nil), (*runtime.Managed[uint32])(nil), (*runtime.Growable[uint32])(nil),
		(*runtime.LibraryHandle)(nil),
		(*runtime.Variable[uint32])(nil), (*runtime.Ref[uint32])(nil)} {
		of := reflect.TypeOf(v)
		for i := range of.NumMethod() {
			kind, _, _ := strings.Cut(of.Elem().Name(), "[")
			name := kind + "." + of.Method(i).Name
			if !slices.Contains(elsewhere, name) && !slices.Contains(names, name) {
				t.Errorf("%s is not in the list", name)
			}
		}
	}
}

// answer is how a class of calls ends in a state. The zero value is success.
type answer struct {
	kind   driver.Kind
	detail string
	cause  driver.Result // behind it
}

var errNoReset = driver.ResultUnknown // why no new context can be made in these tests

// Each call ends in each state as docs/lifetimes.md says.
func TestStates(t *testing.T) {
	shuttingDown := answer{kind: driver.ErrRefStale, detail: "device shutting down"}
	rebuilt := answer{kind: driver.ErrRefStale, detail: "context rebuilt"}
	closed := answer{kind: driver.ErrClosed}
	lost := answer{kind: driver.ErrDeviceLost, detail: "only a new process gets it back", cause: driver.ResultIllegalAddress}
	given := answer{kind: driver.ErrDeviceLost, detail: "ended the use of the device", cause: errNoReset}
	stateClosed := answer{kind: driver.ErrRefStale, detail: "device state closed"}
	for _, c := range []struct {
		name   string
		enter  func(m *stateMachine, t *testing.T)
		status refs.Status
		want   map[callClass]answer
	}{
		{"healthy", func(*stateMachine, *testing.T) {}, refs.Accepting, nil},
		{"draining, with leases", (*stateMachine).drain, refs.Suspended,
			map[callClass]answer{puts: shuttingDown, makes: shuttingDown, touches: shuttingDown}},
		{"resumed", func(m *stateMachine, t *testing.T) {
			m.drain(t)
			m.cancel()
			require.ErrorIs(t, await(t, "Reset is given up", m.reset), context.Canceled)
		}, refs.Accepting, nil},
		{"rebuilding", (*stateMachine).rebuild, refs.Drained, map[callClass]answer{puts: shuttingDown, makes: shuttingDown,
			touches: shuttingDown, asks: shuttingDown, looks: shuttingDown}},
		{"rebuilt", func(m *stateMachine, t *testing.T) { require.NoError(t, m.c.Reset(bg)) }, refs.Accepting,
			map[callClass]answer{puts: rebuilt, touches: rebuilt, asks: rebuilt}},
		{"lost", (*stateMachine).lose, refs.Lost,
			map[callClass]answer{puts: lost, makes: lost, touches: lost, asks: lost, looks: lost, backend: lost}},
		{"lost because it could not be rebuilt", func(m *stateMachine, t *testing.T) {
			m.gpu.Fail("cuDevicePrimaryCtxRetain", 1, errNoReset)
			require.ErrorIs(t, m.c.Reset(bg), driver.ErrDeviceLost)
		}, refs.Lost, map[callClass]answer{puts: given, makes: given, touches: given, asks: given, looks: given, backend: given}},
		{"closed", func(m *stateMachine, t *testing.T) { require.NoError(t, m.rt.Close()) }, refs.Closed,
			map[callClass]answer{puts: closed, makes: closed, touches: stateClosed, asks: closed, looks: closed, backend: closed}},
		{"lost and closed", func(m *stateMachine, t *testing.T) {
			m.lose(t)
			require.NoError(t, m.rt.Close())
		}, refs.Closed, map[callClass]answer{puts: lost, makes: lost, asks: lost, looks: lost, backend: lost,
			touches: {kind: driver.ErrRefStale, detail: "device state closed", cause: driver.ResultIllegalAddress}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newStateMachine(t)
			calls := everyCall(t, m.rt, m.c, m.other)
			c.enter(m, t)
			assert.Equal(t, c.status, m.c.State().Status())
			for _, call := range calls {
				if c.want[puts] == given && call.name == "Runtime.Refresh" {
					continue // it would revive the device
				}
				want, err := c.want[call.class], call.call()
				switch {
				case call.class == knows:
				case c.want[puts] == given && strings.HasPrefix(call.name, "Runtime.Probe"):
					assert.NoError(t, err, "%s takes the other device", call.name)
				case want.kind == "":
					assert.NoError(t, err, call.name)
				case assert.ErrorIs(t, err, want.kind, call.name):
					var first *driver.Error
					require.ErrorAs(t, err, &first)
					assert.Equal(t, want.kind, first.Kind, "%s: %v", call.name, err)
					assert.ErrorContains(t, err, want.detail, call.name)
					if want.cause != driver.Success {
						assert.ErrorIs(t, err, want.cause, call.name)
					}
				}
			}
			m.leave(t)
		})
	}
}

// stateMachine is a runtime that is brought into a state.
type stateMachine struct {
	rt       *runtime.Runtime
	gpu      *drivertest.Driver
	c, other *runtime.Context
	hold     *runtime.Ref[byte]
	reset    <-chan error
	cancel   context.CancelFunc
	block    chan struct{} // closed to let cuDevicePrimaryCtxReset go on
	unblock  func()
	blocks   sync.Map
}

func newStateMachine(t *testing.T) *stateMachine {
	m := &stateMachine{block: make(chan struct{}), cancel: func() {}}
	m.unblock = sync.OnceFunc(func() { close(m.block) })
	t.Cleanup(m.unblock)
	config := twoDevices()
	config.OnCall = func(op string) driver.Result {
		if _, yes := m.blocks.Load(op); yes {
			<-m.block
		}
		return driver.Success
	}
	m.rt, m.gpu = openFaulty(t, config)
	m.c, m.other = contextAt(t, m.rt, 0), contextAt(t, m.rt, 1)
	m.hold = alloc[byte](t, newStream(t, m.c), 1)
	t.Cleanup(func() { assert.NoError(t, m.rt.Close()) })
	t.Cleanup(m.unblock)
	return m
}

// begin begins a Reset.
func (m *stateMachine) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.reset = async(func() error { return m.c.Reset(ctx) })
}

// drain begins a Reset that waits for a lease.
func (m *stateMachine) drain(t *testing.T) {
	_, err := m.hold.Acquire()
	require.NoError(t, err)
	m.begin()
	eventually(t, "the context is being drained", func() bool { return !m.c.State().Accepting() })
}

// rebuild begins a Reset that takes its time after the context was taken down.
func (m *stateMachine) rebuild(t *testing.T) {
	m.blocks.Store("cuDevicePrimaryCtxReset", true)
	before := m.gpu.Calls("cuDevicePrimaryCtxReset")
	m.begin()
	eventually(t, "the context is taken down", func() bool { return m.gpu.Calls("cuDevicePrimaryCtxReset") > before })
}

func (m *stateMachine) lose(t *testing.T) {
	m.gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	_, err := newStream(t, m.c).Query()
	require.ErrorIs(t, err, driver.ResultIllegalAddress)
}

// leave lets a Reset that was begun end, and closes.
func (m *stateMachine) leave(t *testing.T) {
	m.hold.Release()
	m.unblock()
	if m.reset != nil && m.c.State().Status() != refs.Accepting {
		assert.NoError(t, await(t, "Reset ends", m.reset))
	}
	assert.NoError(t, m.rt.Close())
	m.cancel()
	if m.gpu.Sticky() == driver.Success {
		assert.Empty(t, m.gpu.Leaks())
	}
	assert.Empty(t, m.gpu.Findings())
}

// changes hears of the changes of all states.
type changes struct {
	mu  sync.Mutex
	all []refs.Change
}

func (c *changes) hear(change refs.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, change)
}

// of are those of a device, in words.
func (c *changes) of(device int) (text []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range c.all {
		if change.Device == device {
			line := fmt.Sprintf("%v to %v, generation %d", change.From, change.To, change.Generation)
			if change.Lost != nil {
				line += ", lost"
			}
			text = append(text, line)
		}
	}
	return text
}

// The hook hears of all that happens to each device, in order.
func TestStateHook(t *testing.T) {
	var heard changes
	rt, gpu := openFaulty(t, twoDevices(), runtime.WithStateHook(heard.hear))
	c := contextAt(t, rt, 0)
	contextAt(t, rt, 1)
	require.NoError(t, c.Reset(bg))
	gpu.Fail("cuCtxSynchronize", 1, driver.ResultUnknown)
	require.ErrorIs(t, c.Reset(bg), driver.ResultUnknown)
	s := newStream(t, c)
	gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	require.ErrorIs(t, second(s.Query()), driver.ErrDeviceLost)
	require.NoError(t, rt.Close())
	assert.Equal(t, []string{
		"accepting to suspended, generation 1",
		"suspended to drained, generation 1",
		"drained to accepting, generation 2",
		"accepting to suspended, generation 2",
		"suspended to drained, generation 2",
		"drained to accepting, generation 2",
		"accepting to lost, generation 3, lost",
		"lost to closed, generation 3, lost",
	}, heard.of(0))
	assert.Equal(t, []string{"accepting to lost, generation 2, lost", "lost to closed, generation 2, lost"}, heard.of(1))
}

// A hook may ask the runtime, whoever tells it.
func TestStateHookAsks(t *testing.T) {
	var rt *runtime.Runtime
	asked := 0
	rt, gpu := openFaulty(t, twoDevices(), runtime.WithStateHook(func(refs.Change) {
		asked++
		rt.Stats()
		rt.Devices()
		rt.Outcome()
		_ = rt.Err()
	}))
	c := contextAt(t, rt, 0)
	require.NoError(t, c.Reset(bg))
	gpu.Fail("cuCtxPushCurrent", 1, driver.ResultIllegalAddress)
	_, _, err := c.MemInfo()
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	require.NoError(t, rt.Close())
	assert.Equal(t, 5, asked)
}

// The first cause is kept and shown by whatever shows anything.
func TestFirstCauseIsShown(t *testing.T) {
	rt, gpu := openFaulty(t, twoDevices())
	b, err := rt.Probe("x")
	require.NoError(t, err)
	far := contextAt(t, rt, 1)
	x := alloc[byte](t, b.Stream, 1)
	gpu.Fail("cuEventQuery", 1, driver.ResultMisalignedAddress) // an asynchronous question
	require.ErrorIs(t, second(newEvent(t, b.Context).Query()), driver.ResultMisalignedAddress)
	first := rt.Stats().Lost
	require.ErrorIs(t, first, driver.ResultMisalignedAddress)
	gpu.Fail("cuEventQuery", 1, driver.ResultIllegalAddress)
	for name, err := range map[string]error{
		"Err": rt.Err(), "Probe": second(rt.Probe("x")), "NewStream": second(far.NewStream()), "Access": second(x.Access()),
		"Stats of a device": far.Stats().Lost, "State": b.Context.State().Lost(), "Reset": b.Context.Reset(bg), "Reset of another": far.Reset(bg),
	} {
		assert.ErrorIs(t, err, driver.ResultMisalignedAddress, name)
		assert.ErrorContains(t, err, "cuEventQuery", name)
	}
	assert.Equal(t, runtime.Fault, rt.Outcome())
	require.NoError(t, rt.Close())
	assert.Same(t, first, rt.Stats().Lost)
	assert.ErrorIs(t, second(x.Access()), driver.ResultMisalignedAddress)
}

// An answer that work is not done is no error, and an error is not that answer.
func TestNotReadyIsNoError(t *testing.T) {
	rt, gpu := openFaulty(t, drivertest.Config{})
	c := contextOf(t, rt)
	s, e := newStream(t, c), newEvent(t, c)
	release := hold(t, s)
	require.NoError(t, e.Record(s))
	for name, query := range map[string]func() (bool, error){"cuStreamQuery": s.Query, "cuEventQuery": e.Query} {
		done, err := query()
		assert.NoError(t, err)
		assert.False(t, done)
		gpu.Fail(name, 1, driver.ResultUnknown)
		done, err = query()
		assert.ErrorIs(t, err, driver.ResultUnknown)
		assert.NotErrorIs(t, err, driver.ResultNotReady)
		assert.False(t, done)
	}
	assert.NoError(t, rt.Err())
	assert.Equal(t, uint64(2), rt.Stats().Errors)
	release()
	synchronize(t, s)
	done, err := s.Query()
	assert.True(t, done)
	assert.NoError(t, err)
}

// Goroutines that wait for a kernel that never ends are let go when CUDA is lost elsewhere.
func TestLossReleasesWaits(t *testing.T) {
	rt, _ := openFaulty(t, twoDevices())
	c, far := contextAt(t, rt, 0), contextAt(t, rt, 1)
	s, e := newStream(t, c), newEvent(t, c)
	// The block waits until one has arrived, and its own arrival makes it none.
	arrived := upload(t, s, []uint32{math.MaxUint32})
	require.NoError(t, kernel(t, c, "meet").Launch(s, one, runtime.InOut(arrived)))
	require.NoError(t, e.Record(s))
	withEnd, cancel := context.WithCancel(bg)
	defer cancel()
	waits := map[string]<-chan error{
		"Stream.Synchronize":              async(func() error { return s.Synchronize(bg) }),
		"Stream.Synchronize, with an end": async(func() error { return s.Synchronize(withEnd) }),
		"Event.Synchronize":               async(func() error { return e.Synchronize(bg) }),
		"Context.Synchronize":             async(c.Synchronize),
		"Context.Reset":                   async(func() error { return c.Reset(withEnd) }),
		"Download":                        async(func() error { return runtime.Download(bg, s, []uint32{0}, arrived) }),
	}
	stray := newStream(t, far)
	require.NoError(t, kernel(t, far, "stray").Launch(stray, one, runtime.Value(uint64(64))))
	require.ErrorIs(t, stray.Synchronize(bg), driver.ErrDeviceLost)
	for name, wait := range waits {
		err := await(t, name+" ends", wait)
		if name == "Download" && errors.Is(err, driver.ErrRefStale) {
			continue // Reset was faster
		}
		assert.ErrorIs(t, err, driver.ErrDeviceLost, name)
		assert.ErrorIs(t, err, driver.ResultIllegalAddress, name)
	}
	assert.NoError(t, await(t, "Close ends", async(rt.Close)))
}

// A wait that the driver itself does not end ends nevertheless, and so does Close.
func TestLossReleasesWaitsThatTheDriverForgets(t *testing.T) {
	stuck, entered := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	rt, gpu := openFaulty(t, drivertest.Config{OnCall: func(op string) driver.Result {
		if op == "cuStreamQuery" && armed.CompareAndSwap(true, false) {
			close(entered)
			<-stuck
		}
		return driver.Success
	}})
	c := contextOf(t, rt)
	s, e := newStream(t, c), newEvent(t, c)
	hold(t, s)
	armed.Store(true)
	withEnd, cancel := context.WithCancel(bg)
	defer cancel()
	waiting := async(func() error { return s.Synchronize(withEnd) })
	<-entered
	gpu.Fail("cuEventQuery", 1, driver.ResultIllegalAddress)
	require.ErrorIs(t, second(e.Query()), driver.ErrDeviceLost)
	assert.ErrorIs(t, await(t, "the wait ends", waiting), driver.ErrDeviceLost)
	assert.NoError(t, await(t, "closing the stream ends", async(s.Close)))
	assert.NoError(t, await(t, "Close ends", async(rt.Close)))
	close(stuck)
}
