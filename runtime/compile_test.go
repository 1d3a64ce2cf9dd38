package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
	"github.com/purecuda/purecuda/runtime"
)

// addSource is CUDA C++ for the kernel of namedPTX, as a template.
const addSource = `
template <class T> __global__ void add(T *x, unsigned long long n, T amount) {
  unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += amount;
}
`

// adder is the program; addLowered is the name that the simulated NVRTC gives its kernel.
var adder = nvrtc.Program{Source: addSource, Name: "add.cu", NameExpressions: []string{"add<unsigned>"}}

const addLowered = "addunsigned"

// simulatedNVRTC is an NVRTC that knows addSource, and a compiler with a disk cache of the
// test's own.
func simulatedNVRTC(t testing.TB, config nvrtctest.Config) (*nvrtctest.Compiler, *nvrtc.Compiler) {
	t.Helper()
	lib := nvrtctest.ForTest(t, config)
	lib.Add(addSource, string(namedPTX(addLowered)))
	return lib, compilerOf(t, lib, "")
}

func compilerOf(t testing.TB, lib nvrtc.API, dir string) *nvrtc.Compiler {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o700))
	}
	compiler, err := nvrtc.NewCompiler(lib, nvrtc.Config{CacheDir: dir})
	require.NoError(t, err)
	return compiler
}

func compile(t testing.TB, c *runtime.Context, p nvrtc.Program) *runtime.Module {
	t.Helper()
	m, err := c.Compile(bg, p)
	require.NoError(t, err)
	return m
}

func TestCompile(t *testing.T) {
	check := func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		first := compile(t, c, adder)
		addWith(t, s, first, "add<unsigned>")
		second := compile(t, c, adder)
		assert.Equal(t, first.Handle(), second.Handle())
		byExpression, err := second.Kernel("add<unsigned>")
		require.NoError(t, err)
		byName, err := second.Kernel(byExpression.Name())
		require.NoError(t, err)
		assert.Same(t, byExpression, byName)
		_, err = second.Kernel("add<float>")
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		require.NoError(t, errors.Join(first.Close(), second.Close()))

		stats := rt.Stats()
		assert.Equal(t, []uint64{1, 1, 1, 1}, []uint64{stats.ModuleHits, stats.ModuleMisses, stats.CachedModules, stats.Modules})
		assert.EqualValues(t, 1, stats.Compiles+stats.ArtifactHits)
		assert.Equal(t, stats.Compiles, stats.ArtifactMisses)
		assert.Zero(t, c.Stats().Compiles, "of the runtime only")
	}
	t.Run("simulated", func(t *testing.T) {
		_, compiler := simulatedNVRTC(t, nvrtctest.Config{})
		rt, _ := open(t, drivertest.Config{}, runtime.WithCompiler(compiler))
		check(t, rt)
	})
	t.Run("NVRTC", func(t *testing.T) { // which may write newer PTX than the simulated driver runs
		lib := nvrtctest.OpenReal(t)
		config := drivertest.Config{Devices: drivertest.Devices(1, drivertest.H100())}
		rt, _ := open(t, config, runtime.WithCompiler(compilerOf(t, ptxOnly{lib}, "")))
		check(t, rt)
	})
	t.Run("hardware", func(t *testing.T) {
		gpu := hardware.Open(t)
		check(t, openOn(t, gpu, runtime.WithCompiler(compilerOf(t, nvrtctest.OpenReal(t), ""))))
	})
}

// ptxOnly is an NVRTC that knows no device of this decade, so that PTX is made, which the
// simulated driver can run.
type ptxOnly struct{ nvrtc.API }

func (ptxOnly) SupportedArchs() ([]int, nvrtc.Result) { return []int{75}, nvrtc.Success }

// 64 goroutines on two devices ask for a kernel that nobody has seen.
func TestOneCompileForAll(t *testing.T) {
	lib, compiler := simulatedNVRTC(t, nvrtctest.Config{Delay: 20 * time.Millisecond})
	rt, gpu := open(t, twoDevices(), runtime.WithCompiler(compiler))
	streams := []*runtime.Stream{newStream(t, contextAt(t, rt, 0)), newStream(t, contextAt(t, rt, 1))}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			s := streams[i%2]
			m, err := s.Context().Compile(bg, adder)
			if assert.NoError(t, err) {
				addWith(t, s, m, "add<unsigned>")
				assert.NoError(t, m.Close())
			}
		})
	}
	wg.Wait()
	assert.Len(t, lib.Compiles(), 1)
	assert.Equal(t, 2, gpu.Calls("cuModuleLoadDataEx"))
	stats := rt.Stats()
	assert.Equal(t, []uint64{62, 2, 1}, []uint64{stats.ModuleHits, stats.ModuleMisses, stats.Compiles})
}

// The next process finds the code on disk.
func TestCompileInTheNextProcess(t *testing.T) {
	lib, _ := simulatedNVRTC(t, nvrtctest.Config{})
	dir := t.TempDir()
	for want := range 3 {
		compiler := compilerOf(t, lib, dir)
		rt, _ := open(t, drivertest.Config{}, runtime.WithCompiler(compiler))
		addWith(t, newStream(t, contextOf(t, rt)), compile(t, contextOf(t, rt), adder), "add<unsigned>")
		assert.Len(t, lib.Compiles(), 1)
		assert.EqualValues(t, min(want, 1), rt.Stats().ArtifactHits)
	}
}

// What files take part in is looked at each time, and loaded once.
func TestCompileWithFiles(t *testing.T) {
	lib, compiler := simulatedNVRTC(t, nvrtctest.Config{})
	rt, gpu := open(t, drivertest.Config{}, runtime.WithCompiler(compiler))
	c, dir := contextOf(t, rt), t.TempDir()
	const source = "#include \"amount.h\"\n" + addSource
	lib.Add(source, string(namedPTX(addLowered)))
	p := nvrtc.Program{Source: source, NameExpressions: adder.NameExpressions, Options: nvrtc.Options{IncludePaths: []string{dir}}}
	for n, text := range []string{"", "// changed"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "amount.h"), []byte(text), 0o600))
		for range 3 {
			require.NoError(t, compile(t, c, p).Close())
		}
		assert.Len(t, lib.Compiles(), n+1)
	}
	assert.Equal(t, 1, gpu.Calls("cuModuleLoadDataEx"), "the code is the same")
	assert.EqualValues(t, 5, c.Stats().ModuleHits)
}

// Programs that differ in anything are different modules.
func TestCompileKeys(t *testing.T) {
	_, compiler := simulatedNVRTC(t, nvrtctest.Config{})
	rt, _ := open(t, drivertest.Config{}, runtime.WithCompiler(compiler))
	c := contextOf(t, rt)
	handles := map[driver.Module]bool{}
	for _, change := range []func(p *nvrtc.Program){
		func(p *nvrtc.Program) {},
		func(p *nvrtc.Program) { p.Name = "other.cu" },
		func(p *nvrtc.Program) { p.FastMath = true },
		func(p *nvrtc.Program) { p.NoFMA = true },
		func(p *nvrtc.Program) { p.MaxRegisters = 32 },
		func(p *nvrtc.Program) { p.Defines = map[string]string{"A": "1", "B": "2"} },
		func(p *nvrtc.Program) { p.Defines = map[string]string{"A": "1", "B": "\xff"} },
		func(p *nvrtc.Program) { p.Defines = map[string]string{"A": "1", "B": "\xfe"} },
		func(p *nvrtc.Program) { p.Headers = map[string]string{"a.h": ""} },
		func(p *nvrtc.Program) { p.NameExpressions = []string{"add<unsigned>", "add<int>"} },
	} {
		for range 2 {
			p := adder
			change(&p)
			handles[compile(t, c, p).Handle()] = true
		}
	}
	assert.Len(t, handles, 10)
	assert.EqualValues(t, 10, c.Stats().ModuleHits)
}

// Every call that can fail does once. The error is told, nothing is kept, and the next try
// succeeds.
func TestCompileWithFaults(t *testing.T) {
	_, compiler := simulatedNVRTC(t, nvrtctest.Config{})
	use := func(c *runtime.Context) error {
		m, err := c.Compile(bg, adder)
		if err != nil {
			return err
		}
		_, err = m.Kernel("add<unsigned>")
		return errors.Join(err, m.Close())
	}
	rt, gpu := open(t, drivertest.Config{}, runtime.WithCompiler(compiler))
	c := contextOf(t, rt)
	gpu.ResetCalls()
	require.NoError(t, use(c))
	for _, e := range driver.Entries() {
		op := e.Name
		for nth := range gpu.Calls(op) {
			rt, gpu := openFaulty(t, drivertest.Config{}, runtime.WithCompiler(compiler))
			c := contextOf(t, rt)
			gpu.Fail(op, nth+1, driver.ResultUnknown)
			err := use(c)
			require.Len(t, gpu.Injected(), 1, "%s %d", op, nth)
			if op != "cuCtxPopCurrent" { // is cleaning up, which is reported elsewhere
				require.ErrorIs(t, err, driver.ResultUnknown, "%s %d", op, nth)
			}
			require.NoError(t, use(c), "%s %d", op, nth)
			require.NoError(t, c.TrimModules(0))
			assert.Zero(t, c.Stats().Modules, "%s %d", op, nth)
			require.NoError(t, rt.Close())
			assert.Empty(t, gpu.Leaks())
		}
	}
}

func TestCompileFailures(t *testing.T) {
	lib, compiler := simulatedNVRTC(t, nvrtctest.Config{})
	rt, gpu := open(t, drivertest.Config{}, runtime.WithCompiler(compiler))
	c := contextOf(t, rt)
	bad := nvrtc.Program{Source: "__global__ void k() {\n  oops();\n}\n", Name: "k.cu"}
	lib.AddFailure(bad.Source, nvrtc.ResultCompilation, `k.cu(2): error: identifier "oops" is undefined`)
	for n := range 2 {
		_, err := c.Compile(bg, bad)
		require.ErrorIs(t, err, driver.ErrKernelCompileFailed)
		require.ErrorIs(t, err, nvrtc.ResultCompilation)
		e, ok := errors.AsType[*driver.Error](err)
		require.True(t, ok)
		assert.Contains(t, e.Log, ">    2 |   oops();")
		assert.Len(t, lib.Compiles(), n+1, "failures are not remembered")
	}
	lib.Add(bad.Source, string(namedPTX("k")))
	addWith(t, newStream(t, c), compile(t, c, bad), "k")
	_, err := c.Compile(bg, nvrtc.Program{})
	require.ErrorIs(t, err, driver.ErrInvalidArgument)

	// A driver that refuses what NVRTC has made: both versions are in the text.
	for _, r := range []driver.Result{driver.ResultNoBinaryForGPU, driver.ResultInvalidPTX, driver.ResultUnsupportedPTXVersion, driver.ResultInvalidImage} {
		gpu.Fail("cuModuleLoadDataEx", 1, r)
		_, err := c.Compile(bg, adder)
		require.ErrorIs(t, err, driver.ErrModuleLoadFailed)
		require.ErrorIs(t, err, r)
		assert.ErrorContains(t, err, "(PTX of NVRTC 13.0 for driver 13.0)")
	}
	addWith(t, newStream(t, c), compile(t, c, adder), "add<unsigned>")
}

// An older driver takes machine code of a newer NVRTC, and no PTX of it.
func TestCompileForAnOlderDriver(t *testing.T) {
	lib, compiler := simulatedNVRTC(t, nvrtctest.Config{Version: 12080})
	gpu := drivertest.ForTest(t, drivertest.Config{Version: 12020})
	rt := openOn(t, cubinDriver{gpu}, runtime.WithCompiler(compiler))
	c := contextOf(t, rt)
	addWith(t, newStream(t, c), compile(t, c, adder), "add<unsigned>")
	require.Len(t, lib.Compiles(), 2)
	assert.Contains(t, lib.Compiles()[0].Options, "--gpu-architecture=sm_90")
	assert.Contains(t, lib.Compiles()[1].Options, "--gpu-architecture=compute_90", "for the parameters, which the driver cannot tell")

	gpu.Fail("cuModuleLoadDataEx", 1, driver.ResultNoBinaryForGPU)
	other := adder
	other.NoFMA = true
	_, err := c.Compile(bg, other)
	require.ErrorIs(t, err, driver.ResultNoBinaryForGPU)
	assert.ErrorContains(t, err, "(cubin of NVRTC 12.8 for driver 12.2): update the driver or install an NVRTC that is not newer")

	// It does not know the device, and its PTX would be refused with 222.
	_, compiler = simulatedNVRTC(t, nvrtctest.Config{Version: 12080, Archs: []int{75, 80}})
	rt = openOn(t, gpu, runtime.WithCompiler(compiler))
	_, err = contextOf(t, rt).Compile(bg, adder)
	require.ErrorIs(t, err, driver.ErrUnsupported)
	assert.ErrorContains(t, err, "driver 12.2 cannot read the PTX of NVRTC 12.8")
}

// cubins is an NVRTC whose machine code is no text.
type cubins struct{ nvrtc.API }

func (c cubins) CUBIN(h nvrtc.Handle) ([]byte, nvrtc.Result) {
	code, r := c.API.CUBIN(h)
	return append(slices.Clone(cubin), code...), r
}

// cubinDriver is a driver that takes such machine code.
type cubinDriver struct{ driver.API }

func (d cubinDriver) ModuleLoadData(image []byte, jit driver.JIT) (driver.Module, driver.JITLog, driver.Result) {
	return d.API.ModuleLoadData([]byte(strings.TrimPrefix(string(image), string(cubin))), jit)
}

func TestParametersOfCompiledMachineCode(t *testing.T) {
	for _, c := range []struct {
		driver   driver.Version
		compiles int
		asks     bool
	}{{12020, 2, false}, {12030, 2, false}, {12040, 1, true}, {13000, 1, true}} {
		lib, _ := simulatedNVRTC(t, nvrtctest.Config{})
		gpu := drivertest.ForTest(t, drivertest.Config{Version: c.driver})
		rt := openOn(t, cubinDriver{gpu}, runtime.WithCompiler(compilerOf(t, cubins{lib}, "")))
		m := compile(t, contextOf(t, rt), adder)
		assert.Equal(t, 90, m.Image().Arch)
		addWith(t, newStream(t, contextOf(t, rt)), m, "add<unsigned>")
		assert.Len(t, lib.Compiles(), c.compiles, c.driver)
		assert.Equal(t, c.asks, gpu.Calls("cuFuncGetParamInfo") > 0, c.driver)
	}
}

// The simulated driver runs PTX only, so that PTX is what is compiled for it.
func TestCompileForASimulatedDevice(t *testing.T) {
	lib, _ := simulatedNVRTC(t, nvrtctest.Config{Version: 12080})
	compiler := compilerOf(t, cubins{lib}, "")
	rt, _ := open(t, drivertest.Config{Version: 12080}, runtime.WithCompiler(compiler))
	m := compile(t, contextOf(t, rt), adder)
	addWith(t, newStream(t, contextOf(t, rt)), m, "add<unsigned>")
	require.Len(t, lib.Compiles(), 1)
	assert.Contains(t, lib.Compiles()[0].Options, "--gpu-architecture=compute_90")

	rt, _ = open(t, drivertest.Config{Version: 12040}, runtime.WithCompiler(compiler))
	_, err := contextOf(t, rt).Compile(bg, adder)
	require.ErrorIs(t, err, driver.ErrUnsupported)
	assert.ErrorContains(t, err, "the driver loads PTX only, and driver 12.4 cannot read the PTX of NVRTC 12.8: give the simulated driver the version of NVRTC, or install an older NVRTC")
	assert.Len(t, lib.Compiles(), 1)
}

// Who stops waiting does not disturb others, and when nobody waits the compile ends.
func TestCompileCancelled(t *testing.T) {
	lib, compiler := simulatedNVRTC(t, nvrtctest.Config{Delay: 300 * time.Millisecond})
	rt, _ := open(t, drivertest.Config{}, runtime.WithCompiler(compiler))
	c := contextOf(t, rt)
	ctx, leave := context.WithCancelCause(bg)
	left := errors.New("left")
	first := async(func() error { _, err := c.Compile(ctx, adder); return err })
	second := async(func() *runtime.Module { m, _ := c.Compile(bg, adder); return m })
	time.Sleep(20 * time.Millisecond)
	leave(left)
	require.ErrorIs(t, await(t, "it leaves", first), left)
	m := await(t, "it gets the module", second)
	require.NotNil(t, m)
	addWith(t, newStream(t, c), m, "add<unsigned>")
	assert.Len(t, lib.Compiles(), 1)

	alone := adder
	alone.NoFMA = true
	ctx, cancel := context.WithTimeout(bg, 10*time.Millisecond)
	defer cancel()
	_, err := c.Compile(ctx, alone)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	eventually(t, "the compile ends", func() bool { return len(lib.Compiles()) == 2 && lib.Programs() == 0 })
	assert.Equal(t, nvrtc.ResultCancelled, lib.Compiles()[1].Result)
	assert.EqualValues(t, 1, c.Stats().CachedModules)
}

// Closing the runtime does not wait for a compile, and what waits for one learns of it.
func TestCloseDuringACompile(t *testing.T) {
	for name, p := range map[string]nvrtc.Program{
		"text":  adder,
		"files": {Source: addSource, NameExpressions: adder.NameExpressions, Options: nvrtc.Options{IncludePaths: []string{t.TempDir()}}},
	} {
		for _, version := range []driver.Version{13000, 12040} { // the latter cannot be cancelled
			t.Run(fmt.Sprint(name, " ", version), func(t *testing.T) {
				lib, compiler := simulatedNVRTC(t, nvrtctest.Config{Delay: time.Second, Version: version})
				rt, gpu := open(t, drivertest.Config{}, runtime.WithCompiler(compiler))
				c := contextOf(t, rt)
				waiting := make([]<-chan error, 5)
				for i := range waiting {
					waiting[i] = async(func() error { _, err := c.Compile(bg, p); return err })
				}
				time.Sleep(50 * time.Millisecond)
				require.NoError(t, rt.Close())
				for _, w := range waiting {
					require.ErrorIs(t, await(t, "it ends", w), driver.ErrClosed)
				}
				if version == 12040 {
					assert.NotZero(t, lib.Programs(), "nobody waited for the compile")
				}
				eventually(t, "the compile ends", func() bool { return len(lib.Compiles()) == 1 && lib.Programs() == 0 })
				if version == 12040 {
					eventually(t, "it is in the cache", func() bool { entries, _, err := compiler.CacheSize(); return err == nil && entries == 1 })
				}
				assert.Zero(t, gpu.Calls("cuModuleLoadDataEx"))
				_, err := c.Compile(bg, p)
				require.ErrorIs(t, err, driver.ErrClosed)
			})
		}
	}
}

// A machine without NVRTC says what to install, and all else works.
func TestCompileWithoutNVRTC(t *testing.T) {
	t.Setenv(nvrtc.PathVariable, filepath.Join(t.TempDir(), "libnvrtc.so.13"))
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	for range 2 {
		_, err := c.Compile(bg, adder)
		require.ErrorIs(t, err, driver.ErrUnsupported)
		_, err = rt.Compiler()
		require.ErrorIs(t, err, driver.ErrUnsupported)
	}
	addWith(t, newStream(t, c), cachedModule(t, c, runtime.Image{Code: kernelsPTX}), "add")
	assert.Zero(t, rt.Stats().Compiles)
}

func TestPreload(t *testing.T) {
	lib, compiler := simulatedNVRTC(t, nvrtctest.Config{})
	rt, gpu := open(t, drivertest.Config{Devices: drivertest.Devices(4, drivertest.H100())}, runtime.WithCompiler(compiler))
	require.NoError(t, rt.Preload(bg))
	assert.EqualValues(t, 4, rt.Stats().Contexts)
	program := func(ctx context.Context, c *runtime.Context) (*runtime.Module, error) { return c.Compile(ctx, adder) }
	images := func(_ context.Context, c *runtime.Context) (*runtime.Module, error) {
		return c.CachedModule(runtime.Image{Code: kernelsPTX})
	}
	require.ErrorIs(t, rt.Preload(bg, program, nil), driver.ErrInvalidArgument)
	require.NoError(t, rt.Preload(bg, program, images))
	assert.Len(t, lib.Compiles(), 1)
	assert.Equal(t, 8, gpu.Calls("cuModuleLoadDataEx"))
	for place := range 4 {
		c := contextAt(t, rt, place)
		addWith(t, newStream(t, c), compile(t, c, adder), "add<unsigned>")
		addWith(t, newStream(t, c), cachedModule(t, c, runtime.Image{Code: kernelsPTX}), "add")
	}
	assert.Equal(t, 8, gpu.Calls("cuModuleLoadDataEx"))

	// One device that fails is named, and does not keep the others from being filled.
	boom := errors.New("boom")
	err := rt.Preload(bg, func(_ context.Context, c *runtime.Context) (*runtime.Module, error) {
		if c.Device().Ordinal == 2 {
			return nil, boom
		}
		return c.CachedModule(runtime.Image{Code: namedPTX("third")})
	})
	require.ErrorIs(t, err, boom)
	assert.ErrorContains(t, err, "preloading device 2: boom")
	assert.Equal(t, 11, gpu.Calls("cuModuleLoadDataEx"))
	ctx, cancel := context.WithCancel(bg)
	cancel()
	require.ErrorIs(t, rt.Preload(ctx, program), context.Canceled)

	off, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(t, err)
	defer off.Close()
	require.ErrorIs(t, off.Preload(bg, program), driver.ErrDriverLibraryUnavailable)
}
