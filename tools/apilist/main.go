// Apilist prints what packages export, one declaration a line, sorted, like the files in
// api/ of Go itself. From the root of the repository:
//
//	go run -C tools ./apilist .. ../contrib/prometheus ../contrib/otel ../libs ../cluster >api/purecuda.txt
//
// With -unused it prints those that nobody uses:
//
//	go run -C tools ./apilist -unused .. ../contrib/prometheus ../contrib/otel ../libs ../cluster ../gpuc ../gpuc/internal/testdata ../tools/guard
//
// The arguments are folders of modules. Left out are programs, examples and what is
// internal. The listing is for linux/amd64 without cgo, whatever it is made on.
package main

import (
	"flag"
	"fmt"
	"go/types"
	"log"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// root is the path that the names of packages are cut by.
const root = "github.com/purecuda/purecuda"

// platform is the one that the listing is of.
var platform = []string{"GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off"}

func main() {
	log.SetFlags(0)
	log.SetPrefix("apilist: ")
	onlyUnused := flag.Bool("unused", false, "list only what no other package, no example and no document uses")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("no folder of a module is named")
	}
	if *onlyUnused {
		lines, err := listUnused(flag.Args())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(strings.Join(lines, "\n"))
		return
	}
	var all []string
	for _, folder := range flag.Args() {
		lines, err := list(folder)
		if err != nil {
			log.Fatal(err)
		}
		all = append(all, lines...)
	}
	slices.Sort(all)
	fmt.Println("# The exported API on linux/amd64. Made by tools/apilist; .ci/run api says how to accept a change.")
	for _, line := range slices.Compact(all) {
		fmt.Println(line)
	}
}

// list returns what the packages of a module export.
func list(folder string) ([]string, error) {
	all, err := load(folder, packages.NeedName, "./...")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range all {
		if p.Name != "main" && !hidden(p.PkgPath) {
			names = append(names, p.PkgPath)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: there is no package that others can import", folder)
	}
	found, err := load(folder, packages.NeedName|packages.NeedTypes|packages.NeedImports|packages.NeedDeps, names...)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, p := range found {
		of, _ := listPackage(p.Types)
		lines = append(lines, of...)
	}
	return lines, nil
}

func load(folder string, mode packages.LoadMode, patterns ...string) ([]*packages.Package, error) {
	found, err := packages.Load(&packages.Config{Mode: mode, Dir: folder, Env: append(os.Environ(), platform...)}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	for _, p := range found {
		for _, e := range p.Errors {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, e)
		}
	}
	return found, nil
}

// hidden reports whether others cannot import a package, or are not meant to.
func hidden(path string) bool {
	for _, part := range strings.Split(strings.TrimPrefix(path, root), "/") {
		if part == "internal" || part == "cmd" || part == "examples" {
			return true
		}
	}
	return false
}

// listPackage returns the declarations of a package, and what each of them declares.
func listPackage(p *types.Package) ([]string, []types.Object) {
	name := strings.TrimPrefix(strings.TrimPrefix(p.Path(), root), "/")
	w := &writer{prefix: "pkg " + name + ", ", own: p}
	scope := p.Scope()
	for _, name := range scope.Names() {
		if o := scope.Lookup(name); o.Exported() {
			w.object(o)
		}
	}
	return w.lines, w.objects
}
