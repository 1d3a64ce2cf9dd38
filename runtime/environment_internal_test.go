package runtime

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unset takes a variable out of the environment for the time of a test.
func unset(t *testing.T, name string) {
	t.Helper()
	t.Setenv(name, "") // puts it back at the end
	require.NoError(t, os.Unsetenv(name))
}

func TestVariablesOfTheDriver(t *testing.T) {
	const path, size = "CUDA_CACHE_PATH", "CUDA_CACHE_MAXSIZE"
	t.Run("unset", func(t *testing.T) {
		t.Setenv("HOME", t.TempDir())
		unset(t, path)
		unset(t, size)
		unset(t, ConnectionsVariable)
		setVariables()
		dir, err := os.UserCacheDir()
		require.NoError(t, err)
		assert.Equal(t, filepath.Join(dir, "purecuda", "jit"), os.Getenv(path))
		assert.Equal(t, "1073741824", os.Getenv(size))
		assert.Equal(t, "32", os.Getenv(ConnectionsVariable))
	})
	t.Run("set by the user", func(t *testing.T) {
		t.Setenv(path, "/somewhere")
		t.Setenv(size, "")
		t.Setenv(ConnectionsVariable, "8")
		setVariables()
		assert.Equal(t, "/somewhere", os.Getenv(path))
		value, set := os.LookupEnv(size)
		assert.True(t, set)
		assert.Empty(t, value, "empty is a value, too")
		assert.Equal(t, "8", os.Getenv(ConnectionsVariable))
	})
}
