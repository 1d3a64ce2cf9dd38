package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bindings is the list functions.txt of one of NVIDIA's other libraries. Before its types stand lines of a word and a text:
//
//	name NAME             as in texts: cuRAND
//	library VARIABLE      its description in package driver/library; without it, methods and loader are written by hand
//	oldest X.Y [BRINGS]   the version that has all functions, and what else it brings
//	prefix WORD           of the functions
//	simulated PACKAGE     of the simulated library, in the folder of that name
//	within                functions that take a handle make its context current: see internal/current
//	is TEXT               a sentence for the comment of Library
//	open TEXT             a sentence for the comment of Open
//	api TEXT              a line for the comment of API
//	header FILE           for the proof, and `proof` a line of C in it
//	version EXPRESSION    of C, which numbers with @ are compared with
//	type C GO             a type of Go for one of C that the list does not make
//
// Types follow as in constants.txt. A type without values is a handle. A value of Status may name the kind of its error
// before its meaning: `ErrUnsupported: it cannot do this`. Functions follow behind `== functions`, as in entries.txt. In place of
// versions `since X.Y` says what brings it, `@NUMBER` which headers have it, and `or NAME` that it had another name before. Open takes
// a library that lacks a function with `since`, and these come last. A line `api SIGNATURE` is a method of the interface that is written
// by hand, for several functions.
type bindings struct {
	one   map[string]string   // the words that stand once
	lists map[string][]string // the words that may stand more often
	enums []*enum
	group []*group
	types map[string][]string // of Go, by C's
	path  string              // to import
}

// words of the head of a list. Those with true may stand more than once.
var words = map[string]bool{
	"name": false, "library": false, "oldest": false, "prefix": false, "simulated": false, "version": false, "within": false,
	"is": true, "open": true, "api": true, "header": true, "proof": true, "type": true,
}

const functionsLine = "== functions"

func parseLibrary(file string) (*bindings, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	l := &bindings{one: map[string]string{}, lists: map[string][]string{}, types: maps.Clone(goTypes)}
	lines := strings.Split(string(text), "\n")
	head := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "== ") })
	tail := slices.Index(lines, functionsLine)
	if head < 0 || tail < 0 {
		return nil, fmt.Errorf("%s: want types, which begin with ==, and then %q", file, functionsLine)
	}
	for i, line := range lines[:head] {
		word, rest, _ := strings.Cut(line, " ")
		switch more, known := words[word]; {
		case line == "" || strings.HasPrefix(line, "#"):
		case !known:
			return nil, fmt.Errorf("%s:%d: %q is no word of a list", file, i+1, word)
		case more:
			l.lists[word] = append(l.lists[word], strings.TrimSpace(rest))
		default:
			l.one[word] = strings.TrimSpace(rest)
		}
	}
	if l.enums, err = parseEnums(file, blank(lines, head, tail)); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(l.enums, func(e *enum) bool { return e.typ == "Status" || e.typ == "Result" }); i < 0 || len(l.enums[i].values) < 2 {
		return nil, fmt.Errorf("%s: want a type Status or Result, with a success and a failure", file)
	}
	l.types["cudaStream_t"] = []string{"driver.Stream"}
	for _, t := range l.lists["type"] {
		c, typ := t[:strings.LastIndex(t, " ")], t[strings.LastIndex(t, " ")+1:]
		l.types[c] = append(slices.Clone(l.types[c]), typ)
	}
	var handles []string
	for _, e := range l.enums {
		if len(e.values) == 0 {
			handles = append(handles, e.typ)
			l.types[e.c] = append(slices.Clone(l.types[e.c]), e.typ)
		}
	}
	if l.group, err = parseFunctions(file, blank(lines, tail, len(lines)), handles); err != nil {
		return nil, err
	}
	for _, e := range l.functions() {
		if e.method == "" {
			continue
		}
		if err := e.compare(l.types, l.enums); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, e.name, err)
		}
	}
	return l, nil
}

// blank is all lines, of which those outside are empty, so that errors have the numbers of the file.
func blank(lines []string, from, to int) []string {
	return slices.Concat(make([]string, from), lines[from:to])
}

// functions of C.
func (l *bindings) functions() (all []*entry) {
	for _, g := range l.group {
		for _, e := range g.entries {
			if e.name != "" {
				all = append(all, e)
			}
		}
	}
	return all
}

// index is the constant of a function in the table.
func (l *bindings) index(e *entry) string { return "fn" + strings.TrimPrefix(e.name, l.one["prefix"]) }

// bounds is what compares a result of a call with its bounds.
func (l *bindings) bounds(_ *entry, a arg) string {
	switch {
	case a.low != "":
		return fmt.Sprintf("status.Within(r, %s, %s, %s)", a.name, a.low, a.high)
	case a.handle:
		return fmt.Sprintf("status.NotZero(r, %s)", a.name)
	}
	return ""
}

// generateLibrary makes the files of a library in a folder from its list.
func generateLibrary(folder string) (files map[string][]byte, count int, err error) {
	list := filepath.Join(folder, "functions.txt")
	l, err := parseLibrary(list)
	if err != nil {
		return nil, 0, err
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return nil, 0, err
	}
	name := filepath.Base(absolute)
	l.path = "github.com/purecuda/purecuda/libs/" + name
	head := "// Code generated by driver/internal/gen from functions.txt; DO NOT EDIT.\n\n"
	files = map[string][]byte{}
	writers := map[string]func(*bytes.Buffer){
		"zapi.go":              l.writeAPI,
		"zcalls.go":            l.writeCalls,
		"zlibrary.go":          l.writeLibrary,
		"zstatus.go":           l.writeStatus,
		"testdata/abi_check.c": l.writeProof,
		filepath.Join(l.one["simulated"], "zlibrary.go"): l.writeSimulated,
	}
	if l.one["library"] == "" {
		writers = map[string]func(*bytes.Buffer){"zfunctions.go": l.writeTable, "zstatus.go": l.writeStatus, "testdata/abi_check.c": l.writeProof}
	}
	for file, write := range writers {
		packageLine := "package " + cmp.Or(strings.TrimSuffix(filepath.Dir(file), "."), name) + "\n"
		if filepath.Ext(file) != ".go" {
			packageLine = ""
		}
		at := filepath.Join(folder, filepath.FromSlash(file))
		if files[at], err = text(file, head+packageLine, write); err != nil {
			return nil, 0, err
		}
	}
	return files, len(l.functions()), nil
}
