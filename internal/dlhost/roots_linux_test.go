package dlhost_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A root is the root file system of a container image, as far as a start looks at it.
type root struct {
	name string
	// build fills the folder. It skips the test where it lacks something for that.
	build func(t *testing.T, dir string)
	// refused is a part of the reason for which no loader is used even if it is wanted,
	// or empty where glibc is complete.
	refused string
	long    bool // takes long to build
}

// On amd64. The C library of the machine is glibc, or the test skips.
const (
	loaderPath = "/lib64/ld-linux-x86-64.so.2"
	libraryDir = "/lib/x86_64-linux-gnu"
)

var libraryNames = []string{"libc.so.6", "libdl.so.2", "libpthread.so.0"}

var roots = []root{
	{name: "empty", build: func(*testing.T, string) {}, refused: "cannot be opened: no such file"},
	{name: "musl", build: musl, refused: "cannot be opened: no such file"},
	{name: "musl at glibc's path", build: func(t *testing.T, dir string) {
		musl(t, dir)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "lib64"), 0o755))
		require.NoError(t, os.Symlink("/lib/ld-musl-x86_64.so.1", filepath.Join(dir, loaderPath)))
	}, refused: "is not glibc's loader"},
	{name: "loader without libc", build: func(t *testing.T, dir string) {
		copyFile(t, loaderPath, dir+loaderPath)
	}, refused: "glibc is not complete"},
	{name: "loader with one library missing", build: func(t *testing.T, dir string) {
		glibc(t, dir)
		require.NoError(t, os.Remove(filepath.Join(dir, libraryDir, "libdl.so.2")))
	}, refused: "glibc is not complete"},
	{name: "library of another processor", build: func(t *testing.T, dir string) {
		glibc(t, dir)
		path := filepath.Join(dir, libraryDir, "libc.so.6")
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		data[18] = 3 // e_machine: 386
		require.NoError(t, os.WriteFile(path, data, 0o755))
	}, refused: "glibc is not complete"},
	{name: "libraries where the loader does not look", build: func(t *testing.T, dir string) {
		glibc(t, dir)
		// Debian's loader does not search /lib64.
		for _, name := range libraryNames {
			require.NoError(t, os.Rename(filepath.Join(dir, libraryDir, name), filepath.Join(dir, "lib64", name)))
		}
	}, refused: "glibc is not complete"},
	{name: "truncated loader", build: func(t *testing.T, dir string) {
		glibc(t, dir)
		require.NoError(t, os.Truncate(dir+loaderPath, 100_000))
	}, refused: "is no loader for this processor"},
	{name: "text for a loader", build: func(t *testing.T, dir string) {
		glibc(t, dir)
		require.NoError(t, os.WriteFile(dir+loaderPath, []byte("#!/bin/sh\n"), 0o755))
	}, refused: "is no loader for this processor"},
	{name: "empty loader", build: func(t *testing.T, dir string) {
		glibc(t, dir)
		require.NoError(t, os.Truncate(dir+loaderPath, 0))
	}, refused: "is no loader for this processor"},
	{name: "folder for a loader", build: func(t *testing.T, dir string) {
		require.NoError(t, os.MkdirAll(dir+loaderPath, 0o755))
	}, refused: "cannot be opened: is a directory"},
	{name: "loader where nothing may be executed", build: func(t *testing.T, dir string) {
		glibc(t, dir)
		lib64 := filepath.Join(dir, "lib64")
		if err := syscall.Mount("tmpfs", lib64, "tmpfs", syscall.MS_NOEXEC, ""); err != nil {
			t.Skip("cannot mount: " + err.Error())
		}
		t.Cleanup(func() { _ = syscall.Unmount(lib64, 0) })
		copyFile(t, loaderPath, dir+loaderPath)
	}, refused: "cannot be mapped: operation not permitted"},
	{name: "glibc of this machine", build: glibc},
	{name: "glibc 2.31", build: debianGlibc("2.31-13+deb11u11"), long: true},
	{name: "glibc 2.41", build: debianGlibc("2.41-12"), long: true},
}

// copyFile copies what a path leads to.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if os.IsNotExist(err) {
		t.Skip("this machine has no " + from)
	}
	require.NoError(t, err)
	defer in.Close()
	require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}

// placeFile makes a file appear in another place, without a copy if that can be had.
func placeFile(t *testing.T, from, to string) {
	t.Helper()
	if os.Link(from, to) != nil {
		copyFile(t, from, to)
	}
}

// glibc copies what this machine has, in Debian's places.
func glibc(t *testing.T, dir string) {
	t.Helper()
	copyFile(t, loaderPath, dir+loaderPath)
	for _, name := range libraryNames {
		for _, from := range []string{libraryDir, "/lib64", "/usr/lib64", "/usr/lib"} {
			if _, err := os.Stat(filepath.Join(from, name)); err == nil {
				copyFile(t, filepath.Join(from, name), filepath.Join(dir, libraryDir, name))
				break
			}
		}
	}
}

// musl unpacks Debian's package of musl.
func musl(t *testing.T, dir string) {
	t.Helper()
	unpack(t, dir, aptDownload(t, "musl"))
}

var downloads sync.Map // name to func() (string, error)

// aptDownload fetches a package of the distribution of this machine.
func aptDownload(t *testing.T, name string) string {
	t.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("no apt-get to fetch the package " + name + " with")
	}
	do, _ := downloads.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp(scratch, "apt")
		if err != nil {
			return "", err
		}
		cmd := exec.Command("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", name)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", &downloadError{strings.TrimSpace(string(out))}
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
		if err != nil || len(files) != 1 {
			return "", &downloadError{"apt-get left no package"}
		}
		return files[0], nil
	}))
	path, err := do.(func() (string, error))()
	if err != nil {
		t.Skipf("the package %s cannot be fetched: %v", name, err)
	}
	return path
}

type downloadError struct{ what string }

func (e *downloadError) Error() string { return e.what }

// debianGlibc unpacks glibc of another release of Debian.
func debianGlibc(version string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		const pool = "http://deb.debian.org/debian/pool/main/g/glibc/"
		response, err := http.Get(pool + "libc6_" + strings.ReplaceAll(version, "+", "%2B") + "_amd64.deb")
		if err != nil {
			t.Skipf("glibc %s cannot be fetched: %v", version, err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Skipf("glibc %s cannot be fetched: %s", version, response.Status)
		}
		path := filepath.Join(t.TempDir(), "libc6.deb")
		out, err := os.Create(path)
		require.NoError(t, err)
		_, err = io.Copy(out, response.Body)
		require.NoError(t, err)
		require.NoError(t, out.Close())
		unpack(t, dir, path)
		// Since Debian 12 the package relies on /lib and /lib64 being links into /usr.
		for _, name := range []string{"lib", "lib64"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); os.IsNotExist(err) {
				require.NoError(t, os.Symlink("usr/"+name, filepath.Join(dir, name)))
			}
		}
	}
}

func unpack(t *testing.T, dir, deb string) {
	t.Helper()
	if out, err := exec.Command("dpkg-deb", "-x", deb, dir).CombinedOutput(); err != nil {
		t.Skipf("cannot unpack %s: %v: %s", deb, err, out)
	}
}

// needsRoot skips a test that has to change the root folder.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may start a program in another root file system")
	}
	if goruntime.GOARCH != "amd64" {
		t.Skip("the root file systems are made for amd64")
	}
}
