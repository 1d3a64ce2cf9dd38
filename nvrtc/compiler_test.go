package nvrtc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
)

var sm90 = nvrtc.Target{Kind: nvrtc.CUBIN, Arch: 90}

const source, ptx = "__global__ void k() {}", ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"

func compiler(t *testing.T, api nvrtc.API, dir string) *nvrtc.Compiler {
	c, err := nvrtc.NewCompiler(api, nvrtc.Config{CacheDir: dir})
	require.NoError(t, err)
	return c
}

func TestSecondProcessReadsTheCache(t *testing.T) {
	dir := t.TempDir()
	sim := nvrtctest.ForTest(t, nvrtctest.Config{})
	sim.Add(source, ptx)
	p := nvrtc.Program{Source: source, NameExpressions: []string{"scale<float>"}}

	first := compiler(t, sim, dir)
	image, err := first.Compile(t.Context(), p, sm90)
	require.NoError(t, err)
	assert.False(t, image.Cached)
	assert.Equal(t, ptx, string(image.Code))
	assert.Equal(t, map[string]string{"scale<float>": "scalefloat"}, image.LoweredNames)
	assert.EqualValues(t, 1, first.Stats().Compiles)
	assert.EqualValues(t, 1, first.Stats().Misses)

	second := compiler(t, sim, dir)
	again, err := second.Compile(t.Context(), p, sm90)
	require.NoError(t, err)
	assert.True(t, again.Cached)
	image.Cached = true
	assert.Equal(t, image, again)
	assert.EqualValues(t, 1, second.Stats().Hits)
	assert.Zero(t, second.Stats().Compiles)
	assert.Len(t, sim.Compiles(), 1)

	n, bytes, err := second.CacheSize()
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.Greater(t, bytes, int64(len(ptx)))
	require.NoError(t, second.ClearCache())
	_, err = first.Compile(t.Context(), p, sm90)
	require.NoError(t, err)
	assert.Len(t, sim.Compiles(), 2)

	// Another target is another entry.
	_, err = first.Compile(t.Context(), p, nvrtc.Target{Kind: nvrtc.PTX, Arch: 90})
	require.NoError(t, err)
	assert.Len(t, sim.Compiles(), 3)
}

func TestWithoutACache(t *testing.T) {
	sim := nvrtctest.ForTest(t, nvrtctest.Config{})
	sim.Add(source, ptx)
	c := compiler(t, sim, "off")
	assert.Empty(t, c.CacheDir())
	for range 2 {
		_, err := c.Compile(t.Context(), nvrtc.Program{Source: source}, sm90)
		require.NoError(t, err)
	}
	assert.EqualValues(t, 2, c.Stats().Compiles)
}

func TestWhatIsNotKnownIsNotCached(t *testing.T) {
	sim := nvrtctest.ForTest(t, nvrtctest.Config{})
	const computed = "#include HEADER\n" + source
	sim.Add(computed, ptx)
	c := compiler(t, sim, t.TempDir())
	for range 2 {
		_, err := c.Compile(t.Context(), nvrtc.Program{Source: computed}, sm90)
		require.NoError(t, err)
	}
	assert.EqualValues(t, 2, c.Stats().Uncached)
	assert.EqualValues(t, 2, c.Stats().Compiles)
	n, _, _ := c.CacheSize()
	assert.Zero(t, n)
}

func TestFailuresAreNotCached(t *testing.T) {
	sim := nvrtctest.ForTest(t, nvrtctest.Config{})
	c := compiler(t, sim, t.TempDir())
	sim.AddFailure(source, nvrtc.ResultCompilation, `program.cu(1): error: identifier "k" is undefined`)
	_, err := c.Compile(t.Context(), nvrtc.Program{Source: source}, sm90)
	require.ErrorIs(t, err, driver.ErrKernelCompileFailed)
	require.ErrorIs(t, err, nvrtc.ResultCompilation)
	var e *driver.Error
	require.ErrorAs(t, err, &e)
	assert.Contains(t, e.Log, ">    1 | "+source)
	assert.Contains(t, e.Error(), "sm_90")
	sim.Add(source, ptx)
	_, err = c.Compile(t.Context(), nvrtc.Program{Source: source}, sm90)
	require.NoError(t, err)
	assert.EqualValues(t, 1, c.Stats().Failures)

	_, err = c.Compile(t.Context(), nvrtc.Program{Source: source}, nvrtc.Target{Kind: nvrtc.CUBIN, Arch: 20})
	assert.ErrorIs(t, err, nvrtc.ResultInvalidOption)
	_, err = c.Compile(t.Context(), nvrtc.Program{}, sm90)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	_, err = c.Compile(t.Context(), nvrtc.Program{Source: source}, nvrtc.Target{})
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
}

func TestTargetFor(t *testing.T) {
	for _, c := range []struct {
		own    driver.Version
		archs  []int
		device int
		driver driver.Version
		want   nvrtc.Target
		says   string
	}{
		{13000, nil, 90, 13000, nvrtc.Target{Kind: nvrtc.CUBIN, Arch: 90}, ""},
		{13010, nil, 90, 12020, nvrtc.Target{Kind: nvrtc.CUBIN, Arch: 90}, ""}, // machine code for an older driver
		{12040, []int{50, 80, 90}, 120, 13000, nvrtc.Target{Kind: nvrtc.PTX, Arch: 90}, ""},
		{12040, []int{50, 80, 90}, 120, 0, nvrtc.Target{Kind: nvrtc.PTX, Arch: 90}, ""},
		{12040, []int{50, 80, 90}, 87, 12040, nvrtc.Target{Kind: nvrtc.PTX, Arch: 80}, ""},
		{12080, []int{50, 80, 90}, 87, 12040, nvrtc.Target{}, "driver 12.4 cannot read the PTX of NVRTC 12.8"},
		{13000, nil, 70, 12080, nvrtc.Target{}, "compute capability 7.0"},
	} {
		sim := nvrtctest.New(nvrtctest.Config{Version: c.own, Archs: c.archs})
		got, err := nvrtc.TargetFor(sim, c.device, c.driver)
		assert.Equal(t, c.want, got)
		if c.says == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorIs(t, err, driver.ErrUnsupported)
			assert.ErrorContains(t, err, c.says)
		}
	}
}

func TestCancel(t *testing.T) {
	p := nvrtc.Program{Source: source}
	t.Run("NVRTC asks", func(t *testing.T) {
		sim := nvrtctest.ForTest(t, nvrtctest.Config{Delay: time.Minute})
		sim.Add(source, ptx)
		for _, compile := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := nvrtc.Compile(ctx, sim, p, sm90); return err },
			func(ctx context.Context) error {
				_, err := compiler(t, sim, t.TempDir()).Compile(ctx, p, sm90)
				return err
			},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("the caller has gone")
			time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
			assert.ErrorIs(t, compile(ctx), why)
			assert.ErrorIs(t, compile(ctx), why, "at once")
		}
		require.Eventually(t, func() bool { return sim.Programs() == 0 }, time.Minute, time.Millisecond)
		for _, c := range sim.Compiles() {
			assert.Equal(t, nvrtc.ResultCancelled, c.Result)
		}
	})
	t.Run("NVRTC never asks", func(t *testing.T) {
		sim := nvrtctest.ForTest(t, nvrtctest.Config{Delay: 200 * time.Millisecond, Version: 12040})
		sim.Add(source, ptx)
		c := compiler(t, sim, t.TempDir())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := c.Compile(ctx, p, sm90)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		image, err := c.Compile(t.Context(), p, sm90)
		require.NoError(t, err, "the compile that runs on is not wasted")
		assert.Equal(t, ptx, string(image.Code))
		assert.Len(t, sim.Compiles(), 1)
	})
}

// many asks for the same few programs on 64 goroutines at once.
func many(t *testing.T, c *nvrtc.Compiler) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for g := range 64 {
		wg.Go(func() {
			<-start
			n := g % programs
			image, err := c.Compile(t.Context(), nvrtc.Program{Source: sourceOf(n)}, sm90)
			if assert.NoError(t, err) {
				assert.Equal(t, ptxOf(n), string(image.Code))
			}
		})
	}
	close(start)
	wg.Wait()
}

const programs = 3

func sourceOf(n int) string { return fmt.Sprintf("__global__ void k%d() {}", n) }

// ptxOf is large enough that a torn file would show.
func ptxOf(n int) string { return strings.Repeat(fmt.Sprintf("// program %d\n", n), 20_000) }

func simulation(t *testing.T) *nvrtctest.Compiler {
	sim := nvrtctest.ForTest(t, nvrtctest.Config{Delay: 30 * time.Millisecond})
	for n := range programs {
		sim.Add(sourceOf(n), ptxOf(n))
	}
	return sim
}

func TestManyGoroutinesCompileOnce(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "off"} {
		sim := simulation(t)
		c := compiler(t, sim, dir)
		many(t, c)
		if dir != "off" {
			assert.Len(t, sim.Compiles(), programs)
			many(t, c)
			assert.Len(t, sim.Compiles(), programs)
		}
		s := c.Stats()
		assert.EqualValues(t, len(sim.Compiles()), s.Compiles)
		assert.Zero(t, s.CacheErrors)
	}
}

// childVariable makes TestManyProcesses one of its own children.
const childVariable = "PURECUDA_TEST_NVRTC_CHILD"

// TestManyProcesses: four processes with 64 goroutines each want the same new programs at
// once. Each compiles each at most once, and none reads half a file.
func TestManyProcesses(t *testing.T) {
	if dir := os.Getenv(childVariable); dir != "" {
		child(t, dir)
		return
	}
	const processes = 4
	dir := t.TempDir()
	var children [processes]*exec.Cmd
	var outputs [processes]bytes.Buffer
	for i := range children {
		children[i] = exec.Command(os.Args[0], "-test.run=^TestManyProcesses$", "-test.v")
		children[i].Env = append(os.Environ(), childVariable+"="+dir)
		children[i].Stdout, children[i].Stderr = &outputs[i], &outputs[i]
		err := children[i].Start()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Skip("under an emulator a test cannot start itself: ", err)
		}
		require.NoError(t, err)
		defer func() { assert.NoError(t, children[i].Wait(), &outputs[i]) }()
	}
	require.Eventually(t, func() bool {
		ready, _ := filepath.Glob(filepath.Join(dir, "ready-*"))
		return len(ready) == processes
	}, time.Minute, time.Millisecond)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
}

func child(t *testing.T, dir string) {
	sim := simulation(t)
	c := compiler(t, sim, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("ready-%d", os.Getpid())), nil, 0o600))
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "go"))
		return !errors.Is(err, fs.ErrNotExist)
	}, time.Minute, time.Millisecond)
	for range 3 {
		many(t, c)
	}
	assert.LessOrEqual(t, len(sim.Compiles()), programs, "one compile a program")
	assert.Zero(t, c.Stats().CacheErrors, "no torn file")
	n, _, err := c.CacheSize()
	assert.NoError(t, err)
	assert.Equal(t, programs, n)
}
