// Snippets compiles the Go code in documents: the blocks of Markdown files, and the indented
// blocks in comments of Go files. It also looks up the names in the text of Markdown files, such
// as `Stream.Capture` and `pool.Map(...)`. From the root of the repository:
//
//	go run -C tools ./snippets .. ../contrib/prometheus ../contrib/otel ../libs ../cluster
//
// The arguments are folders of modules. A file belongs to the module whose folder it is in.
//
// A block with a package clause is compiled as it is, with what such a comment as below declares. Any other block is a fragment, of declarations
// or of statements. A fragment gets its imports by the names that it uses, and may leave variables
// unused. It may use the variables of the map known, and what a comment in the line before it
// declares: <!-- snippet: func onTheCPU() error -->. For comments of Go files the map preambles has
// such declarations.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// root is the path of the module of the library.
const root = "github.com/purecuda/purecuda"

func main() {
	log.SetFlags(0)
	log.SetPrefix("snippets: ")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("no folder of a module is named")
	}
	var problems []string
	blocks, names := 0, 0
	for _, folder := range flag.Args() {
		u, err := load(folder)
		if err != nil {
			log.Fatal(err)
		}
		files, err := documents(folder)
		if err != nil {
			log.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				log.Fatal(err)
			}
			d := document{name: strings.TrimPrefix(filepath.ToSlash(file), "../"), text: string(text)}
			for _, s := range d.snippets() {
				blocks++
				problems = append(problems, u.compile(s)...)
			}
			for _, s := range d.spans() {
				names++
				problems = append(problems, u.lookUp(s)...)
			}
		}
	}
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if len(problems) > 0 {
		log.Fatalf("%d problems", len(problems))
	}
	fmt.Printf("%d blocks compile, %d pieces of code in text have names that exist\n", blocks, names)
}

// documents returns the Markdown and Go files of a module.
func documents(folder string) (files []string, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != folder {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if err == nil || name == "testdata" || name == "dist" || strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
		}
		if !entry.IsDir() && slices.Contains([]string{".md", ".go"}, filepath.Ext(name)) {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
