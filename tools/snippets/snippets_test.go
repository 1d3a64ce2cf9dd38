package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestSample(t *testing.T) {
	u, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range []string{"testdata/sample.md", "testdata/sample.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d := document{name: name, text: string(text)}
		for _, s := range d.snippets() {
			got = append(got, u.compile(s)...)
		}
		for _, s := range d.spans() {
			got = append(got, u.lookUp(s)...)
		}
	}
	want := []string{
		"testdata/sample.md:10: declared and not used: unused",
		"testdata/sample.md:16: c.Nothing undefined (type *",
		"testdata/sample.md:31: undefined: unknown",
		"testdata/sample.md:38: expected statement, found '...'",
		"testdata/sample.md:43: there is no Stream.Nothing",
		"testdata/sample.md:45: there is no runtime.Nothing",
		"testdata/sample.md:53: there is no runtime.Nowhere",
		"testdata/sample.go:8: undefined: unknown",
	}
	if len(got) != len(want) || !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What the search for documents leaves out: folders of other modules, of tests, and those that git hides.
func TestDocuments(t *testing.T) {
	files, err := documents("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"../../README.md": true, "../../docs/errors.md": true, "../../runtime/doc.go": true, "../../examples/saxpy/README.md": true,
		"../../contrib/otel/README.md": false, "../../tools/snippets/testdata/sample.md": false,
	} {
		if slices.Contains(files, name) != want {
			t.Errorf("%s: found %v, want %v", name, !want, want)
		}
	}
}
