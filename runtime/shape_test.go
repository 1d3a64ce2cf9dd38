package runtime_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/runtime"
)

func TestPlanarAndVolume(t *testing.T) {
	type dim = runtime.Dim3
	for _, c := range []struct {
		got         runtime.Shape
		grid, block dim
	}{
		{runtime.Shape2D(1, 1, dim{X: 16, Y: 16}), dim{X: 1, Y: 1, Z: 1}, dim{X: 16, Y: 16, Z: 1}},
		{runtime.Shape2D(16, 17, dim{X: 16, Y: 16}), dim{X: 1, Y: 2, Z: 1}, dim{X: 16, Y: 16, Z: 1}},
		{runtime.Shape2D(1920, 1080, dim{X: 32, Y: 8}), dim{X: 60, Y: 135, Z: 1}, dim{X: 32, Y: 8, Z: 1}},
		{runtime.Shape3D(65, 64, 3, dim{X: 8, Y: 8, Z: 4}), dim{X: 9, Y: 8, Z: 1}, dim{X: 8, Y: 8, Z: 4}},
		{runtime.Shape3D(1, 1, 9, dim{X: 1, Y: 1, Z: 4}), dim{X: 1, Y: 1, Z: 3}, dim{X: 1, Y: 1, Z: 4}},
		{runtime.Shape3D(math.MaxInt, 1, 1, dim{X: 1}), dim{X: math.MaxUint32, Y: 1, Z: 1}, dim{X: 1, Y: 1, Z: 1}},
	} {
		assert.Equal(t, runtime.Shape{Grid: c.grid, Block: c.block}, c.got)
	}
}

// Shape asks the driver once, and what it gives can be launched.
func TestShape(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		k := kernel(t, c, "add")
		threads, _, err := k.MaxPotentialBlockSize(0)
		require.NoError(t, err)
		for _, n := range []int{1, 1000, 100_000} {
			shape, err := k.Shape(n)
			require.NoError(t, err)
			assert.Equal(t, runtime.Shape1D(n, threads), shape)
			x := upload(t, s, count(0, n))
			require.NoError(t, k.Launch(s, shape, runtime.InOut(x), runtime.Value(uint64(n)), runtime.Value(uint32(1))))
			assert.Equal(t, count(1, n), download(t, s, x))
		}
	})
	rt, gpu := open(t, drivertest.Config{})
	k := kernel(t, contextOf(t, rt), "rotate")
	const op = "cuOccupancyMaxPotentialBlockSize"
	gpu.Fail(op, 1, driver.ResultUnknown)
	_, err := k.Shape(100)
	require.ErrorIs(t, err, driver.ResultUnknown)
	before := gpu.Calls(op)
	for range 10 {
		shape, err := k.Shape(1000)
		require.NoError(t, err)
		assert.EqualValues(t, 64, shape.Block.X, "its launch bounds")
	}
	assert.Equal(t, before+1, gpu.Calls(op))
	require.NoError(t, k.Module().Close())
	_, err = k.Module().Kernel("add")
	assert.ErrorIs(t, err, driver.ErrClosed)
}

// A kernel works on page-locked memory of the host.
func TestHostMemoryAsArgument(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 1000
		for place := range min(2, len(rt.Devices())) { // memory of the first device's context
			c := contextAt(t, rt, place)
			s := newStream(t, c)
			h := allocHost[uint32](t, contextOf(t, rt), n)
			copy(h.Data(), count(0, n))
			k := kernel(t, c, "add")
			require.NoError(t, k.Launch(s, runtime.Shape1D(n, 128), h.Arg(), runtime.Value(uint64(n)), runtime.Value(uint32(7))))
			half := h.Slice(n/2, n)
			require.NoError(t, k.Launch(s, runtime.Shape1D(n/2, 128), half.Arg(), runtime.Value(uint64(n/2)), runtime.Value(uint32(100))))
			synchronize(t, s)
			assert.Equal(t, count(7, n/2), h.Data()[:n/2])
			assert.Equal(t, count(107+n/2, n/2), h.Data()[n/2:])
			require.ErrorIs(t, k.Launch(s, one, h.Slice(5, n+1).Arg(), runtime.Value(uint64(n)), runtime.Value(uint32(7))), driver.ErrInvalidArgument)
			require.NoError(t, h.Close())
			require.ErrorIs(t, k.Launch(s, one, h.Arg(), runtime.Value(uint64(n)), runtime.Value(uint32(7))), driver.ErrClosed)
		}
	})
}

// A graph holds host memory that a kernel works on.
func TestHostMemoryInAGraph(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		h, x := allocHost[uint32](t, c, 10), alloc[uint32](t, s, 10)
		clear(h.Data())
		k := kernel(t, c, "add")
		graph := instantiate(t, capture(t, s, func(s *runtime.Stream) error {
			if err := k.Launch(s, runtime.Shape1D(10, 32), h.Arg(), runtime.Value(uint64(10)), runtime.Value(uint32(1))); err != nil {
				return err
			}
			return runtime.UploadHost(s, x, h)
		}))
		require.NoError(t, h.Close())
		require.NoError(t, graph.Launch(s))
		require.NoError(t, graph.Launch(s))
		assert.Equal(t, []uint32{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, download(t, s, x))
	})
}

// attributes is a driver of devices with other attributes, that notes launches.
type attributes struct {
	driver.API
	device   map[driver.DeviceAttribute]int32
	function map[driver.FunctionAttribute]int32
	set      []driver.FunctionAttribute
	clusters []driver.Dim3
	results  []driver.Result
}

func (a *attributes) DeviceGetAttribute(attribute driver.DeviceAttribute, d driver.Device) (int32, driver.Result) {
	if v, ok := a.device[attribute]; ok {
		return v, driver.Success
	}
	return a.API.DeviceGetAttribute(attribute, d)
}

func (a *attributes) FuncGetAttribute(attribute driver.FunctionAttribute, f driver.Function) (int32, driver.Result) {
	if v, ok := a.function[attribute]; ok {
		return v, driver.Success
	}
	return a.API.FuncGetAttribute(attribute, f)
}

func (a *attributes) FuncSetAttribute(f driver.Function, attribute driver.FunctionAttribute, value int32) driver.Result {
	a.set = append(a.set, attribute)
	return driver.Success
}

func (a *attributes) LaunchKernelEx(_ driver.Function, _, _ driver.Dim3, _ uint32, _ driver.Stream, list []driver.LaunchAttribute, _ []unsafe.Pointer) driver.Result {
	r := driver.Success
	if len(a.results) > 0 {
		r, a.results = a.results[0], a.results[1:]
	}
	a.clusters = append(a.clusters, list[0].Cluster())
	return r
}

func TestHostMemoryWithoutUnifiedAddressing(t *testing.T) {
	api := &attributes{API: drivertest.ForTest(t, drivertest.Config{}),
		device: map[driver.DeviceAttribute]int32{driver.DeviceAttributeUnifiedAddressing: 0}}
	c := contextOf(t, openOn(t, api))
	h := allocHost[uint32](t, c, 8)
	err := kernel(t, c, "add").Launch(newStream(t, c), one, h.Arg(), runtime.Value(uint64(8)), runtime.Value(uint32(1)))
	require.ErrorIs(t, err, driver.ErrUnsupported)
	assert.ErrorContains(t, err, "argument 0 is memory of the host")
}

func TestClusters(t *testing.T) {
	type dim = runtime.Dim3
	api := &attributes{API: drivertest.ForTest(t, drivertest.Config{}),
		device: map[driver.DeviceAttribute]int32{driver.DeviceAttributeClusterLaunch: 1}}
	c := contextOf(t, openOn(t, api))
	s := newStream(t, c)
	k := kernel(t, c, "rotate")
	x := alloc[uint32](t, s, 256)
	launch := func(k *runtime.Kernel, grid, cluster dim) error {
		return k.Launch(s, runtime.Shape{Grid: grid, Block: dim{X: 32}, Cluster: cluster}, runtime.InOut(x))
	}
	require.NoError(t, launch(k, dim{X: 4}, dim{X: 2}))
	require.NoError(t, launch(k, dim{X: 4, Y: 4}, dim{X: 2, Y: 4}))
	assert.Empty(t, api.set)
	require.NoError(t, launch(k, dim{X: 32}, dim{X: 16}))
	require.NoError(t, launch(k, dim{X: 32}, dim{X: 16}))
	assert.Equal(t, []driver.FunctionAttribute{driver.FunctionAttributeNonPortableClusterSizeAllowed}, api.set, "once")
	assert.Equal(t, []driver.Dim3{{X: 2, Y: 1, Z: 1}, {X: 2, Y: 4, Z: 1}, {X: 16, Y: 1, Z: 1}, {X: 16, Y: 1, Z: 1}}, api.clusters)
	err := launch(k, dim{X: 5}, dim{X: 2})
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "grid 5x1x1 is not a multiple of cluster 2x1x1")
	api.results = []driver.Result{driver.ResultInvalidClusterSize}
	err = launch(k, dim{X: 64}, dim{X: 32})
	require.ErrorIs(t, err, driver.ResultInvalidClusterSize)
	assert.ErrorContains(t, err, "grid 64x1x1, block 32x1x1, cluster 32x1x1")

	fixed := kernel(t, c, "rotate")
	api.function = map[driver.FunctionAttribute]int32{driver.FunctionAttributeRequiredClusterWidth: 4}
	require.NoError(t, launch(fixed, dim{X: 4}, dim{X: 4}))
	err = launch(fixed, dim{X: 4}, dim{X: 2})
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "cluster 2x1x1: the kernel was compiled for 4x1x1")

	allocs.AtMost(t, 0, 100, func() { api.clusters = api.clusters[:0]; _ = launch(k, dim{X: 4}, dim{X: 2}) })
}

func TestClustersOnDevices(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 1024
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := upload(t, s, count(0, n))
		shape := runtime.Shape1D(n, 128)
		shape.Cluster = runtime.Dim3{X: 2}
		err := kernel(t, c, "add").Launch(s, shape, runtime.InOut(x), runtime.Value(uint64(n)), runtime.Value(uint32(1)))
		if !c.Device().ClusterLaunch {
			require.ErrorIs(t, err, driver.ErrUnsupported)
			assert.ErrorContains(t, err, "cluster 2x1x1: the driver launches no clusters on this device")
			return
		}
		require.NoError(t, err)
		assert.Equal(t, count(1, n), download(t, s, x))
	})
}

func TestKernelsAreLookedUpOnce(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	m := loadKernels(t, contextOf(t, rt))
	first, err := m.Kernel("add")
	require.NoError(t, err)
	before := gpu.Calls("cuModuleGetFunction")
	again, err := m.Kernel("add")
	require.NoError(t, err)
	assert.Same(t, first, again)
	assert.Equal(t, before, gpu.Calls("cuModuleGetFunction"))
}
