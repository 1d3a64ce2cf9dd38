package compile

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parse returns the directive of the last function in some source.
func parse(t *testing.T, source string) (Directive, bool, error) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "k.go", "package k\n\n"+source, parser.ParseComments)
	require.NoError(t, err)
	return findDirective(fset, f.Decls[len(f.Decls)-1].(*ast.FuncDecl))
}

func TestDirective(t *testing.T) {
	d, found, err := parse(t, "// K is one.\n//\n//purecuda:kernel block=8x4 blocks=6 entry=k checks=trap equal=x,y\nfunc K(t *gpu.Thread, x, y []int) {}\n")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, Directive{Block: [3]int{8, 4, 1}, Blocks: 6, Entry: "k", Checks: ChecksTrap, Equal: [][]string{{"x", "y"}}}, d)
	d, _, err = parse(t, "//purecuda:kernel contract noalias T=int8,gpu.Float16 U=int,uint\nfunc K[T, U any](t *gpu.Thread, x []T, y []U) {}\n")
	require.NoError(t, err)
	assert.Equal(t, Directive{Contract: true, NoAlias: true, Types: []TypeArgs{{"T", []string{"int8", "gpu.Float16"}}, {"U", []string{"int", "uint"}}}}, d)
	assert.Equal(t, [][]string{{"int8", "int"}, {"int8", "uint"}, {"gpu.Float16", "int"}, {"gpu.Float16", "uint"}}, product(d.Types))
	_, found, err = parse(t, "// K is none.\nfunc K() {}\n")
	require.NoError(t, err)
	assert.False(t, found)
}

func TestDirectiveErrors(t *testing.T) {
	for text, want := range map[string]string{
		"//purecuda:kernel block=33x32":                     "block=33x32: a device takes at most 1024 threads in a block",
		"//purecuda:kernel block=0":                         "block=0: write it like 256, 16x16 or 8x8x4",
		"//purecuda:kernel block=2x2x2x2":                   "block=2x2x2x2: write it like",
		"//purecuda:kernel block=99999999999x99999999999x9": "block=99999999999x99999999999x9: a device takes at most",
		"//purecuda:kernel block=64 blocks=40":              "blocks=40: a multiprocessor has room for 1 to 32 blocks",
		"//purecuda:kernel registers=300":                   "registers=300: a thread has 24 to 255 registers",
		"//purecuda:kernel arch=90a":                        "90a is no target: write sm_75 or sm_90a",
		"//purecuda:kernel entry=a.b":                       "entry=a.b: it is a name, as of a function",
		"//purecuda:kernel checks=no":                       "checks=no: it is off, trap or report",
		"//purecuda:kernel recursion=0":                     "recursion=0: write how deep a function may call itself, 1 to 1000",
		"//purecuda:kernel equal=x":                         "equal=x: name two slices or more",
		"//purecuda:kernel equal=x,z":                       `equal=x,z: the kernel has no parameter "z"`,
		"//purecuda:kernel fast":                            `"fast" is not known: block=16x16, blocks=4, registers=168, arch=sm_90a, entry=name, checks=off|trap|report, equal=x,y`,
		"//purecuda:kernel noalias=x":                       "noalias=x takes no value",
		"//purecuda:kernel block=2 block=4":                 "block=4: the directive says block twice",
	} {
		t.Run(text, func(t *testing.T) {
			_, _, err := parse(t, text+"\nfunc K(t *gpu.Thread, x, y []int) { x[0] = y[0] }\n")
			assert.ErrorContains(t, err, "k.go:3:1: "+want)
		})
	}
	_, _, err := parse(t, "//purecuda:kernel contract\n//purecuda:kernel contract\nfunc K(t *gpu.Thread, x []int) {}\n")
	assert.ErrorContains(t, err, "k.go:4:1: contract: the directive says contract twice")
	_, _, err = parse(t, "//purecuda:kernel\nfunc (T) K(t *gpu.Thread, x []int) {}\n")
	assert.ErrorContains(t, err, "a kernel is a function, not a method")
	_, _, err = parse(t, "//purecuda:kernel T=int\nfunc K[T, U int|int32](t *gpu.Thread, x []T) {}\n")
	assert.ErrorContains(t, err, "say which types U stands for: //purecuda:kernel T=int U=float32,float64")
}

// TestMisplaced looks at lines that would say nothing.
func TestMisplaced(t *testing.T) {
	const none = "is no directive: write //purecuda:kernel before a function, //purecuda:unroll before a for, or //purecuda:instantiate"
	for source, want := range map[string]string{
		"// purecuda:kernel block=64\nfunc K() {}\n":                 "k.go:3:1: a directive has no space behind //: write //purecuda:kernel",
		"func K() {\n\t// purecuda:unroll 4\n\tfor {}\n}\n":          "k.go:4:2: a directive has no space behind //: write //purecuda:unroll",
		"//purecuda:kernels\nfunc K() {}\n":                          "k.go:3:1: //purecuda:kernels " + none,
		"func K() {\n\t//purecuda:unrol 4\n\tfor {}\n}\n":            "k.go:4:2: //purecuda:unrol " + none,
		"//purecuda:unroll4\n":                                       "k.go:3:1: //purecuda:unroll4 " + none,
		"//purecuda:kernel\n\nfunc K() {}\n":                         "k.go:3:1: //purecuda:kernel stands in the comment of a function",
		"//purecuda:kernel\ntype T int\n":                            "k.go:3:1: //purecuda:kernel stands in the comment of a function",
		"func K() {\n\t//purecuda:kernel\n}\n":                       "k.go:4:2: //purecuda:kernel stands in the comment of a function",
		"// K is one.\n//\n//purecuda:kernel block=2\nfunc K() {}\n": "",
		"// the directive\n// purecuda:something is none\n":          "",
		"//\t//purecuda:kernel\n//\tfunc K() {}\n":                   "",
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "k.go", "package k\n\n"+source, parser.ParseComments)
		require.NoError(t, err)
		if err := misplaced(fset, f); want == "" {
			assert.NoError(t, err, source)
		} else {
			assert.ErrorContains(t, err, want, source)
		}
	}
}
