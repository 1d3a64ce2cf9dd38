// Walks tells how much code one warm operation of the runtime goes through: functions, files, packages and lock
// expressions, without the simulated driver. Run it in the root of the repository:
//
//	go run -cover -covermode=atomic -coverpkg=./... ./scripts/walks
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"strings"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

const module = "github.com/purecuda/purecuda/"

// left are the packages that stand for hardware, and this one.
var left = []string{"driver/drivertest/", "internal/ptx/exec/", "scripts/",
	"internal/callsite/"} // by which the simulated driver says where a call came from

const image = `.version 6.4
.target sm_75
.address_size 64
.visible .entry three(.param .u64 x, .param .u64 y, .param .u64 z, .param .u64 n)
{
	ret;
}
`

var names = flag.Bool("names", false, "print the functions and the locks as well")

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// operation is one call or a few. It is warm after three times.
type operation struct {
	name string
	do   func() error
}

func run(ctx context.Context) error {
	rt, err := runtime.Open(runtime.WithDriver(drivertest.New(drivertest.Config{})),
		runtime.WithMemory(arena.DeviceConfig{CacheBytes: arena.DefaultCacheBytes})) // as on hardware
	if err != nil {
		return err
	}
	all, err := operations(ctx, rt)
	if err != nil {
		return err
	}
	fmt.Println("| operation | functions | files | packages | lock expressions |\n|---|---|---|---|---|")
	for _, o := range all {
		for range 3 {
			if err := o.do(); err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
		}
		if err := tell(o); err != nil {
			return err
		}
	}
	return tell(operation{"Runtime.Close", rt.Close})
}

func operations(ctx context.Context, rt *runtime.Runtime) ([]operation, error) {
	c, err := rt.Context(0)
	if err != nil {
		return nil, err
	}
	s, err := c.NewStream()
	if err != nil {
		return nil, err
	}
	load := func() (*runtime.Module, *runtime.Kernel, error) {
		m, err := c.LoadModule(runtime.Image{Code: []byte(image)})
		if err != nil {
			return nil, nil, err
		}
		k, err := m.Kernel("three")
		return m, k, err
	}
	_, k, err := load()
	if err != nil {
		return nil, err
	}
	x, err := runtime.Alloc[byte](s, 64<<20)
	if err != nil {
		return nil, err
	}
	host := make([]byte, 64<<20)
	launch := func(s *runtime.Stream) error {
		return k.Launch(s, runtime.Shape1D(1, 1), runtime.In(x), runtime.In(x), runtime.InOut(x), runtime.Value(uint64(1)))
	}
	return []operation{
		{"launch, 3 arguments", func() error { return launch(s) }},
		{"upload 1 KiB", func() error { return runtime.Upload(ctx, s, x.Slice(0, 1<<10), host[:1<<10]) }},
		{"upload 64 MiB", func() error { return runtime.Upload(ctx, s, x, host) }},
		{"Synchronize of an idle stream", func() error { return s.Synchronize(ctx) }},
		{"Alloc and Close, hit", func() error {
			r, err := runtime.Alloc[float32](s, 100)
			if err != nil {
				return err
			}
			return r.Close()
		}},
		{"LoadModule, Kernel, Close", func() error {
			m, _, err := load()
			if err != nil {
				return err
			}
			return m.Close()
		}},
		{"capture of one launch, Close", func() error {
			g, err := s.Capture(launch)
			if err != nil {
				return err
			}
			return g.Close()
		}},
	}, nil
}

// tell does an operation and prints what it went through.
func tell(o operation) error {
	folder, err := os.MkdirTemp("", "walks")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := o.do(); err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}
	if err := cmp.Or(coverage.WriteCountersDir(folder), coverage.WriteMetaDir(folder)); err != nil {
		return err
	}
	profile := filepath.Join(folder, "profile")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i", folder, "-o", profile).CombinedOutput(); err != nil {
		return fmt.Errorf("go tool covdata: %w: %s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	executed, err := blocks(text)
	if err != nil {
		return err
	}
	functions, locks, packages := 0, 0, map[string]bool{}
	for file, at := range executed {
		f, l, err := count(file, at)
		if err != nil {
			return err
		}
		functions, locks = functions+f, locks+l
		packages[filepath.Dir(file)] = true
	}
	fmt.Printf("| %s | %d | %d | %d | %d |\n", o.name, functions, len(executed), len(packages), locks)
	return nil
}

// block is a piece of a file that was executed, from one line and column to another.
type block struct{ line, column, toLine, toColumn int }

// blocks reads a profile: what was executed of each file.
func blocks(profile []byte) (map[string][]block, error) {
	all := map[string][]block{}
	lines := bufio.NewScanner(bytes.NewReader(profile))
	for lines.Scan() {
		file, rest, ok := strings.Cut(strings.TrimPrefix(lines.Text(), module), ":")
		if !ok || file == "mode" || isLeft(file) {
			continue
		}
		var b block
		var statements, times int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &b.column, &b.toLine, &b.toColumn, &statements, &times); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if times > 0 {
			all[file] = append(all[file], b)
		}
	}
	return all, lines.Err()
}

func tellName(at, name string) {
	if *names {
		fmt.Println(at, name)
	}
}

func isLeft(file string) bool {
	for _, p := range left {
		if strings.HasPrefix(file, p) {
			return true
		}
	}
	return false
}

// count counts the functions of a file that were executed, and the locks that were taken in them.
func count(path string, executed []block) (functions, locks int, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		return 0, 0, err
	}
	within := func(p token.Pos) bool {
		at := files.Position(p)
		for _, b := range executed {
			after := cmp.Or(cmp.Compare(at.Line, b.line), cmp.Compare(at.Column, b.column)) >= 0
			before := cmp.Or(cmp.Compare(at.Line, b.toLine), cmp.Compare(at.Column, b.toColumn)) < 0
			if after && before {
				return true
			}
		}
		return false
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		from, to := files.Position(f.Pos()).Line, files.Position(f.End()).Line
		for _, b := range executed {
			if b.line >= from && b.toLine <= to {
				functions++
				tellName(path, f.Name.Name)
				break
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if method, ok := call.Fun.(*ast.SelectorExpr); ok && (method.Sel.Name == "Lock" || method.Sel.Name == "RLock") && within(call.Pos()) {
				locks++
				tellName(files.Position(call.Pos()).String(), "locks")
			}
		}
		return true
	})
	return functions, locks, nil
}
