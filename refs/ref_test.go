package refs_test

import (
	"fmt"
	"math"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/refs"
)

func TestElements(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s := m.stream(t)
	r, err := refs.New[[3]uint16](m.state, s, 7)
	require.NoError(t, err)
	assert.Equal(t, 7, r.Len())
	assert.Equal(t, uint64(42), r.Bytes())
	assert.Same(t, m.state, r.Core().State())
	assert.Same(t, s, r.Core().LastWriteStream())
	p, err := r.Access()
	require.NoError(t, err)
	assert.Equal(t, p, r.Core().Ptr())
	require.NoError(t, r.Close())

	invalid := func(_ any, err error) {
		t.Helper()
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}
	invalid(refs.New[uint32](m.state, s, -1))
	invalid(refs.New[struct{}](m.state, s, 1))
	invalid(refs.New[struct{ p [2]*int }](m.state, s, 1))
	invalid(refs.New[any](m.state, s, 1))
	invalid(refs.New[uint64](m.state, s, math.MaxInt))
	invalid(refs.New[uint64](nil, s, 1))
	invalid(refs.New[uint64](m.state, nil, 1))
}

// A Ref of no elements is one like any other.
func TestNoElements(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s := m.stream(t)
	r := alloc(t, m, s, 0)
	p, err := r.Access()
	require.NoError(t, err)
	assert.NotZero(t, p, "kernels are given an address")
	assert.Equal(t, [2]int{0, 0}, [2]int{r.Len(), int(r.Bytes())})
	require.NoError(t, r.Core().Use(s, true))
	require.NoError(t, r.Close())
	_, err = r.Slice(0, 0).Access()
	require.ErrorIs(t, err, driver.ErrClosed)
	assert.Zero(t, m.state.Stats().Live)
}

// Nothing that a caller can hold makes a call panic.
func TestRefsWithoutMemory(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s := m.stream(t)
	whole := alloc(t, m, s, 10)
	defer whole.Close()
	var none *refs.Ref[uint32]
	for _, c := range []struct {
		r    *refs.Ref[uint32]
		says string
	}{
		{none, "never allocated"}, {new(refs.Ref[uint32]), "never allocated"}, {none.Slice(0, 0), "never allocated"},
		{none.Retain(), "never allocated"}, {whole.Slice(3, 11), "slice [3:11] of a Ref of 10 elements"},
		{whole.Slice(-1, 2), "slice [-1:2]"}, {whole.Slice(5, 4), "slice [5:4]"},
		{whole.Slice(5, 4).Slice(0, 0), "slice [5:4]"}, {whole.Slice(5, 4).Retain(), "slice [5:4]"},
		{whole.Slice(2, 4).Slice(0, 3), "slice [0:3] of a Ref of 2 elements"},
	} {
		check := func(err error) {
			t.Helper()
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, c.says)
		}
		_, err := c.r.Access()
		check(err)
		_, err = c.r.Acquire()
		check(err)
		c.r.Release()
		check(c.r.Core().Use(s, true))
		assert.NoError(t, c.r.Close())
		assert.Contains(t, c.r.String(), c.says)
		assert.Zero(t, c.r.Len())
		assert.Zero(t, c.r.Bytes())
		assert.Zero(t, c.r.Core().Generation())
		assert.Zero(t, c.r.Core().Ptr())
		assert.Nil(t, c.r.Core().LastWriteStream())
		_ = c.r.Core().State()
	}
	assert.ErrorIs(t, whole.Core().Use(nil, false), driver.ErrInvalidArgument)
	whole.Release() // without a lease
	_, err := whole.Access()
	assert.NoError(t, err)
}

// The same memory as elements of another type.
func TestCast(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s := m.stream(t)
	r := alloc(t, m, s, 10)
	v, err := refs.Cast[complex64](r.Slice(2, 8))
	require.NoError(t, err)
	assert.Equal(t, 3, v.Len())
	assert.Equal(t, r.Core().Ptr()+8, v.Core().Ptr())
	assert.Equal(t, v.Core().Ptr()+16, v.Slice(2, 3).Core().Ptr())
	require.NoError(t, v.Close()) // does nothing
	back, err := refs.Cast[uint32](v)
	require.NoError(t, err)
	assert.Equal(t, 6, back.Len())

	_, err = refs.Cast[uint64](r.Slice(0, 3))
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "12 bytes are no multiple of the 8 of an element")
	_, err = refs.Cast[uint64](r.Slice(1, 3))
	assert.ErrorContains(t, err, "is no multiple of the 8 that an element needs")
	_, err = refs.Cast[*int](r)
	assert.ErrorContains(t, err, "holds pointers")
	_, err = refs.Cast[struct{}](r)
	assert.ErrorContains(t, err, "has no size")
	for says, wrong := range map[string]*refs.Ref[uint32]{"never allocated": nil, "slice [3:11] of a Ref of 10 elements": r.Slice(3, 11)} {
		_, err := refs.Cast[complex64](wrong)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, says)
	}
	require.NoError(t, r.Close())
	_, err = v.Access()
	assert.ErrorIs(t, err, driver.ErrClosed)
	_, err = refs.Cast[complex64](r)
	assert.NoError(t, err)
}

func TestViews(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s := m.stream(t)
	r := alloc(t, m, s, 10)
	v := r.Slice(2, 8).Slice(1, 3)
	assert.Equal(t, 2, v.Len())
	assert.Equal(t, r.Core().Ptr()+12, v.Core().Ptr())
	require.NoError(t, v.Close()) // does nothing
	_, err := v.Access()
	require.NoError(t, err)
	kept := v.Retain()
	require.NoError(t, r.Close())
	_, err = v.Access()
	assert.ErrorIs(t, err, driver.ErrClosed)
	_, err = kept.Access()
	assert.NoError(t, err)
	assert.Equal(t, v.Core().Ptr(), kept.Core().Ptr())
	empty := kept.Slice(2, 2)
	_, err = empty.Access()
	assert.NoError(t, err)
	assert.Equal(t, uint64(1), m.state.Stats().Live)
	require.NoError(t, kept.Close())
	assert.Equal(t, refs.Stats{Freed: 1}, m.state.Stats())
	_, err = r.Retain().Acquire()
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.NoError(t, r.Retain().Close())
}

func TestCounts(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	r := alloc(t, m, m.stream(t), 10)
	other := r.Retain()
	require.NoError(t, r.Close())
	require.NoError(t, r.Close()) // not the other's count
	require.NoError(t, r.Close())
	r.Release()
	_, err := other.Acquire()
	require.NoError(t, err)
	require.NoError(t, other.Close())
	assert.Equal(t, uint64(1), m.state.Stats().Live, "the lease keeps it")
	_, err = other.Acquire()
	assert.ErrorIs(t, err, driver.ErrClosed)
	other.Release()
	assert.Equal(t, refs.Stats{Freed: 1}, m.state.Stats())
	other.Release()
	other.Release()
	_, err = other.Acquire()
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.Zero(t, m.arena.Stats().InUse)
}

// The garbage collector finds Refs that were forgotten, and calls no driver for it. Views
// keep their memory.
func TestForgotten(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s := m.stream(t)
	view := alloc(t, m, s, 10).Slice(1, 2)
	func() {
		r := alloc(t, m, s, 20)
		kept := r.Retain()
		require.NoError(t, r.Close())
		_ = kept.String()
	}()
	calls := m.gpu.Calls("cuMemsetD8Async")
	collect(t, func() bool { return m.state.Stats().Waiting == 1 })
	assert.Equal(t, refs.Stats{Live: 1, LiveBytes: 40, Waiting: 1, WaitingBytes: 80}, m.state.Stats())
	assert.Equal(t, calls, m.gpu.Calls("cuMemsetD8Async"))
	r := alloc(t, m, s, 1)
	assert.Equal(t, refs.Stats{Live: 2, LiveBytes: 44, Freed: 1}, m.state.Stats())
	require.NoError(t, r.Close())
	_, err := view.Access()
	require.NoError(t, err)
	view = nil
	collect(t, func() bool { return m.state.Stats().Waiting == 1 })
	m.state.Close()
	assert.Equal(t, refs.Stats{Freed: 3}, m.state.Stats())
	assert.Zero(t, m.arena.Stats().InUse)
}

func collect(t *testing.T, done func() bool) {
	t.Helper()
	for range 1000 {
		if done() {
			return
		}
		goruntime.GC()
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the garbage collector has not found it")
}

func TestString(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	r := alloc(t, m, m.stream(t), 10)
	want := fmt.Sprintf("Ref[uint32]{10 elements, 40 bytes at %#x, device 0, generation 1, written on stream 1, usable}", uint64(r.Core().Ptr()))
	assert.Equal(t, want, fmt.Sprint(r))
	assert.Equal(t, want, fmt.Sprintf("%#v", r))
	require.NoError(t, r.Close())
	assert.Contains(t, r.String(), "Closed: the Ref was closed before")
}

// Checks allocate nothing.
func TestAllocations(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s, other := m.stream(t), m.stream(t)
	r := alloc(t, m, s, 10)
	defer r.Close()
	c := r.Core()
	allocs.AtMost(t, 0, 100, func() {
		_, _ = c.Access()
		_, _ = c.Acquire()
		_ = c.Use(s, true)
		c.Release()
	})
	require.NoError(t, r.Core().Use(other, false))
	allocs.AtMost(t, 0, 100, func() { _ = c.Use(other, false) })
}
