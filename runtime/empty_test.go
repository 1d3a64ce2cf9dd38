package runtime_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// emptyShapes are the ways to say that there is nothing to do.
func emptyShapes(t *testing.T, k *runtime.Kernel) map[string]runtime.Shape {
	block := runtime.Dim3{X: 16, Y: 16}
	byKernel, err := k.Shape(0)
	require.NoError(t, err)
	return map[string]runtime.Shape{
		"Shape1D":      runtime.Shape1D(0, 256),
		"Shape2D":      runtime.Shape2D(0, 5, block),
		"Shape2D flat": runtime.Shape2D(5, 0, block),
		"Shape3D":      runtime.Shape3D(5, 5, 0, block),
		"Shape":        byKernel,
		"by hand":      {Grid: runtime.Dim3{X: 0, Y: 5}, Block: runtime.Dim3{X: 1}},
		"cooperative":  {Block: runtime.Dim3{X: 1}, Cooperative: true},
	}
}

func TestEmptyLaunch(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	k := kernel(t, c, "add")
	x := upload(t, s, count(7, 4))
	for name, shape := range emptyShapes(t, k) {
		t.Run(name, func(t *testing.T) {
			launch := func(s *runtime.Stream) error {
				return k.Launch(s, shape, runtime.InOut(x), runtime.Value(uint64(4)), runtime.Value(uint32(1)))
			}
			before := c.Stats()
			require.NoError(t, launch(s))
			g := capture(t, s, launch)
			nodes, err := g.Nodes()
			require.NoError(t, err)
			assert.Zero(t, nodes)
			require.NoError(t, g.Close())
			assert.Equal(t, before.Launches, c.Stats().Launches)
			assert.Equal(t, count(7, 4), download(t, s, x))
		})
	}
	for _, op := range []string{"cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"} {
		assert.Zero(t, gpu.Calls(op), op)
	}
}

// What is wrong with a launch is an error, whether there is anything to do or not.
func TestEmptyLaunchChecksWhatAnyLaunchDoes(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s, closed := newStream(t, c), newStream(t, c)
	require.NoError(t, closed.Close())
	k := kernel(t, c, "add")
	x, gone := alloc[uint32](t, s, 4), alloc[uint32](t, s, 4)
	require.NoError(t, gone.Close())
	n, amount := runtime.Value(uint64(0)), runtime.Value(uint32(1))
	empty := runtime.Shape1D(0, 256)
	for name, c := range map[string]struct {
		kind driver.Kind
		err  error
	}{
		"a closed Ref":      {driver.ErrClosed, k.Launch(s, empty, runtime.InOut(gone), n, amount)},
		"a nil Ref":         {driver.ErrInvalidArgument, k.Launch(s, empty, runtime.InOut[uint32](nil), n, amount)},
		"a closed stream":   {driver.ErrClosed, k.Launch(closed, empty, runtime.InOut(x), n, amount)},
		"too few arguments": {driver.ErrInvalidArgument, k.Launch(s, empty, runtime.InOut(x))},
	} {
		assert.ErrorIs(t, c.err, c.kind, name)
	}
	assert.Zero(t, gpu.Calls("cuLaunchKernel"))
}

// Numbers that no shape has are errors that name them.
func TestShapesThatThereAreNot(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	k := kernel(t, c, "add")
	x := alloc[uint32](t, s, 4)
	block := runtime.Dim3{X: 16, Y: 16}
	_, errShape := k.Shape(-7)
	for _, c := range []struct {
		shape runtime.Shape
		text  string
	}{
		{runtime.Shape1D(-5, 256), "a grid for -5 items: want 0 or more"},
		{runtime.Shape1D(math.MinInt, 256), "a grid for -9223372036854775808 items: want 0 or more"},
		{runtime.Shape1D(100, 0), "a block of 0 threads: want at least one"},
		{runtime.Shape1D(0, 0), "a block of 0 threads: want at least one"},
		{runtime.Shape1D(100, -3), "a block of -3 threads: want at least one"},
		{runtime.Shape1D(1, math.MaxInt), "block 4294967295x1x1: the device takes at most 1024x1024x64 threads"},
		{runtime.Shape1D(math.MaxInt, 1), "grid 4294967295x1x1: the device takes at most 2147483647x65535x65535 blocks"},
		{runtime.Shape2D(3, -2, block), "a grid for -2 items: want 0 or more"},
		{runtime.Shape2D(0, -2, block), "a grid for -2 items: want 0 or more"},
		{runtime.Shape2D(3, 2, runtime.Dim3{}), "block 0x1x1: want at least one thread"},
		{runtime.Shape3D(1, 1, -1, block), "a grid for -1 items: want 0 or more"},
	} {
		err := k.Launch(s, c.shape, runtime.InOut(x), runtime.Value(uint64(4)), runtime.Value(uint32(1)))
		require.ErrorIs(t, err, driver.ErrInvalidArgument, c.text)
		assert.ErrorContains(t, err, c.text)
		assert.ErrorContains(t, err, "[device 0, kernel add]")
	}
	require.ErrorIs(t, errShape, driver.ErrInvalidArgument)
	assert.ErrorContains(t, errShape, "a grid for -7 items: want 0 or more")
	assert.Zero(t, gpu.Calls("cuLaunchKernel"))
}

// Memory without elements goes wherever other memory goes.
func TestMemoryOfNoElements(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s, other := newStream(t, c), newStream(t, c)
		k := kernel(t, c, "add")
		x, y, h := alloc[uint32](t, s, 0), alloc[uint32](t, other, 0), allocHost[uint32](t, c, 0)
		assert.Equal(t, [2]uint64{0, 0}, [2]uint64{uint64(x.Len()), x.Bytes()})
		assert.Empty(t, h.Data())
		assert.EqualValues(t, 3, c.Stats().Refs+c.Stats().HostBuffers)
		work := func(s *runtime.Stream) error {
			for _, step := range []func() error{
				func() error { return runtime.Fill(s, x, 7) },
				func() error { return runtime.Zero(s, x) },
				func() error { return runtime.Copy(s, y, x) },
				func() error { return runtime.UploadHost(s, x, h) },
				func() error { return runtime.DownloadHost(s, h, x.Slice(0, 0)) },
				func() error { return addTo(k, s, x, 1) },
			} {
				if err := step(); err != nil {
					return err
				}
			}
			return nil
		}
		require.NoError(t, runtime.Upload(bg, s, x, nil))
		require.NoError(t, work(s))
		require.NoError(t, work(other))
		require.NoError(t, runtime.Download(bg, other, []uint32{}, y))
		g := capture(t, s, work)
		x2 := instantiate(t, g)
		require.NoError(t, x2.Launch(s))
		synchronize(t, s)
		require.NoError(t, x2.Close())

		again := x.Retain()
		require.NoError(t, x.Close())
		require.NoError(t, runtime.Zero(s, again))
		require.NoError(t, again.Close())
		require.ErrorIs(t, runtime.Zero(s, x), driver.ErrClosed)
		require.ErrorIs(t, runtime.Upload(context.Background(), s, y, []uint32{1}), driver.ErrInvalidArgument)
	})
}
