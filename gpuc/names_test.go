package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const head = "package k\n\nimport \"github.com/purecuda/purecuda/gpu\"\n\n"

// write writes a file of a module, and goes with its folder.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
}

// goes runs Go in a folder.
func goes(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestNames compiles packages whose names are those that gpuc writes, or those of Go. Each is an error with the place, or
// right: then the loops on the CPU give what the function gives.
func TestNames(t *testing.T) {
	dir := module(t, "package k\n")
	for _, c := range []struct{ name, source, want string }{
		{"a kernel Load", "//purecuda:kernel\nfunc Load(t *gpu.Thread, x []int) { x[0] = 1 }\n", "k.go:6:6: Load is declared here, and gpuc writes another one: rename one of them"},
		{"a kernel Failed", "//purecuda:kernel\nfunc Failed(t *gpu.Thread, x []int) { x[0] = 1 }\n", ""},
		{"a kernel Close", "//purecuda:kernel\nfunc Close(t *gpu.Thread, x []int) { x[0] = 1 }\n", "k.go:6:6: gpuc writes Kernels.Close twice"},
		{"a kernel Kernels", "//purecuda:kernel\nfunc Kernels(t *gpu.Thread, x []int) { x[0] = 1 }\n", "k.go:6:6: Kernels is declared here, and gpuc writes another one"},
		{"a kernel XCPU beside X", "//purecuda:kernel\nfunc X(t *gpu.Thread, x []int) { x[0] = 1 }\n\n//purecuda:kernel\nfunc XCPU(t *gpu.Thread, x []int) { x[0] = 1 }\n",
			"k.go:9:6: XCPU is declared here, and gpuc writes another one for the kernel X: rename one of them"},
		{"a function XAuto, and what is generated is used", "//purecuda:kernel\nfunc X(t *gpu.Thread, x []int) { x[0] = 1 }\nfunc XAuto() {}\nvar _ = Load\n", "k.go:7:6: XAuto is declared here"},
		{"an instance and a kernel", "//purecuda:kernel T=int\nfunc X[T int](t *gpu.Thread, x []T) { x[0] = 1 }\n\n//purecuda:kernel entry=other\nfunc XInt(t *gpu.Thread, x []int) { x[0] = 1 }\n", "gpuc writes Kernels.XInt twice"},
		{"a type MRefs", "type M struct { D []int }\ntype MRefs int\n//purecuda:kernel\nfunc X(t *gpu.Thread, m M) { m.D[0] = 1 }\n", "k.go:6:6: MRefs is declared here"},
		{"a function runtime", "func runtime() {}\n//purecuda:kernel\nfunc X(t *gpu.Thread, x []int) { x[0] = 1 }\n", "k.go:5:6: runtime is declared here, and what gpuc writes imports the package github.com/purecuda/purecuda/runtime: rename this one"},
		{"an import Load", "import Load \"math\"\n//purecuda:kernel\nfunc X(t *gpu.Thread, x []float64) { x[0] = Load.Pi }\n", "k.go:5:8: Load is declared here, and gpuc writes another one: rename one of them"},
		{"an import XCPU, and what is generated is used", "import XCPU \"math\"\n//purecuda:kernel\nfunc X(t *gpu.Thread, x []float64) { x[0] = XCPU.Pi }\nvar _ = Load\n", "k.go:5:8: XCPU is declared here, and gpuc writes another one for the kernel X: rename one of them"},
		{"an own error", "type error int\n//purecuda:kernel\nfunc X(t *gpu.Thread, x []int) { x[0] = 1 }\n", "k.go:5:6: error is declared here, and what gpuc writes needs that of Go: rename this one"},
		{"an own len", "func len(x []int) int { return 1 }\n//purecuda:kernel equal=x,y\nfunc X(t *gpu.Thread, x, y []int) { x[0] = 1 }\n", "k.go:5:6: len is declared here, and what gpuc writes needs that of Go: rename this one"},
		{"an own len that nothing needs", "func len(x []int) int { return 1 }\n//purecuda:kernel\nfunc X(t *gpu.Thread, x []int) { x[0] = 1 }\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, dir, "k.go", head+c.source)
			err := run([]string{dir}, io.Discard)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// shadowing has names of Go and of what is generated, in all places where they compile.
const shadowing = `package k

import (
	m "math"

	"github.com/purecuda/purecuda/gpu"
)

func min(a, b int) int { return 3 }
func max(a, b int) int { return a + b }
func cap(x []int) int { return 77 }
func copy(x int) int { return x + 1 }
func launched() int { return 4 }

var first_, end_, b_ = 1, 2, 3

//purecuda:kernel
func Own(t *gpu.Thread, x []int) {
	if i := t.GlobalX(); i < len(x) {
		x[i] = min(i, 1)*1000 + max(i, 2)*10 + cap(x) + copy(i)
	}
}

//purecuda:kernel equal=launch,runtime
func Parameters(t *gpu.Thread, launch, runtime, context, gpu_, k, k_, ctx, x, x_, rt, stream, shape, err, nil, Load, Own []int, c int) {
	for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
		x[i] = launch[i] + runtime[i] + context[i] + gpu_[i] + k[i] + k_[i] + ctx[i] + x_[i] + rt[i] + stream[i] + shape[i] + err[i] + nil[i] + Load[i] + Own[i] + c + launched()
	}
}

//purecuda:kernel
func Locals(t *gpu.Thread, len, max int, x []int) {
	min, math := float64(len), 2.0
	if i := t.GlobalX(); i < max {
		x[i] = int(m.Floor(min*math)) + i
	}
}

//purecuda:kernel
func Barriers(t *gpu.Thread, x []int) {
	s := gpu.Shared[[64]int](t)
	r := t.ThreadX()
	min := x[t.GlobalX()]
	s[r] = min
	t.Barrier()
	first, end := s[63-r], r*2
	t.Barrier()
	x[t.GlobalX()] = first + end + min
}
`

// constants has a block that is known, which must not make constants of what Go computes at run time.
const constants = `
//purecuda:kernel block=64
func Constants(t *gpu.Thread, x []int) {
	i := t.GlobalX()
	x[i] = int(uint64(t.ThreadY()-9)) + int(int8(t.BlockDimX()*4+t.GlobalY()-7)) + int(uint8(t.BlockDimX()*x[i]))
	if i > 1000 {
		x[i] /= t.ThreadZ()
	}
}

//purecuda:kernel block=64
func Origin(t *gpu.Thread, x []int) { x[t.GlobalX()]++ }
`

const shadowingTest = `package k

import (
	"slices"
	"testing"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

func TestShadowing(t *testing.T) {
	var a [17][]int
	for i := range a {
		a[i] = make([]int, 128)
		for j := range a[i] { a[i][j] = i*j }
	}
	want, got := slices.Clone(a[7]), slices.Clone(a[7])
	check := func(name string, err error, run error) {
		t.Helper()
		if err != nil || run != nil || !slices.Equal(want, got) { t.Error(name, err, run, want, got) }
	}
	shape, cpu := gpu.Shape1D(128, 64), runtime.Shape1D(128, 64)
	check("Own", OwnCPU(cpu, got), gpu.Run(shape, func(t *gpu.Thread) { Own(t, want) }))
	p := func(x []int, f func(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p []int)) {
		f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], x, a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15])
	}
	var err error
	p(got, func(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p []int) { err = ParametersCPU(cpu, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, 5) })
	check("Parameters", err, gpu.Run(shape, func(t *gpu.Thread) { p(want, func(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p []int) { Parameters(t, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, 5) }) }))
	check("Locals", LocalsCPU(cpu, 3, 100, got), gpu.Run(shape, func(t *gpu.Thread) { Locals(t, 3, 100, want) }))
	check("Constants", ConstantsCPU(cpu, got), gpu.Run(shape, func(t *gpu.Thread) { Constants(t, want) }))
	check("Origin", OriginCPU(cpu, got), gpu.Run(shape, func(t *gpu.Thread) { Origin(t, want) }))
	check("Barriers", BarriersCPU(cpu, got), gpu.Run(shape, func(t *gpu.Thread) { Barriers(t, want) }))
}
`

func TestShadowing(t *testing.T) {
	dir := module(t, shadowing+constants)
	write(t, dir, "k_test.go", shadowingTest)
	require.NoError(t, run([]string{dir}, io.Discard))
	formatted(t, read(t, dir)["kernels_gpu.go"])
	out, err := goes(t, dir, "test", ".")
	require.NoError(t, err, out)
}

// TestChanged changes a kernel that is compiled: the test that gpuc writes fails.
func TestChanged(t *testing.T) {
	source := head + `
//purecuda:kernel
func Scale(t *gpu.Thread, x []int) {
	if i := t.GlobalX(); i < len(x) {
		x[i] = double(x[i])
	}
}

//purecuda:kernel
func Other(t *gpu.Thread, x []int) { s := gpu.Shared[[64]int](t); s[t.ThreadX()] = 1; t.Barrier(); x[0] = s[3] }

func double(x int) int { return factor * x }

const factor = 2
`
	dir := module(t, source)
	require.NoError(t, run([]string{dir}, io.Discard))
	for _, c := range []struct{ name, from, to, want string }{
		{"nothing", "", "", ""},
		{"what is called", "factor = 2", "factor = 3", "the kernel Scale, or what it calls, has changed since gpuc compiled it: run go generate"},
		{"the kernel", "s[3]", "s[4]", "the kernel Other, or what it calls, has changed since gpuc compiled it: run go generate"},
		{"a line above", "package k\n", "package k\n\n// Above.\n", ""},
		{"the ends of lines", "\n", "\r\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, dir, "k.go", strings.ReplaceAll(source, c.from, c.to))
			out, err := goes(t, dir, "test", ".")
			if c.want == "" {
				require.NoError(t, err, out)
				require.NoError(t, run([]string{"-check", dir}, io.Discard))
				return
			}
			assert.Error(t, err)
			assert.Contains(t, out, c.want)
			assert.ErrorContains(t, run([]string{"-check", dir}, io.Discard), "is not what the source gives: run gpuc")
		})
	}
	write(t, dir, "k.go", source)
	for _, name := range []string{"kernels_gpu.go", "kernels_gpu_test.go", "kernels_sm_75.ptx"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		write(t, dir, name, strings.ReplaceAll(string(text), "\n", "\r\n"))
	}
	require.NoError(t, run([]string{"-check", dir}, io.Discard), "a checkout on Windows")
	write(t, dir, "kernels_gpu_test.go", "package k\n\n// Of somebody.\n")
	require.ErrorContains(t, run([]string{dir}, io.Discard), "kernels_gpu_test.go is no file of gpuc, which would write it: give it another name")
	require.ErrorContains(t, run([]string{filepath.Join(dir, "missing")}, io.Discard), "missing is no folder: name the folder of the package")
	require.ErrorContains(t, run([]string{filepath.Join(dir, "k.go")}, io.Discard), "k.go is no folder: name the folder of the package")
}
