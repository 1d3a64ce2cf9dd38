package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

// lies are what a function of testdata/hostile/driver.c does, in its order.
var lies = []string{"writes 0", "writes nothing", "writes ones", "writes a huge value", "writes 1",
	"returns 12345", "returns -1", "returns the lowest number", "has no memory", "is sticky", "is not ready"}

// forEver are those that may say "not ready" for ever: a device that never ends its work is no lie.
var forEver = []string{"cuStreamQuery", "cuEventQuery"}

// unused are the required functions that only users of package driver call, or a copy of many pieces.
var unused = []string{"cuMemcpyHtoD", "cuMemcpyDtoH"}

// lyingFunction is the variable by which a test tells its child which function lies, and
// lyingDriver has the library.
const (
	lyingFunction = "PURECUDA_TEST_LIES"
	lyingDriver   = driver.PathVariable
)

// buildHostile builds the driver that lies, and returns the names of its functions.
func buildHostile(t *testing.T) (file string, functions []string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil || goruntime.GOOS != "linux" {
		t.Skip("no C compiler for Linux to build testdata/hostile/driver.c with")
	}
	file = filepath.Join(t.TempDir(), "libcuda.so.1")
	const source = "testdata/hostile/driver.c"
	if out, err := exec.Command(cc, "-O1", "-shared", "-fPIC", "-o", file, source, "-lpthread").CombinedOutput(); err != nil {
		t.Skipf("the C compiler cannot build for this processor: %s", out)
	}
	text, err := os.ReadFile(source)
	require.NoError(t, err)
	for _, e := range driver.Entries() {
		lies := strings.Contains(string(text), "("+e.Name+",") || strings.Contains(string(text), "("+e.Name+")") || strings.Contains(string(text), `lies("`+e.Name+`"`)
		if e.Required {
			require.True(t, lies, "%s cannot lie", e.Name)
		}
		if lies {
			functions = append(functions, e.Name)
		}
	}
	return file, functions
}

// Whatever a driver returns, a program gets errors: no panic, no wait without an end. Each
// function lies in a process of its own, in every way.
func TestHostileDriver(t *testing.T) {
	if !seeds.Long() {
		t.Skip("starts a process for each function of the driver: set " + seeds.LongVariable + "=1")
	}
	file, functions := buildHostile(t)
	for call := range impossible {
		function, lie, _ := strings.Cut(call, " ")
		require.True(t, slices.Contains(functions, function) && slices.Contains(lies, lie), call)
	}
	for _, function := range append(functions, "none") {
		t.Run(function, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestLiesOfOne$", "-test.v")
			cmd.Env = append(os.Environ(), lyingFunction+"="+function, lyingDriver+"="+file, "GOTRACEBACK=all")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Contains(t, string(out), "--- PASS: TestLiesOfOne")
		})
	}
}

// TestLiesOfOne is the child of TestHostileDriver.
func TestLiesOfOne(t *testing.T) {
	function := os.Getenv(lyingFunction)
	if function == "" {
		t.Skip("TestHostileDriver runs it")
	}
	lib, _, err := dl.Open(os.Getenv(lyingDriver))
	require.NoError(t, err)
	name, mode, calls := lib.Symbol("wild_name"), lib.Symbol("wild_mode"), lib.Symbol("wild_calls")
	round := lib.Symbol("wild_round")
	variable := func(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
	copy(unsafe.Slice((*byte)(variable(name)), 64), function+"\x00")
	called := false
	for i, lie := range lies {
		if lie == "is not ready" && slices.Contains(forEver, function) {
			continue
		}
		*(*int32)(variable(mode)), *(*int32)(variable(calls)), *(*int32)(variable(round)) = int32(i), 0, int32(i)
		ended := make(chan []error, 1)
		go func() {
			ended <- slices.Concat(useAll(arena.DeviceConfig{}), useAll(arena.DeviceConfig{NoPools: true}))
		}()
		select {
		case errs := <-ended:
			t.Logf("%s %s: %d errors, the first: %v", function, lie, len(errs), first(errs))
			checkErrors(t, function, lie, errs)
		case <-time.After(patience):
			panic(fmt.Sprintf("%s %s: no end", function, lie)) // with the stacks of all goroutines
		}
		called = called || *(*int32)(variable(calls)) > 0
	}
	assert.Equal(t, function != "none" && !slices.Contains(unused, function), called, "the function was called")
}

func first(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}

// checkErrors looks at what a program was told.
func checkErrors(t *testing.T, function, lie string, errs []error) {
	t.Helper()
	if function == "none" {
		assert.Empty(t, errs)
	}
	for _, err := range errs {
		assert.NotEmpty(t, parts(err), "%v", err)
		for _, e := range parts(err) { // what errors.Join puts between them is a line break
			assert.False(t, strings.ContainsFunc(e.Error(), unicode.IsControl), "%q", e)
		}
	}
	if impossible := strings.HasPrefix(lie, "returns -") || lie == "returns the lowest number"; impossible && len(errs) > 0 {
		assert.True(t, slices.ContainsFunc(errs, func(err error) bool {
			return errors.Is(err, driver.ResultImpossibleValue) && strings.Contains(err.Error(), function+" returned -")
		}), "%v", errs)
	}
	if want := impossible[function+" "+lie]; want != "" {
		assert.True(t, slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), want) }), "want %q: %v", want, errs)
	}
}

// impossible is what a program is told of values that cannot be true.
var impossible = map[string]string{
	"cuDeviceGetCount writes ones":           "cuDeviceGetCount succeeded with count -1: want 0 to 1024",
	"cuDeviceGetCount writes a huge value":   "cuDeviceGetCount succeeded with count 2139062143: want 0 to 1024",
	"cuDeviceGet writes ones":                "cuDeviceGet succeeded with device -1: want 0 to 2147483647",
	"cuDeviceTotalMem writes 0":              "cuDeviceTotalMem succeeded with bytes 0: want 1 to ",
	"cuDeviceGetAttribute writes 0":          "cuDeviceGetAttribute succeeded with value 0: want 1 to ",
	"cuDriverGetVersion writes ones":         "cuDriverGetVersion succeeded with version ",
	"cuDevicePrimaryCtxRetain writes 0":      "cuDevicePrimaryCtxRetain succeeded with context 0, which is none",
	"cuMemGetInfo writes ones":               "cuMemGetInfo succeeded with total 18446744073709551615: want 1 to ",
	"cuMemAllocFromPoolAsync writes nothing": "cuMemAllocFromPoolAsync succeeded with ptr 0: want 1 to ",
	"cuMemHostAlloc writes 0":                "cuMemHostAlloc succeeded with ptr 0x0: want a multiple of 16 from 0x1000 to ",
	"cuMemHostAlloc writes 1":                "cuMemHostAlloc succeeded with ptr 0x1: ",
	"cuMemHostAlloc writes ones":             "cuMemHostAlloc succeeded with ptr 0xffffffffffffffff: ",
	"cuStreamCreate writes 0":                "cuStreamCreate succeeded with stream 0, which is none",
	"cuEventCreate writes 0":                 "cuEventCreate succeeded with event 0, which is none",
	"cuModuleLoadDataEx writes 0":            "cuModuleLoadDataEx succeeded with module 0, which is none",
	"cuModuleGetFunction writes 0":           "cuModuleGetFunction succeeded with function 0, which is none",
	"cuFuncGetAttribute writes ones":         "cuFuncGetAttribute succeeded with value -1: want ",
	"cuFuncGetParamInfo writes 1":            "cuFuncGetParamInfo succeeded with offset 1: want 2 to 65536",
	"cuGraphInstantiateWithFlags writes 0":   "cuGraphInstantiateWithFlags succeeded with exec 0, which is none",
}

// smallestCubin is what elfComplete takes for a cubin.
var smallestCubin = append([]byte("\x7fELF\x02\x01"), make([]byte, 58)...)

// useAll uses all that a program uses, goes on after errors, and returns them.
func useAll(memory arena.DeviceConfig) (errs []error) {
	var mu sync.Mutex // the hook is called on any goroutine
	failed := func(err error) bool {
		mu.Lock()
		defer mu.Unlock()
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			errs = append(errs, joined.Unwrap()...)
		} else if err != nil {
			errs = append(errs, err)
		}
		return err != nil
	}
	ctx, cancel := context.WithTimeout(bg, patience)
	defer cancel()
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithMemory(memory),
		runtime.WithErrorHook(func(err error) { failed(err) }))
	if failed(err) {
		return errs
	}
	for _, d := range rt.Devices() {
		failed(d.Err)
	}
	b, err := rt.Probe("hostile")
	if !failed(err) {
		useContext(ctx, rt, b, failed)
		failed(b.Context.Reset(ctx))
	}
	failed(rt.Close())
	return errs
}

func useContext(ctx context.Context, rt *runtime.Runtime, b *runtime.Backend, failed func(error) bool) {
	c, s := b.Context, b.Stream
	_, _, err := c.MemInfo()
	failed(err)
	if other, err := rt.Context(1 - c.Device().Ordinal); !failed(err) {
		_, err = c.EnablePeer(other)
		failed(err)
	}
	low, err := c.NewStreamWithPriority(0)
	if !failed(err) {
		defer func() { failed(low.Close()) }()
	}
	r, err := runtime.Alloc[float32](s, 1000)
	if failed(err) {
		return
	}
	defer func() { failed(r.Close()) }()
	h, err := runtime.AllocHost[float32](c, 1000)
	if !failed(err) {
		h.Data()[999] = 1
		failed(runtime.UploadHost(s, r, h))
		failed(runtime.DownloadHost(s, h, r))
		defer func() { failed(h.Close()) }()
	}
	data := make([]float32, 1000)
	failed(runtime.Upload(ctx, s, r, data))
	failed(runtime.Fill(s, r, 1))
	failed(runtime.Zero(s, r))
	if copied, err := runtime.Alloc[float32](s, 1000); !failed(err) {
		failed(runtime.Copy(s, copied, r))
		failed(runtime.Copy2D(s, copied, 100, r, 100, 50, 10))
		failed(runtime.Upload2D(ctx, s, copied, 100, data, 100, 50, 10))
		failed(runtime.Download2D(ctx, s, data, 100, copied, 100, 50, 10))
		failed(copied.Close())
	}
	useKernels(c, s, r, failed)
	if e, err := c.NewTimingEvent(); !failed(err) {
		failed(e.Record(s))
		if low != nil {
			failed(low.Wait(e))
		}
		failed(e.Synchronize(ctx))
		_, err = e.Query()
		failed(err)
		_, err = e.Since(e)
		failed(err)
		failed(e.Close())
	}
	_, err = s.Query()
	failed(err)
	failed(runtime.Download(ctx, s, data, r))
	failed(s.Synchronize(ctx))
	failed(c.Synchronize())
	failed(c.TrimMemory(0))
	failed(c.TrimPinned(0))
}

func useKernels(c *runtime.Context, s *runtime.Stream, r *runtime.Ref[float32], failed func(error) bool) {
	for _, image := range []runtime.Image{{Code: kernelsPTX}, {Arch: 90, Code: smallestCubin}} {
		m, err := c.LoadModule(image)
		if failed(err) {
			continue
		}
		defer func() { failed(m.Close()) }()
		_, _, err = m.Variable("table")
		failed(err)
		if v, err := runtime.FindVariable[float32](m, "table"); !failed(err) {
			_ = v.Len()
		}
		k, err := m.Kernel("store")
		if failed(err) {
			continue
		}
		_, _, err = k.MaxPotentialBlockSize(0)
		failed(err)
		_, err = k.MaxActiveBlocks(256, 0)
		failed(err)
		shape, err := k.Shape(1000)
		if failed(err) {
			continue
		}
		launch := func(s *runtime.Stream) error {
			args := []runtime.Arg{runtime.InOut(r)}
			for len(args) < k.Params() && len(args) < 100 {
				args = append(args, runtime.Value(uint64(1)))
			}
			return k.Launch(s, shape, args...)
		}
		if image.Arch != 0 { // whose parameters are the driver's to tell
			failed(launch(s))
			shape.SharedBytes = 60_000 // more than a kernel has without asking
			failed(launch(s))
			g, err := s.Capture(launch)
			if failed(err) {
				continue
			}
			_, err = g.Nodes()
			failed(err)
			x, err := g.Instantiate()
			if !failed(err) {
				failed(x.Launch(s))
				failed(x.Close())
			}
			failed(g.Close())
		}
	}
}
