package nvml_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/driver/nvml/nvmltest"
)

const (
	whole = "GPU-00000000-0000-0000-0000-000000000001"
	card  = "GPU-00000000-0000-0000-0000-000000000002"
	part  = "MIG-00000000-0000-0000-0000-000000000003"
)

// server is an H200, and desktop a card that lacks much.
func server() nvml.Status {
	return nvml.Status{
		UUID: whole, Name: "NVIDIA H200", PCIBusID: "00000000:3B:00.0",
		Memory:      &nvml.Memory{Total: 141 << 30, Free: 140 << 30, Used: 1 << 30},
		Utilization: &nvml.Utilization{GPU: 50, Memory: 10},
		Clocks:      &nvml.Clocks{SM: 1980, MaxSM: 1980, Memory: 3201, MaxMemory: 3201},
		Temperature: &nvml.Temperature{Now: 40, Slowdown: 92},
		Power:       &nvml.Power{Now: 120_000, Limit: 700_000},
		ECC:         &nvml.ECC{On: true, Pending: true, EverCorrected: 3},
		Rows:        &nvml.RemappedRows{},
		Processes:   &[]nvml.Process{{PID: 1, Memory: 1 << 20}},
		PCIe:        &nvml.Link{Now: nvml.PCIe{Generation: 5, Width: 16}, Max: nvml.PCIe{Generation: 5, Width: 16}},
		NVLinks:     []nvml.NVLink{{Number: 0, Remote: "00000000:05:00.0"}, {Number: 17, Remote: "00000000:06:00.0"}},
		MIG:         &nvml.MIG{},
	}
}

func desktop() nvml.Status {
	return nvml.Status{UUID: card, Name: "GeForce", Memory: &nvml.Memory{Total: 8 << 30, Free: 8 << 30}}
}

func TestReadAll(t *testing.T) {
	divided := server()
	divided.UUID, divided.Utilization, divided.MIG = "GPU-x", nil, &nvml.MIG{On: true, Pending: true, Instances: []string{part}}
	instance := nvml.Status{UUID: part, Name: "NVIDIA H200 MIG 1g.18gb", Parent: "GPU-x", Memory: &nvml.Memory{Total: 18 << 30}}
	want := []nvml.Status{server(), divided, instance, desktop()}
	got, err := nvml.ReadAll(nvmltest.New(want...))
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range got {
		for _, unknown := range got[i].Unknown {
			assert.ErrorIs(t, unknown, driver.ErrUnsupported)
			assert.ErrorIs(t, unknown, nvml.ResultNotSupported)
		}
		want[i].Unknown, got[i].Unknown = nil, nil
		assert.Equal(t, want[i], got[i])
	}
}

func TestReadOfWhatFails(t *testing.T) {
	m := nvmltest.New(server(), desktop())
	s, err := nvml.ReadAll(m)
	require.NoError(t, err)
	assert.Empty(t, s[0].Unknown, "an H200 has all")
	m.Fail("Memory", nvml.ResultNoPermission)
	m.Vanish(card)
	s, err = nvml.ReadAll(m)
	require.NoError(t, err)
	assert.Nil(t, s[0].Memory)
	require.Len(t, s[0].Unknown, 1)
	assert.EqualError(t, s[0].Unknown[0], "DriverCallFailed: nvmlDeviceGetMemoryInfo: NVML_ERROR_NO_PERMISSION (4): the user may not do this")
	require.Len(t, s[1].Unknown, 1, "a device that is gone")
	assert.ErrorIs(t, s[1].Unknown[0], nvml.ResultGPUIsLost)

	m.Fail("DeviceCount", nvml.ResultUninitialized)
	_, err = nvml.ReadAll(m)
	assert.ErrorIs(t, err, nvml.ResultUninitialized)
	m.Fail("UUID", nvml.ResultUninitialized)
	assert.Len(t, nvml.Read(m, 1).Unknown, 1, "not forty times the same")
}

func TestFind(t *testing.T) {
	m := nvmltest.New(server(), nvml.Status{UUID: part, Parent: whole})
	for _, c := range []struct {
		uuid driver.UUID
		want string
	}{{driver.UUID{15: 1}, whole}, {driver.UUID{15: 3}, part}} {
		d, err := nvml.Find(m, c.uuid)
		require.NoError(t, err)
		uuid, r := m.UUID(d)
		assert.Equal(t, nvml.Success, r)
		assert.Equal(t, c.want, uuid)
	}
	_, err := nvml.Find(m, driver.UUID{15: 9})
	assert.EqualError(t, err, `InvalidArgument: NVML has no device with UUID "00000000-0000-0000-0000-000000000009": NVML_ERROR_NOT_FOUND (6): there is no such thing`)
	m.Fail("DeviceByUUID", nvml.ResultGPUIsLost)
	_, err = nvml.Find(m, driver.UUID{15: 1})
	assert.ErrorIs(t, err, nvml.ResultGPUIsLost)
}

func TestFault(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *nvml.Status)
		want   string
	}{
		"healthy":           {func(*nvml.Status) {}, ""},
		"nothing is known":  {func(s *nvml.Status) { *s = nvml.Status{UUID: whole} }, ""},
		"replaced rows":     {func(s *nvml.Status) { s.Rows.Uncorrected, s.ECC.Uncorrected = 1, 1 }, ""},
		"a row waits":       {func(s *nvml.Status) { s.Rows.Pending = true }, "is replaced at the next reset"},
		"a row cannot":      {func(s *nvml.Status) { s.Rows.Failed = true }, "needs repair"},
		"errors, no spares": {func(s *nvml.Status) { s.Rows, s.ECC.Uncorrected = nil, 2 }, "2 errors of memory"},
	} {
		s := server()
		c.change(&s)
		if c.want == "" {
			assert.NoError(t, s.Fault(), name)
			continue
		}
		assert.ErrorContains(t, s.Fault(), c.want, name)
		assert.ErrorContains(t, s.Fault(), whole, name)
	}
}

func TestNothingIsAnError(t *testing.T) {
	_, err := nvml.ReadAll(nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = nvml.Find(nil, driver.UUID{})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = nvml.Find(nvmltest.New(), nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.Len(t, nvml.Read(nil, 1).Unknown, 1)
	assert.ErrorIs(t, nvml.Watch(t.Context(), nvmltest.New(), nil), driver.ErrInvalidArgument)
	assert.ErrorIs(t, nvml.Watch(t.Context(), nil, func(nvml.Event) error { return nil }), driver.ErrInvalidArgument)
}

// watched starts a Watch, and returns once it hears of so many devices.
func watched(t *testing.T, ctx context.Context, m *nvmltest.Machine, devices int, f func(nvml.Event) error) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- nvml.Watch(ctx, m, f) }()
	require.Eventually(t, func() bool { return m.Registered() == devices }, time.Minute, time.Millisecond)
	return done
}

func TestWatch(t *testing.T) {
	m := nvmltest.New(server(), desktop(), nvml.Status{UUID: part, Parent: whole})
	ctx, cancel := context.WithCancelCause(t.Context())
	heard := make(chan nvml.Event)
	done := watched(t, ctx, m, 2, func(e nvml.Event) error { heard <- e; return nil })
	m.Emit(whole, nvml.EventXid, 48)
	m.Emit(whole, nvml.EventDoubleBitECC, 0)
	m.Vanish(card)
	d, err := nvml.Find(m, driver.UUID{15: 1})
	require.NoError(t, err)
	assert.Equal(t, nvml.Event{Device: d, Type: nvml.EventXid, Xid: 48}, <-heard)
	assert.Equal(t, nvml.EventDoubleBitECC, (<-heard).Type)
	e := <-heard
	assert.True(t, e.Xid.NeedsReset())
	assert.Equal(t, "Xid 79: the device has fallen off the bus", e.Xid.String())
	assert.Equal(t, e, <-heard, "once from the driver, and once because nothing can be asked of it")
	require.Eventually(t, func() bool { return m.Registered() == 1 }, time.Minute, time.Millisecond)
	m.Emit(whole, nvml.EventXid, 31)
	assert.EqualValues(t, 31, (<-heard).Xid, "the others are heard")
	cancel(io.EOF)
	assert.ErrorIs(t, <-done, io.EOF)
	assert.Zero(t, m.EventSets())
}

func TestWatchEnds(t *testing.T) {
	for name, f := range map[string]func(nvml.Event) error{
		"error": func(nvml.Event) error { return io.ErrUnexpectedEOF },
		"panic": func(nvml.Event) error { panic(io.ErrUnexpectedEOF) },
	} {
		m := nvmltest.New(server())
		done := watched(t, t.Context(), m, 1, f)
		m.Emit(whole, nvml.EventXid, 13)
		assert.ErrorIs(t, <-done, io.ErrUnexpectedEOF, name)
		assert.Zero(t, m.EventSets(), name)
	}
	nothing := func(nvml.Event) error { return nil }
	for method, r := range map[string]nvml.Result{"WaitEvent": nvml.ResultUnknown, "CreateEventSet": nvml.ResultMemory,
		"DeviceCount": nvml.ResultUninitialized, "RegisterEvents": nvml.ResultNoPermission} {
		m := nvmltest.New(server())
		m.Fail(method, r)
		assert.ErrorIs(t, nvml.Watch(t.Context(), m, nothing), r, method)
		assert.Zero(t, m.EventSets(), method)
	}
	m := nvmltest.New(server())
	m.Fail("SupportedEvents", nvml.ResultNotSupported)
	err := nvml.Watch(t.Context(), m, nothing)
	assert.ErrorIs(t, err, driver.ErrUnsupported)
	assert.ErrorContains(t, err, "none of 1 devices tells of events")
}

func TestTexts(t *testing.T) {
	assert.Equal(t, "none", nvml.Reasons(0).String())
	assert.Equal(t, "the power limit, hardware slows it down because of heat", (nvml.ReasonSWPowerCap | nvml.ReasonHWThermalSlowdown).String())
	assert.Equal(t, "idle, a reason that is newer than this program", (nvml.ReasonIdle | 1<<40).String())
	assert.Equal(t, nvml.ReasonHWThermalSlowdown, (nvml.ReasonSWPowerCap | nvml.ReasonHWThermalSlowdown | nvml.ReasonIdle).Wrong())
	assert.Equal(t, "Xid 12345", nvml.Xid(12345).String())
	assert.False(t, nvml.Xid(12345).NeedsReset())
	assert.Equal(t, "NVML_ERROR_77 (77): a result that is newer than this program", nvml.Result(77).Error())
	assert.Equal(t, "NVML_ERROR_GPU_IS_LOST", nvml.ResultGPUIsLost.Name())
}

// On hardware NVML and CUDA speak of the same devices.
func TestOnHardware(t *testing.T) {
	lib := hardware.Open(t)
	n, err := nvml.Open()
	if required := os.Getenv(hardware.RequireVariable); errors.Is(err, driver.ErrLibraryUnavailable) && (required == "" || required == "0") {
		t.Skipf("no NVML: %v", err)
	}
	require.NoError(t, err)
	defer func() { assert.NoError(t, n.Close()) }()
	t.Logf("%s, missing %v", n.Path(), n.Missing())
	count, r := lib.DeviceGetCount()
	require.Equal(t, driver.Success, r)
	for ordinal := range count {
		d, r := lib.DeviceGet(ordinal)
		require.Equal(t, driver.Success, r)
		uuid, r := lib.DeviceGetUUID(d)
		require.Equal(t, driver.Success, r)
		handle, err := nvml.Find(n, uuid)
		require.NoError(t, err)
		s := nvml.Read(n, handle)
		t.Logf("%+v", s)
		assert.Contains(t, s.UUID, uuid.String())
		if s.Memory != nil {
			assert.Positive(t, s.Memory.Total)
		}
		for _, unknown := range s.Unknown {
			assert.False(t, errors.Is(unknown, nvml.ResultImpossibleValue), "%v", unknown)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = nvml.Watch(ctx, n, func(e nvml.Event) error { t.Logf("%+v", e); return nil })
	if !errors.Is(err, driver.ErrUnsupported) {
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	}
}
