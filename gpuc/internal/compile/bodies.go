package compile

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
)

// Kernels can call nothing of most packages that their package needs. The function bodies of those are not read: they
// were most of the time that gpuc takes.

// bodies finds the packages whose functions a kernel may call, by path.
func bodies(pkgs []*packages.Package) map[string]bool {
	found := map[string]bool{}
	packages.Visit(pkgs, func(p *packages.Package) bool {
		call := slices.Contains(pkgs, p) || callable(p.PkgPath)
		found[p.PkgPath] = call
		return call
	}, nil)
	return found
}

// callable tells of a package whether a kernel may call its functions.
func callable(path string) bool {
	if _, ok := instead[path]; ok {
		return false
	}
	if path == "encoding/binary" {
		return true
	}
	switch first, _, _ := strings.Cut(path, "/"); first {
	case "bufio", "bytes", "context", "crypto", "embed", "encoding", "errors", "flag", "hash", "html", "internal", "io", "iter", "net",
		"os", "reflect", "regexp", "runtime", "syscall", "testing", "text", "unicode", "unique", "unsafe", "weak":
		return false
	}
	return !slices.Contains([]string{"arena", "driver", "gpu/launch", "nvrtc", "pool", "refs", "runtime"}, strings.TrimPrefix(path, module))
}

// module is the path of purecuda and of all its packages.
const module = "github.com/purecuda/purecuda/"

// fileParser parses files. It parses a file once if no bodies of it are wanted.
type fileParser struct {
	fset *token.FileSet
	keep map[string]bool // by file, whether bodies are wanted; they are of a file that is not in it, which cgo has written

	mu     sync.Mutex
	parsed map[string]*ast.File
}

func (p *fileParser) parse(_ *token.FileSet, name string, text []byte) (*ast.File, error) {
	if keep, known := p.keep[name]; keep || !known {
		return parseFile(p.fset, name, text)
	}
	p.mu.Lock()
	f := p.parsed[name]
	p.mu.Unlock()
	if f != nil {
		return f, nil
	}
	f, err := parser.ParseFile(p.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return f, err
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			fn.Body = nil
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parsed[name] = f
	return f, nil
}

// program makes the packages for go/ssa. Those without bodies have types alone.
func program(fset *token.FileSet, pkgs []*packages.Package, bodies map[string]bool) *ssa.Program {
	prog := ssa.NewProgram(fset, ssa.InstantiateGenerics)
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		if bodies[p.PkgPath] {
			prog.CreatePackage(p.Types, p.Syntax, p.TypesInfo, true)
		} else {
			prog.CreatePackage(p.Types, nil, nil, true)
		}
	})
	return prog
}
