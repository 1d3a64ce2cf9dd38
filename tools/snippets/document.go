package main

import (
	"regexp"
	"strings"
)

// document is a Markdown or a Go file.
type document struct{ name, text string }

// snippet is a piece of Go in a document.
type snippet struct {
	file     string
	line     int // of the first line
	code     string
	preamble string // declarations that readers do not see
}

// snippets returns the blocks of Go.
func (d document) snippets() []snippet {
	if strings.HasSuffix(d.name, ".go") {
		return d.commented()
	}
	return d.fenced()
}

// hidden is a preamble, which ends right before a block.
var hidden = regexp.MustCompile(`(?s)<!-- snippet:((?:[^-]|-[^-])*)-->\s*$`)

// fenced returns the blocks of a Markdown file.
func (d document) fenced() (all []snippet) {
	lines := strings.Split(d.text, "\n")
	for i := 0; i < len(lines); i++ {
		fence, ok := strings.CutPrefix(lines[i], "```")
		if !ok {
			continue
		}
		first := i + 1
		for i++; i < len(lines) && !strings.HasPrefix(lines[i], "```"); i++ {
		}
		if fence != "go" {
			continue
		}
		s := snippet{file: d.name, line: first + 1, code: strings.Join(lines[first:min(i, len(lines))], "\n")}
		if m := hidden.FindStringSubmatch(strings.Join(lines[:first-1], "\n")); m != nil {
			s.preamble = strings.TrimSpace(m[1])
		}
		all = append(all, s)
	}
	return all
}

// isGo tells Go from tables, commands and formulas in comments.
var isGo = regexp.MustCompile(`:=|\b(func|return|defer|err)\b`)

// commented returns the indented blocks in comments of a Go file.
func (d document) commented() (all []snippet) {
	lines := strings.Split(d.text, "\n")
	for i := 0; i < len(lines); i++ {
		var block []string
		first := i
		for ; i < len(lines) && (strings.HasPrefix(lines[i], "//\t") || lines[i] == "//" && len(block) > 0); i++ {
			block = append(block, strings.TrimPrefix(lines[i][2:], "\t"))
		}
		if code := strings.Join(block, "\n"); isGo.MatchString(code) {
			all = append(all, snippet{file: d.name, line: first + 1, code: code, preamble: preambles[d.name]})
		}
	}
	return all
}

var (
	fences = regexp.MustCompile("(?ms)^```.*?^```|<!--.*?-->")
	span   = regexp.MustCompile("`[^`]+`")
	line   = regexp.MustCompile(`[^\n]+`)
	// A table of renamed things, and the first cell of a row: its names are gone.
	renamed = regexp.MustCompile(`(?m)^\| Before \|.*\n(\|.*\n)+`)
	before  = regexp.MustCompile(`(?m)^\|[^|\n]*`)
)

// spans returns the code in the text of a Markdown file.
func (d document) spans() (all []snippet) {
	if strings.HasSuffix(d.name, ".go") {
		return nil
	}
	prose := fences.ReplaceAllStringFunc(d.text, func(block string) string { return line.ReplaceAllString(block, "") })
	prose = renamed.ReplaceAllStringFunc(prose, func(table string) string { return before.ReplaceAllString(table, "|") })
	for _, at := range span.FindAllStringIndex(prose, -1) {
		all = append(all, snippet{file: d.name, line: 1 + strings.Count(prose[:at[0]], "\n"), code: prose[at[0]+1 : at[1]-1]})
	}
	return all
}
