package main

import (
	"slices"
	"strings"
	"testing"
)

func TestMarkdown(t *testing.T) {
	got := ofMarkdown("a.md", "# A heading of words\n\nOne two `x y z` three. four [five six](seven): eight nine.\n\n"+
		"```go\nno words here\n```\n- an item\n  of a list. it has two\n1. a numbered one\n| a | table |\n")
	want := []sentence{
		{"a.md:3", "One two `x y z` three.", 6},
		{"a.md:3", "four five six: eight nine.", 5},
		{"a.md:8", "an item of a list.", 5},
		{"a.md:8", "it has two", 3},
		{"a.md:10", "a numbered one", 3},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPackage(t *testing.T) {
	all, err := ofPackage(".")
	if err != nil || len(all) == 0 || !strings.HasPrefix(all[0].text, "Prose measures sentences") {
		t.Errorf("got %v and %v, want the comment of this package first", all, err)
	}
}

func TestCodeBehindAList(t *testing.T) {
	list := "These are the calls:\n\n  - [Do] does one thing.\n\n"
	code := "\tp, err := pool.Open(rt)\n\tif err != nil {\n\t\treturn err\n\t}\n"
	if err := swallows(list + code); err == nil {
		t.Error("the code is printed as words of the list, and nobody says so")
	}
	if err := swallows(list + "So it is opened:\n\n" + code); err != nil {
		t.Error(err)
	}
}
