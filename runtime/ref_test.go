package runtime_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/runtime"
)

// go doc shows no methods of an alias, so the comment of Ref lists them.
func TestTheCommentOfRefListsItsMethods(t *testing.T) {
	for _, source := range []string{"memory.go", "../refs/ref.go"} {
		if _, err := os.Stat(source); err != nil {
			t.Skipf("it reads the sources of the module, and this is a test binary elsewhere: %v", err)
		}
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "memory.go", nil, parser.ParseComments)
	require.NoError(t, err)
	p, err := doc.NewFromFiles(files, []*ast.File{file}, "runtime")
	require.NoError(t, err)
	comment := ""
	for _, typ := range p.Types {
		if typ.Name == "Ref" {
			comment = typ.Doc
		}
	}
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^  - (.*?): `).FindAllStringSubmatch(comment, -1) {
		listed = append(listed, m[1])
	}
	require.NotEmpty(t, listed)
	source, err := os.ReadFile("../refs/ref.go")
	require.NoError(t, err)
	var methods []string
	of := reflect.TypeFor[*runtime.Ref[byte]]()
	for i := range of.NumMethod() {
		if name := of.Method(i).Name; name != "GoString" { // fmt calls it
			declaration := regexp.MustCompile(`func \(r \*Ref\[T\]\) (` + name + `\(.*?) \{`).FindSubmatch(source)
			require.NotNil(t, declaration, name)
			methods = append(methods, strings.ReplaceAll(string(declaration[1]), "*Core", "*refs.Core"))
		}
	}
	assert.ElementsMatch(t, methods, listed)
}
