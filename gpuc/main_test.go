package main

import (
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// module writes a module with one file of Go, and gives its folder.
func module(t *testing.T, source string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	gomod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	sum, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	// The same requirements as here, under another name.
	text := "module example.com/k\n" + string(gomod[len("module github.com/purecuda/purecuda/gpuc\n"):])
	text = text[:len(text)-len("..\n")] + root + "\n"
	for name, content := range map[string]string{"go.mod": text, "go.sum": string(sum), "k.go": source} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
	return dir
}

// program uses what is generated, which is not there at first.
const program = `package main

import (
	"context"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

//purecuda:kernel
func Double(t *gpu.Thread, x []int32) {
	if i := t.GlobalX(); i < len(x) {
		x[i] *= 2
	}
}

func main() {
	_, _ = DoubleAuto(context.Background(), nil, runtime.Shape1D(1, 32), []int32{1})
}
`

func TestRun(t *testing.T) {
	dir := module(t, program)
	require.ErrorContains(t, run([]string{"-check", dir}, io.Discard), "is not what the source gives: run gpuc")
	require.NoError(t, run([]string{dir}, io.Discard))
	first := read(t, dir)
	assert.Len(t, first, 3)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kernels_gpu.go"), []byte("package main\n\nthis is no Go\n"), 0o666))
	require.NoError(t, run([]string{dir}, io.Discard), "an old file is not read")
	assert.Equal(t, first, read(t, dir), "the same source gives the same files")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "k.go"), []byte("package main\n\nfunc main() {}\n"), 0o666))
	assert.ErrorContains(t, run([]string{dir}, io.Discard), "has no kernels: put //purecuda:kernel before a function")
}

// TestErrorsOfAuthorsFirst has types that a library does not take, beside a file that is not written yet.
func TestErrorsOfAuthorsFirst(t *testing.T) {
	dir := module(t, "package k\n\nimport \"github.com/purecuda/purecuda/kernels\"\n\nvar _ kernels.Chunk\n\n//purecuda:instantiate kernels.Sort[uint16]\n\nfunc F() { _, _ = LoadSortUint16(nil) }\n")
	err := run([]string{dir}, io.Discard)
	require.ErrorContains(t, err, "uint16 does not satisfy kernels.Key")
	assert.Regexp(t, `^\S*k\.go:7: uint16`, err.Error())
	assert.NotContains(t, err.Error(), "kernels_gpu.go")
}

// TestNoKernelForTheTarget has a kernel that needs more than the target that is the default.
func TestNoKernelForTheTarget(t *testing.T) {
	dir := module(t, "package k\n\nimport \"github.com/purecuda/purecuda/gpu\"\n\n//purecuda:kernel arch=sm_80\nfunc One(t *gpu.Thread, x []float32) { x[t.GlobalX()] = 1 }\n")
	assert.ErrorContains(t, run([]string{"-arch", "sm_75", dir}, io.Discard), "-arch sm_75: no kernel of the package is for this target: One needs -arch sm_80")
	assert.NoError(t, run([]string{"-arch", "sm_80", dir}, io.Discard))
}

// TestTrapWithoutLaunches has a check in a kernel that other code launches.
func TestTrapWithoutLaunches(t *testing.T) {
	dir := module(t, "package k\n\nimport \"github.com/purecuda/purecuda/gpu\"\n\n//purecuda:kernel\nfunc K(t *gpu.Thread, x []int, n int) {\n\tx[n] = 1\n}\n")
	require.ErrorContains(t, run([]string{"-launch=false", dir}, io.Discard), "K reports, and without launches nobody could read it: set checks=off or checks=trap")
	require.NoError(t, run([]string{"-launch=false", "-checks", "trap", dir}, io.Discard))
	ptx, err := os.ReadFile(filepath.Join(dir, "k_sm_75.ptx"))
	require.NoError(t, err)
	assert.Contains(t, string(ptx), "trap;")
}

// TestLeftOut checks that a kernel which is not built is told of, and that build tags come into what is generated.
func TestLeftOut(t *testing.T) {
	tagged := "//go:build cuda && linux\n\n" + strings.Replace(strings.Replace(program, "package main", "package k", 1), "func main()", "func Main()", 1)
	dir := module(t, tagged)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	write("doc.go", "package k\n")
	assert.ErrorContains(t, run([]string{dir}, io.Discard), "k.go:13:6: the kernel Double is in a file that //go:build cuda && linux leaves out: run gpuc with -tags")
	require.NoError(t, run([]string{"-tags", "cuda", dir}, io.Discard))
	files := read(t, dir)
	for _, name := range []string{"kernels_gpu.go", "kernels_gpu_test.go"} {
		assert.Contains(t, files[name], "DO NOT EDIT.\n\n//go:build cuda && linux\n\n")
	}
	require.NoError(t, run([]string{"-tags", "cuda", "-check", dir}, io.Discard))
	const kernel = "package k\n\nimport \"github.com/purecuda/purecuda/gpu\"\n\n//purecuda:kernel\nfunc Other(t *gpu.Thread, x []int) { x[0] = 1 }\n"
	write("other.go", kernel)
	assert.ErrorContains(t, run([]string{"-tags", "cuda", dir}, io.Discard), "other.go:6:6: the kernels Double and Other are under different //go:build lines")
	write("other.go", "//go:build ignore\n\n"+kernel)
	require.NoError(t, run([]string{"-tags", "cuda", dir}, io.Discard))
	require.NoError(t, os.Remove(filepath.Join(dir, "other.go")))
	write("other_windows.go", kernel)
	assert.ErrorContains(t, run([]string{"-tags", "cuda", dir}, io.Discard), "other_windows.go:6:6: the kernel Other is in a file whose name leaves it out on this system")
	require.NoError(t, os.Remove(filepath.Join(dir, "other_windows.go")))
	write("other_test.go", kernel)
	assert.ErrorContains(t, run([]string{"-tags", "cuda", dir}, io.Discard), "other_test.go:6:6: the kernel Other is in a file of tests")
}

// read reads what is generated.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "kernels*"))
	require.NoError(t, err)
	files := map[string]string{}
	for _, n := range names {
		text, err := os.ReadFile(n)
		require.NoError(t, err)
		files[filepath.Base(n)] = string(text)
	}
	return files
}

// TestFirstKernel does what docs/go-kernels.md says first, with the modules of this tree.
func TestFirstKernel(t *testing.T) {
	doc, err := os.ReadFile("../docs/go-kernels.md")
	require.NoError(t, err)
	dir, lines := t.TempDir(), 0
	for _, m := range regexp.MustCompile("<!-- kept in step by a test: (.*) -->\n(?:<!-- .*\n)?```go\n((?s:.*?))```").FindAllStringSubmatch(string(doc), -1) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, m[1]), []byte(m[2]), 0o666))
		for line := range strings.Lines(m[2]) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
	}
	assert.Equal(t, 25, lines, "lines of Go")
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	replace := "go mod edit -replace github.com/purecuda/purecuda=" + root + " -replace github.com/purecuda/purecuda/gpuc=" + filepath.Join(root, "gpuc")
	commands := regexp.MustCompile("```\n(go mod init [^`]*)```").FindStringSubmatch(string(doc))
	require.NotNil(t, commands)
	script := strings.Replace(commands[1], "\n", "\n"+replace+"\n", 1)
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GONOSUMDB=*", "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Regexp(t, `scale_test.go:\d+: on NVIDIA .*\n(.* INFO the CPU does .*\n)?.*scale_test.go:\d+: on .*\n--- PASS: TestScale`, string(out))
}

// formatted checks that a text is as gofmt writes it.
func formatted(t *testing.T, text string) {
	t.Helper()
	want, err := format.Source([]byte(text))
	require.NoError(t, err)
	assert.True(t, string(want) == text, "gofmt writes it in another way")
}

// TestFormatted has kernels whose types and names make gofmt break lines, or write them in another way than go/types does.
func TestFormatted(t *testing.T) {
	dir := module(t, `package k

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/kernels"
)

type Of struct {
	A, B []int
	Long uint8
}

type Pair[T, U any] struct {
	A T
	B U
}

var _ kernels.Chunk

//purecuda:instantiate kernels.SortPairs[uint32, Pair[int, float32]]

//purecuda:kernel block=64 equal=a,b noalias
func TwoTypes(t *gpu.Thread, a, b []Pair[int, float32]) { a[0].A = b[0].A }

//purecuda:kernel
func NoName(t *gpu.Thread, a struct{ X, Y int }, b []int) { b[0] = a.Y }

//purecuda:kernel
func SlicesIn(t *gpu.Thread, a [2][]int) { a[0][0]++ }

//purecuda:kernel
func SlicesOf(t *gpu.Thread, a Of) { a.B[0]++ }

//purecuda:kernel T=int,float32 U=uint8
func Generic[T int | float32, U uint8](t *gpu.Thread, a, b []T, u U) {
	if i := t.GlobalX(); i < len(a)    {
		a[i] = b[i] /* aligned */ + 1
		b[i]  = 2*b[i] + a[i]*3 // with
		_ = 1 // this
	}
}

//purecuda:kernel
func KernelWithANameThatIsSoLongThatTheFunctionsThatCallItDoNotStandInOneLine(t *gpu.Thread, withParameters, thatAreAsLongAsThat []float32) {
	withParameters[0] = thatAreAsLongAsThat[0]
}
`)
	require.NoError(t, run([]string{dir}, io.Discard))
	formatted(t, read(t, dir)["kernels_gpu.go"])
}

func TestFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"-arch 75: 75 is no target: write sm_75 or sm_90a":       {"-arch", "75"},
		"checks=maybe: it is off, trap or report":                {"-checks", "maybe"},
		"-o ../k.go: it is the name of a Go file in the package": {"-o", "../k.go"},
		"2 folders are named; a package is one":                  {"a", "b"},
		"flag provided but not defined: -fast":                   {"-fast"},
	} {
		assert.ErrorContains(t, run(args, io.Discard), want)
	}
}
