package nvml

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
)

const (
	whole = "GPU-00000000-0000-0000-0000-000000000001"
	card  = "GPU-00000000-0000-0000-0000-000000000002"
	part  = "MIG-00000000-0000-0000-0000-000000000003"
)

// server is an H200, and desktop a card that lacks much.
func server() Status {
	return Status{
		UUID: whole, Name: "NVIDIA H200", PCIBusID: "00000000:3B:00.0",
		Memory:      &Memory{Total: 141 << 30, Free: 140 << 30, Used: 1 << 30},
		Utilization: &Utilization{GPU: 50, Memory: 10},
		Clocks:      &Clocks{SM: 1980, MaxSM: 1980, Memory: 3201, MaxMemory: 3201},
		Temperature: &Temperature{Now: 40, Slowdown: 92},
		Power:       &Power{Now: 120_000, Limit: 700_000},
		ECC:         &ECC{On: true, Pending: true, EverCorrected: 3},
		Rows:        &RemappedRows{},
		Processes:   &[]Process{{PID: 1, Memory: 1 << 20}},
		PCIe:        &Link{Now: PCIe{Generation: 5, Width: 16}, Max: PCIe{Generation: 5, Width: 16}},
		NVLinks:     []NVLink{{Number: 0, Remote: "00000000:05:00.0"}, {Number: 17, Remote: "00000000:06:00.0"}},
		MIG:         &MIG{},
	}
}

func desktop() Status {
	return Status{UUID: card, Name: "GeForce", Memory: &Memory{Total: 8 << 30, Free: 8 << 30}}
}

func TestReadAll(t *testing.T) {
	divided := server()
	divided.UUID, divided.Utilization, divided.MIG = "GPU-x", nil, &MIG{On: true, Pending: true, Instances: []string{part}}
	instance := Status{UUID: part, Name: "NVIDIA H200 MIG 1g.18gb", Parent: "GPU-x", Memory: &Memory{Total: 18 << 30}}
	want := []Status{server(), divided, instance, desktop()}
	got, err := readAll(newMachine(want...))
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range got {
		for _, unknown := range got[i].Unknown {
			assert.ErrorIs(t, unknown, driver.ErrUnsupported)
			assert.ErrorIs(t, unknown, ResultNotSupported)
		}
		want[i].Unknown, got[i].Unknown = nil, nil
		assert.Equal(t, want[i], got[i])
	}
}

func TestReadOfWhatFails(t *testing.T) {
	m := newMachine(server(), desktop())
	s, err := readAll(m)
	require.NoError(t, err)
	assert.Empty(t, s[0].Unknown, "an H200 has all")
	m.fail("memory", ResultNoPermission)
	m.vanish(card)
	s, err = readAll(m)
	require.NoError(t, err)
	assert.Nil(t, s[0].Memory)
	require.Len(t, s[0].Unknown, 1)
	assert.EqualError(t, s[0].Unknown[0], "DriverCallFailed: nvmlDeviceGetMemoryInfo: NVML_ERROR_NO_PERMISSION (4): the user may not do this")
	require.Len(t, s[1].Unknown, 1, "a device that is gone")
	assert.ErrorIs(t, s[1].Unknown[0], ResultGPUIsLost)

	m.fail("deviceCount", ResultUninitialized)
	_, err = readAll(m)
	assert.ErrorIs(t, err, ResultUninitialized)
	m.fail("uuid", ResultUninitialized)
	assert.Len(t, read(m, 1).Unknown, 1, "not forty times the same")
}

func TestFind(t *testing.T) {
	m := newMachine(server(), Status{UUID: part, Parent: whole})
	for _, c := range []struct {
		uuid driver.UUID
		want string
	}{{driver.UUID{15: 1}, whole}, {driver.UUID{15: 3}, part}} {
		d, err := find(m, c.uuid.String())
		require.NoError(t, err)
		uuid, r := m.uuid(d)
		assert.Equal(t, Success, r)
		assert.Equal(t, c.want, uuid)
	}
	_, err := find(m, driver.UUID{15: 9}.String())
	assert.EqualError(t, err, `InvalidArgument: NVML has no device with UUID "00000000-0000-0000-0000-000000000009": NVML_ERROR_NOT_FOUND (6): there is no such thing`)
	m.fail("deviceByUUID", ResultGPUIsLost)
	_, err = find(m, driver.UUID{15: 1}.String())
	assert.ErrorIs(t, err, ResultGPUIsLost)
}

func TestFault(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Status)
		want   string
	}{
		"healthy":           {func(*Status) {}, ""},
		"nothing is known":  {func(s *Status) { *s = Status{UUID: whole} }, ""},
		"replaced rows":     {func(s *Status) { s.Rows.Uncorrected, s.ECC.Uncorrected = 1, 1 }, ""},
		"a row waits":       {func(s *Status) { s.Rows.Pending = true }, "is replaced at the next reset"},
		"a row cannot":      {func(s *Status) { s.Rows.Failed = true }, "needs repair"},
		"errors, no spares": {func(s *Status) { s.Rows, s.ECC.Uncorrected = nil, 2 }, "2 errors of memory"},
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
	var none *Library
	_, err := none.ReadAll()
	assert.ErrorIs(t, err, driver.ErrSymbolMissing)
	_, err = none.Find("")
	assert.ErrorIs(t, err, driver.ErrSymbolMissing)
	_, err = none.Memory(1)
	assert.ErrorIs(t, err, driver.ErrSymbolMissing)
	assert.Len(t, none.Read(1).Unknown, 14)
	assert.Empty(t, none.DriverVersion())
	nothing := func(Event) error { return nil }
	assert.ErrorIs(t, none.Watch(t.Context(), nothing), driver.ErrSymbolMissing)
	assert.ErrorIs(t, watchAll(t.Context(), newMachine(), nil, nil), driver.ErrInvalidArgument)
	var ctx context.Context
	assert.ErrorIs(t, watchAll(ctx, newMachine(), nothing, nil), driver.ErrInvalidArgument)
}

// watched starts a Watch, and returns once it hears of so many devices.
func watched(t *testing.T, ctx context.Context, m *machine, devices int, f func(Event) error) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- watchAll(ctx, m, f, nil) }()
	require.Eventually(t, func() bool { return m.registered() == devices }, time.Minute, time.Millisecond)
	return done
}

func TestWatch(t *testing.T) {
	m := newMachine(server(), desktop(), Status{UUID: part, Parent: whole})
	ctx, cancel := context.WithCancelCause(t.Context())
	heard := make(chan Event)
	done := watched(t, ctx, m, 2, func(e Event) error { heard <- e; return nil })
	m.emit(whole, EventXid, 48)
	m.emit(whole, EventDoubleBitECC, 0)
	m.vanish(card)
	d, err := find(m, driver.UUID{15: 1}.String())
	require.NoError(t, err)
	assert.Equal(t, Event{Device: d, Type: EventXid, Xid: 48}, <-heard)
	assert.Equal(t, EventDoubleBitECC, (<-heard).Type)
	e := <-heard
	assert.True(t, e.Xid.NeedsReset())
	assert.Equal(t, "Xid 79: the device has fallen off the bus", e.Xid.String())
	assert.Equal(t, e, <-heard, "once from the driver, and once because nothing can be asked of it")
	require.Eventually(t, func() bool { return m.registered() == 1 }, time.Minute, time.Millisecond)
	m.emit(whole, EventXid, 31)
	assert.EqualValues(t, 31, (<-heard).Xid, "the others are heard")
	cancel(io.EOF)
	assert.ErrorIs(t, <-done, io.EOF)
	assert.Zero(t, m.eventSets())
}

func TestWatchEnds(t *testing.T) {
	for name, f := range map[string]func(Event) error{
		"error": func(Event) error { return io.ErrUnexpectedEOF },
		"panic": func(Event) error { panic(io.ErrUnexpectedEOF) },
	} {
		m := newMachine(server())
		done := watched(t, t.Context(), m, 1, f)
		m.emit(whole, EventXid, 13)
		assert.ErrorIs(t, <-done, io.ErrUnexpectedEOF, name)
		assert.Zero(t, m.eventSets(), name)
	}
	nothing := func(Event) error { return nil }
	for method, r := range map[string]Result{"waitEvent": ResultUnknown, "createEventSet": ResultMemory,
		"deviceCount": ResultUninitialized, "registerEvents": ResultNoPermission} {
		m := newMachine(server())
		m.fail(method, r)
		assert.ErrorIs(t, watchAll(t.Context(), m, nothing, nil), r, method)
		assert.Zero(t, m.eventSets(), method)
	}
	m := newMachine(server())
	m.fail("supportedEvents", ResultNotSupported)
	err := watchAll(t.Context(), m, nothing, nil)
	assert.ErrorIs(t, err, driver.ErrUnsupported)
	assert.ErrorContains(t, err, "none of 1 devices tells of events")
}

func TestTexts(t *testing.T) {
	assert.Equal(t, "none", Reasons(0).String())
	assert.Equal(t, "the power limit, hardware slows it down because of heat", (ReasonSWPowerCap | ReasonHWThermalSlowdown).String())
	assert.Equal(t, "idle, a reason that is newer than this program", (ReasonIdle | 1<<40).String())
	assert.Equal(t, ReasonHWThermalSlowdown, (ReasonSWPowerCap | ReasonHWThermalSlowdown | ReasonIdle).Wrong())
	assert.Equal(t, "Xid 12345", Xid(12345).String())
	assert.False(t, Xid(12345).NeedsReset())
	assert.Equal(t, "NVML_ERROR_77 (77): a result that is newer than this program", Result(77).Error())
	assert.Equal(t, "NVML_ERROR_GPU_IS_LOST", ResultGPUIsLost.Name())
}

// On hardware NVML and CUDA speak of the same devices.
func TestOnHardware(t *testing.T) {
	lib := hardware.Open(t)
	n, err := Open()
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
		handle, err := n.Find(uuid.String())
		require.NoError(t, err)
		s := n.Read(handle)
		t.Logf("%+v", s)
		assert.Contains(t, s.UUID, uuid.String())
		if s.Memory != nil {
			assert.Positive(t, s.Memory.Total)
		}
		for _, unknown := range s.Unknown {
			assert.False(t, errors.Is(unknown, ResultImpossibleValue), "%v", unknown)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = n.Watch(ctx, func(e Event) error { t.Logf("%+v", e); return nil })
	if !errors.Is(err, driver.ErrUnsupported) {
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	}
}
