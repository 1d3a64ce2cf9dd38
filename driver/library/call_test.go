//go:build linux && (amd64 || arm64)

package library

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/testc"
)

// fake is a library that is described as a user describes one.
var fake = Description{
	Name: "nvJitLink", Purpose: "link code", Without: "code has to come linked", Install: "CUDA toolkit 12.0 or newer", Variable: variable,
	Linux:     Names{Files: []string{"libpurecuda-none.so.2"}},
	Functions: []string{"nvJitLinkVersion"}, Oldest: Since{12, 0}, Property: "fakeGetProperty",
	Statuses: map[Status]string{6: "NVJITLINK_ERROR_INTERNAL"},
}

func open(t *testing.T, flags ...string) (l *Library, seen func() []int64) {
	t.Helper()
	file := testc.Build(t, "testdata/fakejitlink.c", flags...)
	l, err := fake.Open(file)
	require.NoError(t, err)
	return l, testc.Seen(t, file)
}

// Every argument arrives in its place, and what the function writes comes back.
func TestCall(t *testing.T) {
	l, seen := open(t)
	assert.Equal(t, Version{13, 2, 7}, l.Version())
	assert.Equal(t, l.Path(), l.File())
	var major, minor uint32
	require.NoError(t, l.Call("nvJitLinkVersion", &major, &minor))
	assert.Equal(t, []uint32{13, 2}, []uint32{major, minor})

	bits := func(f float64) int64 { return int64(math.Float64bits(f)) }
	require.NoError(t, l.Call("fakeMixed", int8(-3), -math.Pi, uint64(1<<40), float32(0.25), "text", []int32{40, 2}, nil, true))
	assert.Equal(t, []int64{-3, bits(-math.Pi), 1 << 40, bits(0.25), 't', 't', 42, 1, 1}, seen())

	type handle uintptr // a user has types of his own
	var h handle
	require.NoError(t, l.Call("nvJitLinkCreate", unsafe.Pointer(&h), uint32(0), nil))
	assert.EqualValues(t, 0x777, h)
	assert.Equal(t, []int64{0}, seen())

	word, err := l.Word("fakeText", 0)
	require.NoError(t, err)
	assert.Zero(t, word)
	word, err = l.Word("fakeText", 1)
	require.NoError(t, err)
	assert.NotZero(t, word)
}

func TestCallsThatFail(t *testing.T) {
	l, seen := open(t, "-DSTATUS=6")
	var h uintptr
	err := l.Call("nvJitLinkCreate", &h, uint32(0), nil)
	require.ErrorIs(t, err, Status(6))
	require.ErrorIs(t, err, driver.ErrDriverCallFailed)
	assert.EqualError(t, err, "DriverCallFailed: NVJITLINK_ERROR_INTERNAL: status 6")
	var known *driver.Error
	require.ErrorAs(t, err, &known)
	assert.Equal(t, "nvJitLinkCreate", known.Op)
	seen()

	err = l.Call("nvJitLinkFuture", &h)
	require.ErrorIs(t, err, driver.ErrSymbolMissing)
	assert.ErrorContains(t, err, "nvJitLink 13.2.7 does not have nvJitLinkFuture")
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{int8(1), struct{ x int }{1}}, "argument 1: a struct { x int }: want an integer"},
		{[]any{complex64(1)}, "argument 0: a complex64"},
		{[]any{[2]int{}}, "argument 0: a [2]int"},
		{[]any{func() {}}, "argument 0: a func()"},
		{[]any{"a\x00b"}, `argument 0: "a\x00b" has a NUL`},
		{make([]any, 33), "33 arguments: want 32 at most"},
	} {
		err := l.Call("fakeMixed", c.args...)
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, c.want)
	}
	assert.Empty(t, seen(), "nothing was called")

	l, _ = open(t, "-DSTATUS=9")
	assert.ErrorContains(t, l.Call("nvJitLinkCreate", &h, uint32(0), nil), "a result that its description does not name: status 9")

	for _, l := range []*Library{nil, {}} {
		assert.ErrorIs(t, l.Call("nvJitLinkVersion"), driver.ErrSymbolMissing)
		assert.Empty(t, l.Path())
		assert.Empty(t, l.File())
		assert.Empty(t, l.Attempts())
		assert.Zero(t, l.Version())
		assert.Zero(t, l.Symbol("nvJitLinkVersion"))
		assert.False(t, l.Shared())
	}
}

// A file that lacks what is needed says which version has it, if that is the reason.
func TestTooOld(t *testing.T) {
	d := fake
	d.Functions = []string{"nvJitLinkVersion", "nvJitLinkFuture"}
	file := testc.Build(t, "testdata/fakejitlink.c", "-DMAJOR=11")
	_, err := d.Open(file)
	require.ErrorIs(t, err, driver.ErrDriverLibraryLoadFailed)
	assert.ErrorContains(t, err, file+": nvJitLinkFuture needs nvJitLink 12.0, found 11.2.7")
	_, err = d.Open(testc.Build(t, "testdata/fakejitlink.c"))
	assert.ErrorContains(t, err, "lacks nvJitLinkFuture: not nvJitLink, or one older than 12.0")

	d = fake
	_, err = d.Open(file)
	require.NoError(t, err, "it has all functions")
	d.Brings = "LTO"
	_, err = d.Open(file)
	assert.ErrorContains(t, err, "LTO needs nvJitLink 12.0, found 11.2.7")
}

// What the library lacks is looked for in what was loaded before it.
func TestSymbolsOfBefore(t *testing.T) {
	file := testc.Build(t, "testdata/fakejitlink.c")
	d := fake
	d.Functions = []string{"cosf", "nvJitLinkVersion"}
	d.Before = func(string) []string { return []string{"/none", file} }
	l, err := d.Open("libm.so.6")
	require.NoError(t, err)
	var major, minor uint32
	require.NoError(t, l.Call("nvJitLinkVersion", &major, &minor))
	assert.EqualValues(t, 13, major)
}

func BenchmarkCall(b *testing.B) {
	l, err := fake.Open(testc.Build(b, "testdata/fakejitlink.c"))
	require.NoError(b, err)
	var major, minor uint32
	for b.Loop() {
		if err := l.Call("nvJitLinkVersion", &major, &minor); err != nil {
			b.Fatal(err)
		}
	}
}
