package main

import (
	"debug/elf"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func writeCrafted(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, newCrafted(elf.EM_X86_64).file(nil), 0o755))
}

// The changed program is a new file under the old name: who has the old one open, or runs it,
// keeps it whole.
func TestTheFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "program"), filepath.Join(dir, "link")
	writeCrafted(t, path)
	require.NoError(t, os.Symlink("program", link))
	require.NoError(t, os.Chmod(path, fs.ModeSetuid|0o751))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	open, err := os.Open(path)
	require.NoError(t, err)
	defer open.Close()

	code, _, stderr := command(link)
	require.Equal(t, exitOK, code, stderr)
	old, err := io.ReadAll(open)
	require.NoError(t, err)
	assert.Equal(t, before, old, "the old file is as it was")
	assert.NotEqual(t, before, mustRead(t, path))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSymlink, info.Mode().Type(), "the link stays")
	info, err = os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSetuid|0o751, info.Mode())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 2, "nothing half-written stays")
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

func TestOwnerIsKept(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	path := filepath.Join(t.TempDir(), "program")
	writeCrafted(t, path)
	require.NoError(t, os.Chown(path, 1234, 4321))
	require.NoError(t, os.Chmod(path, fs.ModeSetuid|fs.ModeSetgid|0o755)) // chown takes the bits away
	code, _, stderr := command(path)
	require.Equal(t, exitOK, code, stderr)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.EqualValues(t, 1234, info.Sys().(*syscall.Stat_t).Uid)
	assert.EqualValues(t, 4321, info.Sys().(*syscall.Stat_t).Gid)
	assert.Equal(t, fs.ModeSetuid|fs.ModeSetgid|0o755, info.Mode())
}

// What a new file would lose is a reason to leave the old one.
func TestWhatCannotBeKeptIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, says string
		prepare    func(path string) error
	}{
		{"hard link", "has 2 names", func(path string) error { return os.Link(path, path+".too") }},
		{"attribute", "extended attribute user.note", func(path string) error { return syscall.Setxattr(path, "user.note", []byte("x"), 0) }},
		{"named pipe", "is not a regular file", func(path string) error { _ = os.Remove(path); return syscall.Mkfifo(path, 0o644) }},
		{"folder", "is not a regular file", func(path string) error { _ = os.Remove(path); return os.Mkdir(path, 0o755) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "program")
			writeCrafted(t, path)
			if err := c.prepare(path); err != nil {
				t.Skipf("not on this file system: %v", err)
			}
			there, err := os.ReadDir(dir)
			require.NoError(t, err)
			code, _, stderr := command(path)
			assert.Equal(t, exitFailed, code)
			assert.Contains(t, stderr, c.says)
			if info, err := os.Stat(path); assert.NoError(t, err) && info.Mode().IsRegular() {
				want := newCrafted(elf.EM_X86_64).file(nil)
				assert.Equal(t, want, mustRead(t, path))
			}
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Len(t, left, len(there))
		})
	}
}

// A result that nobody gets is a failure.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full: %v", err)
	}
	defer full.Close()
	path := filepath.Join(t.TempDir(), "program")
	writeCrafted(t, path)
	assert.Equal(t, exitFailed, run([]string{path}, full, io.Discard))
	assert.Equal(t, exitFailed, run([]string{"-h"}, full, io.Discard))
}
