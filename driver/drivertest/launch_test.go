package drivertest_test

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

func TestLaunchReadsParameters(t *testing.T) {
	const image = `.version 7.0
.target sm_80
.address_size 64
.visible .entry all(.param .u32 a, .param .u64 b, .param .f32 c, .param .f64 d, .param .align 16 .b8 e[20], .param .s32 f)
.maxntid 256
{ .shared .align 4 .b8 cache[100]; ret; }`
	var got drivertest.Launch
	g := start(t, drivertest.Config{Kernels: map[string]drivertest.KernelFunc{"all": func(k *drivertest.Launch) error {
		got = *k
		return nil
	}}})
	m, _, r := g.ModuleLoadData([]byte(image), driver.JIT{})
	g.ok(r)
	f, r := g.ModuleGetFunction(m, "all")
	g.ok(r)
	for i, want := range [][2]uint64{{0, 4}, {8, 8}, {16, 4}, {24, 8}, {32, 20}, {52, 4}} {
		offset, bytes, r := g.FuncGetParamInfo(f, uint64(i))
		g.ok(r)
		assert.Equal(t, want, [2]uint64{offset, bytes})
	}
	a, b, c, d, e, last := uint32(1), uint64(2), float32(3), float64(4), [20]byte{19: 9}, int32(-6)
	grid, block := driver.Dim3{X: 2, Y: 3, Z: 4}, driver.Dim3{X: 8, Y: 4, Z: 2}
	s := g.stream()
	g.ok(g.LaunchKernel(f, grid, block, 64, s, []unsafe.Pointer{pointer(&a), pointer(&b), pointer(&c), pointer(&d), pointer(&e), pointer(&last)}))
	g.ok(g.StreamSynchronize(s))
	assert.Equal(t, "all", got.Kernel)
	assert.Equal(t, grid, got.Grid)
	assert.Equal(t, block, got.Block)
	assert.EqualValues(t, 64, got.SharedBytes)
	assert.Equal(t, a, drivertest.Param[uint32](&got, 0))
	assert.Equal(t, b, drivertest.Param[uint64](&got, 1))
	assert.Equal(t, c, drivertest.Param[float32](&got, 2))
	assert.InDelta(t, d, drivertest.Param[float64](&got, 3), 0)
	assert.Equal(t, e, drivertest.Param[[20]byte](&got, 4))
	assert.Equal(t, last, drivertest.Param[int32](&got, 5))
	assert.Equal(t, driver.DevicePtr(2), drivertest.Param[driver.DevicePtr](&got, 1))
	assert.Panics(t, func() { drivertest.Param[uint64](&got, 0) })
	assert.Panics(t, func() { drivertest.Param[byte](&got, 6) })

	shared, r := g.FuncGetAttribute(driver.FunctionAttributeSharedSizeBytes, f)
	g.ok(r)
	assert.EqualValues(t, 100, shared)
	threads, r := g.FuncGetAttribute(driver.FunctionAttributeMaxThreadsPerBlock, f)
	g.ok(r)
	assert.EqualValues(t, 256, threads)
}

func TestLaunchChecksItsArguments(t *testing.T) {
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	ptr, n := driver.DevicePtr(0), uint32(0)
	good := []unsafe.Pointer{pointer(&ptr), pointer(&n)}
	for _, c := range []struct {
		name        string
		kernel      string
		grid, block driver.Dim3
		shared      uint32
		params      []unsafe.Pointer
		want        driver.Result
		detail      string
	}{
		{"too few", "add_one", one, one, 0, good[:1], driver.ResultInvalidValue, "has 2 parameters, and the launch passes 1"},
		{"too many", "unbound", one, one, 0, good, driver.ResultInvalidValue, "has 0 parameters, and the launch passes 2"},
		{"nil", "add_one", one, one, 0, []unsafe.Pointer{pointer(&ptr), nil}, driver.ResultInvalidValue, "parameter 1 of the kernel add_one is nil"},
		{"no grid", "add_one", driver.Dim3{}, one, 0, good, driver.ResultInvalidValue, "a size is 0"},
		{"large block", "add_one", one, driver.Dim3{X: 64, Y: 64, Z: 1}, 0, good, driver.ResultInvalidValue, "1024 threads"},
		{"large grid", "add_one", driver.Dim3{X: 1, Y: 1, Z: 65536}, one, 0, good, driver.ResultInvalidValue, "is larger than"},
		{"shared memory", "add_one", one, one, 48<<10 + 1, good, driver.ResultInvalidValue, "dynamic shared memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, drivertest.Config{})
			g.is(c.want, g.LaunchKernel(g.function(c.kernel), c.grid, c.block, c.shared, g.stream(), c.params))
			assert.Contains(t, g.finding().Detail, c.detail)
		})
	}
}

func TestMoreSharedMemoryByRequest(t *testing.T) {
	g := start(t, drivertest.Config{})
	f, s := g.function("fails"), g.stream()
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	g.is(driver.ResultInvalidValue, g.LaunchKernel(f, one, one, 100<<10, s, nil))
	g.ok(g.FuncSetAttribute(f, driver.FunctionAttributeMaxDynamicSharedSizeBytes, 100<<10))
	g.ok(g.LaunchKernel(f, one, one, 100<<10, s, nil))
	g.is(driver.ResultAssert, g.StreamSynchronize(s))
}

func TestClusters(t *testing.T) {
	g := start(t, drivertest.Config{})
	f, one := g.function("unbound"), driver.Dim3{X: 1, Y: 1, Z: 1}
	attributes := []driver.LaunchAttribute{driver.ClusterSize(driver.Dim3{X: 2, Y: 1, Z: 1})}
	g.is(driver.ResultNotSupported, g.LaunchKernelEx(f, one, one, 0, g.stream(), attributes, nil))
}

func TestFaultsOfKernels(t *testing.T) {
	sentinel := errors.New("my own error")
	for _, c := range []struct {
		name string
		f    drivertest.KernelFunc
		want driver.Result
	}{
		{"a code", func(*drivertest.Launch) error { return driver.ResultAssert }, driver.ResultAssert},
		{"a wrapped code", func(*drivertest.Launch) error { return driver.Errorf("x", "%w", driver.ResultIllegalInstruction) }, driver.ResultIllegalInstruction},
		{"a code that is not sticky", func(*drivertest.Launch) error { return driver.ResultNotFound }, driver.ResultLaunchFailed},
		{"an error", func(*drivertest.Launch) error { return sentinel }, driver.ResultLaunchFailed},
		{"a panic", func(*drivertest.Launch) error { panic("oops") }, driver.ResultLaunchFailed},
		{"an index", func(k *drivertest.Launch) error { var none []int; none[k.Device]++; return nil }, driver.ResultLaunchFailed},
		{"a stray address", func(k *drivertest.Launch) error { _, err := k.Memory(12345, 1); return err }, driver.ResultIllegalAddress},
		{"an unaligned address", func(k *drivertest.Launch) error { _, err := drivertest.Slice[uint64](k, 12345, 1); return err }, driver.ResultMisalignedAddress},
		{"a huge slice", func(k *drivertest.Launch) error { _, err := drivertest.Slice[uint64](k, 1<<40, 1<<62); return err }, driver.ResultIllegalAddress},
		{"a parameter that is not there", func(k *drivertest.Launch) error { drivertest.Param[uint64](k, 3); return nil }, driver.ResultLaunchFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, drivertest.Config{Kernels: map[string]drivertest.KernelFunc{"fails": c.f}})
			s := g.stream()
			g.ok(g.launch(g.function("fails"), s))
			g.is(c.want, g.StreamSynchronize(s))
			assert.Equal(t, "cuLaunchKernel", g.finding().Op)
			assert.Contains(t, g.finding().Where, "util_test.go")
		})
	}
}

// TestStickyErrors follows what was measured on hardware.
func TestStickyErrors(t *testing.T) {
	g := start(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	other, r := g.DevicePrimaryCtxRetain(1)
	g.ok(r)
	g.ok(g.CtxPushCurrent(other))
	there := g.stream()
	_, r = g.CtxPopCurrent()
	g.ok(r)

	s, nowhere := g.stream(), driver.DevicePtr(0xBAD)
	g.ok(g.launch(g.function("gate"), s, pointer(&nowhere)))
	const want = driver.ResultIllegalAddress
	g.is(want, g.StreamSynchronize(s))
	g.is(want, g.StreamQuery(s))
	_, r = g.MemAlloc(16)
	g.is(want, r)
	g.is(want, g.StreamSynchronize(there)) // the other device as well
	g.ok(g.DevicePrimaryCtxReset(0))
	_, r = g.DevicePrimaryCtxRetain(0)
	g.is(want, r)
	_, r = g.DeviceGetCount()
	g.ok(r)
	assert.Len(t, g.Findings(), 1)
}

func TestUnloadedBeforeItRuns(t *testing.T) {
	g := start(t, drivertest.Config{})
	m, _, r := g.ModuleLoadData([]byte(ptx), driver.JIT{})
	g.ok(r)
	f, r := g.ModuleGetFunction(m, "fails")
	g.ok(r)
	s, gate := g.stream(), make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { <-gate }))
	g.ok(g.launch(f, s))
	g.ok(g.ModuleUnload(m))
	close(gate)
	g.is(driver.ResultLaunchFailed, g.StreamSynchronize(s))
	assert.Contains(t, g.finding().Detail, "unloaded")
	g.is(driver.ResultLaunchFailed, g.launch(f, s))
}

func TestImages(t *testing.T) {
	const elf = "\x7fELF\x02\x01\x01\x33\x07\x00\x00\x00\x00\x00\x00\x00\x02\x00" // up to the machine
	const head = ".version 6.4\n.target sm_75\n.address_size 64\n"
	for _, c := range []struct {
		name, image string
		version     driver.Version
		device      drivertest.DeviceConfig
		want        driver.Result
		log         string
	}{
		{"nothing", "", 0, drivertest.H100(), driver.ResultInvalidImage, "the image is empty"},
		{"blanks", " \n\x00 ", 0, drivertest.H100(), driver.ResultInvalidImage, "the image is empty"},
		{"what begins like a cubin", "\x7fELF...", 0, drivertest.H100(), driver.ResultInvalidImage, "no cubin, and the simulated driver runs PTX only"},
		{"cubin", elf + "\xbe\x00", 0, drivertest.H100(), driver.ResultNoBinaryForGPU, "a cubin, and the simulated driver runs PTX only"},
		{"program of the host", elf + "\x3e\x00", 0, drivertest.H100(), driver.ResultInvalidImage, "no cubin"},
		{"fatbin", "\x50\xed\x55\xba\x01\x00\x10\x00", 0, drivertest.H100(), driver.ResultNoBinaryForGPU, "a fatbin, and the simulated driver runs PTX only"},
		{"text", "hello", 0, drivertest.H100(), driver.ResultInvalidImage, "not recognized"},
		{"comments", "// hello\n/* world\n */" + head, 0, drivertest.H100(), driver.Success, ""},
		{"NUL-terminated", head + "\x00rest", 0, drivertest.H100(), driver.Success, ""},
		{"old driver", strings.Replace(head, "6.4", "7.1", 1), 11000, drivertest.T4(), driver.ResultUnsupportedPTXVersion, "line 1; fatal   : Unsupported .version 7.1; current version is '7.0'"},
		{"newer driver", strings.Replace(head, "6.4", "8.3", 1), 12020, drivertest.T4(), driver.ResultUnsupportedPTXVersion, "8.3"},
		{"newest", strings.Replace(head, "6.4", "9.0", 1), 13000, drivertest.T4(), driver.Success, ""},
		{"old device", strings.Replace(head, "sm_75", "sm_80", 1), 0, drivertest.T4(), driver.ResultInvalidPTX, "SM version"},
		{"this device only", strings.Replace(head, "sm_75", "sm_90a", 1), 0, drivertest.H100(), driver.Success, ""},
		{"another device only", strings.Replace(head, "sm_75", "sm_80a", 1), 0, drivertest.H100(), driver.ResultInvalidPTX, "SM version"},
		{"no target", ".version 6.4\n.address_size 64\n", 0, drivertest.H100(), driver.ResultInvalidPTX, "Missing .target"},
		{"bad version", ".version six\n", 0, drivertest.H100(), driver.ResultInvalidPTX, "line 1"},
		{"bad word", head + "\nentry x() { ret; }", 0, drivertest.H100(), driver.ResultInvalidPTX, "line 5; fatal   : Parsing error near 'entry'"},
		{"bad type", head + ".entry x(.param .q64 a) { ret; }", 0, drivertest.H100(), driver.ResultInvalidPTX, "near '.q64'"},
		{"no end", head + ".entry x() { ret;", 0, drivertest.H100(), driver.ResultInvalidPTX, "near ''"},
		{"bad character", head + ".entry x() { \x01 }", 0, drivertest.H100(), driver.ResultInvalidPTX, "line 4"},
		{"unknown symbol", head + ".global .u64 p = q;", 0, drivertest.H100(), driver.ResultInvalidPTX, "line 4; fatal   : Parsing error near 'q'"},
		{"address as value", head + ".global .u64 p = q; .global .u32 q;", 0, drivertest.H100(), driver.Success, ""},
		{"address of shared memory", head + ".global .u64 p = q; .shared .u32 q;", 0, drivertest.H100(), driver.ResultInvalidPTX, "p holds the address of q"},
		{"unknown instruction", head + ".entry x() {\nnop.u32;\n}", 0, drivertest.H100(), driver.ResultInvalidPTX, "line 5; error   : Instruction 'nop.u32' in kernel 'x' is unknown"},
		{"wrong instruction", head + ".entry x() {\n.reg .u32 %r<2>;\nadd.u32 %r0;\n}", 0, drivertest.H100(), driver.ResultInvalidPTX, "line 6; error   : Illegal use of instruction 'add.u32' in kernel 'x'"},
		{"unresolved variable", head + ".extern .global .u32 there;", 0, drivertest.H100(), driver.ResultInvalidPTX, "Unresolved extern variable 'there'"},
		{"much shared memory", head + ".entry x() { .shared .b8 y[49153]; ret; }", 0, drivertest.H100(), driver.ResultInvalidPTX, "'x' uses too much shared data (0xc001 bytes, 0xc000 max)"},
		{"much local memory", head + ".entry x() { .local .b8 y[524289]; ret; }", 0, drivertest.H100(), driver.ResultInvalidPTX, "'x' uses too much local data"},
		{"no threads", head + ".entry x() .maxntid 0 { ret; }", 0, drivertest.H100(), driver.ResultInvalidPTX, "line 4"},
		{"newer PTX that nobody reads", "// by nvcc\n.version 99.1\n.target sm_75\n.future stuff;", 0, drivertest.T4(), driver.ResultUnsupportedPTXVersion, "line 2; fatal   : Unsupported .version 99.1; current version is '9.0'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, drivertest.Config{Version: c.version, Devices: []drivertest.DeviceConfig{c.device}})
			_, log, r := g.ModuleLoadData([]byte(c.image), driver.JIT{})
			require.Equal(t, c.want, r, log.Error)
			assert.Contains(t, log.Error, c.log)
		})
	}
}

func TestVariables(t *testing.T) {
	const image = `.version 6.4
.target sm_75
.address_size 64
.global .align 4 .u32 numbers[3] = {1, -2, 0xFF};
.visible .const .align 4 .f32 floats[2] = {0f3F800000, 0.5};
.global .v4 .f32 vector;
.extern .shared .align 16 .b8 dynamic[];
.shared .align 4 .b8 common[12];
.func (.reg .u32 out) helper (.reg .u32 in) { ret; }
.entry x() .reqntid 32, 2 { .shared .u64 y; .reg .u32 %r<1>; { mov.u32 %r0, common; ret; } }
.file 1 "x.cu"
.section .debug_info { .b8 1, 2 }
`
	g := start(t, drivertest.Config{})
	m, log, r := g.ModuleLoadData([]byte(image), driver.JIT{})
	require.Equal(t, driver.Success, r, log.Error)
	ptr, bytes, r := g.ModuleGetGlobal(m, "numbers")
	g.ok(r)
	assert.EqualValues(t, 12, bytes)
	var numbers [3]int32
	g.ok(g.MemcpyDtoH(pointer(&numbers), ptr, 12))
	assert.Equal(t, [3]int32{1, -2, 255}, numbers)
	ptr, _, r = g.ModuleGetGlobal(m, "floats")
	g.ok(r)
	var floats [2]float32
	g.ok(g.MemcpyDtoH(pointer(&floats), ptr, 8))
	assert.Equal(t, [2]float32{1, 0.5}, floats)
	_, bytes, r = g.ModuleGetGlobal(m, "vector")
	g.ok(r)
	assert.EqualValues(t, 16, bytes)
	f, r := g.ModuleGetFunction(m, "x")
	g.ok(r)
	shared, r := g.FuncGetAttribute(driver.FunctionAttributeSharedSizeBytes, f)
	g.ok(r)
	assert.EqualValues(t, 20, shared)
	g.is(driver.ResultInvalidValue, g.LaunchKernel(f, driver.Dim3{X: 1, Y: 1, Z: 1}, driver.Dim3{X: 64, Y: 1, Z: 1}, 0, g.stream(), nil))
	g.is(driver.ResultInvalidValue, g.MemFree(ptr))
	free, total, r := g.MemGetInfo()
	g.ok(r)
	assert.EqualValues(t, 12+8+16, total-free)
	g.ok(g.ModuleUnload(m))
	free, _, r = g.MemGetInfo()
	g.ok(r)
	assert.Equal(t, total, free)
}

func FuzzImage(f *testing.F) {
	f.Add(ptx)
	f.Add(".version 6.4\n.target sm_75\n.global .u32 x[2] = {1,{2}};")
	f.Add(kernelPTX(".const .u32 c = 1;", store))
	f.Fuzz(func(t *testing.T, image string) {
		d := drivertest.New(drivertest.Config{})
		d.Init(0)
		d.LibraryLoadData([]byte(image), driver.JIT{})
	})
}
