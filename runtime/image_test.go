package runtime_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
	"github.com/purecuda/purecuda/runtime"
)

// fatbin begins like the files that nvcc -fatbin writes.
var fatbin = []byte{0x50, 0xed, 0x55, 0xba, 0x01, 0x00, 0x10, 0x00}

// fatbinDriver takes such a file for the compiled kernels of the tests.
type fatbinDriver struct{ driver.API }

func (d fatbinDriver) ModuleLoadData(image []byte, jit driver.JIT) (driver.Module, driver.JITLog, driver.Result) {
	if bytes.HasPrefix(image, fatbin) {
		image = kernelsPTX
	}
	return d.API.ModuleLoadData(image, jit)
}

// Machine code goes to the driver as it is, before any PTX.
func TestFatbin(t *testing.T) {
	c := contextOf(t, openOn(t, fatbinDriver{drivertest.ForTest(t, drivertest.Config{})}))
	for _, load := range []func(...runtime.Image) (*runtime.Module, error){c.LoadModule, c.CachedModule} {
		m, err := load(runtime.Image{Code: futurePTX}, runtime.Image{Code: fatbin})
		require.NoError(t, err)
		assert.Equal(t, fatbin, m.Image().Code)
		addWith(t, newStream(t, c), m, "add")
	}
}

// What the driver says of images that do not suit, with its version and that of the image.
func TestRefusedImages(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{Version: 12020})
	c := contextOf(t, rt)
	for _, test := range []struct {
		image  runtime.Image
		result driver.Result
		text   string
	}{
		{runtime.Image{Code: fatbin}, driver.ResultNoBinaryForGPU,
			"machine code: has no code for compute capability 9.0; build for it, or ship PTX"},
		{runtime.Image{Arch: 90, Code: cubin}, driver.ResultNoBinaryForGPU,
			"machine code for sm_90: has no code for compute capability 9.0; build for it, or ship PTX"},
		{runtime.Image{Code: kernelsPTX}, driver.ResultInvalidPTX,
			"PTX 6.4 for sm_75: driver 12.2 cannot compile it"},
		{runtime.Image{Code: bytes.Replace(kernelsPTX, []byte("6.4"), []byte("8.8"), 1)}, driver.ResultUnsupportedPTXVersion,
			"driver 12.2 cannot read PTX 8.8 for sm_75; update the driver or build for an older PTX version"},
	} {
		for _, load := range []func(...runtime.Image) (*runtime.Module, error){c.LoadModule, c.CachedModule} {
			if test.result != driver.ResultUnsupportedPTXVersion { // that one is what it says by itself
				gpu.Fail("cuModuleLoadDataEx", 1, test.result)
			}
			_, err := load(test.image)
			require.ErrorIs(t, err, driver.ErrModuleLoadFailed)
			assert.ErrorIs(t, err, test.result)
			assert.ErrorContains(t, err, test.text)
		}
	}
}

// A cubin of NVRTC loads where it was made for, and says so elsewhere.
func TestCubinsOnHardware(t *testing.T) {
	gpu, lib := hardware.Open(t), nvrtctest.OpenReal(t)
	c := contextOf(t, openOn(t, gpu))
	arch := c.Device().Capability.Arch()
	archs, _ := lib.SupportedArchs()
	for _, target := range archs {
		image, err := nvrtc.Compile(bg, lib, adder, nvrtc.Target{Kind: nvrtc.CUBIN, Arch: target})
		require.NoError(t, err)
		m, err := c.LoadModule(runtime.Image{Code: image.Code})
		switch {
		case target == arch:
			require.NoError(t, err)
			addWith(t, newStream(t, c), m, image.LoweredNames["add<unsigned>"])
		case target/10 != arch/10:
			require.ErrorIs(t, err, driver.ResultNoBinaryForGPU)
			assert.ErrorContains(t, err, "has no code for compute capability "+c.Device().Capability.String())
		}
		if err == nil {
			require.NoError(t, m.Close())
		}
	}
}
