package compile_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
)

// variables are files of a module: its kernels read package-level variables.
var variables = map[string]string{
	"cfg/cfg.go": `package cfg

import "k/deep"

var Scale = 3
var scale = 3
var filled [4]int
var byMethod = 2
var byGeneric = 2
var inLiteral = 2
var notCalled = 2
var fine = [4]int{5, 6, 7, 8}
var table = [4]int{1, 2, 3, 4}
var own = 3
var escapes = [2]int{1, 2}

func init() { for i := range filled { filled[i] = i + 7 } }

func Set(n int) { scale = n }
func Get() int { return scale }
func Filled(i int) int { return filled[i&3] }

type typ struct{}

func (typ) init() { byMethod = 9 }
func ByMethod() int { return byMethod }

type generic[T any] struct{ x T }

func (g *generic[T]) set(n int) { byGeneric = n }
func ByGeneric() int { return byGeneric }

var literal = func() int { inLiteral = 4; return 1 }()

func InLiteral() int { return inLiteral }

func unused() { notCalled++ }
func NotCalled() int { return notCalled }
func Fine(i int) int { return fine[i&3] + len(fine) }
func Table(i int) int { return table[i&3] }
func Deep(i int) int { return deep.Table(i) + deep.Get() }
func Deeper(i int) int { return deep.Filled(i) }
func Escapes(i int) int { return escapes[i&1] }
func Slice() []int { return escapes[:] }
func Assembled(i int) int { return assembled[i&3] }

var assembled = [4]int{1, 2, 3, 4}

func set()
`,
	"cfg/set_amd64.s": "TEXT ·set(SB), 4, $0\n\tMOVQ $3, ·assembled+8(SB)\n\tRET\n",
	"cfg/set_arm64.s": "TEXT ·set(SB), 4, $0\n\tMOVD $3, R0\n\tMOVD R0, ·assembled+8(SB)\n\tRET\n",
	"deep/deep.go": `package deep

var table = [4]int{10, 20, 30, 40}
var filled [4]int
var number = 5

func init() { filled[2] = 9 }

func Table(i int) int { return table[i&3] }
func Filled(i int) int { return filled[i&3] }
func Get() int { return number }
`,
	"other/cfg/cfg.go": `package cfg

var table = [4]int{100, 200, 300, 400}

func Table(i int) int { return table[i&3] }
`,
	"k.go": `package k

import (
	"k/cfg"
	other "k/other/cfg"

	"github.com/purecuda/purecuda/gpu"
)

var Exported = 3
var pointed = 1
var pointer = &pointed
var byLen = [4]int{1, 2, 3, 4}
var größe = [4]int{3, 4, 5, 6}
var matrix = [2]struct{ a, b [2]int }{{a: [2]int{1, 2}}, {b: [2]int{3, 4}}}

func init() { *pointer = 4 }

// calls has a function value with the name of a builtin.
func calls(len func(*[4]int)) { len(&byLen) }

//purecuda:kernel
func Tables(t *gpu.Thread, out []int) {
	i := t.ThreadX()
	out[i] = cfg.Table(i) + other.Table(i) + cfg.Fine(i) + größe[i&3] + matrix[i&1].b[(i>>1)&1] + cfg.Deep(i)
}
//purecuda:kernel
func Other(t *gpu.Thread, out []int) { out[0] = cfg.Scale }
//purecuda:kernel
func Through(t *gpu.Thread, out []int) { out[0] = cfg.Get() }
//purecuda:kernel
func Init(t *gpu.Thread, out []int) { out[0] = cfg.Filled(1) }
//purecuda:kernel
func MethodInit(t *gpu.Thread, out []int) { out[0] = cfg.ByMethod() }
//purecuda:kernel
func MethodGeneric(t *gpu.Thread, out []int) { out[0] = cfg.ByGeneric() }
//purecuda:kernel
func Literal(t *gpu.Thread, out []int) { out[0] = cfg.InLiteral() }
//purecuda:kernel
func NotCalled(t *gpu.Thread, out []int) { out[0] = cfg.NotCalled() }
//purecuda:kernel
func Escapes(t *gpu.Thread, out []int) { out[0] = cfg.Escapes(0) }
//purecuda:kernel
func Deeper(t *gpu.Thread, out []int) { out[0] = cfg.Deeper(0) }
//purecuda:kernel
func Assembled(t *gpu.Thread, out []int) { out[0] = cfg.Assembled(1) }
//purecuda:kernel
func OwnExported(t *gpu.Thread, out []int) { out[0] = Exported }
//purecuda:kernel
func Pointed(t *gpu.Thread, out []int) { out[0] = pointed }
//purecuda:kernel
func ByLen(t *gpu.Thread, out []int) { out[0] = byLen[out[1]&3] }
`,
}

// TestPackageVariables reads package-level variables. A kernel gets a constant, or an error that names the variable.
func TestPackageVariables(t *testing.T) {
	p, err := loadFiles(t, variables)
	require.NoError(t, err)
	o := compile.Options{Arch: 75, Checks: compile.ChecksReport}
	for kernel, variable := range map[string]string{
		"Other": "Scale is an exported variable", "Through": "scale is a variable", "Init": "filled is a variable", "MethodInit": "byMethod is a variable",
		"MethodGeneric": "byGeneric is a variable", "Literal": "inLiteral is a variable", "NotCalled": "notCalled is a variable", "Escapes": "escapes is a variable",
		"Deeper": "filled is a variable", "Assembled": "assembled is a variable", "OwnExported": "Exported is an exported variable",
		"Pointed": "pointed is a variable", "ByLen": "byLen is a variable",
	} {
		_, err := p.Compile(o, kernel)
		if assert.ErrorContains(t, err, variable, kernel) {
			assert.ErrorContains(t, err, "give it as a parameter", kernel)
		}
	}
	m, err := p.Compile(o, "Tables")
	require.NoError(t, err)
	d := device.Open(t, device.Of(m))
	out := make([]int, 4)
	report, err := d.Run("Tables", gpu.Shape1D(4, 4), out)
	require.NoError(t, err)
	require.Zero(t, report[0])
	assert.Equal(t, []int{1 + 100 + 9 + 3 + 0 + 15, 2 + 200 + 10 + 4 + 3 + 25, 3 + 300 + 11 + 5 + 0 + 35, 4 + 400 + 12 + 6 + 4 + 45}, out)
}

// Nobody imports a program.
func TestExportedInMain(t *testing.T) {
	p, err := loadFiles(t, map[string]string{"k.go": `package main

import "github.com/purecuda/purecuda/gpu"

var Table, Set = [2]int{3, 4}, 5

//purecuda:kernel
func A(t *gpu.Thread, x []int) { x[0] = Table[x[1]&1] }
//purecuda:kernel
func B(t *gpu.Thread, x []int) { x[0] = Set }

func main() { Set++ }
`})
	require.NoError(t, err)
	o := compile.Options{Arch: 75, Checks: compile.ChecksReport}
	_, err = p.Compile(o, "A")
	require.NoError(t, err)
	_, err = p.Compile(o, "B")
	require.ErrorContains(t, err, "Set is a variable, which ")
}

func TestNamesInPTX(t *testing.T) {
	p, err := load(t, `
//purecuda:kernel entry=same
func A(t *gpu.Thread, x []int) { x[0] = 1 }
//purecuda:kernel entry=same
func B(t *gpu.Thread, x []int) { x[0] = 1 }
//purecuda:kernel
func Größe(t *gpu.Thread, x []int) { x[0] = 1 }
//purecuda:kernel
func Literal(t *gpu.Thread, x []int) { func(i int) { for j := range i { x[j] = len(map[int]int{}) } }(x[1]) }
//purecuda:kernel
func Called(t *gpu.Thread, x []int) { f := func(i int) int { var a [3]int; a[1] = x1(i); return a[i] }; x[0] = f(5) }
func x1(i int) int { m := map[int]int{}; return m[i] }
`)
	require.NoError(t, err)
	for kernel, want := range map[string]string{
		"B":       "k.go:9:6: two kernels have the name same in PTX, the other one at ",
		"Größe":   "k.go:11:6: names in PTX have the letters of ASCII, and Größe has others: say entry=name in the directive",
		"Literal": "a kernel has no maps: use an array\n\tcalled by Literal at ",
		"Called":  "called by a function literal in Called at ",
	} {
		_, err := p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksReport}, kernel)
		assert.ErrorContains(t, err, want)
	}
}

// TestBounds compiles what would not fit a device: without an error, no kernel of the package could be loaded.
func TestBounds(t *testing.T) {
	p, err := load(t, `
var a, b [5000]int

//purecuda:kernel
func Tables(t *gpu.Thread, x []int) { x[0] = a[x[1]%5000] + b[x[1]%5000] }
//purecuda:kernel
func Fits(t *gpu.Thread, x []int) { s := gpu.Shared[[6142]int](t); u := gpu.Shared[int](t); s[x[0]&63] = 1; *u = 2; x[1] = s[x[1]&63] + *u }
//purecuda:kernel
func Shared(t *gpu.Thread, x []int) { s := gpu.Shared[[6144]int](t); u := gpu.Shared[bool](t); s[0], *u = 1, true; x[0] = s[1] }
//purecuda:kernel
func Local(t *gpu.Thread, x []int) { var s [65537]int; s[x[0]&63] = 1; x[0] = s[x[1]&63] }
`)
	require.NoError(t, err)
	o := compile.Options{Arch: 75, Checks: compile.ChecksReport}
	m, err := p.Compile(o, "Fits")
	require.NoError(t, err)
	device.Open(t, device.Of(m))
	for kernel, want := range map[string]string{
		"Shared": "with this bool, the kernel has 49153 bytes of gpu.Shared; at most 49152: take gpu.DynamicShared, whose size the launch gives",
		"Tables": "with the table k.b, those of all kernels of the package have 80000 bytes; constant memory has 65536: give it as a parameter",
		"Local":  "with this [65537]int, the variables of a thread have 524296 bytes; at most 524288: give it as a parameter",
	} {
		_, err := p.Compile(o, kernel)
		assert.ErrorContains(t, err, want)
	}
}
