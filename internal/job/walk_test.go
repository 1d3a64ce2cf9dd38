package job

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func paths(in *Input) []string {
	var names []string
	for _, f := range in.Files {
		names = append(names, f.Path)
	}
	return names
}

func TestListOrdersByWholePath(t *testing.T) {
	folder := writeTree(t, map[string]string{
		"a/b": "1", "a.txt": "22", "a/b c/d": "333", "a-": "", "B": "x", "é": "y", "line\nend": "z", "a/\xff": "w",
	})
	in := mustList(t, folder)
	assert.Equal(t, []string{"B", "a-", "a.txt", "a/b", "a/b c/d", "a/\xff", "line\nend", "é"}, paths(in))
	assert.EqualValues(t, 10, in.Bytes)
	assert.Zero(t, in.Skips)
}

func TestListOneFile(t *testing.T) {
	folder := writeTree(t, map[string]string{"some name": "12345"})
	in := mustList(t, filepath.Join(folder, "some name"))
	assert.Equal(t, []File{{Path: "some name", Size: 5}}, in.Files)
	assert.Equal(t, filepath.Join(folder, "some name"), in.Name(0))
}

func TestListFollowsLinks(t *testing.T) {
	outside := writeTree(t, map[string]string{"o/p": "outside"})
	folder := writeTree(t, map[string]string{"d/f": "inside"})
	require.NoError(t, os.Symlink("d/f", filepath.Join(folder, "file")))
	require.NoError(t, os.Symlink("d", filepath.Join(folder, "twin"))) // twice the same folder is no loop
	require.NoError(t, os.Symlink(outside, filepath.Join(folder, "out")))
	in := mustList(t, folder)
	assert.Equal(t, []string{"d/f", "file", "out/o/p", "twin/f"}, paths(in))
}

func TestListDirectoryLoops(t *testing.T) {
	tests := map[string]func(t *testing.T, folder string) (link, above string){
		"to the input": func(t *testing.T, folder string) (string, string) {
			link := filepath.Join(folder, "d", "up")
			require.NoError(t, os.Symlink("..", link))
			return link, folder
		},
		"to its own folder": func(t *testing.T, folder string) (string, string) {
			link := filepath.Join(folder, "d", "here")
			require.NoError(t, os.Symlink(".", link))
			return link, filepath.Join(folder, "d")
		},
		"by way of another link": func(t *testing.T, folder string) (string, string) {
			require.NoError(t, os.Symlink("d", filepath.Join(folder, "a")))
			link := filepath.Join(folder, "d", "back")
			require.NoError(t, os.Symlink("../a", link))
			return filepath.Join(folder, "a", "back"), filepath.Join(folder, "a")
		},
		"link to itself": func(t *testing.T, folder string) (string, string) {
			link := filepath.Join(folder, "self")
			require.NoError(t, os.Symlink("self", link))
			return link, "itself"
		},
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			folder := writeTree(t, map[string]string{"d/f": "x"})
			link, above := build(t, folder)
			_, err := List(context.Background(), folder)
			require.ErrorIs(t, err, DirectoryLoop)
			assert.ErrorContains(t, err, link)
			assert.ErrorContains(t, err, above)
		})
	}
	t.Run("as the input", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "self")
		require.NoError(t, os.Symlink("self", link))
		_, err := List(context.Background(), link)
		require.ErrorIs(t, err, DirectoryLoop)
	})
}

func TestListSkipsWhatHasNoContent(t *testing.T) {
	folder := writeTree(t, map[string]string{"f": "x"})
	makeFIFO(t, filepath.Join(folder, "pipe"))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(folder, "dangling")))
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(folder, "null")))
	t.Chdir(folder) // the name of a socket must be short
	socket, err := net.Listen("unix", "socket")
	require.NoError(t, err)
	defer socket.Close()

	in := mustList(t, folder)
	assert.Equal(t, []string{"f"}, paths(in))
	assert.Equal(t, []Skip{
		{"dangling", "symbolic link to nothing"}, {"null", "device"}, {"pipe", "named pipe"}, {"socket", "socket"},
	}, in.Skipped)
	assert.EqualValues(t, 4, in.Skips)
}

func TestListCountsAllSkipsAndNamesSome(t *testing.T) {
	folder := writeTree(t, map[string]string{"f": "x"})
	for i := range MaxSkips + 20 {
		require.NoError(t, os.Symlink("nowhere", filepath.Join(folder, string(rune('A'+i/26))+string(rune('a'+i%26)))))
	}
	in := mustList(t, folder)
	assert.EqualValues(t, MaxSkips+20, in.Skips)
	assert.Len(t, in.Skipped, MaxSkips)
}

func TestListRefuses(t *testing.T) {
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	pipe := filepath.Join(t.TempDir(), "pipe")
	makeFIFO(t, pipe)
	tests := []struct {
		name, path string
		kind       Kind
		text       string
	}{
		{"missing", filepath.Join(folder, "none"), InputMissing, "no such file or folder"},
		{"empty file", empty, InputEmpty, "no single byte"},
		{"folder of empty files", folder, InputEmpty, "no single byte to hash (files: 1, skipped: 0)"},
		{"folder without files", t.TempDir(), InputEmpty, "no single byte to hash (files: 0, skipped: 0)"},
		{"pipe", pipe, InputUnsupported, "is a named pipe"},
		{"device", "/dev/null", InputUnsupported, "is a device"},
		{"file used as a folder", filepath.Join(empty, "x"), ReadFailed, "not a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := List(context.Background(), tt.path)
			require.ErrorIs(t, err, tt.kind)
			assert.ErrorContains(t, err, tt.text)
			assert.ErrorContains(t, err, tt.path)
		})
	}
}

func TestListUnreadable(t *testing.T) {
	folder := writeTree(t, map[string]string{"open/f": "x", "locked/g": "y"})
	locked := filepath.Join(folder, "locked")

	t.Run("as the system says", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root reads everything")
		}
		require.NoError(t, os.Chmod(locked, 0))
		defer os.Chmod(locked, 0o755)
		_, err := List(context.Background(), folder)
		require.ErrorIs(t, err, ReadFailed)
		require.ErrorIs(t, err, fs.ErrPermission)
	})
	t.Run("folder", func(t *testing.T) {
		l := lister{stat: os.Stat, readDir: func(path string) ([]fs.DirEntry, error) {
			if path == locked {
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
			}
			return os.ReadDir(path)
		}}
		_, err := l.list(context.Background(), folder)
		require.ErrorIs(t, err, ReadFailed)
		assert.EqualError(t, err, "ReadFailed: "+locked+": open: permission denied")
	})
	for name, path := range map[string]string{"entry": locked, "input": folder} {
		t.Run(name, func(t *testing.T) {
			l := lister{readDir: os.ReadDir, stat: func(p string) (fs.FileInfo, error) {
				if p == path {
					return nil, &fs.PathError{Op: "stat", Path: p, Err: fs.ErrPermission}
				}
				return os.Stat(p)
			}}
			_, err := l.list(context.Background(), folder)
			require.ErrorIs(t, err, ReadFailed)
			assert.ErrorContains(t, err, path+": stat: permission denied")
		})
	}
	t.Run("gone while listing", func(t *testing.T) {
		l := lister{readDir: os.ReadDir, stat: func(p string) (fs.FileInfo, error) {
			if p == locked {
				return nil, fs.ErrNotExist
			}
			return os.Stat(p)
		}}
		_, err := l.list(context.Background(), folder)
		require.ErrorIs(t, err, FileChanged)
	})
}

func TestListCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := List(ctx, writeTree(t, map[string]string{"f": "x"}))
	require.ErrorIs(t, err, Canceled)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"/a b/é#1": "/a b/é#1",
		"a\nb":     `"a\nb"`,
		"a\x1b[31": `"a\x1b[31"`,
		"a\xff":    `"a\xff"`,
	} {
		assert.Equal(t, want, Printable(name))
	}
}
