package main

import (
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/artifact"
)

// fill puts entries into a cache of the test's own, and returns its directory.
func fill(t *testing.T, entries int) (dir string) {
	t.Helper()
	t.Setenv(artifact.DirVariable, t.TempDir())
	cache := artifact.Open(artifact.Config{})
	require.NotEmpty(t, cache.Dir())
	for i := range entries {
		cache.Put(artifact.Key{byte(i)}, make([]byte, 3<<20))
	}
	return cache.Dir()
}

func TestCache(t *testing.T) {
	dir := fill(t, 2)
	c := runWith(t, absent, "cache")
	assert.Zero(t, c.code, c.stderr)
	assert.Equal(t, fmt.Sprintf("directory  %s\nsize       2 kernel files, 6.0 MiB\nlimit      1 GiB\n", dir), c.stdout)
	assert.Empty(t, c.stderr)
	assert.Zero(t, c.probes, "no GPU is looked for")

	doc := runWith(t, absent, "--json", "cache").document(t)
	assert.Equal(t, dir, doc["directory"])
	assert.EqualValues(t, 2, doc["entries"])
	assert.EqualValues(t, 1<<30, doc["limit_bytes"])

	other := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	c = runWith(t, absent, "cache", "clear")
	assert.Zero(t, c.code, c.stderr)
	assert.Contains(t, c.stdout, "0 kernel files, 0 bytes")
	assert.FileExists(t, other, "what is not ours stays")
	assert.Contains(t, runWith(t, absent, "cache").stdout, "0 kernel files")
}

func TestCacheThatIsOff(t *testing.T) {
	t.Setenv(artifact.DirVariable, "off")
	for _, args := range [][]string{{"cache"}, {"cache", "clear"}} {
		c := runWith(t, absent, args...)
		assert.Zero(t, c.code, c.stderr)
		assert.Equal(t, "directory  none, the cache is off (PURECUDA_CACHE_DIR)\n", c.stdout)
	}
}

func TestCacheThatCannotBeUsed(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("no modes")
	}
	dir := fill(t, 1)
	require.NoError(t, os.Chmod(dir, 0o755))
	c := runWith(t, absent, "cache")
	assert.Zero(t, c.code)
	assert.Contains(t, c.stdout, "the cache is off")
	assert.Contains(t, c.stderr, "chmod 700")
}

func TestCacheUsage(t *testing.T) {
	fill(t, 0)
	for _, test := range []struct {
		args []string
		text string
	}{
		{[]string{"cache", "clean"}, `"clean" is no command of smoke cache; did you mean smoke cache clear?`},
		{[]string{"cache", "clear", "all"}, `unexpected argument "all" after smoke cache clear`},
		{[]string{"cache", "--all"}, "unknown flag --all"},
	} {
		c := runWith(t, absent, test.args...)
		assert.Equal(t, exitUsage, c.code, test.args)
		assert.Contains(t, c.stderr, test.text)
		assert.Empty(t, c.stdout)
	}
	assert.Contains(t, runWith(t, absent, "--help").stdout, "cache       show")
}
