// Prose measures sentences: in Markdown files, and in the comments of Go packages.
//
//	go run -C tools ./prose -max 30 ../README.md ../docs ../RATIONALE.md ../runtime
//
// For each file it prints how many sentences there are, and how many words the mean and the longest one
// have. It lists sentences with more than -max words, and fails if there are any.
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

func main() {
	log.SetFlags(0)
	most := flag.Int("max", 30, "the most words of a sentence")
	flag.Parse()
	var all []sentence
	for _, arg := range flag.Args() {
		err := filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			switch name := entry.Name(); {
			case entry.IsDir() && name == "testdata":
				return filepath.SkipDir
			case entry.IsDir():
				found, err := ofPackage(path)
				all = append(all, found...)
				return err
			case filepath.Ext(name) == ".md":
				text, err := os.ReadFile(path)
				all = append(all, report(path, ofMarkdown(path, string(text)))...)
				return err
			}
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	report("all", all)
	all = slices.DeleteFunc(all, func(s sentence) bool { return s.words <= *most })
	for _, s := range all {
		fmt.Printf("%s: %d words: %s\n", s.where, s.words, s.text)
	}
	if len(all) > 0 {
		log.Fatalf("%d sentences have more than %d words", len(all), *most)
	}
}

// report prints the figures of some sentences, and returns them.
func report(name string, all []sentence) []sentence {
	total, longest := 0, 0
	for _, s := range all {
		total += s.words
		longest = max(longest, s.words)
	}
	if len(all) > 0 {
		fmt.Printf("%-28s %5d sentences, mean %4.1f, longest %d words\n",
			strings.TrimPrefix(name, "../"), len(all), float64(total)/float64(len(all)), longest)
	}
	return all
}
