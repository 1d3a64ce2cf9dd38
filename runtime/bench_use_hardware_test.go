package runtime_test

import (
	_ "embed"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/runtime"
)

//go:embed testdata/use.cu
var useSource string

// BenchmarkHardwareUse is the way from source to a kernel that can be launched, in a process
// that has not compiled before: NVRTC is loaded, the program is compiled or found in the disk
// cache, and loaded. Run it with -test.benchtime=1x and a PURECUDA_CACHE_DIR, once with nothing
// in it and once more, as scripts/gpu-run does; scripts/baseline/use.c is the same in C.
func BenchmarkHardwareUse(b *testing.B) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(hardware.Open(b)))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, rt.Close()) })
	c, err := rt.Context(0)
	require.NoError(b, err)
	program := nvrtc.Program{Source: useSource, NameExpressions: []string{"integrate<float, 256>"}}
	if b.N > 1 {
		b.Skip("there is one first use in a process: -test.benchtime=1x")
	}
	start := time.Now()
	_, err = rt.Compiler()
	library := time.Since(start)
	require.NoError(b, err)
	m, err := c.Compile(b.Context(), program)
	require.NoError(b, err)
	_, err = m.Kernel(program.NameExpressions[0])
	require.NoError(b, err)
	b.ReportMetric(float64(time.Since(start).Nanoseconds()), "ns/op")
	b.ReportMetric(float64(library.Nanoseconds()), "library-ns")
	b.ReportMetric(float64(rt.Stats().CompileTime.Nanoseconds()), "compile-ns")
	require.NoError(b, m.Close())
}
