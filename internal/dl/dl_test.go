package dl

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		name, message string
		missing       bool
	}{
		{"libcuda.so.1", "libcuda.so.1: cannot open shared object file: No such file or directory", true},
		{"/x/libcuda.so.1", "/x/libcuda.so.1: cannot open shared object file: No such file or directory", true},
		// A dependency of the file is what is missing.
		{"libcuda.so.1", "libnvidia-ptxjitcompiler.so.1: cannot open shared object file: No such file or directory", false},
		{"libcuda.so.1", "libcuda.so.1: cannot open shared object file: Permission denied", false},
		{"libcuda.so.1", "libcuda.so.1: wrong ELF class: ELFCLASS32", false},
		{"libcuda.so.1", "/lib/libcuda.so.1: invalid ELF header", false},
		{"libcuda.so.1", "/lib/libcuda.so.1: undefined symbol: foo", false},
		// musl
		{"libcuda.so.1", "Error loading shared library libcuda.so.1: No such file or directory", true},
		{"libcuda.so.1", "Error loading shared library libm.so.6: No such file or directory (needed by /lib/libcuda.so.1)", false},
		{"libcuda.so.1", "Error loading shared library libcuda.so.1: No such file or directory (needed by /lib/x.so)", false},
		{"libcuda.so.1", "", false},
	} {
		t.Run(c.message, func(t *testing.T) {
			err := classify(c.name, c.message)
			require.Error(t, err)
			assert.Equal(t, c.missing, assert.ObjectsAreEqual(ErrNotFound, err))
			if !c.missing {
				assert.Equal(t, c.message, err.Error(), "the loader's own words")
			}
		})
	}
}

// glibc passes over libraries for other processors as if they were not there.
func TestAFileThatTheLoaderPassesOverIsNotAbsence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	message := path + ": cannot open shared object file: No such file or directory"
	assert.Equal(t, ErrNotFound, classify(path, message))
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	err := classify(path, message)
	assert.NotErrorIs(t, err, ErrNotFound)
	assert.ErrorContains(t, err, "a file is there, and it is no library for "+goruntime.GOOS+"/"+goruntime.GOARCH)
}

func TestOpenNothing(t *testing.T) {
	lib, attempts, err := Open()
	assert.Nil(t, lib)
	assert.Empty(t, attempts)
	assert.ErrorIs(t, err, ErrNotFound)
}

func TestOpenMissingKeepsEveryAttempt(t *testing.T) {
	names := []string{"libpurecuda-none-a.so.9", "/nonexistent/libpurecuda-none-b.so"}
	lib, attempts, err := Open(names...)
	assert.Nil(t, lib)
	require.Len(t, attempts, 2)
	for i, a := range attempts {
		assert.Equal(t, names[i], a.Name)
		assert.ErrorIs(t, a.Err, ErrNotFound)
	}
	require.ErrorIs(t, err, ErrNotFound)
	assert.Contains(t, err.Error(), names[1])
}
