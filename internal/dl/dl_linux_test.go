//go:build linux && (amd64 || arm64)

package dl

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenBrokenFilesIsNotAbsence(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
		return path
	}
	for _, path := range []string{
		write("empty.so", ""),
		write("text.so", "this is not a library, but long enough to be read as one by a hasty loader........"),
		write("truncated.so", "\x7fELF\x02\x01\x01"),
		dir,
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			lib, attempts, err := Open(path)
			assert.Nil(t, lib)
			require.Error(t, err)
			assert.NotErrorIs(t, err, ErrNotFound)
			assert.Len(t, attempts, 1)
			assert.Contains(t, err.Error(), path)
		})
	}
}

func TestOpenFindsWhatIsThere(t *testing.T) {
	lib, attempts, err := Open("libpurecuda-none.so.9", "libc.so.6")
	require.NoError(t, err)
	assert.Equal(t, "libc.so.6", lib.Name)
	assert.NotEmpty(t, attempts)
	assert.NoError(t, attempts[len(attempts)-1].Err)
	assert.NotZero(t, lib.Symbol("getpid"))
	assert.Zero(t, lib.Symbol("purecuda_no_such_symbol"))

	again, _, err := Open("libc.so.6")
	require.NoError(t, err)
	assert.True(t, again.Mapped, "libc is in the process already")
}

func TestMappedFile(t *testing.T) {
	_, _, err := Open("libc.so.6")
	require.NoError(t, err)
	file := MappedFile("libc.so.")
	assert.Equal(t, "libc.so.6", filepath.Base(file))
	assert.FileExists(t, file)
	assert.Empty(t, MappedFile("libpurecuda-none.so."))
}

func TestOpenMissingDependencyIsNotAbsence(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build a library with a missing dependency")
	}
	dir := t.TempDir()
	build := func(name, source string, args ...string) string {
		c := filepath.Join(dir, name+".c")
		so := filepath.Join(dir, "lib"+name+".so")
		require.NoError(t, os.WriteFile(c, []byte(source), 0o644))
		out, err := exec.Command(cc, append([]string{"-shared", "-fPIC", "-o", so, c}, args...)...).CombinedOutput()
		if err != nil {
			t.Skipf("the C compiler cannot build for this processor: %s", out)
		}
		return so
	}
	inner := build("inner", "int inner(void) { return 1; }")
	outer := build("outer", "int inner(void); int outer(void) { return inner(); }", "-L"+dir, "-linner")
	require.NoError(t, os.Remove(inner))
	_, _, err = Open(outer)
	require.Error(t, err)
	assert.NotErrorIs(t, err, ErrNotFound)
	assert.Contains(t, err.Error(), "libinner.so")
}

// Failing loads on many goroutines at once must not get each other's messages.
func TestOpenErrorsAreNotMixedUp(t *testing.T) {
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				_, attempts, _ := Open("/nonexistent/libpurecuda-a.so")
				if len(attempts) != 1 || !assert.ErrorIs(t, attempts[0].Err, ErrNotFound) {
					return
				}
			}
		})
	}
	wg.Wait()
}
