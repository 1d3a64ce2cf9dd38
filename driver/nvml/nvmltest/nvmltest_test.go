package nvmltest_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/driver/nvml/nvmltest"
)

const (
	whole = "GPU-00000000-0000-0000-0000-000000000001"
	card  = "GPU-00000000-0000-0000-0000-000000000002"
	part  = "MIG-00000000-0000-0000-0000-000000000003"
)

func three() *nvmltest.Machine {
	return nvmltest.New(nvml.Status{UUID: whole, Memory: &nvml.Memory{Total: 8, Free: 8}}, nvml.Status{UUID: card}, nvml.Status{UUID: part, Parent: whole})
}

func watched(t *testing.T, ctx context.Context, m *nvmltest.Machine, devices int, f func(nvml.Event) error) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- m.Watch(ctx, f) }()
	require.Eventually(t, func() bool { _, n := m.Watches(); return n == devices }, time.Minute, time.Millisecond)
	return done
}

func TestMachine(t *testing.T) {
	m := three()
	all, err := m.ReadAll()
	require.NoError(t, err)
	require.Len(t, all, 3)
	assert.Equal(t, []string{whole, part, card}, []string{all[0].UUID, all[1].UUID, all[2].UUID})
	d, err := m.Find(driver.UUID{15: 1}.String())
	require.NoError(t, err)
	assert.Equal(t, whole, m.Read(d).UUID)
	memory, err := m.Memory(d)
	require.NoError(t, err)
	assert.Equal(t, nvml.Memory{Total: 8, Free: 8}, memory)
	m.Update(whole, func(s *nvml.Status) { s.Memory = nil })
	_, err = m.Memory(d)
	assert.ErrorIs(t, err, driver.ErrUnsupported)
	_, err = m.Find("GPU-x")
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorIs(t, err, nvml.ResultNotFound)
	_, err = m.Memory(9)
	assert.ErrorIs(t, err, nvml.ResultInvalidArgument)
	m.Fail("Memory", nvml.ResultNoPermission)
	assert.ErrorIs(t, m.Read(d).Unknown[0], nvml.ResultNoPermission)
	m.Vanish(whole)
	_, err = m.Find(whole)
	assert.ErrorIs(t, err, nvml.ResultGPUIsLost)
	all, err = m.ReadAll()
	require.NoError(t, err)
	require.Len(t, all, 2, "the instances of a device that is lost are not known")
	assert.ErrorIs(t, all[0].Unknown[0], nvml.ResultGPUIsLost)
}

func TestWatch(t *testing.T) {
	m := three()
	ctx, cancel := context.WithCancelCause(t.Context())
	heard := make(chan nvml.Event)
	done := watched(t, ctx, m, 2, func(e nvml.Event) error { heard <- e; return nil })
	m.Emit(whole, nvml.EventDoubleBitECC, 0)
	m.Emit(part, nvml.EventXid, 1)
	m.Vanish(card)
	assert.Equal(t, nvml.Event{Device: 1, Type: nvml.EventDoubleBitECC}, <-heard)
	assert.EqualValues(t, 79, (<-heard).Xid)
	require.Eventually(t, func() bool { _, n := m.Watches(); return n == 1 }, time.Minute, time.Millisecond)
	cancel(io.EOF)
	assert.ErrorIs(t, <-done, io.EOF)
	done = watched(t, t.Context(), nvmltest.New(), 0, func(nvml.Event) error { return nil })
	assert.ErrorIs(t, <-done, driver.ErrUnsupported)
	m = three()
	done = watched(t, t.Context(), m, 2, func(nvml.Event) error { return nil })
	m.Vanish(whole)
	m.Vanish(card)
	assert.ErrorIs(t, <-done, nvml.ResultGPUIsLost, "the last one ends it")
	calls, _ := m.Watches()
	assert.Zero(t, calls)
	for _, f := range []func(nvml.Event) error{func(nvml.Event) error { return io.EOF }, func(nvml.Event) error { panic(io.EOF) }} {
		m = three()
		done = watched(t, t.Context(), m, 2, f)
		m.Emit(whole, nvml.EventXid, 13)
		assert.ErrorIs(t, <-done, io.EOF)
	}
	assert.ErrorIs(t, m.Watch(t.Context(), nil), driver.ErrInvalidArgument)
}
