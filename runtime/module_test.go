package runtime_test

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// PTX that no driver loads, and why.
var (
	futurePTX = []byte(".version 99.9\n.target sm_75\n.address_size 64\n")
	brokenPTX = []byte(".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry broken(.param .u64\n")
	newGPUPTX = []byte(".version 6.4\n.target sm_999\n.address_size 64\n")
)

func TestLoadModule(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		m := loadKernels(t, c)
		assert.Equal(t, kernelsPTX, m.Image().Code)
		assert.Equal(t, 75, m.Image().Arch, "as the text says")
		assert.Empty(t, m.Log().Error)
		assert.NotZero(t, m.Handle())
		assert.Same(t, c, m.Context())
		k, err := m.Kernel("add")
		require.NoError(t, err)
		assert.Same(t, m, k.Module())
	})
}

func TestModuleGlobal(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		m := loadKernels(t, c)
		ptr, size, err := m.Variable("answer")
		require.NoError(t, err)
		assert.Equal(t, uint64(4), size)
		s := newStream(t, c)
		h := allocHost[uint32](t, c, 1)
		require.Equal(t, driver.Success, rt.Driver().MemcpyDtoHAsync(unsafe.Pointer(&h.Data()[0]), ptr, size, s.Handle()))
		synchronize(t, s)
		assert.Equal(t, uint32(42), h.Data()[0])

		_, _, err = m.Variable("question")
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, `the module has no variable "question"`)
	})
}

func TestUnknownKernel(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		_, err := loadKernels(t, contextOf(t, rt)).Kernel("substract")
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, `the module has no kernel "substract"`)
		assert.ErrorContains(t, err, `extern "C"`)
	})
}

func TestModulesThatDoNotLoad(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		for _, test := range []struct {
			name   string
			images []runtime.Image
			code   driver.Result // 0: the driver is not asked
			log    bool
			texts  []string
		}{
			{"bad PTX", []runtime.Image{{Code: brokenPTX}}, driver.ResultInvalidPTX, true,
				[]string{"PTX 6.4 for sm_75: driver " + rt.Version().String() + " cannot compile it: ptxas application ptx input, line "}},
			{"PTX of the future", []runtime.Image{{Code: futurePTX}}, driver.ResultUnsupportedPTXVersion, true,
				[]string{"driver " + rt.Version().String() + " cannot read PTX 99.9 for sm_75; update the driver or build for an older PTX version"}},
			{"PTX for a later device", []runtime.Image{{Code: newGPUPTX}}, 0, false,
				[]string{"PTX for compute capability 99.9 does not run on " + c.Device().Capability.String()}},
			{"machine code for another device", []runtime.Image{{Arch: 30, Code: []byte("\x7fELF")}}, 0, false,
				[]string{"machine code for compute capability 3.0 does not run on "}},
			{"each for its own reason", []runtime.Image{{Code: newGPUPTX}, {Code: futurePTX}, {Code: brokenPTX}}, driver.ResultInvalidPTX, true,
				[]string{"99.9 does not run on", "cannot read PTX 99.9", "cannot compile it"}},
			{"not an image", []runtime.Image{{Code: []byte("\x7fELF, but no more than that")}}, driver.ResultInvalidImage, false,
				[]string{"machine code: "}},
		} {
			t.Run(test.name, func(t *testing.T) {
				_, err := c.LoadModule(test.images...)
				require.ErrorIs(t, err, driver.ErrModuleLoadFailed)
				var e *driver.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, c.Device().Ordinal, e.Device)
				for _, text := range test.texts {
					assert.ErrorContains(t, err, text)
				}
				if test.code != 0 {
					assert.ErrorIs(t, err, test.code)
				}
				if test.log {
					assert.NotEmpty(t, e.Log)
				}
			})
		}
		_, err := c.LoadModule()
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		for _, empty := range []string{"", " \n", "\x00"} {
			_, err = c.LoadModule(runtime.Image{Code: kernelsPTX}, runtime.Image{Code: []byte(empty)})
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, "image 1 of 2 is empty")
		}
	})
}

// An image that does not suit leaves the choice to the next one.
func TestLoadModuleTakesTheNextImage(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		m, err := contextOf(t, rt).LoadModule(
			runtime.Image{Code: newGPUPTX},
			runtime.Image{Code: futurePTX},
			runtime.Image{Code: brokenPTX},
			runtime.Image{Code: kernelsPTX})
		require.NoError(t, err)
		assert.Equal(t, kernelsPTX, m.Image().Code)
	})
	for _, r := range []driver.Result{driver.ResultNoBinaryForGPU, driver.ResultInvalidPTX, driver.ResultUnsupportedPTXVersion} {
		rt, gpu := open(t, drivertest.Config{})
		gpu.Fail("cuModuleLoadDataEx", 1, r)
		_, err := contextOf(t, rt).LoadModule(runtime.Image{Code: kernelsPTX}, runtime.Image{Code: kernelsPTX})
		require.NoError(t, err, r)
		assert.Equal(t, 2, gpu.Calls("cuModuleLoadDataEx"))
	}
	// What is wrong with the machine is not made better by another image.
	for _, c := range []struct {
		result driver.Result
		kind   driver.Kind
	}{
		{driver.ResultOutOfMemory, driver.ErrOutOfMemory},
		{driver.ResultInvalidImage, driver.ErrModuleLoadFailed},
		{driver.ResultUnknown, driver.ErrModuleLoadFailed},
	} {
		rt, gpu := open(t, drivertest.Config{})
		gpu.Fail("cuModuleLoadDataEx", 1, c.result)
		_, err := contextOf(t, rt).LoadModule(runtime.Image{Code: kernelsPTX}, runtime.Image{Code: kernelsPTX})
		require.ErrorIs(t, err, c.kind)
		assert.ErrorIs(t, err, c.result)
		assert.Equal(t, 1, gpu.Calls("cuModuleLoadDataEx"))
	}
}

// machineCode is a driver that takes anything that begins like a cubin for the
// compiled kernels of the tests.
type machineCode struct{ driver.API }

func (m machineCode) ModuleLoadData(image []byte, jit driver.JIT) (driver.Module, driver.JITLog, driver.Result) {
	if bytes.HasPrefix(image, cubin) {
		image = kernelsPTX
	}
	return m.API.ModuleLoadData(image, jit)
}

var cubin = []byte("\x7fELF")

// The sizes of parameters stand in the text of PTX. Of machine code the driver knows
// them, from 12.4 on.
func TestWhereParametersComeFrom(t *testing.T) {
	for _, c := range []struct {
		name    string
		version driver.Version
		code    []byte
		asked   bool
		text    string // of the error
	}{
		{"PTX, driver 11.0", 11000, kernelsPTX, false, ""},
		{"PTX, driver 12.0", 12000, kernelsPTX, false, ""},
		{"PTX, driver 13.0", 13000, kernelsPTX, false, ""},
		{"machine code, driver 12.4", 12040, cubin, true, ""},
		{"machine code, driver 13.0", 13000, cubin, true, ""},
		{"machine code, driver 12.3", 12030, cubin, true, "the parameters of kernel store are unknown: driver 12.3 cannot tell those of machine code (12.4 can); load PTX"},
	} {
		t.Run(c.name, func(t *testing.T) {
			gpu := drivertest.ForTest(t, drivertest.Config{Version: c.version})
			ctx := contextOf(t, openOn(t, machineCode{gpu}))
			m, err := ctx.LoadModule(runtime.Image{Arch: 90, Code: c.code})
			require.NoError(t, err)
			k, err := m.Kernel("store")
			if c.text != "" {
				require.ErrorIs(t, err, driver.ErrUnsupported)
				assert.ErrorContains(t, err, c.text)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.asked, gpu.Calls("cuFuncGetParamInfo") > 0)
			s := newStream(t, ctx)
			out := alloc[int64](t, s, 9)
			require.NoError(t, k.Launch(s, one, runtime.InOut(out), runtime.Value(int8(-1)), runtime.Value(int16(2)), runtime.Value(int32(3)),
				runtime.Value(int64(4)), runtime.Value(float32(5)), runtime.Value(6.0), runtime.Struct(&mixed{7, 8, 9})))
			assert.Equal(t, []int64{-1, 2, 3, 4, 5, 6, 7, 8, 9}, download(t, s, out))
			err = k.Launch(s, one, runtime.InOut(out))
			assert.ErrorContains(t, err, "takes 8 arguments of (8, 1, 2, 4, 8, 4, 8, 24) bytes")
		})
	}
}

func TestKernelQueriesThatFail(t *testing.T) {
	for _, op := range []string{"cuModuleGetFunction", "cuFuncGetAttribute", "cuFuncGetParamInfo"} {
		gpu := drivertest.ForTest(t, drivertest.Config{})
		m, err := contextOf(t, openOn(t, machineCode{gpu})).LoadModule(runtime.Image{Code: cubin})
		require.NoError(t, err)
		gpu.Fail(op, 1, driver.ResultUnknown)
		_, err = m.Kernel("add")
		require.ErrorIs(t, err, driver.ResultUnknown)
		assert.ErrorContains(t, err, op)
		_, err = m.Kernel("add")
		require.NoError(t, err)
	}
}

func TestKernelThatTheSimulatedDriverCannotRun(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	image := runtime.Image{Code: slices.Concat(kernelsPTX, []byte("\n.visible .entry future() {\nno.such.instruction;\nret;\n}\n"))}
	for _, load := range []func(...runtime.Image) (*runtime.Module, error){c.LoadModule, c.CachedModule} {
		m, err := load(image)
		require.NoError(t, err)
		addWith(t, newStream(t, c), m, "add")
		_, err = m.Kernel("future")
		require.ErrorIs(t, err, driver.ErrUnsupported)
		assert.ErrorContains(t, err, "Instruction 'no.such.instruction' in kernel 'future' is unknown to the simulated driver")
	}
}

// The simulated driver runs PTX only, and says so of machine code.
func TestMachineCodeOnTheSimulatedDriver(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	code := append(slices.Clone(cubin), 2, 1, 1, 0x33, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 190, 0)
	_, err := c.LoadModule(runtime.Image{Arch: 90, Code: code})
	require.ErrorIs(t, err, driver.ResultNoBinaryForGPU)
	assert.ErrorContains(t, err, "machine code for sm_90: has no code for compute capability 9.0; build for it, or ship PTX: the image is a cubin, and the simulated driver runs PTX only")
	m, err := c.LoadModule(runtime.Image{Arch: 90, Code: code}, runtime.Image{Code: kernelsPTX})
	require.NoError(t, err)
	assert.Equal(t, kernelsPTX, m.Image().Code)
}
