package runtime_test

import (
	"errors"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/internal/testc"
	"github.com/purecuda/purecuda/runtime"
)

// addOne names a function and a variable that addend has.
const addOne = `.version 6.4
.target sm_52
.address_size 64
.extern .func (.param .b32 result) addend();
.visible .entry addOne(.param .u64 out)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [out];
	cvta.to.global.u64 %rd2, %rd1;
	{
	.param .b32 q;
	call (q), addend;
	ld.param.b32 %r1, [q];
	}
	st.global.u32 [%rd2], %r1;
	ret;
}
`

const addend = `.version 6.4
.target sm_52
.address_size 64
.visible .func (.param .b32 result) addend()
{
	.reg .b32 %r<2>;
	mov.u32 %r1, 41;
	st.param.b32 [result], %r1;
	ret;
}
`

func partsOf(texts ...string) (all []runtime.Image) {
	for _, text := range texts {
		all = append(all, runtime.Image{Code: []byte(text)})
	}
	return all
}

func TestLinkModule(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c, err := rt.Context(0)
	require.NoError(t, err)
	var modules [4]*runtime.Module
	var wg sync.WaitGroup
	for i := range modules {
		wg.Go(func() {
			m, err := c.LinkModule(partsOf(addOne, addend)...)
			assert.NoError(t, err)
			modules[i] = m
		})
	}
	wg.Wait()
	assert.Equal(t, 1, gpu.Calls("cuLinkComplete"), "linked once for all callers")
	assert.Equal(t, gpu.Calls("cuLinkCreate"), gpu.Calls("cuLinkDestroy"))
	k, err := modules[0].Kernel("addOne")
	require.NoError(t, err)
	s := newStream(t, c)
	out := alloc[uint32](t, s, 1)
	require.NoError(t, k.Launch(s, runtime.Shape1D(1, 1), runtime.InOut(out)))
	assert.Equal(t, []uint32{41}, download(t, s, out))
	for _, m := range modules {
		require.NoError(t, m.Close())
	}
	alone, err := c.CachedModule(partsOf(addend)...)
	require.NoError(t, err)
	linked, err := c.LinkModule(partsOf(addend)...)
	require.NoError(t, err)
	assert.Equal(t, 2, gpu.Calls("cuLinkComplete"), "what was loaded is not what was linked")
	require.NoError(t, errors.Join(alone.Close(), linked.Close()))
}

func TestLinkModuleFails(t *testing.T) {
	t.Setenv("PURECUDA_NVJITLINK_PATH", "/none/libnvJitLink.so.13")
	rt, gpu := open(t, drivertest.Config{})
	c, err := rt.Context(0)
	require.NoError(t, err)
	for name, one := range map[string]struct {
		parts []runtime.Image
		kind  driver.Kind
		want  string
	}{
		"none":    {nil, driver.ErrInvalidArgument, "no part to link"},
		"empty":   {partsOf(addOne, " \n"), driver.ErrInvalidArgument, "part 1 of 2 is empty"},
		"LTO-IR":  {partsOf(addOne, "\xedCN\x7f and more"), driver.ErrLibraryUnavailable, "no nvJitLink to link LTO-IR with: install it"},
		"fatbin":  {partsOf("\x50\xed\x55\xba\x01\x00\x10\x00........"), driver.ErrModuleLoadFailed, "(and if it is LTO-IR: LibraryUnavailable: no nvJitLink"},
		"missing": {partsOf(addOne), driver.ErrModuleLoadFailed, "1 parts could not be linked: nvlink error   : Undefined reference to 'addend' in 'part 0'"},
		"twice":   {partsOf(addOne, addend, addend), driver.ErrModuleLoadFailed, "Multiple definition of 'addend' in 'part 2', first defined in 'part 1'"},
		"broken":  {partsOf(addOne, strings.Replace(addend, "mov.u32", "move.u32", 1)), driver.ErrModuleLoadFailed, "move"},
		"cubin":   {partsOf(addOne, "\x7fELF\x02\x01\x01...........\xbe\x00..."), driver.ErrModuleLoadFailed, "the simulated driver links PTX only"},
	} {
		_, err := c.LinkModule(one.parts...)
		require.ErrorIs(t, err, one.kind, name)
		assert.ErrorContains(t, err, one.want, name)
		if e, ok := errors.AsType[*driver.Error](err); ok && one.kind == driver.ErrModuleLoadFailed {
			assert.NotEmpty(t, e.Log, name)
		}
	}
	assert.Equal(t, gpu.Calls("cuLinkCreate"), gpu.Calls("cuLinkDestroy"), "nothing is left of a link that failed")
	gpu.Fail("cuLinkAddData", 1, driver.ResultOutOfMemory)
	_, err = c.LinkModule(partsOf(addOne, addend)...)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	m, err := c.LinkModule(partsOf(addOne, addend)...)
	require.NoError(t, err, "a failure is not remembered")
	require.NoError(t, m.Close())
	assert.Equal(t, gpu.Calls("cuLinkCreate"), gpu.Calls("cuLinkDestroy"))
	var none *runtime.Context
	_, err = none.LinkModule(partsOf(addend)...)
	assert.Error(t, err)
}

// LTO-IR of a stand-in for nvJitLink is PTX behind the sign of LTO-IR, which it puts together.
func TestLinkModuleOfLTOIR(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("the stand-in for nvJitLink is built on Linux")
	}
	t.Setenv("PURECUDA_NVJITLINK_PATH", testc.Build(t, "../nvrtc/testdata/fakejitlink.c", "-D_GNU_SOURCE"))
	dir := t.TempDir()
	t.Setenv("PURECUDA_CACHE_DIR", dir)
	rt, gpu := open(t, drivertest.Config{})
	c, err := rt.Context(0)
	require.NoError(t, err)
	_, kernel, _ := strings.Cut(addOne, "addend();\n")
	parts := partsOf("\xedCN\x7f"+addend, "\xedCN\x7f"+kernel)
	m, err := c.LinkModule(parts...)
	require.NoError(t, err)
	assert.Zero(t, gpu.Calls("cuLinkCreate"))
	assert.Equal(t, "info", m.Log().Info)
	k, err := m.Kernel("addOne")
	require.NoError(t, err)
	s := newStream(t, c)
	out := alloc[uint32](t, s, 1)
	require.NoError(t, k.Launch(s, runtime.Shape1D(1, 1), runtime.InOut(out)))
	assert.Equal(t, []uint32{41}, download(t, s, out))
	require.NoError(t, m.Close())

	_, err = c.LinkModule(partsOf("\xedCN\x7fbad")...)
	require.ErrorIs(t, err, driver.ErrModuleLoadFailed)
	assert.ErrorContains(t, err, "1 parts could not be linked: ERROR: bad input part 0")
	require.ErrorIs(t, err, library.Status(3))
	// What the driver does not link may be LTO-IR in another form.
	_, err = c.LinkModule(partsOf("\x50\xed\x55\xba\x01\x00\x10\x00 bad")...)
	require.ErrorIs(t, err, library.Status(3))
}
