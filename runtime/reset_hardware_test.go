package runtime_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

// sumOf adds amount to all elements on the device, or on the CPU where that cannot be used.
func sumOf(rt *runtime.Runtime, data []uint32, amount uint32) (sum uint64, onDevice bool, err error) {
	got, err := addOnDevice(rt, data, amount)
	switch {
	case err == nil:
		onDevice = true
	case errors.Is(err, driver.ErrDeviceLost) || errors.Is(err, driver.ErrDriverLibraryUnavailable):
		got = make([]uint32, len(data))
		for i, v := range data {
			got[i] = v + amount
		}
	default:
		return 0, false, err
	}
	for _, v := range got {
		sum += uint64(v)
	}
	return sum, onDevice, err
}

func addOnDevice(rt *runtime.Runtime, data []uint32, amount uint32) ([]uint32, error) {
	b, err := rt.Probe("sum")
	if err != nil {
		return nil, err
	}
	m, err := b.Context.CachedModule(runtime.Image{Code: kernelsPTX})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	k, err := m.Kernel("add")
	if err != nil {
		return nil, err
	}
	x, err := runtime.Alloc[uint32](b.Stream, len(data))
	if err != nil {
		return nil, err
	}
	defer x.Close()
	got := make([]uint32, len(data))
	return got, errors.Join(runtime.Upload(bg, b.Stream, x, data), addTo(k, b.Stream, x, amount), runtime.Download(bg, b.Stream, got, x))
}

// A kernel writes to a wild address on real hardware: the whole way from there to the work on
// the CPU and a clean exit of the process, in seconds.
func TestFallbackAfterLossOnHardware(t *testing.T) {
	api := hardware.Open(t)
	begin := time.Now()
	if !inProcess(t) {
		assert.Less(t, time.Since(begin), time.Minute, "the process ends soon")
		return
	}
	fallBackAfterLoss(t, openOn(t, api))
}

// The same on the simulated driver, which has no need of a process.
func TestFallbackAfterLoss(t *testing.T) {
	rt, _ := openFaulty(t, twoDevices())
	fallBackAfterLoss(t, rt)
}

func fallBackAfterLoss(t *testing.T, rt *runtime.Runtime) {
	data := count(1, 10000)
	want, onDevice, err := sumOf(rt, data, 5)
	require.NoError(t, err)
	require.True(t, onDevice)
	c := contextOf(t, rt)
	s := newStream(t, c)
	x := upload(t, s, data)

	wild := uint64(x.Core().Ptr()) + 1<<46 // an address that nobody has
	require.NoError(t, kernel(t, c, "stray").Launch(s, one, runtime.Value(wild)), "the launch itself is fine")
	err = s.Synchronize(bg)
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	require.ErrorIs(t, err, driver.ResultIllegalAddress)

	begin := time.Now()
	for name, err := range map[string]error{
		"Access": second(x.Access()), "Download": runtime.Download(bg, s, data, x), "Query": second(s.Query()),
		"Probe": second(rt.Probe("sum")), "Err": rt.Err(), "Stats": rt.Stats().Lost, "Reset": c.Reset(bg),
	} {
		assert.ErrorIs(t, err, driver.ResultIllegalAddress, name)
		var e *driver.Error
		require.ErrorAs(t, err, &e, name)
		assert.Equal(t, driver.ErrDeviceLost, e.Kind, name)
		assert.True(t, e.Sticky, name)
	}
	assert.Equal(t, runtime.Fault, rt.Outcome())

	got, onDevice, err := sumOf(rt, count(1, 10000), 5)
	assert.False(t, onDevice)
	assert.ErrorIs(t, err, driver.ResultIllegalAddress, "the fault is told")
	assert.Equal(t, want, got)
	assert.NoError(t, x.Close())
	assert.NoError(t, rt.Close())
	assert.ErrorIs(t, second(x.Access()), driver.ErrRefStale)
	assert.Less(t, time.Since(begin), 10*time.Second)
}

// Work before and after many resets on real hardware, which leave no memory behind.
func TestResetsOnHardware(t *testing.T) {
	api := hardware.Open(t)
	if !inProcess(t) { // other tests of the process would have their memory in the same context
		return
	}
	resetsLeaveNothing(t, openOn(t, api))
}

func TestResetsLeaveNothing(t *testing.T) {
	rt, _ := open(t, twoDevices())
	resetsLeaveNothing(t, rt)
}

func resetsLeaveNothing(t *testing.T, rt *runtime.Runtime) {
	const resets, tolerance = 20, 8 << 20
	c := contextOf(t, rt)
	_, err := rt.Probe("x")
	require.NoError(t, err)
	after := func() uint64 {
		require.NoError(t, works(c))
		require.NoError(t, c.TrimMemory(0))
		free, _, err := c.MemInfo()
		require.NoError(t, err)
		return free
	}
	require.NoError(t, c.Reset(bg)) // so that all measure after one
	before := after()
	for round := range resets {
		b, err := rt.Probe("x")
		require.NoError(t, err)
		left := alloc[byte](t, b.Stream, 64<<20) // which nobody closes before
		require.NoError(t, runtime.Fill(b.Stream, left, 0xa5))
		loadKernels(t, c)
		newEvent(t, c)
		begin := time.Now()
		require.NoError(t, c.Reset(bg))
		if round == 0 {
			t.Logf("a reset took %v", time.Since(begin).Round(time.Millisecond))
		}
		require.Equal(t, "context rebuilt", reasonOf(second(left.Access())))
		require.NoError(t, left.Close())
	}
	free := after()
	t.Logf("free before %d MiB, after %d resets %d MiB", before>>20, resets, free>>20)
	assert.GreaterOrEqual(t, free+tolerance, before)
}
