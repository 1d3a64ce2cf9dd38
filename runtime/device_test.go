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

const gib = 1 << 30

func ordinals(devices []runtime.Device) []int {
	var all []int
	for _, d := range devices {
		all = append(all, d.Ordinal)
	}
	return all
}

func TestScore(t *testing.T) {
	for _, c := range []struct {
		name   string
		device runtime.Device
		want   float64
	}{
		{"nothing known", runtime.Device{}, 0},
		{"T4", runtime.Device{Multiprocessors: 40, TotalBytes: 16 * gib, Capability: runtime.Capability{Major: 7, Minor: 5}}, 40 + 4*16},
		{"A100", runtime.Device{Multiprocessors: 108, TotalBytes: 40 * gib, Capability: runtime.Capability{Major: 8}}, 108 + 4*40 + 100 + 50},
		{"H100", runtime.Device{Multiprocessors: 132, TotalBytes: 80 * gib, Capability: runtime.Capability{Major: 9}}, 132 + 4*80 + 100 + 50},
		{"H100 half full", runtime.Device{Multiprocessors: 132, TotalBytes: 80 * gib, FreeBytes: 40 * gib, Capability: runtime.Capability{Major: 9}}, 132 + 4*40 + 100 + 50},
		{"a part of a GiB", runtime.Device{Multiprocessors: 1, TotalBytes: gib / 2}, 1 + 2},
	} {
		assert.InDelta(t, c.want, runtime.Score(c.device), 1e-9, c.name)
	}
}

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		name              string
		total, free, want uint64
	}{
		{"free unknown", 80 * gib, 0, 40 * gib},
		{"much is free", 80 * gib, 79 * gib, 40 * gib},
		{"half is free", 80 * gib, 40 * gib, 40 * gib},
		{"little is free", 80 * gib, 3 * gib, 3 * gib},
		{"nothing known", 0, 0, 0},
		{"a lot", math.MaxUint64, math.MaxUint64, math.MaxUint64 / 2},
	} {
		assert.Equal(t, c.want, runtime.Budget(runtime.Device{TotalBytes: c.total, FreeBytes: c.free}), c.name)
	}
}

func TestDevicesAreOrderedByScore(t *testing.T) {
	gpus := []drivertest.DeviceConfig{drivertest.T4(), drivertest.H100(), drivertest.A100(), drivertest.H100(), drivertest.T4()}
	rt, gpu := open(t, drivertest.Config{Devices: gpus})
	assert.Equal(t, []int{1, 3, 2, 0, 4}, ordinals(rt.Devices()), "equal scores keep the order of the driver")
	assert.InDelta(t, 132+4*80+150, rt.Devices()[0].Score, 1e-9)
	assert.Zero(t, gpu.Calls("cuDevicePrimaryCtxRetain"), "listing devices opens no context")

	many := drivertest.Devices(60, drivertest.H100())
	for i := range many {
		many[i].SMs = 100 + i*7%3
	}
	rt, _ = open(t, drivertest.Config{Devices: many})
	for group := range 3 {
		assert.IsIncreasing(t, ordinals(rt.Devices())[20*group:20*group+20], "also when there are many")
	}

	rt, _ = open(t, drivertest.Config{Devices: gpus},
		runtime.WithScore(func(d runtime.Device) float64 { return -float64(d.Multiprocessors) }))
	assert.Equal(t, []int{0, 4, 2, 1, 3}, ordinals(rt.Devices()))
	assert.InDelta(t, -40, rt.Devices()[0].Score, 1e-9)
}

func TestDeviceProperties(t *testing.T) {
	config := drivertest.A100()
	config.Name = "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
	config.UUID = driver.UUID{0xde, 0xad, 0xbe, 0xef}
	config.PCIBusID = "0000:3b:00.0"
	rt, _ := open(t, drivertest.Config{Devices: []drivertest.DeviceConfig{config}})
	d, err := rt.Device(0)
	require.NoError(t, err)
	assert.Equal(t, "0: NVIDIA A100-SXM4-40GB MIG 3g.20gb (8.0)", d.String())
	assert.Equal(t, config.UUID, d.UUID)
	assert.Equal(t, "0000:3b:00.0", d.PCIBusID)
	assert.Equal(t, runtime.Capability{Major: 8}, d.Capability)
	assert.Equal(t, 80, d.Capability.Arch())
	assert.Equal(t, 108, d.Multiprocessors)
	assert.Equal(t, 2048, d.MaxThreadsPerSM)
	assert.Equal(t, 1024, d.MaxThreadsPerBlock)
	assert.Equal(t, [3]int{math.MaxInt32, 65535, 65535}, d.MaxGrid)
	assert.Equal(t, [3]int{1024, 1024, 64}, d.MaxBlock)
	assert.Equal(t, 48<<10, d.SharedPerBlock)
	assert.Equal(t, 163<<10, d.SharedPerBlockOptin)
	assert.Equal(t, 40<<20, d.L2Bytes)
	assert.Equal(t, 5120, d.MemoryBusBits)
	assert.Equal(t, 32, d.WarpSize)
	assert.Equal(t, 32, d.MaxBlocksPerSM)
	assert.Equal(t, 65536, d.RegistersPerSM)
	assert.Equal(t, 65536, d.RegistersPerBlock)
	assert.Equal(t, runtime.ComputeModeDefault, d.ComputeMode)
	assert.Equal(t, []string{"tensor cores", "cooperative launch", "managed memory", "concurrent managed access", "memory pools", "unified addressing"}, d.Features())
	assert.Equal(t, uint64(40*gib), d.TotalBytes)
	assert.Zero(t, d.FreeBytes, "unknown before there is a context")
	assert.True(t, d.ECC)
	assert.False(t, d.Integrated)
	assert.True(t, d.MIG)
	assert.True(t, d.MemoryPools)
	assert.True(t, d.CooperativeLaunch)
	assert.True(t, d.UnifiedAddressing)
	assert.Equal(t, 3, d.CopyEngines)
	assert.Equal(t, 1_410_000, d.ClockKHz)
	assert.Equal(t, 1_215_000, d.MemoryClockKHz)
}

func TestDevicesOnDrivers(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		for _, d := range rt.Devices() {
			require.NoError(t, d.Err)
			assert.NotEmpty(t, d.Name)
			assert.NotZero(t, d.UUID)
			assert.Regexp(t, `^[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.0$`, d.PCIBusID)
			assert.Positive(t, d.Multiprocessors)
			assert.Positive(t, d.TotalBytes)
			assert.GreaterOrEqual(t, d.SharedPerBlockOptin, d.SharedPerBlock)
			assert.GreaterOrEqual(t, d.Capability.Arch(), 50)
			assert.Equal(t, math.MaxInt32, d.MaxGrid[0])
			assert.Positive(t, d.Score)
		}
	})
}

func TestWithDevices(t *testing.T) {
	gpus := drivertest.Devices(3, drivertest.H100())
	gpus[0].UUID = driver.UUID{0xaa, 0x11, 0x22, 0x33, 0x44}
	gpus[1].UUID = driver.UUID{0xaa, 0x11, 0x22, 0x33, 0x55}
	gpus[2].UUID = driver.UUID{0x77, 0x77, 0x00}
	for _, c := range []struct {
		name  string
		names []string
		want  []int // nil is an error
	}{
		{"no filter", nil, []int{0, 1, 2}},
		{"ordinal", []string{"2"}, []int{2}},
		{"several, in the order of the score", []string{"2", "0"}, []int{0, 2}},
		{"the same twice", []string{"1", "1", "GPU-aa112233-55"}, []int{1}},
		{"whole UUID", []string{"GPU-aa112233-4400-0000-0000-000000000000"}, []int{0}},
		{"beginning of a UUID", []string{"GPU-aa112233-5"}, []int{1}},
		{"without the prefix", []string{"aa112233-4"}, []int{0}},
		{"case does not matter", []string{"gpu-AA112233-4"}, []int{0}},
		{"a beginning that two have", []string{"GPU-aa11"}, []int{0, 1}},
		{"a MIG instance", []string{"MIG-7777"}, []int{2}},
		{"digits after the prefix are no ordinal", []string{"GPU-7777"}, []int{2}},
		{"no such ordinal", []string{"0", "3"}, nil},
		{"negative", []string{"-1"}, nil},
		{"no such UUID", []string{"GPU-ab"}, nil},
		{"only the prefix", []string{"GPU-"}, nil},
		{"empty", []string{""}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			gpu := drivertest.ForTest(t, drivertest.Config{Devices: gpus})
			rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu), runtime.WithDevices(c.names...))
			if c.want == nil {
				require.ErrorIs(t, err, driver.ErrInvalidArgument)
				assert.ErrorContains(t, err, "2 (GPU-77770000-0000-0000-0000-000000000000)", "it says what there is")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, ordinals(rt.Devices()))
			require.NoError(t, rt.Close())
		})
	}
}

func TestDevicesThatAreLeftOutCannotBeUsed(t *testing.T) {
	rt, _ := open(t, twoDevices(), runtime.WithDevices("1"))
	assert.Equal(t, 1, contextOf(t, rt).Device().Ordinal)
	for _, ordinal := range []int{0, 2, -1} {
		_, err := rt.Device(ordinal)
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		_, err = rt.Context(ordinal)
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		_, err = rt.Budget(ordinal)
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
	}
}

// brokenDevice is a driver whose device 0 fails one kind of query.
type brokenDevice struct {
	driver.API
	query string
}

func (b brokenDevice) fail(query string, device int32, r driver.Result) driver.Result {
	if query == b.query && device == 0 {
		return driver.ResultUnknown
	}
	return r
}

func (b brokenDevice) DeviceGet(ordinal int32) (driver.Device, driver.Result) {
	d, r := b.API.DeviceGet(ordinal)
	return d, b.fail("cuDeviceGet", ordinal, r)
}

func (b brokenDevice) DeviceGetName(d driver.Device) (string, driver.Result) {
	name, r := b.API.DeviceGetName(d)
	return name, b.fail("cuDeviceGetName", int32(d), r)
}

func (b brokenDevice) DeviceTotalMem(d driver.Device) (uint64, driver.Result) {
	bytes, r := b.API.DeviceTotalMem(d)
	return bytes, b.fail("cuDeviceTotalMem", int32(d), r)
}

func (b brokenDevice) DeviceGetAttribute(a driver.DeviceAttribute, d driver.Device) (int32, driver.Result) {
	v, r := b.API.DeviceGetAttribute(a, d)
	return v, b.fail("cuDeviceGetAttribute", int32(d), r)
}

func (b brokenDevice) DeviceGetUUID(d driver.Device) (driver.UUID, driver.Result) {
	if r := b.fail("cuDeviceGetUuid", int32(d), driver.Success); r != driver.Success {
		return driver.UUID{}, r
	}
	return b.API.DeviceGetUUID(d)
}

func TestOneBrokenDeviceLeavesTheOthers(t *testing.T) {
	for _, query := range []string{"cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem", "cuDeviceGetAttribute"} {
		t.Run(query, func(t *testing.T) {
			gpus := []drivertest.DeviceConfig{drivertest.H100(), drivertest.T4(), drivertest.A100()}
			rt := openOn(t, brokenDevice{drivertest.ForTest(t, drivertest.Config{Devices: gpus}), query})
			assert.Equal(t, runtime.Available, rt.Outcome())
			devices := rt.Devices()
			require.Equal(t, []int{2, 1, 0}, ordinals(devices), "the broken one is last, although it has the best score")
			require.NoError(t, devices[0].Err)
			require.NoError(t, devices[1].Err)
			var e *driver.Error
			require.ErrorAs(t, devices[2].Err, &e)
			assert.Equal(t, query, e.Op)
			assert.Equal(t, driver.ResultUnknown, e.Code)
			assert.Equal(t, 0, e.Device)

			_, err := rt.Context(0)
			assert.Equal(t, devices[2].Err, err)
			b, err := rt.Probe("test")
			require.NoError(t, err)
			assert.Equal(t, 2, b.Device().Ordinal)
		})
	}

	// Identity is for people: a device without it is used.
	rt := openOn(t, brokenDevice{drivertest.ForTest(t, drivertest.Config{}), "cuDeviceGetUuid"})
	require.NoError(t, rt.Devices()[0].Err)
	assert.Zero(t, rt.Devices()[0].UUID)

	// With the others left out, no device works.
	_, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDevices("0"),
		runtime.WithDriver(brokenDevice{drivertest.ForTest(t, twoDevices()), "cuDeviceTotalMem"}))
	require.ErrorIs(t, err, driver.ErrDriverCallFailed)
	assert.ErrorContains(t, err, "none of 1 devices can be used")
	assert.ErrorContains(t, err, "cuDeviceTotalMem")
}

func TestOldDriverKnowsFewerAttributes(t *testing.T) {
	rt, _ := open(t, drivertest.Config{Version: 11000})
	d := rt.Devices()[0]
	require.NoError(t, d.Err)
	assert.False(t, d.MemoryPools)
	assert.False(t, d.ClusterLaunch)
	assert.NotContains(t, d.Features(), "memory pools")
}

func TestComputeModes(t *testing.T) {
	for mode, want := range map[runtime.ComputeMode]string{
		runtime.ComputeModeDefault: "default", runtime.ComputeModeProhibited: "prohibited",
		runtime.ComputeModeExclusiveProcess: "exclusive process", 7: "compute mode 7",
	} {
		assert.Equal(t, want, mode.String())
		config := drivertest.H100()
		config.Attributes = map[driver.DeviceAttribute]int32{driver.DeviceAttributeComputeMode: int32(mode)}
		rt, _ := open(t, drivertest.Config{Devices: []drivertest.DeviceConfig{config}})
		assert.Equal(t, mode, rt.Devices()[0].ComputeMode)
	}
}

// The budget follows the memory that is free, and counts what is cached.
func TestBudgetIsLive(t *testing.T) {
	config := drivertest.Config{Devices: drivertest.Devices(1, drivertest.T4())}
	config.Devices[0].Memory = 64 << 20
	rt, gpu := open(t, config)
	budget := func() uint64 {
		b, err := rt.Budget(0)
		require.NoError(t, err)
		return b
	}
	assert.EqualValues(t, 32<<20, budget(), "half of all")
	assert.Zero(t, gpu.Calls("cuMemGetInfo"), "without a context nobody knows what is free")
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	all := budget()
	x, err := runtime.Alloc[byte](s, 48<<20)
	require.NoError(t, err)
	assert.LessOrEqual(t, budget(), uint64(16<<20), "another job has taken the rest")
	require.NoError(t, x.Close())
	require.NoError(t, s.Synchronize(context.Background()))
	assert.Equal(t, all, budget(), "cached memory is free")
	gpu.Fail("cuMemGetInfo", 1, driver.ResultInvalidValue)
	assert.Equal(t, all, budget(), "as when the context was opened")
}

func TestBudgetOfDevice(t *testing.T) {
	config := twoDevices()
	config.Devices[1] = drivertest.T4()
	rt, _ := open(t, config)
	budget := func(ordinal int) uint64 {
		b, err := rt.Budget(ordinal)
		require.NoError(t, err)
		return b
	}
	assert.Equal(t, uint64(40*gib), budget(0))
	assert.Equal(t, uint64(8*gib), budget(1))
	_, err := rt.Budget(2)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)

	// Another user of the device has most of it.
	other, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(rt.Driver()))
	require.NoError(t, err)
	defer other.Close()
	c, err := other.Context(1)
	require.NoError(t, err)
	alloc[byte](t, newStream(t, c), 15*gib)
	assert.Equal(t, uint64(8*gib), budget(1), "free memory is unknown without a context")
	c, err = rt.Context(1)
	require.NoError(t, err)
	assert.Equal(t, uint64(gib), c.Device().FreeBytes)
	assert.Equal(t, uint64(gib), rt.Devices()[1].FreeBytes)
	assert.Equal(t, uint64(gib), budget(1))

	rt, _ = open(t, config, runtime.WithBudget(func(d runtime.Device) uint64 { return d.TotalBytes / 4 }))
	assert.Equal(t, uint64(20*gib), budget(0))
}
