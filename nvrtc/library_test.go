//go:build linux && (amd64 || arm64)

package nvrtc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/testc"
)

// build builds testdata/fakenvrtc.c as a file.
func build(t *testing.T, file string, flags ...string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build testdata/fakenvrtc.c with")
	}
	args := append([]string{"-shared", "-fPIC", "-o", file, "-Wl,-soname," + filepath.Base(file)}, flags...)
	out, err := exec.Command(cc, append(args, "-ldl", "-lpthread")...).CombinedOutput()
	if err != nil {
		t.Skipf("the C compiler cannot build for this processor: %s", out)
	}
}

// fake is a Library of testdata/fakenvrtc.c.
func fake(t *testing.T) *Library {
	t.Helper()
	file := filepath.Join(t.TempDir(), "libfakenvrtc.so")
	build(t, file, "testdata/fakenvrtc.c")
	l, err := Open(file)
	require.NoError(t, err)
	return l
}

// An NVRTC that reports success with what cannot be true is an error that says so.
func TestImpossibleValues(t *testing.T) {
	for define, want := range map[string]string{
		"MAJOR=-1":                  "nvrtcVersion succeeded with version -1.9: want 1.0 to 999.99",
		"MAJOR=2000000000":          "nvrtcVersion succeeded with version 2000000000.9: want",
		"COUNT=0":                   "nvrtcGetNumSupportedArchs succeeded with 0 architectures: want 1 to 1024",
		"COUNT=-1":                  "nvrtcGetNumSupportedArchs succeeded with -1 architectures",
		"COUNT=2147483647":          "nvrtcGetNumSupportedArchs succeeded with 2147483647 architectures",
		"ARCH=-75":                  "nvrtcGetSupportedArchs succeeded with architecture -75: want 10 to 9999",
		"PROGRAM=((void)p,NULL)":    "nvrtcCreateProgram succeeded with program 0, which is none",
		"SIZE=((void)p,(size_t)-1)": "nvrtcGetPTXSize succeeded with 18446744073709551615 bytes: want 1073741824 at most",
		"COMPILED=-1":               "nvrtcCompileProgram returned -1: want a result that is not negative",
		"COMPILED=12345":            "NVRTC_ERROR_12345",
		"NAME=NULL":                 "nvrtcGetLoweredName succeeded with no name",
	} {
		t.Run(define, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "libfakenvrtc.so")
			build(t, file, "testdata/fakenvrtc.c", "-D"+define)
			l, err := Open(file)
			require.NoError(t, err)
			_, err = TargetFor(l, 90, 0)
			if err == nil {
				_, err = Compile(t.Context(), l, Program{Source: "source", NameExpressions: []string{"f<int>"}}, Target{Kind: PTX, Arch: 90})
			}
			require.Error(t, err)
			assert.Contains(t, err.Error(), want)
			assert.Equal(t, !strings.Contains(want, "12345"), errors.Is(err, ResultImpossibleValue))
		})
	}
}

func TestArgumentsArrive(t *testing.T) {
	l := fake(t)
	version, r := l.Version()
	assert.Equal(t, Success, r)
	assert.Equal(t, driver.Version(12090), version)
	archs, r := l.SupportedArchs()
	assert.Equal(t, Success, r)
	assert.Equal(t, []int{75, 90, 120}, archs)
	assert.Equal(t, []string{"nvrtcGetLTOIRSize (12.0)", "nvrtcGetLTOIR (12.0)"}, l.Missing())
	assert.False(t, l.Shared())
	assert.Contains(t, l.Build(), "libfakenvrtc.so ")

	p := Program{
		Source: "source", Name: "name.cu", Headers: map[string]string{"b.h": "B", "a.h": "A"},
		NameExpressions: []string{"f<int>", "&v"}, Options: Options{Std: "c++17"},
	}
	image, err := Compile(t.Context(), l, p, Target{Kind: PTX, Arch: 90})
	require.NoError(t, err)
	const want = "name.cu|source|a.h=A|b.h=B|&v|f<int>|--gpu-architecture=compute_90|--no-source-include|--std=c++17"
	assert.Equal(t, want, string(image.Code))
	assert.Equal(t, want, image.Log)
	assert.Equal(t, map[string]string{"f<int>": "f<int>", "&v": "&v"}, image.LoweredNames)

	image, err = Compile(t.Context(), l, p, Target{Kind: CUBIN, Arch: 90})
	require.NoError(t, err)
	assert.Equal(t, "\x00ELF", string(image.Code), "machine code may have a NUL")
	_, err = Compile(t.Context(), l, p, Target{Kind: LTOIR, Arch: 90})
	assert.ErrorIs(t, err, driver.ErrUnsupported)
	_, r = l.LoweredName(0, "a\x00b")
	assert.Equal(t, ResultInvalidInput, r)
}

// TestAskingWhileCompiling: NVRTC calls back into Go, on the calling thread and on one of
// its own, while stacks grow and move.
func TestAskingWhileCompiling(t *testing.T) {
	l := fake(t)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for n := range 50 {
				source := fmt.Sprintf("source %d %d", g, n)
				h, r := l.CreateProgram(source, "n", nil)
				assert.Equal(t, Success, r)
				var asked atomic.Int32
				stopAt := int32(n%8 + 1) // it asks six times
				r = l.CompileProgram(h, []string{"--one", "--two"}, func() bool {
					return grow(int(asked.Add(1))*50) > 0 && asked.Load() >= stopAt
				})
				if stopAt <= 6 {
					assert.Equal(t, ResultCancelled, r)
					assert.Equal(t, stopAt, asked.Load())
				} else {
					assert.Equal(t, Success, r)
					ptx, _ := l.PTX(h)
					assert.Equal(t, "n|"+source+"|--one|--two", string(ptx))
				}
				assert.Equal(t, Success, l.DestroyProgram(h))
			}
		})
	}
	wg.Wait()
	l.compiling.Range(func(any, any) bool { t.Error("a block is left"); return false })
}

// grow uses stack.
//
//go:noinline
func grow(depth int) int {
	var pad [64]int
	if depth > 0 {
		pad[depth%64] = grow(depth - 1)
	}
	return pad[depth%64] + 1
}

// TestBuiltinsBesideTheLibrary: those of the same directory are found, though no path of
// the loader leads there.
func TestBuiltinsBesideTheLibrary(t *testing.T) {
	for name, c := range map[string]struct{ file, builtins string }{
		"toolkit": {"libnvrtc.so.91.4.127", "libnvrtc-builtins.so.91.4"},
		"wheel":   {"libnvrtc.so.92", "libnvrtc-builtins.so.92.7"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			link := filepath.Join(dir, "libnvrtc.so."+name)
			build(t, filepath.Join(dir, c.file), "testdata/fakenvrtc.c", fmt.Sprintf(`-DBUILTINS="%s"`, c.builtins))
			require.NoError(t, os.Symlink(c.file, link))
			compiles := func() error {
				l, err := Open(link)
				require.NoError(t, err)
				_, err = Compile(t.Context(), l, Program{Source: "x"}, Target{Kind: PTX, Arch: 90})
				return err
			}
			err := compiles()
			require.ErrorIs(t, err, ResultBuiltinOperationFailure)
			assert.ErrorIs(t, err, driver.ErrKernelCompileFailed)
			assert.ErrorContains(t, err, c.builtins)
			build(t, filepath.Join(dir, c.builtins), "-x", "c", "/dev/null")
			assert.NoError(t, compiles())
		})
	}
}

func TestOpenSaysWhatItTried(t *testing.T) {
	l, err := Open("libpurecuda-none.so.1", "/nonexistent/libnvrtc.so.13")
	assert.Nil(t, l)
	var e *driver.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, driver.ErrLibraryUnavailable, e.Kind)
	assert.ErrorIs(t, e, driver.ErrUnsupported)
	assert.Contains(t, e.Error(), "install")
	assert.Contains(t, e.Error(), PathVariable)
	assert.Contains(t, e.Error(), "/nonexistent/libnvrtc.so.13")
	require.Len(t, e.Attempts, 2)
	assert.Equal(t, "/nonexistent/libnvrtc.so.13: not found", e.Attempts[1].String())

	// What is there and broken is not absence.
	text := filepath.Join(t.TempDir(), "libnvrtc.so.13")
	require.NoError(t, os.WriteFile(text, []byte("no library, but long enough to be taken for one by a hasty loader.........."), 0o600))
	_, err = Open("/nonexistent/libnvrtc.so.13", text, "libc.so.6")
	require.ErrorAs(t, err, &e)
	assert.Equal(t, driver.ErrDriverLibraryLoadFailed, e.Kind)
	assert.Contains(t, e.Error(), text)
	require.Len(t, e.Attempts, 3)
	assert.Contains(t, e.Attempts[2].Reason, "lacks nvrtcVersion")

	// One that works is taken all the same, and the attempts are kept.
	good := filepath.Join(t.TempDir(), "libgood.so")
	build(t, good, "testdata/fakenvrtc.c")
	l, err = Open("/nonexistent/libnvrtc.so.13", text, good)
	require.NoError(t, err)
	assert.Equal(t, good, l.Path())
	assert.Len(t, l.Attempts(), 2)
}

func TestMethodsOfAnEmptyLibrary(t *testing.T) {
	l := &Library{}
	_, r := l.Version()
	assert.Equal(t, ResultSymbolMissing, r)
	_, r = l.PTX(1)
	assert.Equal(t, ResultSymbolMissing, r)
	assert.Equal(t, ResultSymbolMissing, l.CompileProgram(1, nil, func() bool { return true }))
}

// TestHeader compares with NVIDIA's header, where a compiler and the headers are.
func TestHeader(t *testing.T) { testc.CheckHeader(t, "nvrtc.h", "testdata/abi_check.c") }
