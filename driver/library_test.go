package driver

import (
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenAbsent(t *testing.T) {
	_, err := Open("/nonexistent/libcuda.so.1", "/nonexistent/libcuda.so")
	require.ErrorIs(t, err, ErrDriverLibraryUnavailable)
	e := err.(*Error)
	require.Len(t, e.Attempts, 2)
	assert.Equal(t, "/nonexistent/libcuda.so.1: not found", e.Attempts[0].String())
}

func TestOpenBroken(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("needs the loader of Linux")
	}
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	require.NoError(t, os.WriteFile(path, []byte("not a library"), 0o755))
	_, err := Open(path)
	require.ErrorIs(t, err, ErrDriverLibraryLoadFailed)
	assert.NotErrorIs(t, err, ErrDriverLibraryUnavailable)
	assert.Contains(t, err.Error(), path)

	// One that is broken outweighs one that is missing.
	_, err = Open("/nonexistent/libcuda.so.1", path)
	require.ErrorIs(t, err, ErrDriverLibraryLoadFailed)
	assert.Len(t, err.(*Error).Attempts, 2)
}

func TestOpenNotADriver(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build a library that is no driver")
	}
	dir := t.TempDir()
	source, so := filepath.Join(dir, "x.c"), filepath.Join(dir, "libcuda.so.1")
	require.NoError(t, os.WriteFile(source, []byte("int cuInit(unsigned f) { return 100; }"), 0o644))
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", so, source).CombinedOutput(); err != nil {
		t.Skipf("the C compiler cannot build for this processor: %s", out)
	}
	_, err = Open(so)
	require.ErrorIs(t, err, ErrDriverLibraryLoadFailed)
	assert.Contains(t, err.Error(), "lacks cuDriverGetVersion (2.2)")
	assert.NotContains(t, err.Error(), "cuInit")
}

// A driver tells which candidates were tried before it.
func TestAttempts(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build a library with the names of a driver")
	}
	source := "int cuDriverGetVersion(int *v) { return *v = 12040, 0; }\n"
	for _, e := range entries {
		if e.Required && e.Name != "cuDriverGetVersion" {
			source += "int " + e.variants[0].symbol + "(void) { return 100; }\n"
		}
	}
	dir := t.TempDir()
	file, so, text := filepath.Join(dir, "x.c"), filepath.Join(dir, "libcuda.so.1"), filepath.Join(dir, "text.so")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o644))
	require.NoError(t, os.WriteFile(text, []byte("not a library"), 0o755))
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", so, file).CombinedOutput(); err != nil {
		t.Skipf("the C compiler cannot build for this processor: %s", out)
	}
	l, err := Open("/nonexistent/libcuda.so.1", text, so, "/never/tried.so")
	require.NoError(t, err)
	assert.Equal(t, so, l.Path())
	assert.Equal(t, Version(12040), l.Version())
	attempts := l.Attempts()
	require.Len(t, attempts, 2)
	assert.Equal(t, "/nonexistent/libcuda.so.1: not found", attempts[0].String())
	assert.Equal(t, text, attempts[1].Name)
	attempts[0].Reason = "changed"
	assert.Equal(t, "not found", l.Attempts()[0].Reason, "a copy")
}

func TestCandidates(t *testing.T) {
	t.Setenv(PathVariable, "")
	if goruntime.GOOS == "linux" {
		assert.Equal(t, "libcuda.so.1", Candidates()[0])
	}
	t.Setenv(PathVariable, "/somewhere/libcuda.so")
	assert.Equal(t, []string{"/somewhere/libcuda.so"}, Candidates())
}

// A library without any function answers every call.
func TestMissingFunctions(t *testing.T) {
	l := &Library{}
	assert.Equal(t, ResultSymbolMissing, l.Init(0))
	_, r := l.MemAllocAsync(4096, 0)
	assert.Equal(t, ResultSymbolMissing, r)
	_, _, r = l.ModuleLoadData([]byte(".version 6.4"), JIT{})
	assert.Equal(t, ResultSymbolMissing, r)
	_, r = l.IpcOpenMemHandle(IpcMemHandle{}, 0)
	assert.Equal(t, ResultSymbolMissing, r)
	assert.Equal(t, ResultSymbolMissing, l.LaunchHostFunc(0, func() {}))
	assert.Equal(t, ResultInvalidValue, l.LaunchHostFunc(0, nil))
	_, r = l.ModuleGetFunction(1, "bad\x00name")
	assert.Equal(t, ResultInvalidValue, r)
	assert.Len(t, l.Missing(), int(entryCount))
}
