package main

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/purecuda/purecuda"

// needsGo skips a test where programs cannot be built.
func needsGo(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not there to build programs with")
	}
	if out, err := exec.Command("go", "list", "-m").Output(); err != nil || strings.TrimSpace(string(out)) != module {
		t.Skip("not in the source of " + module)
	}
}

// build builds a package for linux/amd64 without cgo, and returns the path of the program.
func build(t *testing.T, source string, args ...string) string {
	t.Helper()
	needsGo(t)
	path := filepath.Join(t.TempDir(), "program")
	out, err := goCommand(append(append([]string{"build", "-buildvcs=false", "-o", path}, args...), source)...).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func goCommand(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=")
	return cmd
}

const (
	probe = module + "/internal/dlhost/testdata/probe"
	plain = module + "/internal/dlhost/testdata/plain"
)

func sum(t *testing.T, path string) [32]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return sha256.Sum256(data)
}

// command runs the program.
func command(args ...string) (code int, stdout, stderr string) {
	var out, errors bytes.Buffer
	code = run(args, &out, &errors)
	return code, out.String(), errors.String()
}

func TestPatchChangesTwoFields(t *testing.T) {
	path := build(t, probe)
	before, err := os.ReadFile(path)
	require.NoError(t, err)

	code, _, stderr := command("-check", path)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "not done")
	assert.Equal(t, sha256.Sum256(before), sum(t, path), "-check changes nothing")

	code, stdout, stderr := command(path)
	require.Equal(t, exitOK, code, stderr)
	assert.Contains(t, stdout, "starts without a loader now")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, after, len(before))
	var changed []int
	for i := range after {
		if after[i] != before[i] {
			changed = append(changed, i)
		}
	}
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		assert.NotEqual(t, elf.PT_INTERP, p.Type)
	}
	for _, at := range changed {
		inEntry := at >= entryOffset && at < entryOffset+8
		inTable := at >= 64 && at < 64+len(f.Progs)*programEntrySize
		assert.True(t, inEntry || inTable, "byte %d", at)
	}
	assert.LessOrEqual(t, len(changed), 8+4)
	for _, kind := range []elf.ProgType{elf.PT_DYNAMIC, elf.PT_TLS, elf.PT_PHDR} {
		assert.True(t, slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == kind }), "%v stays", kind)
	}

	code, stdout, stderr = command(path)
	require.Equal(t, exitOK, code, stderr)
	assert.Contains(t, stdout, "already")
	assert.Equal(t, sha256.Sum256(after), sum(t, path), "a second time changes nothing")
	code, _, stderr = command("-check", "-q", path)
	assert.Equal(t, exitOK, code, stderr)
}

func TestPatchIsReproducible(t *testing.T) {
	a, b := build(t, probe, "-trimpath"), build(t, probe, "-trimpath")
	for _, path := range []string{a, b} {
		code, _, stderr := command(path)
		require.Equal(t, exitOK, code, stderr)
	}
	assert.Equal(t, sum(t, a), sum(t, b))
}

func TestPatchRefusesWithAReason(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o755))
		return path
	}
	good, err := os.ReadFile(build(t, probe))
	require.NoError(t, err)
	at := bytes.Index(good, append([]byte{0xeb, 32}, marker...))
	require.Positive(t, at)
	change := func(offset int, with ...byte) []byte {
		data := bytes.Clone(good)
		copy(data[offset:], with)
		return data
	}
	for _, c := range []struct{ name, path, message string }{
		{"missing", filepath.Join(dir, "none"), "no such file"},
		{"text", write("text", []byte("hello, this is no program, however long it may be, and longer")), errNotLinux.Error()},
		{"empty", write("empty", nil), errNotLinux.Error()},
		{"head only", write("head", good[:64]), "is damaged: its program headers"},
		{"another processor", write("386", change(18, 3)), errNotLinux.Error()},
		{"an object file", write("object", change(16, 1)), errNotLinux.Error()},
		{"without the entry point", write("nomarker", change(at+2, 'P')), "import github.com/purecuda/purecuda/driver"},
		{"without the jump", write("nojump", change(at, 0x90)), "import github.com/purecuda/purecuda/driver"},
		{"built with the tag", build(t, probe, "-tags=purecuda_nohost"), "without the tag purecuda_nohost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, _ := os.ReadFile(c.path)
			code, stdout, stderr := command(c.path)
			assert.Equal(t, exitFailed, code)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, c.path)
			assert.Contains(t, stderr, c.message)
			after, _ := os.ReadFile(c.path)
			assert.Equal(t, before, after, "the file is left alone")
		})
	}
}

// No file, however damaged, makes the command panic.
func TestPatchOfDamagedFiles(t *testing.T) {
	good, err := os.ReadFile(build(t, probe, "-ldflags=-s -w"))
	require.NoError(t, err)
	f, err := elf.NewFile(bytes.NewReader(good))
	require.NoError(t, err)
	dynamic := f.Section(".dynamic")
	require.NotNil(t, dynamic)
	damage := func(at int, with ...byte) {
		data := bytes.Clone(good)
		copy(data[at:], with)
		assert.NotPanics(t, func() { _, _ = examine(bytes.NewReader(data), int64(len(data))) }, "%d bytes at %d", len(with), at)
	}
	for _, part := range []struct{ from, to int }{
		{16, 64 + len(f.Progs)*programEntrySize},
		{int(dynamic.Offset), int(dynamic.Offset + dynamic.Size)},
	} {
		for at := part.from; at < part.to; at += 4 {
			damage(at, 0xff, 0xff, 0xff, 0xff)
			damage(at, 0x10)
			if at%8 == 0 {
				damage(at, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
				damage(at, 0, 0, 0, 0, 0, 0, 0, 0x80)
			}
		}
	}
}

func TestProgramWithoutInterpreterIsLeftAlone(t *testing.T) {
	path := build(t, plain)
	before := sum(t, path)
	code, stdout, stderr := command(path)
	assert.Equal(t, exitOK, code, stderr)
	assert.Contains(t, stdout, "nothing to do")
	assert.Equal(t, before, sum(t, path))
}

func TestProgramOfACompilerIsRefused(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil || goruntime.GOOS != "linux" {
		t.Skip("no C compiler for linux")
	}
	dir := t.TempDir()
	source, path := filepath.Join(dir, "main.c"), filepath.Join(dir, "main")
	require.NoError(t, os.WriteFile(source, []byte("int main(void) { return 0; }"), 0o644))
	out, err := exec.Command(cc, "-o", path, source).CombinedOutput()
	require.NoError(t, err, string(out))
	code, _, stderr := command(path)
	assert.Equal(t, exitFailed, code)
	assert.NotEmpty(t, stderr)
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"-check"}, {"-no-such-flag"}} {
		code, _, stderr := command(args...)
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, stderr, "usage: purecuda-static")
	}
}
