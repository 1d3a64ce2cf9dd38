package main

import (
	"fmt"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// sentence is one of a text.
type sentence struct {
	where string // file:line of its paragraph
	text  string
	words int
}

var (
	link = regexp.MustCompile(`\[([^\]]*)\](\([^)]*\))?`)
	end  = regexp.MustCompile(`([.!?][)"*]*\s+\S|:\s+[A-Z\x60])`) // after a colon, code is shown and not read
	item = regexp.MustCompile(`^([-*]|\d+\.) `)
	word = regexp.MustCompile(`[\pL\pN]`)
)

// sentences splits a paragraph. A word is what stands between spaces and has a letter or a digit, in code too.
func sentences(where, paragraph string) (all []sentence) {
	text := link.ReplaceAllString(paragraph, "$1")
	text = strings.Join(strings.Fields(text), " ")
	for text != "" {
		one := text
		if at := end.FindStringIndex(text); at != nil {
			one = text[:at[1]-1]
		}
		text = text[len(one):]
		n := 0
		for _, field := range strings.Fields(one) {
			if word.MatchString(field) {
				n++
			}
		}
		if n > 1 {
			all = append(all, sentence{where, strings.TrimSpace(one), n})
		}
	}
	return all
}

// ofMarkdown reads a document. Code, tables, headings and comments do not count, and an item of a list is a
// paragraph.
func ofMarkdown(file, text string) (all []sentence) {
	var paragraph []string
	first, code, comment := 0, false, false
	flush := func() {
		all = append(all, sentences(fmt.Sprintf("%s:%d", file, first), strings.Join(paragraph, " "))...)
		paragraph = nil
	}
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			code = !code
			flush()
		case strings.HasPrefix(trimmed, "<!--") || comment:
			comment = !strings.Contains(trimmed, "-->")
		case code:
		case trimmed == "", strings.HasPrefix(line, "    ") && len(paragraph) == 0, strings.HasPrefix(trimmed, "|"), strings.HasPrefix(trimmed, "#"):
			flush()
		default:
			if item.MatchString(trimmed) {
				flush()
			}
			if len(paragraph) == 0 {
				first = i + 1
			}
			paragraph = append(paragraph, item.ReplaceAllString(trimmed, ""))
		}
	}
	flush()
	return all
}

// ofPackage reads the comments of the Go files of a folder, without tests.
func ofPackage(folder string) (all []sentence, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		found, err := ofGo(file)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return report(folder, all), nil
}

// ofGo reads the comments of a Go file. An item of a list is a paragraph.
func ofGo(file string) (all []sentence, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, group := range f.Comments {
		if err := swallows(group.Text()); err != nil {
			return nil, fmt.Errorf("%s: %w", set.Position(group.Pos()), err)
		}
		for i, text := range strings.Split(strings.ReplaceAll(group.Text(), "\n  - ", "\n\n"), "\n\n") {
			if !strings.HasPrefix(text, "\t") && !strings.HasPrefix(text, "#") {
				all = append(all, sentences(fmt.Sprintf("%s:%d+%d", file, set.Position(group.Pos()).Line, i), text)...)
			}
		}
	}
	return all, nil
}

// swallows returns an error for code that stands right behind a list: go doc prints it as words of the last item.
func swallows(text string) error {
	var p comment.Parser
	for _, block := range p.Parse(text).Content {
		list, ok := block.(*comment.List)
		if !ok {
			continue
		}
		for _, item := range list.Items {
			of := string(new(comment.Printer).Text(&comment.Doc{Content: item.Content}))
			if strings.Contains(of, ":= ") || strings.Contains(of, "{ ") && strings.Contains(of, " }") {
				return fmt.Errorf("code right behind a list needs a line of words before it: %q", of)
			}
		}
	}
	return nil
}
