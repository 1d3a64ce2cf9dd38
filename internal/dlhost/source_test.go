package dlhost_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What runs before the Go runtime must not look for room on a goroutine's stack, and
// can call nothing that might.
func TestCodeBeforeTheRuntimeIsBare(t *testing.T) {
	needsSource(t)
	files, err := filepath.Glob("boot*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	functions := 0
	for _, name := range files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, imported := range file.Imports {
			assert.Equal(t, `"unsafe"`, imported.Path.Value, name)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name == "init" || f.Body == nil {
				continue
			}
			functions++
			position := fset.Position(f.Pos()).String() + " " + f.Name.Name
			assert.True(t, f.Doc != nil && slices.ContainsFunc(f.Doc.List, func(c *ast.Comment) bool { return c.Text == "//go:nosplit" }),
				"%s is not nosplit", position)
			ast.Inspect(f.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit, *ast.FuncLit, *ast.GoStmt, *ast.DeferStmt, *ast.RangeStmt, *ast.IndexExpr, *ast.SliceExpr:
					assert.Failf(t, "not bare", "%s: %T", fset.Position(n.Pos()), n)
				case *ast.CallExpr:
					if called, ok := n.Fun.(*ast.Ident); ok {
						assert.NotContains(t, []string{"append", "make", "new", "panic", "print", "println", "copy", "clear"}, called.Name,
							"%s", fset.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
	assert.Greater(t, functions, 20)
}

// The two assembly files are the same program for two processors.
func TestBothProcessorsTakeBackTheSame(t *testing.T) {
	needsSource(t)
	amd64, arm64 := takenBack(t, "rt0_linux_amd64.s"), takenBack(t, "rt0_linux_arm64.s")
	assert.Equal(t, amd64, arm64)
	assert.True(t, slices.ContainsFunc(amd64, func(s string) bool { return strings.HasSuffix(s, ".iscgo") }))
}
