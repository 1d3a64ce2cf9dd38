package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listOf is the digest list of a file of one chunk.
func listOf(data, name string) string {
	return fmt.Sprintf("%x  %s#0\n", sha256.Sum256([]byte(data)), name)
}

// With --out - the digests go to stdout and the report to stderr.
func TestListOnStdout(t *testing.T) {
	t.Setenv(policyVariable, "off")
	path := writeFile(t, "data")
	c := runWith(t, absent, "--input", path, "--out", "-")
	require.Zero(t, c.code, c.stderr)
	assert.Equal(t, listOf("data", "file"), c.stdout)
	assert.Contains(t, c.stderr, "root      "+rootOf("data", 4096)+"\n")
	assert.NoFileExists(t, "-")

	c = runWith(t, absent, "--input", path, "--out", "-", "--quiet")
	assert.Equal(t, listOf("data", "file"), c.stdout)
	assert.Equal(t, rootOf("data", 4096)+"\n", c.stderr)

	c = runWith(t, absent, "--input", path, "--out", "-", "--json")
	assert.Equal(t, exitUsage, c.code)
	assert.Contains(t, c.document(t)["error"].(map[string]any)["detail"], "both write to stdout")
}

// A file that the shell has opened is written to where the shell left off, and not replaced.
func TestListOnOpenFiles(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("/dev/fd is Linux's")
	}
	path := writeFile(t, "data")
	for _, c := range []struct{ name, out, report string }{
		{"/dev/stdout", "stdout", "stderr"},
		{"/dev/fd/1", "stdout", "stderr"},
		{"/proc/self/fd/1", "stdout", "stderr"},
		{"LOG", "stdout", "stderr"}, // by its own name
		{"/dev/stderr", "stderr", "stdout"},
		{"/dev/fd/3", "three", "stdout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]*os.File{}
			for _, name := range []string{"stdout", "stderr", "three"} {
				f, err := os.Create(filepath.Join(dir, name))
				require.NoError(t, err)
				defer f.Close()
				_, err = f.WriteString("before\n")
				require.NoError(t, err)
				files[name] = f
			}
			cmd := asProcess(t, "--input", path, "--policy", "off", "--quiet", "--out", strings.Replace(c.name, "LOG", filepath.Join(dir, "stdout"), 1))
			cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = files["stdout"], files["stderr"], []*os.File{files["three"]}
			require.NoError(t, cmd.Run())
			_, err := files[c.out].WriteString("after\n")
			require.NoError(t, err)
			want := map[string]string{c.out: listOf("data", "file"), c.report: rootOf("data", 4096) + "\n"}
			for name, f := range files {
				text, err := os.ReadFile(f.Name())
				require.NoError(t, err)
				after := ""
				if name == c.out {
					after = "after\n"
				}
				assert.Equal(t, "before\n"+want[name]+after, string(text), name)
			}
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Len(t, entries, 3)
		})
	}
}

// A link stays a link, also one that leads to nothing.
func TestListThroughLinks(t *testing.T) {
	t.Setenv(policyVariable, "off")
	path, dir := writeFile(t, "data"), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o644))
	for link, target := range map[string]string{"a": "old", "b": "fresh"} {
		link = filepath.Join(dir, link)
		require.NoError(t, os.Symlink(target, link))
		c := runWith(t, absent, "--input", path, "--out", link)
		require.Zero(t, c.code, c.stderr)
		now, err := os.Readlink(link)
		require.NoError(t, err, "it is a link still")
		assert.Equal(t, target, now)
		text, err := os.ReadFile(filepath.Join(dir, target))
		require.NoError(t, err)
		assert.Equal(t, listOf("data", "file"), string(text))
	}
}

// A reader that goes away leaves no temporary file behind.
func TestReaderThatGoesAway(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("no SIGPIPE there")
	}
	read, write, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, read.Close())
	list := filepath.Join(t.TempDir(), "list")
	cmd := asProcess(t, "--input", writeFile(t, "data"), "--out", list)
	cmd.Env = append(cmd.Env, "PURECUDA_DRIVER_PATH=/nonexistent")
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = write, &stderr
	require.Error(t, cmd.Run())
	assert.Equal(t, exitFailed, cmd.ProcessState.ExitCode(), stderr.String())
	assert.Contains(t, stderr.String(), "smoke: OutputFailed: writing the report: ")
	entries, err := os.ReadDir(filepath.Dir(list))
	require.NoError(t, err)
	for _, e := range entries {
		assert.Equal(t, "list", e.Name())
	}
}
