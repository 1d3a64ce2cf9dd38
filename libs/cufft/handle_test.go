package cufft_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cufft"
	"github.com/purecuda/purecuda/libs/cufft/cuffttest"
	"github.com/purecuda/purecuda/runtime"
)

// signal is a random input with its spectrum.
type signal struct {
	shape    cufft.Shape
	in       *runtime.Ref[complex64]
	spectrum [][]complex128
}

func newSignal(b bench, n, batch int, seed uint64) signal {
	b.Helper()
	x := random(generator(seed, 9), batch, n, true)
	want := each(x, func(x []complex128) []complex128 { return dft(x, cufft.Forward, n) })
	in := upload(b, scattered(placed(cufft.Layout{}, batch, n), x, toC[complex64])[:n*batch])
	return signal{cufft.Shape{N: []int{n}, Batch: batch}, in, want}
}

// is fails unless the numbers are factor times the spectrum.
func (x signal) is(b bench, ref *runtime.Ref[complex64], factor float64) {
	b.Helper()
	want := each(x.spectrum, func(x []complex128) (scaled []complex128) {
		for _, v := range x {
			scaled = append(scaled, v*complex(factor, 0))
		}
		return scaled
	})
	near(b, want, gathered(b, placed(cufft.Layout{}, x.shape.Batch, x.shape.N...), numbers(b, ref), fromC[complex64]), 2*single.epsilon, "spectrum")
}

// Each launch of a graph transforms again, and scales again.
func TestCapture(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		for _, n := range []int{64, 100} { // without a work area, and with one
			x := newSignal(b, n, 3, 1)
			out := upload(b, make([]complex64, x.in.Len()))
			require.NoError(t, b.h.Prepare(cufft.TypeC2C, x.shape))
			h := b.handle(cufft.Options{})
			require.NoError(t, h.Prepare(cufft.TypeC2C, x.shape))
			scaled := x.shape
			scaled.Scale = true
			graph, err := b.s.Capture(func(*runtime.Stream) error {
				for _, on := range []*cufft.Handle{b.h, h} {
					if err := cufft.C2C(on, cufft.Forward, scaled, x.in, out); err != nil {
						return err
					}
				}
				return cufft.C2C(h, cufft.Forward, scaled, x.in, out)
			})
			require.NoError(t, err)
			require.NoError(t, h.Close(), "the graph keeps its plan")
			run, err := graph.Instantiate()
			require.NoError(t, err)
			for range 3 {
				require.NoError(t, runtime.Zero(b.s, out))
				require.NoError(t, run.Launch(b.s))
				x.is(b, out, 1/float64(n))
			}
			require.NoError(t, run.Close())
			require.NoError(t, graph.Close())
		}
	})
}

// A plan cannot be made in a capture, whether it has a work area or not, and the handle stays well.
func TestNoPlanInACapture(t *testing.T) {
	b, _, lib := simulated(t)
	for _, n := range []int{64, 100} {
		x := newSignal(b, n, 1, 1)
		out := upload(b, make([]complex64, n))
		_, err := b.s.Capture(func(*runtime.Stream) error {
			err := cufft.C2C(b.h, cufft.Forward, x.shape, x.in, out)
			assert.ErrorContains(t, err, "the work area of a new plan, see Handle.Prepare")
			return err
		})
		require.ErrorIs(t, err, driver.ErrCaptureFailed)
		require.NoError(t, cufft.C2C(b.h, cufft.Forward, x.shape, x.in, out))
		x.is(b, out, 1)
	}
	require.NoError(t, b.h.Close())
	assert.Zero(t, lib.Left())

	// A full cache has made room before.
	h := b.handle(cufft.Options{Plans: 1})
	require.NoError(t, h.Prepare(cufft.TypeC2C, cufft.Shape{N: []int{7}}))
	_, err := b.s.Capture(func(*runtime.Stream) error { return h.Prepare(cufft.TypeC2C, cufft.Shape{N: []int{8}}) })
	require.ErrorIs(t, err, driver.ErrCaptureFailed)
	require.NoError(t, h.Prepare(cufft.TypeC2C, cufft.Shape{N: []int{8}}))
	assert.Equal(t, 1, lib.Left())
	assert.NoError(t, h.Close())
}

// Transforms are ordered with the work of other streams by their Refs, and Refs may be closed behind them.
func TestOrderAcrossStreams(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		other, err := b.s.Context().NewStream()
		require.NoError(t, err)
		defer other.Close()
		h, err := cufft.New(b.api, other, cufft.Options{})
		require.NoError(t, err)
		defer h.Close()
		x := newSignal(b, 1000, 2, 2)
		out := upload(b, make([]complex64, 2000))
		for range 5 {
			require.NoError(t, runtime.Zero(b.s, out))
			between, err := runtime.Alloc[complex64](b.s, 2000)
			require.NoError(t, err)
			back := x.shape
			back.Scale = true
			require.NoError(t, cufft.C2C(b.h, cufft.Forward, x.shape, x.in, between))
			require.NoError(t, cufft.C2C(h, cufft.Inverse, back, between, between))
			require.NoError(t, cufft.C2C(b.h, cufft.Forward, x.shape, between, out))
			require.NoError(t, between.Close())
			x.is(b, out, 1)
		}
	})
}

// One handle on many goroutines, with more shapes than plans: plans go while others need them.
func TestConcurrentUse(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		h := b.handle(cufft.Options{Plans: 2})
		var wg sync.WaitGroup
		for g := range 8 {
			var signals []signal
			var outs []*runtime.Ref[complex64]
			for i := range 4 {
				x := newSignal(b, 60+7*i, 1+g%2, uint64(g))
				signals, outs = append(signals, x), append(outs, upload(b, make([]complex64, x.in.Len())))
			}
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(g), 4))
				for range 12 {
					i := r.IntN(4)
					assert.NoError(t, cufft.C2C(h, cufft.Forward, signals[i].shape, signals[i].in, outs[i]))
				}
				for i, x := range signals {
					assert.NoError(t, cufft.C2C(h, cufft.Forward, x.shape, x.in, outs[i]))
				}
			})
			t.Cleanup(func() {
				for i, x := range signals {
					x.is(b, outs[i], 1)
				}
			})
		}
		wg.Wait()
	})
}

// A handle that is closed while others use it: their calls succeed or say that it was closed, and no plan is left.
func TestCloseBesideCalls(t *testing.T) {
	b, _, lib := simulated(t)
	x := newSignal(b, 60, 1, 1)
	for range 20 {
		h := b.handle(cufft.Options{Plans: 1})
		var wg sync.WaitGroup
		for g := range 4 {
			out := upload(b, make([]complex64, 60))
			wg.Go(func() {
				for i := range 4 {
					shape := x.shape
					shape.N = []int{60 - (g+i)%2}
					if err := cufft.C2C(h, cufft.Forward, shape, x.in, out); err != nil {
						assert.ErrorIs(t, err, driver.ErrClosed)
					}
				}
			})
		}
		assert.NoError(t, h.Close())
		wg.Wait()
		assert.Zero(t, lib.Left())
	}
}

// Plans are kept up to the limit. The one that was not used for the longest time goes.
func TestPlansAreKept(t *testing.T) {
	b, _, lib := simulated(t)
	h := b.handle(cufft.Options{Plans: 2})
	use := func(n int) {
		x := newSignal(b, n, 1, 1)
		out := upload(b, make([]complex64, n))
		require.NoError(t, cufft.C2C(h, cufft.Forward, x.shape, x.in, out))
		require.NoError(t, cufft.C2C(h, cufft.Forward, x.shape, x.in, out))
		x.is(b, out, 1)
	}
	for _, c := range []struct{ n, made, left int }{
		{10, 1, 1}, {11, 2, 2}, {10, 2, 2}, {12, 3, 2}, {10, 3, 2}, {11, 4, 2}, {12, 5, 2}, {12, 5, 2}, {11, 5, 2},
	} {
		use(c.n)
		assert.Equal(t, []int{c.made, c.left}, []int{lib.Made(), lib.Left()}, c)
	}
	for _, shape := range []cufft.Shape{
		{N: []int{12}}, {N: []int{12}, Batch: 1}, {N: []int{12}, In: cufft.Layout{Embed: []int{12}, Stride: 1}, Out: cufft.Layout{Distance: 12}, Scale: true},
	} {
		require.NoError(t, h.Prepare(cufft.TypeC2C, shape))
	}
	assert.Equal(t, 5, lib.Made(), "the same in other words")
	require.NoError(t, h.Prepare(cufft.TypeZ2Z, cufft.Shape{N: []int{12}}))
	assert.Equal(t, 6, lib.Made())
	require.NoError(t, h.Close())
	assert.Zero(t, lib.Left())
	assert.ErrorIs(t, h.Prepare(cufft.TypeC2C, cufft.Shape{N: []int{3}}), driver.ErrClosed)
}

// A plan that makes room is destroyed after its work: until then the call that needs the room waits.
func TestRoomAfterPendingWork(t *testing.T) {
	b, _, lib := simulated(t)
	h := b.handle(cufft.Options{Plans: 1})
	first, second := newSignal(b, 60, 1, 1), newSignal(b, 61, 1, 2)
	a, c := upload(b, make([]complex64, 60)), upload(b, make([]complex64, 61))
	held, release := make(chan struct{}), make(chan struct{})
	require.NoError(t, b.s.LaunchHostFunc(func() { close(held); <-release }))
	<-held
	require.NoError(t, cufft.C2C(h, cufft.Forward, first.shape, first.in, a))
	done := make(chan error, 1)
	go func() { done <- cufft.C2C(h, cufft.Forward, second.shape, second.in, c) }()
	assert.Equal(t, 1, lib.Left(), "the first plan is there as long as its work")
	select {
	case err := <-done:
		assert.Fail(t, "the second call came before the work of the first plan", "%v", err)
	default:
	}
	close(release)
	require.NoError(t, <-done)
	first.is(b, a, 1)
	second.is(b, c, 1)
	assert.Equal(t, 1, lib.Left())
}

func TestHandleEnds(t *testing.T) {
	b, _, lib := simulated(t)
	x := newSignal(b, 100, 1, 1)
	out := upload(b, make([]complex64, 100))
	transform := func(h *cufft.Handle) error { return cufft.C2C(h, cufft.Forward, x.shape, x.in, out) }
	h, err := cufft.New(lib, b.s, cufft.Options{})
	require.NoError(t, err)
	assert.Same(t, b.s, h.Stream())
	require.NoError(t, transform(h))
	require.NoError(t, h.Close())
	require.NoError(t, h.Close())
	require.ErrorIs(t, transform(h), driver.ErrClosed)
	for _, none := range []*cufft.Handle{nil, {}} {
		assert.NoError(t, none.Close())
		assert.Nil(t, none.Stream())
		assert.ErrorIs(t, transform(none), driver.ErrInvalidArgument)
		assert.ErrorIs(t, none.Prepare(cufft.TypeC2C, x.shape), driver.ErrInvalidArgument)
	}

	require.NoError(t, transform(b.h))
	require.NoError(t, b.s.Context().Reset(bg))
	assert.Zero(t, lib.Left(), "they end with the context")
	assert.ErrorIs(t, transform(b.h), driver.ErrRefStale)
	assert.ErrorIs(t, b.h.Prepare(cufft.TypeC2C, cufft.Shape{N: []int{7}}), driver.ErrRefStale)
	assert.Zero(t, lib.Left())
	s, err := b.s.Context().NewStream()
	require.NoError(t, err)
	defer s.Close()
	h, err = cufft.New(lib, s, cufft.Options{})
	require.NoError(t, err)
	defer h.Close()
	after := bench{t, lib, s, h}
	x = newSignal(after, 100, 1, 1)
	out = upload(after, make([]complex64, 100))
	require.NoError(t, transform(h))
	x.is(after, out, 1)
}

func TestHandleThatCannotBeMade(t *testing.T) {
	b, _, lib := simulated(t)
	for name, c := range map[string]struct {
		api cufft.API
		s   *runtime.Stream
		o   cufft.Options
	}{
		"takes a library: see Open":  {nil, b.s, cufft.Options{}},
		"takes a stream that is not": {lib, nil, cufft.Options{}},
		"takes a stream that":        {lib, new(runtime.Stream), cufft.Options{}},
		"Options.Plans is -1":        {lib, b.s, cufft.Options{Plans: -1}},
	} {
		_, err := cufft.New(c.api, c.s, c.o)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
		assert.ErrorContains(t, err, name)
	}
	gpu := drivertest.ForTest(t, config())
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	ctx, err := rt.Context(0)
	require.NoError(t, err)
	s, err := ctx.NewStream()
	require.NoError(t, err)
	gpu.Fail("cuModuleLoadDataEx", 1, driver.ResultOutOfMemory)
	_, err = cufft.New(cuffttest.New(gpu), s, cufft.Options{})
	assert.ErrorIs(t, err, driver.ErrOutOfMemory, "the kernel that scales")
}

// What cuFFT refuses is an error of the call. The next one tries again.
func TestFailures(t *testing.T) {
	b, _, lib := simulated(t)
	x := newSignal(b, 100, 1, 1)
	out := upload(b, make([]complex64, 100))
	transform := func() error { return cufft.C2C(b.h, cufft.Forward, x.shape, x.in, out) }
	for _, where := range []struct{ method, name string }{{"Plan", "cufftMakePlanMany64"}, {"SetStream", "cufftSetStream"}, {"Exec", "cufftExecC2C"}} {
		for status, kind := range map[cufft.Status]driver.Kind{
			cufft.StatusNotSupported: driver.ErrUnsupported, cufft.StatusNotImplemented: driver.ErrUnsupported, cufft.StatusInvalidSize: driver.ErrUnsupported,
			cufft.StatusAllocFailed: driver.ErrOutOfMemory, cufft.StatusInternalError: driver.ErrDriverCallFailed,
			cufft.StatusSymbolMissing: driver.ErrSymbolMissing, 99: driver.ErrDriverCallFailed,
		} {
			lib.Fail(where.method, status)
			err := transform()
			require.ErrorIs(t, err, status)
			assert.ErrorIs(t, err, kind)
			assert.ErrorContains(t, err, where.name+": ")
		}
		lib.SetVersion([3]int{9, 2, 0})
		lib.Fail(where.method, cufft.StatusSymbolMissing)
		assert.ErrorContains(t, transform(), where.name+" needs cuFFT 10.0, found 9.2.0")
		lib.Fail(where.method, cufft.StatusSuccess)
	}
	require.NoError(t, transform())
	x.is(b, out, 1)
	assert.Equal(t, 1, lib.Left())

	// A plan that cannot be destroyed is told by Close.
	h, err := cufft.New(lib, b.s, cufft.Options{Plans: 1})
	require.NoError(t, err)
	require.NoError(t, h.Prepare(cufft.TypeC2C, x.shape))
	lib.Fail("Destroy", cufft.StatusInternalError)
	require.NoError(t, h.Prepare(cufft.TypeZ2Z, x.shape), "what made room is not of this call")
	lib.Fail("Destroy", cufft.StatusSuccess)
	err = h.Close()
	require.ErrorIs(t, err, cufft.StatusInternalError)
	assert.ErrorContains(t, err, "destroying a library handle of device 0")
	assert.NoError(t, h.Close())
}

// A work area that does not fit is an error of the call, and leaves no plan.
func TestNoRoomForAWorkArea(t *testing.T) {
	b, _, lib := simulated(t)
	err := b.h.Prepare(cufft.TypeZ2Z, cufft.Shape{N: []int{1 << 20, 3}, Batch: 1 << 20})
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.Zero(t, lib.Left())
}

func TestWrongShapes(t *testing.T) {
	b, _, lib := simulated(t)
	z, x := upload(b, make([]complex64, 24)), upload(b, make([]float32, 24))
	closed := upload(b, make([]complex64, 8))
	require.NoError(t, closed.Close())
	c2c := func(shape cufft.Shape, in, out *runtime.Ref[complex64]) error {
		return cufft.C2C(b.h, cufft.Forward, shape, in, out)
	}
	of := func(n ...int) cufft.Shape { return cufft.Shape{N: n} }
	other := upload(b, make([]complex64, 24))
	for _, c := range []struct {
		err  error
		want string
	}{
		{c2c(of(), z, other), "cufftExecC2C: N has 0 lengths: want 1 to 3"},
		{c2c(of(1, 1, 1, 1), z, other), "N has 4 lengths"},
		{c2c(of(2, 0), z, other), "N[1] is 0: want at least 1"},
		{c2c(of(-3), z, other), "N[0] is -3"},
		{c2c(cufft.Shape{N: []int{2}, Batch: -1}, z, other), "a batch of -1"},
		{c2c(of(25), z, other), "In has 24 elements: want 25, for N of [25], a batch of 1"},
		{c2c(cufft.Shape{N: []int{5}, Batch: 5}, z, other), "In has 24 elements: want 25, for N of [5], a batch of 5"},
		{c2c(cufft.Shape{N: []int{5}, Batch: 5}, upload(b, make([]complex64, 25)), other), "Out has 24 elements: want 25"},
		{c2c(of(math.MaxInt), z, other), "In reaches over more than the"},
		{c2c(of(math.MaxInt, math.MaxInt, math.MaxInt), z, other), "In reaches over more than"},
		{c2c(cufft.Shape{N: []int{2}, Batch: math.MaxInt, Out: cufft.Layout{Distance: math.MaxInt}}, z, other), "reaches over more than"},
		{c2c(cufft.Shape{N: []int{2}, Batch: 2, Out: cufft.Layout{Distance: math.MaxInt}}, z, other), "Out reaches over more than"},
		{c2c(cufft.Shape{N: []int{3}, In: cufft.Layout{Embed: []int{3, 3}}}, z, other), "In.Embed has 2 lengths: want 1"},
		{c2c(cufft.Shape{N: []int{2, 3}, In: cufft.Layout{Embed: []int{2, 2}}}, z, other), "In.Embed[1] is 2: want at least 3"},
		{c2c(cufft.Shape{N: []int{3}, Out: cufft.Layout{Stride: -1}}, z, other), "Out has a stride of -1"},
		{c2c(cufft.Shape{N: []int{3}, Out: cufft.Layout{Distance: -2}}, z, other), "a distance of -2"},
		{c2c(cufft.Shape{N: []int{4}, Batch: 2, Out: cufft.Layout{Distance: 3}}, z, other), "numbers of Out lie in each other's place: 2 of them are 3 elements apart, and what lies between takes 4"},
		{c2c(cufft.Shape{N: []int{4}, Batch: 2, In: cufft.Layout{Distance: 3}, Out: cufft.Layout{Distance: 3}}, z, z), "lie in each other's place"},
		{c2c(of(8), z.Slice(0, 8), z.Slice(4, 12)), "want the same memory, or none in common"},
		{c2c(of(8), z.Slice(4, 12), z.Slice(0, 8)), "want the same memory, or none in common"},
		{c2c(cufft.Shape{N: []int{4}, In: cufft.Layout{Stride: 2}}, z, z), "in place: the layouts differ: In has numbers 16 bytes apart, and Out 8 bytes"},
		{c2c(cufft.Shape{N: []int{4}, Batch: 2, In: cufft.Layout{Distance: 5}}, z, z), "in place: the layouts differ"},
		{c2c(of(4), nil, other), "In has no memory: the Ref is nil"},
		{c2c(of(4), z, nil), "Out has no memory: the Ref is nil"},
		{c2c(of(4), z, z.Slice(20, 30)), "slice [20:30] of a Ref of 24 elements"},
		{cufft.C2C(b.h, 0, of(4), z, other), "direction 0: want Forward or Inverse"},
		{cufft.C2C(nil, cufft.Forward, of(4), z, other), "cufftExecC2C with no handle: see cufft.New"},
		{cufft.R2C(b.h, of(24), x, z.Slice(0, 12)), "cufftExecR2C: Out has 12 elements: want 13"},
		{cufft.R2C(b.h, of(24), x.Slice(1, 24), z), "In has 23 elements"},
		{cufft.R2C(b.h, of(20), x.Slice(1, 24), z), "cuFFT wants a multiple of 8, so that a view of real numbers begins at an even one"},
		{cufft.C2R(b.h, of(20), z, x.Slice(3, 24)), "Out begins at 0x"},
		{cufft.C2R(b.h, of(24), z.Slice(0, 12), x), "In has 12 elements: want 13"},
		{cufft.C2R(b.h, cufft.Shape{N: []int{4}, Batch: 2, In: cufft.Layout{Distance: 2}}, z, x), "numbers of In lie in each other's place"},
		{cufft.R2C(b.h, cufft.Shape{N: []int{4, 4}, In: cufft.Layout{}}, cast[float32](b, z), z), "in place: the layouts differ: In has numbers 16 bytes apart, and Out 24 bytes (for real numbers, see Padded)"},
		{cufft.R2C(b.h, cufft.Shape{N: []int{4}, In: cufft.Layout{Stride: 2}, Out: cufft.Layout{Stride: 2}}, cast[float32](b, z), z), "in place: the strides are 2 and 2: want 1"},
		{b.h.Prepare(cufft.Type(7), of(4)), "type 7: want TypeC2C"},
		{b.h.Prepare(cufft.TypeD2Z, of(0)), "cufftExecD2Z: N[0] is 0"},
	} {
		assert.ErrorIs(t, c.err, driver.ErrInvalidArgument, c.want)
		assert.ErrorContains(t, c.err, c.want)
	}
	assert.ErrorIs(t, c2c(of(4), closed, z), driver.ErrClosed)
	assert.ErrorIs(t, c2c(of(4), z, closed), driver.ErrClosed)
	assert.Zero(t, lib.Made(), "no plan is made for what cannot be")

	for _, shape := range []cufft.Shape{
		{N: []int{1}}, {N: []int{1, 1, 1}}, {N: []int{2}, Batch: 12, In: cufft.Layout{Stride: 12, Distance: 1}},
		{N: []int{2}, Batch: 2, Out: cufft.Layout{Stride: 3, Distance: 2}},
	} {
		assert.NoError(t, c2c(shape, z, other), "%+v", shape)
	}
	assert.NoError(t, c2c(of(12), z.Slice(0, 12), z.Slice(12, 24)), "side by side")
}

func cast[T, From any](b bench, ref *runtime.Ref[From]) *runtime.Ref[T] {
	b.Helper()
	view, err := runtime.Cast[T](ref)
	require.NoError(b, err)
	return view
}

// Memory of another device is refused by name.
func TestWrongDevice(t *testing.T) {
	c := config()
	c.Devices = []drivertest.DeviceConfig{drivertest.A100(), drivertest.A100()}
	gpu := drivertest.ForTest(t, c)
	b := on(t, gpu, cuffttest.New(gpu))
	other, err := b.s.Context().Runtime().Context(1)
	require.NoError(t, err)
	s, err := other.NewStream()
	require.NoError(t, err)
	defer s.Close()
	there, err := runtime.UploadNew(bg, s, make([]complex128, 4))
	require.NoError(t, err)
	defer there.Close()
	err = cufft.Z2Z(b.h, cufft.Forward, cufft.Shape{N: []int{4}}, there, there)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "cufftExecZ2Z uses memory of device 1")
}

// What goes around the checks of this package the simulated library finds: memory that is too small or was
// freed is a fault of the device, as on hardware, and names the allocation.
func TestFindings(t *testing.T) {
	const n = 60
	for name, c := range map[string]struct {
		in, out, workArea uint64 // more or less than it needs
		freed             bool
		shift, gap        driver.DevicePtr
		want              string
	}{
		"small input":     {in: ^uint64(7), want: "beyond the end of the allocation"},
		"small output":    {out: ^uint64(7), want: "beyond the end of the allocation"},
		"small work area": {workArea: ^uint64(0), want: "beyond the end of the allocation"},
		"misaligned":      {in: 8, shift: 4, want: "is not a multiple of 8"},
		"overlap":         {in: 16, gap: 16, want: "the output overlaps a part of the input"},
		"after a free":    {freed: true, want: "freed"},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := drivertest.New(config())
			defer gpu.Close()
			lib := cuffttest.New(gpu)
			rt, err := runtime.Open(runtime.WithDriver(gpu))
			require.NoError(t, err)
			defer rt.Close()
			ctx, err := rt.Context(0)
			require.NoError(t, err)
			require.NoError(t, ctx.Do(func() error {
				p, bytes, status := lib.Plan(&cufft.Description{Type: cufft.TypeC2C, Rank: 1, N: [3]int64{n}, InEmbed: [3]int64{n}, OutEmbed: [3]int64{n},
					InStride: 1, InDistance: n, OutStride: 1, OutDistance: n, Batch: 1})
				require.Equal(t, cufft.StatusSuccess, status)
				require.EqualValues(t, 16*n, bytes)
				s, r := gpu.StreamCreate(driver.StreamNonBlocking)
				require.Equal(t, driver.Success, r)
				alloc := func(n uint64) driver.DevicePtr {
					at, r := gpu.MemAlloc(n)
					require.Equal(t, driver.Success, r)
					return at
				}
				in, out := alloc(8*n+c.in), alloc(8*n+c.out)
				require.Equal(t, cufft.StatusSuccess, lib.SetStream(p, s, 0))
				assert.Equal(t, cufft.StatusNoWorkspace, lib.Exec(p, cufft.TypeC2C, cufft.Forward, in, out))
				require.Equal(t, cufft.StatusSuccess, lib.SetStream(p, s, alloc(bytes+c.workArea)))
				assert.Equal(t, cufft.StatusInvalidType, lib.Exec(p, cufft.TypeZ2Z, cufft.Forward, in, out))
				assert.Equal(t, cufft.StatusInvalidValue, lib.Exec(p, cufft.TypeC2C, cufft.Forward, in, 0))
				assert.Equal(t, cufft.StatusInvalidValue, lib.Exec(p, cufft.TypeC2C, 0, in, out))
				assert.Equal(t, cufft.StatusInvalidPlan, lib.Exec(p+1, cufft.TypeC2C, cufft.Forward, in, out))
				if c.freed {
					require.Equal(t, driver.Success, gpu.MemFree(in))
				}
				if c.gap > 0 {
					out = in + c.gap
				}
				assert.Equal(t, cufft.StatusSuccess, lib.Exec(p, cufft.TypeC2C, cufft.Forward, in+c.shift, out), "as on hardware: the fault comes later")
				assert.True(t, gpu.StreamSynchronize(s).Sticky())
				return nil
			}))
			require.NotEmpty(t, gpu.Findings())
			assert.Contains(t, gpu.Findings()[0].Detail, c.want)
		})
	}
}

// The simulated library refuses the plans that cuFFT refuses.
func TestPlansThatCannotBe(t *testing.T) {
	b, _, lib := simulated(t)
	good := cufft.Description{Type: cufft.TypeR2C, Rank: 2, N: [3]int64{4, 6}, InEmbed: [3]int64{4, 6}, OutEmbed: [3]int64{4, 4},
		InStride: 1, InDistance: 24, OutStride: 1, OutDistance: 16, Batch: 1}
	require.NoError(t, b.s.Context().Do(func() error {
		p, _, status := lib.Plan(&good)
		require.Equal(t, cufft.StatusSuccess, status)
		assert.Equal(t, cufft.StatusSuccess, lib.Destroy(p))
		assert.Equal(t, cufft.StatusInvalidPlan, lib.Destroy(p))
		assert.Equal(t, cufft.StatusInvalidPlan, lib.SetStream(p, 0, 0))
		for want, spoil := range map[cufft.Status][]func(d *cufft.Description){
			cufft.StatusInvalidType: {func(d *cufft.Description) { d.Type = 3 }},
			cufft.StatusInvalidSize: {
				func(d *cufft.Description) { d.Rank = 0 }, func(d *cufft.Description) { d.Rank = 4 }, func(d *cufft.Description) { d.N[1] = 0 },
				func(d *cufft.Description) { d.Batch = 0 }, func(d *cufft.Description) { d.InStride = 0 },
				func(d *cufft.Description) { d.InEmbed[1] = 5 }, func(d *cufft.Description) { d.OutEmbed[1] = 3 },
			},
		} {
			for i, f := range spoil {
				d := good
				f(&d)
				_, _, status := lib.Plan(&d)
				assert.Equal(t, want, status, i)
			}
		}
		return nil
	}))
	_, _, status := lib.Plan(&good)
	assert.Equal(t, cufft.StatusSetupFailed, status, "without a context")
}

// After a loss nothing is submitted any more, and the error has the first cause.
func TestAfterALoss(t *testing.T) {
	gpu := drivertest.New(config())
	defer gpu.Close()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	ctx, err := rt.Context(0)
	require.NoError(t, err)
	s, err := ctx.NewStream()
	require.NoError(t, err)
	h, err := cufft.New(cuffttest.New(gpu), s, cufft.Options{})
	require.NoError(t, err)
	x, err := runtime.UploadNew(bg, s, make([]complex128, 10))
	require.NoError(t, err)
	require.NoError(t, cufft.Z2Z(h, cufft.Forward, cufft.Shape{N: []int{10}}, x, x))
	gpu.Fail("cuMemsetD8Async", 1, driver.ResultIllegalAddress)
	require.Error(t, runtime.Zero(s, x))
	for _, n := range []int{10, 9} { // with a plan, and without one
		err = cufft.Z2Z(h, cufft.Forward, cufft.Shape{N: []int{n}}, x, x)
		require.ErrorIs(t, err, driver.ErrDeviceLost, n)
		assert.ErrorIs(t, err, driver.ResultIllegalAddress)
	}
	assert.NoError(t, h.Close())
}

func TestNames(t *testing.T) {
	assert.Equal(t, "cufftExecZ2D", cufft.TypeZ2D.String())
	assert.Equal(t, "type 9", fmt.Sprint(cufft.Type(9)))
}
