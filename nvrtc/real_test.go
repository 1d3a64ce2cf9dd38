package nvrtc_test

import (
	"bytes"
	"context"
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
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
)

// These tests need a real NVRTC and no GPU. PURECUDA_NVRTC_PATH names one that is not
// installed in a usual place; PURECUDA_REQUIRE_NVRTC=1 makes its absence a failure.

// includesVariable names directories with the CUDA C++ standard headers for a test, in the
// form of PATH. The default is the include folder of the toolkit in /usr/local/cuda.
const includesVariable = "PURECUDA_TEST_CUDA_INCLUDES"

// scale is a template with a header, a macro and a variable.
const scale = `#include "factor.h"
__constant__ float offset;
template <class T> __global__ void scale(T *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * factor<T>() + ADD;
}
`

var scaleProgram = nvrtc.Program{
	Source:          scale,
	Headers:         map[string]string{"factor.h": "template <class T> __device__ T factor() { return T(3); }\n"},
	NameExpressions: []string{"scale<float>", "scale<double>", "&offset"},
	Options:         nvrtc.Options{Defines: map[string]string{"ADD": "1"}},
}

func TestRealKinds(t *testing.T) {
	lib := nvrtctest.OpenReal(t)
	version, r := lib.Version()
	require.Equal(t, nvrtc.Success, r)
	archs, r := lib.SupportedArchs()
	require.Equal(t, nvrtc.Success, r)
	t.Logf("%s: NVRTC %v, build %q, architectures %v, lacks %v, tried before %v", lib.Path(), version, lib.Build(), archs, lib.Missing(), lib.Attempts())
	assert.True(t, slices.IsSorted(archs))
	assert.NotEmpty(t, lib.Build())
	for _, target := range []nvrtc.Target{{Kind: nvrtc.PTX, Arch: 75}, {Kind: nvrtc.PTX, Arch: 90}, {Kind: nvrtc.CUBIN, Arch: 90}, {Kind: nvrtc.CUBIN, Arch: 90, Suffix: "a"}, {Kind: nvrtc.LTOIR, Arch: 90}} {
		t.Run(target.Kind.String()+" "+target.String(), func(t *testing.T) {
			image, err := nvrtc.Compile(t.Context(), lib, scaleProgram, target)
			switch {
			case target.Kind == nvrtc.LTOIR && version < 12000:
				assert.ErrorIs(t, err, driver.ErrUnsupported)
				return
			case target.Suffix != "" && version < 12000:
				assert.ErrorIs(t, err, nvrtc.ResultInvalidOption)
				return
			}
			require.NoError(t, err)
			t.Logf("%d bytes in %v, log %q, names %v", len(image.Code), image.CompileTime, image.Log, image.LoweredNames)
			assert.Positive(t, image.CompileTime)
			assert.Equal(t, "_Z5scaleIfEvPT_i", image.LoweredNames["scale<float>"])
			assert.Equal(t, "_Z5scaleIdEvPT_i", image.LoweredNames["scale<double>"])
			assert.Equal(t, "offset", image.LoweredNames["&offset"])
			switch target.Kind {
			case nvrtc.PTX:
				assert.Contains(t, string(image.Code), fmt.Sprintf(".target sm_%d", target.Arch))
				assert.Contains(t, string(image.Code), ".entry _Z5scaleIfEvPT_i")
				assert.NotContains(t, string(image.Code), "\x00")
			case nvrtc.CUBIN:
				assert.True(t, bytes.HasPrefix(image.Code, []byte("\x7fELF")))
			}
		})
	}
}

func TestRealOptions(t *testing.T) {
	lib := nvrtctest.OpenReal(t)
	ptx := func(o nvrtc.Options) string {
		t.Helper()
		p := nvrtc.Program{Source: `extern "C" __global__ void k(float *x) { x[0] = x[1] * x[2] + x[3] / x[4]; }`, Options: o}
		image, err := nvrtc.Compile(t.Context(), lib, p, nvrtc.Target{Kind: nvrtc.PTX, Arch: 80})
		require.NoError(t, err)
		return string(image.Code)
	}
	plain := ptx(nvrtc.Options{})
	assert.Contains(t, plain, "fma.rn.f32", "contraction is on, as in nvcc")
	assert.Contains(t, plain, "div.rn.f32")
	assert.NotContains(t, plain, ".loc")
	assert.NotContains(t, ptx(nvrtc.Options{NoFMA: true}), "fma.rn.f32")
	fast := ptx(nvrtc.Options{FastMath: true})
	assert.Contains(t, fast, ".approx")
	assert.Contains(t, fast, ".ftz")
	assert.Contains(t, ptx(nvrtc.Options{Extra: []string{"--generate-line-info"}}), ".loc")
	assert.Contains(t, ptx(nvrtc.Options{Extra: []string{"--device-debug"}}), "debug")
	assert.NotEmpty(t, ptx(nvrtc.Options{MaxRegisters: 24}))
	assert.NotEmpty(t, ptx(nvrtc.Options{Std: "c++14", Extra: []string{"--relocatable-device-code=true", "--restrict"}}))
}

func TestRealErrors(t *testing.T) {
	lib := nvrtctest.OpenReal(t)
	target := nvrtc.Target{Kind: nvrtc.PTX, Arch: 80}
	var e *driver.Error
	_, err := nvrtc.Compile(t.Context(), lib, nvrtc.Program{Source: "// first\nextern \"C\" __global__ void k() {\n  undefined_thing();\n}\n", Name: "bad.cu"}, target)
	require.ErrorAs(t, err, &e)
	t.Logf("%v\n%s", e, e.Log)
	assert.ErrorIs(t, err, driver.ErrKernelCompileFailed)
	assert.ErrorIs(t, err, nvrtc.ResultCompilation)
	assert.Contains(t, e.Error(), "bad.cu(3): error: ")
	assert.Contains(t, e.Error(), "compute_80")
	assert.Contains(t, e.Log, ">    3 |   undefined_thing();")

	_, err = nvrtc.Compile(t.Context(), lib, nvrtc.Program{Source: source}, nvrtc.Target{Kind: nvrtc.CUBIN, Arch: 33})
	assert.ErrorIs(t, err, nvrtc.ResultInvalidOption)
	_, err = nvrtc.Compile(t.Context(), lib, nvrtc.Program{Source: source, Options: nvrtc.Options{Extra: []string{"--no-such-option"}}}, target)
	assert.ErrorIs(t, err, nvrtc.ResultInvalidOption)
	assert.ErrorContains(t, err, "no-such-option")
	_, err = nvrtc.Compile(t.Context(), lib, nvrtc.Program{Source: source, NameExpressions: []string{"nothing<int>"}}, target)
	require.ErrorIs(t, err, driver.ErrKernelCompileFailed)
	t.Log(err)

}

// TestRealIncludes: files are read only where include paths say so.
func TestRealIncludes(t *testing.T) {
	lib := nvrtctest.OpenReal(t)
	target := nvrtc.Target{Kind: nvrtc.PTX, Arch: 80}
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("include/sub", 0o700))
	for name, text := range map[string]string{
		"here.h":               "#define HERE\n",
		"include/outer.h":      "#include \"sub/inner.h\"\n",
		"include/sub/inner.h":  "#include \"beside.h\"\n",
		"include/sub/beside.h": "#define BESIDE\n",
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	p := nvrtc.Program{Source: "#include \"here.h\"\n" + source}
	_, err := nvrtc.Compile(t.Context(), lib, p, target)
	assert.ErrorContains(t, err, "here.h", "a header of the current directory is not taken by chance")
	p.Headers = map[string]string{"here.h": ""}
	_, err = nvrtc.Compile(t.Context(), lib, p, target)
	assert.NoError(t, err)
	p = nvrtc.Program{Source: "#include <outer.h>\n#ifndef BESIDE\n#error\n#endif\n" + source, Options: nvrtc.Options{IncludePaths: []string{"include"}}}
	_, err = nvrtc.Compile(t.Context(), lib, p, target)
	assert.NoError(t, err)
}

func TestRealCompilesAtTheSameTime(t *testing.T) {
	lib := nvrtctest.OpenReal(t)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			p := nvrtc.Program{Source: fmt.Sprintf(`extern "C" __global__ void k%d(int *x) { *x = %d; }`, n, n)}
			image, err := nvrtc.Compile(t.Context(), lib, p, nvrtc.Target{Kind: nvrtc.PTX, Arch: 80})
			if assert.NoError(t, err) {
				assert.Contains(t, string(image.Code), fmt.Sprintf(".entry k%d(", n))
			}
		})
	}
	wg.Wait()
}

// long is a program that takes NVRTC seconds.
func long() nvrtc.Program {
	var b strings.Builder
	b.WriteString("template <int N> struct S { static __device__ float f(float x) { return S<N - 1>::f(x) * x + N; } };\n")
	b.WriteString("template <> struct S<0> { static __device__ float f(float x) { return x; } };\n")
	for n := range 60 {
		fmt.Fprintf(&b, "extern \"C\" __global__ void k%d(float *x) { x[0] = S<%d>::f(x[1]) + sinf(x[2]) * powf(x[3], x[4]); }\n", n, 100+n)
	}
	return nvrtc.Program{Source: b.String()}
}

func TestRealCancel(t *testing.T) {
	lib := nvrtctest.OpenReal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := nvrtc.Compile(ctx, lib, long(), nvrtc.Target{Kind: nvrtc.CUBIN, Arch: 80})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(begin), time.Minute, "the wait ends at once")

	if slices.ContainsFunc(lib.Missing(), func(s string) bool { return strings.HasPrefix(s, "nvrtcSetFlowCallback") }) {
		t.Skip("this NVRTC cannot be cancelled: it lacks nvrtcSetFlowCallback")
	}
	h, r := lib.CreateProgram(long().Source, "long.cu", nil)
	require.Equal(t, nvrtc.Success, r)
	defer lib.DestroyProgram(h)
	begin = time.Now()
	asked := 0
	r = lib.CompileProgram(h, []string{"--gpu-architecture=sm_80", "--no-cache"}, func() bool { asked++; return true })
	t.Logf("ended with %v after %v, asked %d times", r, time.Since(begin), asked)
	assert.Equal(t, nvrtc.ResultCancelled, r)
	r = lib.CompileProgram(h, []string{"--gpu-architecture=sm_80", "--no-cache"}, func() bool { return false })
	assert.Equal(t, nvrtc.Success, r)
	r = lib.CompileProgram(h, []string{"--gpu-architecture=sm_80", "--no-cache"}, nil)
	assert.Equal(t, nvrtc.Success, r)
}

// TestRealStandardHeaders compiles a program that includes much of the CUDA C++ standard
// library through include paths, and finds it in the cache the second time.
func TestRealStandardHeaders(t *testing.T) {
	lib := nvrtctest.OpenReal(t)
	dirs := includes(t)
	c := compiler(t, lib, t.TempDir())
	begin := time.Now()
	first, err := c.Compile(t.Context(), standardHeaders(dirs), sm90)
	require.NoError(t, err)
	took := time.Since(begin)
	begin = time.Now()
	second, err := c.Compile(t.Context(), standardHeaders(dirs), sm90)
	require.NoError(t, err)
	t.Logf("first %v, second %v, %d bytes", took, time.Since(begin), len(first.Code))
	assert.True(t, second.Cached, "%+v", c.Stats())
	assert.Equal(t, first.Code, second.Code)
}

// includes are the directories of the CUDA C++ standard headers.
func includes(tb testing.TB) []string {
	dirs := filepath.SplitList(os.Getenv(includesVariable))
	if len(dirs) == 0 {
		// Since 13.0 they lie in a folder of their own.
		dirs = []string{"/usr/local/cuda/include/cccl", "/usr/local/cuda/include"}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "cuda/std/type_traits")); err == nil {
			return dirs
		}
	}
	tb.Skipf("no cuda/std/type_traits in %v: %s names other directories", dirs, includesVariable)
	return nil
}

func standardHeaders(dirs []string) nvrtc.Program {
	return nvrtc.Program{
		Name: "standard.cu",
		Source: `#include <cuda/std/type_traits>
#include <cuda/std/tuple>
#include <cuda/std/atomic>
#include <cuda/std/chrono>
#include <cuda/std/complex>
template <class T> __global__ void k(T *x) {
  static_assert(cuda::std::is_arithmetic<T>::value, "");
  cuda::std::tuple<T, int> t(x[0], 2);
  cuda::std::complex<float> z(float(cuda::std::get<0>(t)), 1.0f);
  x[0] = T((z * z).real());
}
`,
		NameExpressions: []string{"k<float>"},
		Options:         nvrtc.Options{IncludePaths: dirs},
	}
}
