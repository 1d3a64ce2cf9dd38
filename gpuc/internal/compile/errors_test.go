package compile_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
)

// TestErrors compares what is said about source outside the language with testdata/errors.txt.
// PURECUDA_UPDATE=1 writes the file.
func TestErrors(t *testing.T) {
	p := program(t, "../testdata/refused")
	folder, err := filepath.Abs("../testdata/refused")
	require.NoError(t, err)
	var b strings.Builder
	for _, k := range p.Kernels {
		_, err := p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksReport}, k.Name)
		if !assert.Error(t, err, k.Name) {
			continue
		}
		var e *compile.Error
		if assert.ErrorAs(t, err, &e) {
			assert.True(t, e.Pos.IsValid(), "%s has no place", k.Name)
			assert.NotContains(t, e.Msg, "a fault of the compiler", k.Name)
		}
		fmt.Fprintf(&b, "%s\n%s\n\n", k.Name, strings.ReplaceAll(err.Error(), folder+string(filepath.Separator), ""))
	}
	const golden = "testdata/errors.txt"
	if os.Getenv("PURECUDA_UPDATE") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o777))
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o666))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), b.String())
}

func TestLoad(t *testing.T) {
	_, err := load(t, "//purecuda:kernel\nfunc K(t *gpu.Thread, x []int) { x[0] = y }\n")
	assert.ErrorContains(t, err, "undefined: y")
	for source, want := range map[string]string{
		"// purecuda:kernel\nfunc K(t *gpu.Thread, x []int) { x[0] = 1 }\n":                                           "k.go:5:1: a directive has no space",
		"//purecuda:kernel\nfunc K(t *gpu.Thread, x []int) {\n\t//purecuda:unrol\n\tfor i := range x { x[i]++ }\n}\n": "k.go:7:2: //purecuda:unrol is no directive",
		"//purecuda:kernel block=2 block=4\nfunc K(t *gpu.Thread, x []int) { x[0] = 1 }\n":                            "k.go:5:1: block=4: the directive says block twice",
	} {
		_, err = load(t, source)
		assert.ErrorContains(t, err, want)
	}
	p := program(t, "../testdata/ops")
	_, err = p.Compile(compile.Options{Arch: 70, Checks: compile.ChecksOff})
	assert.ErrorContains(t, err, "sm_70 is older than sm_75")
	_, err = p.Compile(compile.Options{Arch: 999, Checks: compile.ChecksOff})
	assert.ErrorContains(t, err, "sm_999 is not known: there are [75 80 86 87 88 89 90 ")
	_, err = p.Compile(compile.Options{Arch: 84, Checks: compile.ChecksOff})
	assert.ErrorContains(t, err, "sm_84 is not known")
}

// load loads a package that is written on the spot, in a module of its own.
func load(t *testing.T, source string) (*compile.Program, error) {
	t.Helper()
	return loadFiles(t, map[string]string{"k.go": "package k\n\nimport \"github.com/purecuda/purecuda/gpu\"\n\n" + source})
}

// loadFiles loads a package with others, in a module of its own.
func loadFiles(t *testing.T, files map[string]string) (*compile.Program, error) {
	t.Helper()
	device.NeedsGo(t)
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)))
	}
	write("go.mod", "module k\n\ngo 1.26.0\n\nrequire github.com/purecuda/purecuda v0.0.0\n\nreplace github.com/purecuda/purecuda => "+root+"\n")
	for name, text := range files {
		write(name, text)
	}
	return compile.Load(compile.Config{Dir: dir, Pattern: "."})
}

// TestInstantiateWhereNothingIsImported has a module whose files import nothing of purecuda: go mod tidy keeps nothing for it then.
func TestInstantiateWhereNothingIsImported(t *testing.T) {
	device.NeedsGo(t)
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), fmt.Appendf(nil, `module example.com/stranger

go 1.26.0

replace github.com/purecuda/purecuda => %[1]s

replace github.com/purecuda/purecuda/gpuc => %[1]s/gpuc

tool github.com/purecuda/purecuda/gpuc
`, root), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\n//purecuda:instantiate kernels.Sort[uint32]\n"), 0o666))
	tidy := exec.Command("go", "mod", "tidy")
	tidy.Dir, tidy.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := tidy.CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, err = compile.Load(compile.Config{Dir: dir, Pattern: "."})
	require.ErrorContains(t, err, "write `import _ \"github.com/purecuda/purecuda/kernels\"` into one, and run `go mod tidy`")
}
