package job

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestListFileLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	list, err := CreateList(path)
	require.NoError(t, err)
	digest := Digest(sha256.Sum256([]byte("abc")))
	require.NoError(t, list.Digests("a b/é#1", 7, []Digest{digest, digest}))
	require.NoError(t, list.Digests("a\nb\\c\rd", 0, []Digest{digest}))
	require.NoFileExists(t, path, "not before Commit")
	require.NoError(t, list.Commit())
	list.Abort() // harmless

	data, err := os.ReadFile(path)
	require.NoError(t, err)
	hex := fmt.Sprintf("%x", digest)
	assert.Equal(t, hex+"  a b/é#1#7\n"+hex+"  a b/é#1#8\n"+`\`+hex+`  a\nb\\c\rd#0`+"\n", string(data))
	assertOnly(t, path)
}

// assertOnly checks that the folder of path holds nothing else.
func assertOnly(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, filepath.Base(path), entries[0].Name())
}

func TestListFileReplacesOnlyAtCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o640))
	list, err := CreateList(path)
	require.NoError(t, err)
	require.NoError(t, list.Digests("x", 0, make([]Digest, 100000)))
	list.Abort()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "old", string(data))
	assertOnly(t, path)

	list, err = CreateList(path)
	require.NoError(t, err)
	require.NoError(t, list.Commit())
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Zero(t, info.Size())
	assert.EqualValues(t, 0o640, info.Mode().Perm(), "the mode is kept")
	assertOnly(t, path)
}

func TestListFileKeepsALink(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.WriteFile(target, []byte("old"), 0o644))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(target, link))
	list, err := CreateList(link)
	require.NoError(t, err)
	require.NoError(t, list.Commit())
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)
	data, err := os.ReadFile(target)
	require.NoError(t, err)
	assert.Empty(t, data)
}

func TestCreateListRefuses(t *testing.T) {
	folder := t.TempDir()
	for _, path := range []string{folder, "/dev/null"} {
		_, err := CreateList(path)
		require.ErrorIs(t, err, InvalidArgument, path)
	}
	_, err := CreateList(filepath.Join(folder, "none", "list"))
	require.ErrorIs(t, err, OutputFailed)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestListFileFailures(t *testing.T) {
	t.Run("write", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "list")
		list, err := CreateList(path)
		require.NoError(t, err)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		defer full.Close()
		list.w = bufio.NewWriterSize(full, 16)
		require.Error(t, list.Digests("x", 0, make([]Digest, 10)))
		require.ErrorIs(t, list.Commit(), OutputFailed)
		list.Abort()
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		assert.Empty(t, entries)
	})
	t.Run("rename", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "list")
		list, err := CreateList(path)
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(path, 0o755)) // in the way
		require.ErrorIs(t, list.Commit(), OutputFailed)
		assertOnly(t, path)
	})
}

func TestCheckListPath(t *testing.T) {
	folder := writeTree(t, map[string]string{"in/f": "x", "in/sub/g": "y", "input/h": "z"})
	require.NoError(t, os.Symlink("in", filepath.Join(folder, "link")))
	join := func(name string) string { return filepath.Join(folder, filepath.FromSlash(name)) }
	tests := []struct {
		input, list string
		text        string // "" where it is allowed
	}{
		{"in", "list", ""},
		{"in", "input/list", ""},
		{"in/f", "in/list", ""},
		{"in", "in/list", "inside the input"},
		{"in", "in/sub/list", "inside the input"},
		{"in", "link/list", "inside the input"},
		{"link", "in/list", "inside the input"},
		{"in", "in/f", "inside the input"},
		{"in/f", "in/f", "replace the input"},
		{"in/f", "link/f", "replace the input"},
	}
	for _, tt := range tests {
		err := CheckListPath(mustList(t, join(tt.input)), join(tt.list))
		if tt.text == "" {
			require.NoError(t, err, tt)
			continue
		}
		require.ErrorIs(t, err, InvalidArgument, tt)
		assert.ErrorContains(t, err, tt.text)
	}
	t.Run("no folder", func(t *testing.T) {
		require.ErrorIs(t, CheckListPath(mustList(t, join("in")), join("none/list")), OutputFailed)
	})
	t.Run("from the folder itself", func(t *testing.T) {
		t.Chdir(join("in"))
		require.ErrorIs(t, CheckListPath(mustList(t, "."), "list"), InvalidArgument)
		require.NoError(t, CheckListPath(mustList(t, "."), "../list"))
	})
}
