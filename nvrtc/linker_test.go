//go:build linux && (amd64 || arm64)

package nvrtc_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/testc"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
)

func fakeLinker(t *testing.T, dir string, flags ...string) (l *nvrtc.Linker, left func() int64) {
	t.Helper()
	file := testc.Build(t, "testdata/fakejitlink.c", append(flags, "-D_GNU_SOURCE")...)
	t.Setenv(library.NVJITLINK.Variable, file)
	l, err := nvrtc.OpenLinker(nvrtc.Config{CacheDir: dir})
	require.NoError(t, err)
	seen := testc.Seen(t, file)
	return l, func() int64 { return seen()[0] }
}

func lto(texts ...string) (parts []driver.LinkPart) {
	for _, text := range texts {
		data := []byte("\xedCN\x7f" + text)
		parts = append(parts, driver.LinkPart{Kind: driver.LinkKindOf(data), Data: data, Name: text})
	}
	return parts
}

var cubin90 = nvrtc.Target{Kind: nvrtc.CUBIN, Arch: 90}

func TestLinker(t *testing.T) {
	dir := t.TempDir()
	l, left := fakeLinker(t, dir)
	assert.Equal(t, driver.Version(13010), l.Version())
	parts := append(lto("a"), driver.LinkPart{Kind: driver.LinkPTX, Data: []byte("ptx"), Name: "b"},
		driver.LinkPart{Kind: driver.LinkCubin, Data: []byte("cubin"), Name: "c"}, driver.LinkPart{Kind: driver.LinkFatbin, Data: []byte("fat"), Name: "d"},
		driver.LinkPart{Kind: driver.LinkObject, Data: []byte("obj"), Name: "e"}, driver.LinkPart{Kind: driver.LinkLibrary, Data: []byte("lib"), Name: "f"})
	linked, err := l.Link(t.Context(), cubin90, parts, "-ftz=true")
	require.NoError(t, err)
	assert.Equal(t, "-arch=sm_90 -lto -ftz=true [3 a \xedCN\x7fa][2 b ptx][1 c cubin][4 d fat][5 e obj][6 f lib]", string(linked.Code))
	assert.Equal(t, "info", linked.Log)
	assert.False(t, linked.Cached)
	assert.Equal(t, cubin90, linked.Target)

	again, err := l.Link(t.Context(), cubin90, parts, "-ftz=true")
	require.NoError(t, err)
	assert.True(t, again.Cached)
	assert.Equal(t, linked.Code, again.Code)
	for name, other := range map[string]func() (*nvrtc.Artifact, error){
		"option": func() (*nvrtc.Artifact, error) { return l.Link(t.Context(), cubin90, parts) },
		"part":   func() (*nvrtc.Artifact, error) { return l.Link(t.Context(), cubin90, parts[1:], "-ftz=true") },
		"architecture": func() (*nvrtc.Artifact, error) {
			return l.Link(t.Context(), nvrtc.Target{Kind: nvrtc.CUBIN, Arch: 80}, parts, "-ftz=true")
		},
	} {
		a, err := other()
		require.NoError(t, err, name)
		assert.False(t, a.Cached, name)
	}
	plain, err := l.Link(t.Context(), cubin90, parts[1:3])
	require.NoError(t, err)
	assert.Equal(t, "-arch=sm_90 [2 b ptx][1 c cubin]", string(plain.Code), "nothing to optimise")
	text, err := l.Link(t.Context(), nvrtc.Target{Kind: nvrtc.PTX, Arch: 90}, lto("one ", "two"))
	require.NoError(t, err)
	assert.Equal(t, "one two", string(text.Code))

	next, err := nvrtc.OpenLinker(nvrtc.Config{CacheDir: dir})
	require.NoError(t, err)
	again, err = next.Link(t.Context(), cubin90, parts, "-ftz=true")
	require.NoError(t, err)
	assert.True(t, again.Cached, "in the next process")
	assert.Zero(t, left())
}

func TestLinkerFails(t *testing.T) {
	l, left := fakeLinker(t, "off")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var none *nvrtc.Linker
	var nobody context.Context
	for name, c := range map[string]struct {
		call func() (*nvrtc.Artifact, error)
		kind error
		want string
	}{
		"input":   {func() (*nvrtc.Artifact, error) { return l.Link(t.Context(), cubin90, lto("a", "bad")) }, driver.ErrModuleLoadFailed, "2 parts could not be linked: ERROR: bad input bad [nvJitLink 13.1, -arch=sm_90 -lto]"},
		"status":  {func() (*nvrtc.Artifact, error) { return l.Link(t.Context(), cubin90, lto("a", "bad")) }, library.Status(3), "NVJITLINK_ERROR_INVALID_INPUT"},
		"option":  {func() (*nvrtc.Artifact, error) { return l.Link(t.Context(), cubin90, lto("a"), "-unknown") }, library.Status(1), "unknown option -unknown"},
		"NUL":     {func() (*nvrtc.Artifact, error) { return l.Link(t.Context(), cubin90, lto("a"), "-a\x00b") }, driver.ErrInvalidArgument, "has a NUL"},
		"name":    {func() (*nvrtc.Artifact, error) { return l.Link(t.Context(), cubin90, lto("a\x00")) }, driver.ErrInvalidArgument, "has a NUL"},
		"no part": {func() (*nvrtc.Artifact, error) { return l.Link(t.Context(), cubin90, nil) }, driver.ErrInvalidArgument, "no part"},
		"empty":   {func() (*nvrtc.Artifact, error) { return l.Link(t.Context(), cubin90, []driver.LinkPart{{Name: "x"}}) }, driver.ErrInvalidArgument, `part 0 of 1, "x", has 0 bytes`},
		"kind": {func() (*nvrtc.Artifact, error) {
			return l.Link(t.Context(), cubin90, []driver.LinkPart{{Kind: 77, Data: []byte("x")}})
		}, driver.ErrInvalidArgument, "of kind 77"},
		"target": {func() (*nvrtc.Artifact, error) {
			return l.Link(t.Context(), nvrtc.Target{Kind: nvrtc.LTOIR, Arch: 90}, lto("a"))
		}, driver.ErrInvalidArgument, "no LTO-IR"},
		"none":   {func() (*nvrtc.Artifact, error) { return l.Link(t.Context(), nvrtc.Target{}, lto("a")) }, driver.ErrInvalidArgument, "the target"},
		"nil":    {func() (*nvrtc.Artifact, error) { return none.Link(t.Context(), cubin90, lto("a")) }, driver.ErrInvalidArgument, "never made"},
		"zero":   {func() (*nvrtc.Artifact, error) { return new(nvrtc.Linker).Link(t.Context(), cubin90, lto("a")) }, driver.ErrInvalidArgument, "never made"},
		"no ctx": {func() (*nvrtc.Artifact, error) { return l.Link(nobody, cubin90, lto("a")) }, driver.ErrInvalidArgument, "not nil"},
		"ended":  {func() (*nvrtc.Artifact, error) { return l.Link(ended, cubin90, lto("a")) }, context.Canceled, "canceled"},
	} {
		_, err := c.call()
		require.ErrorIs(t, err, c.kind, name)
		assert.ErrorContains(t, err, c.want, name)
	}
	_, err := l.Link(t.Context(), cubin90, lto("a", "bad"))
	e, ok := errors.AsType[*driver.Error](err)
	require.True(t, ok)
	assert.Equal(t, "ERROR: bad input bad\nand more", e.Log)
	assert.Zero(t, left(), "every link was destroyed")
	assert.Zero(t, none.Version())
	assert.Zero(t, new(nvrtc.Linker).Version())

	liar, left := fakeLinker(t, "off", "-DSIZE=1ul<<46")
	_, err = liar.Link(t.Context(), cubin90, lto("a"))
	require.ErrorIs(t, err, driver.ErrModuleLoadFailed)
	assert.ErrorContains(t, err, "succeeded with 70368744177664 bytes")
	nothing, _ := fakeLinker(t, "off", "-DSIZE=0")
	_, err = nothing.Link(t.Context(), cubin90, lto("a"))
	assert.ErrorContains(t, err, "nvJitLinkGetLinkedCubin made nothing")
	failing, _ := fakeLinker(t, "off", "-DCREATED=6")
	_, err = failing.Link(t.Context(), cubin90, lto("a"))
	require.ErrorIs(t, err, library.Status(6))
	assert.Zero(t, left())

	t.Setenv(library.NVJITLINK.Variable, "/none/libnvJitLink.so.13")
	_, err = nvrtc.OpenLinker(nvrtc.Config{})
	require.ErrorIs(t, err, driver.ErrLibraryUnavailable)
	assert.ErrorContains(t, err, "no nvJitLink to link LTO-IR with: install it (CUDA toolkit 12.3 or newer")
}

// Callers that want the same at the same time share one link, and one that gives up leaves the others.
func TestLinkerTogether(t *testing.T) {
	l, left := fakeLinker(t, t.TempDir())
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%4 == 3 {
				cancel()
			}
			defer cancel()
			_, err := l.Link(ctx, cubin90, lto("a", "b"))
			if i%4 != 3 {
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	assert.Zero(t, left())
}

// nvJitLink ends the process where calls of one link come from two threads: a goroutine has to stay on its own meanwhile.
func TestLinkerStaysOnItsThread(t *testing.T) {
	l, left := fakeLinker(t, "off", "-DTAKES=200")
	var done atomic.Bool
	var busy, wg sync.WaitGroup
	for range 2 * goruntime.GOMAXPROCS(0) { // they take the place of a goroutine that is in a call
		busy.Go(func() {
			for !done.Load() {
				goruntime.Gosched()
			}
		})
	}
	for i := range 8 {
		wg.Go(func() {
			for j := range 4 {
				_, err := l.Link(t.Context(), cubin90, lto(fmt.Sprint(i), fmt.Sprint(j), "a", "b"))
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	done.Store(true)
	busy.Wait()
	assert.Zero(t, left())
}

func TestLinkerHeader(t *testing.T) {
	testc.CheckHeader(t, "nvJitLink.h", "testdata/jitlink_check.c")
}

// A constant of the second source reaches the kernel of the first one.
func TestRealLinker(t *testing.T) {
	lib := nvrtctest.OpenReal(t)
	linker, err := nvrtc.OpenLinker(nvrtc.Config{CacheDir: t.TempDir()})
	if errors.Is(err, driver.ErrLibraryUnavailable) {
		t.Skipf("no nvJitLink for this test: %v", err)
	}
	require.NoError(t, err)
	var parts []driver.LinkPart
	for _, source := range []string{
		`extern "C" __device__ int addend(); extern "C" __global__ void addOne(int *out) { *out = addend(); }`,
		`extern "C" __device__ int addend() { return 41; }`,
	} {
		a, err := nvrtc.Compile(t.Context(), lib, nvrtc.Program{Source: source, Options: nvrtc.Options{Extra: []string{"--relocatable-device-code=true"}}}, nvrtc.Target{Kind: nvrtc.LTOIR, Arch: 90})
		require.NoError(t, err)
		assert.Equal(t, driver.LinkLTOIR, driver.LinkKindOf(a.Code))
		parts = append(parts, driver.LinkPart{Kind: driver.LinkLTOIR, Data: a.Code})
	}
	text, err := linker.Link(t.Context(), nvrtc.Target{Kind: nvrtc.PTX, Arch: 90}, parts)
	require.NoError(t, err)
	assert.Contains(t, string(text.Code), ".entry addOne")
	assert.NotContains(t, string(text.Code), "call", "it is optimised as a whole")
	code, err := linker.Link(t.Context(), cubin90, parts)
	require.NoError(t, err)
	assert.Equal(t, driver.LinkCubin, driver.LinkKindOf(code.Code))
	t.Logf("nvJitLink %v: %d bytes of PTX, %d of machine code in %v", linker.Version(), len(text.Code), len(code.Code), code.CompileTime)
	_, err = linker.Link(t.Context(), cubin90, parts[:1])
	require.ErrorIs(t, err, driver.ErrModuleLoadFailed)
	assert.ErrorContains(t, err, "addend")
	t.Log(err)
}
