package drivertest_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

const header = ".version 7.0\n.target sm_75\n.address_size 64\n"

// kernelPTX is a module with the kernel k, which has an address as its parameter. The
// body finds it in %x and the number of the thread in %i.
func kernelPTX(before, body string) string {
	return header + before + `
.visible .entry k(.param .u64 x) {
.reg .b64 %x, %rd<4>;
.reg .b32 %i, %r<4>;
.reg .pred %p<2>;
ld.param.u64 %x, [x];
mov.u32 %r0, %ctaid.x;
mov.u32 %r1, %ntid.x;
mov.u32 %r2, %tid.x;
mad.lo.u32 %i, %r0, %r1, %r2;
` + body + "\nret;\n}\n"
}

// store writes the number of the thread to x[i].
const store = "mul.wide.u32 %rd0, %i, 4;\nadd.u64 %rd0, %rd0, %x;\nst.global.u32 [%rd0], %i;"

// at is the line of an image that a text stands on.
func at(image, text string) int {
	before, _, _ := strings.Cut(image, text)
	return strings.Count(before, "\n") + 1
}

// plain starts a driver without Go functions.
func plain(t *testing.T, config drivertest.Config) *gpu {
	if config.Kernels == nil {
		config.Kernels = map[string]drivertest.KernelFunc{}
	}
	return start(t, config)
}

func (g *gpu) load(image string) driver.Module {
	g.t.Helper()
	m, log, r := g.ModuleLoadData([]byte(image), driver.JIT{})
	require.Equal(g.t, driver.Success, r, log.Error)
	return m
}

func (g *gpu) kernel(image string) driver.Function {
	g.t.Helper()
	f, r := g.ModuleGetFunction(g.load(image), "k")
	g.ok(r)
	return f
}

func (g *gpu) run(f driver.Function, s driver.Stream, grid, block uint32, x driver.DevicePtr) {
	g.t.Helper()
	g.ok(g.LaunchKernel(f, driver.Dim3{X: grid, Y: 1, Z: 1}, driver.Dim3{X: block, Y: 1, Z: 1}, 0, s, []unsafe.Pointer{pointer(&x)}))
}

func (g *gpu) words(ptr driver.DevicePtr, n int) []uint32 {
	g.t.Helper()
	data := make([]uint32, n)
	g.ok(g.MemcpyDtoH(unsafe.Pointer(&data[0]), ptr, uint64(4*n)))
	return data
}

func TestPTXRuns(t *testing.T) {
	g := plain(t, drivertest.Config{})
	f, s, x := g.kernel(kernelPTX("", store)), g.stream(), g.alloc(4*100)
	g.run(f, s, 4, 25, x)
	g.ok(g.StreamSynchronize(s))
	for i, v := range g.words(x, 100) {
		require.EqualValues(t, i, v)
	}
	host, r := g.MemHostAlloc(4*100, 0)
	g.ok(r)
	g.run(f, s, 2, 50, driver.DevicePtr(uintptr(host)))
	g.ok(g.StreamSynchronize(s))
	for i, v := range unsafe.Slice((*uint32)(host), 100) {
		require.EqualValues(t, i, v)
	}
	assert.Empty(t, g.Findings())
}

func TestPTXRunsInGraphs(t *testing.T) {
	g := plain(t, drivertest.Config{})
	const add = "atom.global.add.u32 %r3, [%x], 1;"
	f, s, x := g.kernel(kernelPTX("", add)), g.stream(), g.alloc(4)
	g.ok(g.MemsetD8(x, 0, 4))
	g.ok(g.StreamBeginCapture(s, driver.CaptureRelaxed))
	g.run(f, s, 2, 64, x)
	graph, r := g.StreamEndCapture(s)
	g.ok(r)
	exec, r := g.GraphInstantiate(graph, 0)
	g.ok(r)
	for range 3 {
		g.ok(g.GraphLaunch(exec, s))
	}
	g.ok(g.StreamSynchronize(s))
	assert.Equal(t, []uint32{3 * 2 * 64}, g.words(x, 1))
}

func TestPTXFaults(t *testing.T) {
	const shared = ".shared .align 4 .b8 block[64];"
	for _, c := range []struct {
		name, before, body string
		place              string // of the fault in the body
		want               driver.Result
		detail             string
		allocation         string
		bytes              uint64
	}{
		{"overrun", "", store, "st.global", driver.ResultIllegalAddress, "write of 4 bytes at %#x: 0 bytes behind the end of an allocation", "400 bytes of device memory", 4},
		{"underrun", "", "sub.u64 %x, %x, 4;\n" + store, "st.global", driver.ResultIllegalAddress, "no allocation is there", "", 4},
		{"last bytes", "", "st.global.u64 [%x+396], %x;", "st.global", driver.ResultMisalignedAddress, "the address is not a multiple of 8", "400 bytes of device memory", 8},
		{"across the end", "", "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%x+400];", "ld.global", driver.ResultIllegalAddress, "read of 16 bytes", "400 bytes of device memory", 16},
		{"nil", "", "ld.global.u32 %r0, [8];", "ld.global", driver.ResultIllegalAddress, "read of 4 bytes at 0x8: neither device memory nor page-locked host memory", "", 4},
		{"atomic", "", "atom.global.add.u32 %r0, [%x+4000000], 1;", "atom", driver.ResultIllegalAddress, "write of 4 bytes", "", 4},
		{"shared", shared, "mov.u32 %r0, block; ld.shared.u32 %r1, [%r0+64];", "mov.u32 %r0, block", driver.ResultIllegalAddress, "read of 4 bytes at 0x40 of shared memory", "", 4},
		{"trap", "", "trap;", "trap", driver.ResultLaunchFailed, "launch failed", "", 0},
		{"endless", "", "L: bra L;", "L: bra", driver.ResultLaunchTimeout, "more than 10000 warp instructions", "", 0},
		{"deadlock", "", "barrier.sync 0, 160;", "barrier", driver.ResultLaunchTimeout, "all threads of the block wait for each other", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := plain(t, drivertest.Config{MaxSteps: 10000})
			image := kernelPTX(c.before, c.body)
			f, s, x := g.kernel(image), g.stream(), g.alloc(400)
			g.run(f, s, 1, 101, x)
			g.is(c.want, g.StreamSynchronize(s))
			found := g.finding()
			assert.Equal(t, "cuLaunchKernel", found.Op)
			assert.Equal(t, c.want, found.Result)
			assert.Equal(t, "k", found.Kernel)
			assert.Equal(t, at(image, c.place), found.Line)
			assert.Contains(t, found.Detail, fmt.Sprintf("kernel k, block (0,0,0), thread (%d,0,0), PTX line %d `%s", found.Thread.X, found.Line, c.place))
			if strings.Contains(c.detail, "%") {
				c.detail = fmt.Sprintf(c.detail, uint64(found.Addr))
			}
			assert.Contains(t, found.Detail, c.detail)
			assert.Equal(t, c.bytes, found.Bytes)
			assert.Contains(t, found.Allocation, c.allocation)
			if c.name == "overrun" {
				assert.Equal(t, driver.Dim3{X: 100}, found.Thread)
				assert.Equal(t, x+400, found.Addr)
			}
			assert.Contains(t, found.Where, "execute_test.go")
		})
	}
}

func TestUseAfterFree(t *testing.T) {
	g := plain(t, drivertest.Config{})
	f, s, x := g.kernel(kernelPTX("", store)), g.stream(), g.alloc(64)
	gate := make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { <-gate }))
	g.run(f, s, 1, 1, x)
	g.ok(g.MemFree(x))
	close(gate)
	g.is(driver.ResultIllegalAddress, g.StreamSynchronize(s))
	assert.Contains(t, g.finding().Detail, "the memory is freed")
	assert.Contains(t, g.finding().Allocation, "freed by cuMemFree")
	assert.Equal(t, x, g.finding().Addr)
}

func TestKernelsReachPeersThatAreOpen(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		t.Run(fmt.Sprint(enabled), func(t *testing.T) {
			g := plain(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
			other, r := g.DevicePrimaryCtxRetain(1)
			g.ok(r)
			g.ok(g.CtxPushCurrent(other))
			x := g.alloc(400)
			_, r = g.CtxPopCurrent()
			g.ok(r)
			f, s := g.kernel(kernelPTX("", store)), g.stream()
			if enabled {
				g.ok(g.CtxEnablePeerAccess(other, 0))
				g.run(f, s, 1, 100, x)
				g.ok(g.StreamSynchronize(s))
				return
			}
			g.run(f, s, 1, 100, x)
			g.is(driver.ResultIllegalAddress, g.StreamSynchronize(s))
			assert.Contains(t, g.finding().Detail, "device 0 has no access to memory of device 1")
		})
	}
}

func TestVariablesInKernels(t *testing.T) {
	image := kernelPTX(`.visible .const .align 4 .u32 step = 5;
.visible .global .align 4 .u32 count = 10;
.visible .global .align 8 .u64 where[2] = {generic(count), 7};
`, `ld.const.u32 %r0, [step];
ld.global.u64 %rd0, [where];
atom.add.u32 %r1, [%rd0], %r0;
st.global.u32 [%x], %r1;`)
	g := plain(t, drivertest.Config{})
	s, x := g.stream(), g.alloc(4)
	run := func(f driver.Function) uint32 {
		g.run(f, s, 1, 1, x)
		g.ok(g.StreamSynchronize(s))
		return g.words(x, 1)[0]
	}
	// Each load of an image has variables of its own.
	a, b := g.load(image), g.load(image)
	fa, r := g.ModuleGetFunction(a, "k")
	g.ok(r)
	fb, r := g.ModuleGetFunction(b, "k")
	g.ok(r)
	assert.EqualValues(t, 10, run(fa))
	assert.EqualValues(t, 15, run(fa))
	assert.EqualValues(t, 10, run(fb))
	step, bytes, r := g.ModuleGetGlobal(a, "step")
	g.ok(r)
	assert.EqualValues(t, 4, bytes)
	g.ok(g.MemsetD32(step, 100, 1))
	assert.EqualValues(t, 20, run(fa))
	assert.EqualValues(t, 120, run(fa))
	constants, r := g.FuncGetAttribute(driver.FunctionAttributeConstSizeBytes, fa)
	g.ok(r)
	assert.EqualValues(t, 4, constants)
	g.ok(g.ModuleUnload(a))
	g.is(driver.ResultInvalidValue, g.MemsetD32(step, 1, 1))

	l, log, r := g.LibraryLoadData([]byte(image), driver.JIT{})
	require.Equal(t, driver.Success, r, log.Error)
	count, _, r := g.LibraryGetGlobal(l, "count")
	g.ok(r)
	assert.Equal(t, []uint32{10}, g.words(count, 1))
}

func TestPrintf(t *testing.T) {
	var out bytes.Buffer
	g := plain(t, drivertest.Config{Printf: &out})
	f := g.kernel(kernelPTX(`.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[10] = {116, 61, 37, 100, 10, 0};
`, `.local .align 8 .b8 args[8];
mov.u64 %rd1, args;
cvta.local.u64 %rd1, %rd1;
st.u32 [%rd1], %i;
mov.u64 %rd0, text;
cvta.global.u64 %rd0, %rd0;
{
.param .b64 a; .param .b64 b; .param .b32 r;
st.param.b64 [a], %rd0;
st.param.b64 [b], %rd1;
call.uni (r), vprintf, (a, b);
}`))
	s := g.stream()
	g.run(f, s, 1, 3, 0)
	g.ok(g.StreamSynchronize(s))
	assert.Equal(t, "t=0\nt=1\nt=2\n", out.String())
	local, r := g.FuncGetAttribute(driver.FunctionAttributeLocalSizeBytes, f)
	g.ok(r)
	assert.GreaterOrEqual(t, local, int32(8))
}

// spin never ends: the word that it waits for stays as it is.
const spin = "L: ld.volatile.global.u32 %r0, [%x]; setp.ne.u32 %p0, %r0, 77; @%p0 bra L;"

func TestCloseEndsKernels(t *testing.T) {
	g := plain(t, drivertest.Config{})
	f, s, x := g.kernel(kernelPTX("", spin)), g.stream(), g.alloc(4)
	g.run(f, s, 1, 1, x)
	require.NoError(t, g.Close())
	assert.Contains(t, g.finding().Detail, "the kernel k still ran when the driver was closed")
	assert.Equal(t, driver.Success, g.Sticky())
}

func TestPoisonEndsKernels(t *testing.T) {
	g := plain(t, drivertest.Config{})
	endless, trap := g.kernel(kernelPTX("", spin)), g.kernel(kernelPTX("", "trap;"))
	s, there, x := g.stream(), g.stream(), g.alloc(4)
	g.run(endless, s, 1, 1, x)
	g.run(trap, there, 1, 1, x)
	begin := time.Now()
	g.is(driver.ResultLaunchFailed, g.StreamSynchronize(there))
	require.NoError(t, g.Close())
	assert.Less(t, time.Since(begin), time.Minute)
	assert.Contains(t, g.finding().Detail, "PTX line")
}

// wide keeps n values alive in each thread.
func wide(bound string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, header+".entry k(.param .u64 x) %s {\n.reg .b64 %%x; .reg .b32 %%r<%d>;\nld.param.u64 %%x, [x];\n", bound, n)
	for i := range n {
		fmt.Fprintf(&b, "ld.global.u32 %%r%d, [%%x+%d];\n", i, 4*i)
	}
	for i := range n {
		fmt.Fprintf(&b, "st.global.u32 [%%x+%d], %%r%d;\n", 4*(n-1-i), i)
	}
	b.WriteString("ret;\n}\n")
	return b.String()
}

func TestRegistersBoundTheBlock(t *testing.T) {
	g := plain(t, drivertest.Config{})
	block := func(n uint32) driver.Dim3 { return driver.Dim3{X: n, Y: 1, Z: 1} }
	x := g.alloc(4 * 200)
	params := []unsafe.Pointer{pointer(&x)}
	attribute := func(f driver.Function, a driver.FunctionAttribute) int32 {
		v, r := g.FuncGetAttribute(a, f)
		g.ok(r)
		return v
	}

	many := g.kernel(wide("", 100))
	registers := attribute(many, driver.FunctionAttributeNumRegs)
	assert.Greater(t, registers, int32(99))
	most := attribute(many, driver.FunctionAttributeMaxThreadsPerBlock)
	assert.EqualValues(t, 65536/((registers+7)/8*8)/32*32, most)
	g.is(driver.ResultLaunchOutOfResources, g.LaunchKernel(many, block(1), block(1024), 0, 0, params))
	assert.Contains(t, g.finding().Detail, "registers")
	blocks, r := g.OccupancyMaxActiveBlocksPerMultiprocessor(many, 512, 0)
	g.ok(r)
	assert.EqualValues(t, 1, blocks)

	// A bound makes the compiler do with less.
	bounded := g.kernel(wide(".maxntid 1024", 100))
	assert.EqualValues(t, 64, attribute(bounded, driver.FunctionAttributeNumRegs))
	assert.EqualValues(t, 1024, attribute(bounded, driver.FunctionAttributeMaxThreadsPerBlock))
	for threads := 1; threads <= 1024; threads += 31 {
		k := g.kernel(wide(fmt.Sprintf(".maxntid %d", threads), 200))
		require.GreaterOrEqual(t, attribute(k, driver.FunctionAttributeMaxThreadsPerBlock), int32(threads), "a block of the bound can be launched")
	}
	limited := g.kernel(wide(".maxnreg 32", 100))
	assert.EqualValues(t, 32, attribute(limited, driver.FunctionAttributeNumRegs))
	few := g.kernel(wide("", 3))
	blocks, r = g.OccupancyMaxActiveBlocksPerMultiprocessor(few, 512, 0)
	g.ok(r)
	assert.EqualValues(t, 4, blocks)
}

// A kernel with an instruction that the interpreter does not know is no obstacle for others.
func TestUnknownInstructionsOfOneKernel(t *testing.T) {
	image := kernelPTX(".visible .entry future() {\nno.such.instruction;\nret;\n}\n", store)
	g := plain(t, drivertest.Config{})
	m, log, r := g.ModuleLoadData([]byte(image), driver.JIT{})
	g.ok(r)
	assert.Contains(t, log.Error, fmt.Sprintf("line %d; error   : Instruction 'no.such.instruction' in kernel 'future' is unknown to the simulated driver", at(image, "no.such")))
	f, r := g.ModuleGetFunction(m, "k")
	g.ok(r)
	s, x := g.stream(), g.alloc(40)
	g.run(f, s, 1, 10, x)
	g.ok(g.StreamSynchronize(s))
	_, r = g.ModuleGetFunction(m, "future")
	g.is(driver.ResultNotSupported, r)
	_, r = g.ModuleGetFunction(m, "nobody")
	g.is(driver.ResultNotFound, r)

	l, log, r := g.LibraryLoadData([]byte(image), driver.JIT{})
	g.ok(r)
	assert.Contains(t, log.Error, "no.such.instruction")
	_, r = g.LibraryGetKernel(l, "k")
	g.ok(r)
	_, r = g.LibraryGetKernel(l, "future")
	g.is(driver.ResultNotSupported, r)
	assert.Empty(t, g.Findings())
}

func TestGoFunctionsComeBeforePTX(t *testing.T) {
	image := kernelPTX("", "no.such.instruction %r0;")
	called := 0
	g := plain(t, drivertest.Config{Kernels: map[string]drivertest.KernelFunc{"k": func(*drivertest.Launch) error { called++; return nil }}})
	s := g.stream()
	g.run(g.kernel(image), s, 1, 1, 0)
	g.ok(g.StreamSynchronize(s))
	assert.Equal(t, 1, called)

	none := plain(t, drivertest.Config{})
	_, log, r := none.ModuleLoadData([]byte(image), driver.JIT{})
	none.is(driver.ResultInvalidPTX, r)
	assert.Contains(t, log.Error, fmt.Sprintf("line %d; error   : Instruction 'no.such.instruction'", at(image, "no.such")))
	// Lazily loaded libraries tell later.
	l, log, r := none.LibraryLoadData([]byte(image), driver.JIT{})
	none.ok(r)
	assert.Contains(t, log.Error, "no.such.instruction")
	_, r = none.LibraryGetKernel(l, "k")
	none.is(driver.ResultInvalidPTX, r)
}
