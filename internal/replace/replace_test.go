package replace

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// entries are the names in a folder.
func entries(t *testing.T, folder string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestCommitReplacesAndKeepsPermissions(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o640))
	require.NoError(t, os.Chmod(path, 0o751))
	f, err := Create(path)
	require.NoError(t, err)
	_, err = f.WriteString("new")
	require.NoError(t, err)
	assert.Equal(t, "old", content(t, path), "until it is complete")
	require.NoError(t, f.Commit())
	assert.Equal(t, "new", content(t, path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	if filepath.Separator == '/' {
		assert.Equal(t, fs.FileMode(0o751), info.Mode())
	}
	assert.Equal(t, []string{"file"}, entries(t, dir))
}

func TestAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "file"))
	require.NoError(t, err)
	f.Abort()
	assert.Empty(t, entries(t, dir))
}

func TestLinksStay(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "b"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "old"), []byte("old"), 0o644))
	require.NoError(t, os.Symlink(filepath.Join("b"), filepath.Join(dir, "c")))
	links := map[string]string{
		"b/relative": "../a/old",
		"b/dangling": "../a/fresh",
		"c/folder":   "../a/other", // c is b
		"b/absolute": filepath.Join(dir, "a", "last"),
		"b/twice":    "dangling",
	}
	for link, target := range links {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	for link, target := range links {
		path := filepath.Join(dir, link)
		f, err := Create(path)
		require.NoError(t, err, link)
		_, err = f.WriteString(link)
		require.NoError(t, err)
		require.NoError(t, f.Commit())
		now, err := os.Readlink(path)
		require.NoError(t, err, "%s is a link still", link)
		assert.Equal(t, target, now)
		assert.Equal(t, link, content(t, path))
	}
	assert.ElementsMatch(t, []string{"old", "fresh", "other", "last"}, entries(t, filepath.Join(dir, "a")))
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	require.NoError(t, os.Symlink("loop", loop))
	_, err := Create(loop)
	assert.ErrorContains(t, err, "too many symbolic links")
	_, err = Create(dir)
	assert.ErrorIs(t, err, ErrNotRegular)
	_, err = Create(filepath.Join(dir, "none", "file"))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.Equal(t, []string{"loop"}, entries(t, dir))
}
