package kernels

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
	"github.com/purecuda/purecuda/runtime"
)

// compiledAtRunTime runs a test for what NVRTC makes of a kernel's CUDA C++: PTX on the
// simulated driver, and on hardware what the device would get.
func compiledAtRunTime(t *testing.T, name string, test func(t *testing.T, s *runtime.Stream, k kernel)) {
	t.Run("simulated", func(t *testing.T) {
		lib := nvrtctest.OpenReal(t)
		gpu := drivertest.ForTest(t, simulated)
		for _, arch := range []int{75, 90} {
			target := nvrtc.Target{Kind: nvrtc.PTX, Arch: arch}
			t.Run(target.String(), func(t *testing.T) { fromSource(t, name, test, lib, target, runtime.WithDriver(gpu)) })
		}
	})
	t.Run("hardware", func(t *testing.T) {
		gpu, lib := hardware.Open(t), nvrtctest.OpenReal(t)
		rt, err := runtime.Open(runtime.WithDriver(gpu))
		require.NoError(t, err)
		backend, err := rt.Probe(name)
		require.NoError(t, err)
		version, _ := gpu.DriverGetVersion()
		target, err := nvrtc.TargetFor(lib, backend.Capability().Arch(), version)
		require.NoError(t, err)
		require.NoError(t, rt.Close())
		t.Run(target.String(), func(t *testing.T) { fromSource(t, name, test, lib, target, runtime.WithDriver(gpu)) })
	})
}

// fromSource compiles a kernel, loads it and runs a test.
func fromSource(t *testing.T, name string, test func(t *testing.T, s *runtime.Stream, k kernel), lib nvrtc.API, target nvrtc.Target, option runtime.Option) {
	rt, err := runtime.Open(option)
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	backend, err := rt.Probe(name)
	require.NoError(t, err)
	source, ok := Lookup(name)
	require.True(t, ok)
	image, err := nvrtc.Compile(t.Context(), lib, nvrtc.Program{Source: source.CUDA, Name: name + ".cu"}, target)
	require.NoError(t, err)
	m, err := backend.Context.LoadModule(runtime.Image{Arch: target.Arch, Code: image.Code})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	k, err := m.Kernel(name)
	require.NoError(t, err)
	test(t, backend.Stream, kernel{k})
}
