package main

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/sample.txt")

func TestSample(t *testing.T) {
	lines, err := list("testdata/sample")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	got := strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "pkg tools/apilist/testdata/", "pkg ")
	const golden = "testdata/sample.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestUnused(t *testing.T) {
	lines, err := listUnused([]string{"testdata/used"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"const Lonely untyped int = 1",
		"func Mentioned()",
		"func Tested()",
		"method (Shown) Unused() string",
		"type File struct",
		"type Shown struct, Unread int",
	}
	for i := range want {
		want[i] = "pkg tools/apilist/testdata/used/one, " + want[i]
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestHidden(t *testing.T) {
	for path, want := range map[string]bool{
		root + "/driver":                   false,
		root + "/driver/internal/generate": true,
		root + "/cmd/smoke":                true,
		root + "/examples/testing":         true,
		root + "/contrib/otel":             false,
	} {
		if hidden(path) != want {
			t.Errorf("hidden(%q) is %v", path, !want)
		}
	}
}

func TestBadFolders(t *testing.T) {
	for _, folder := range []string{t.TempDir(), "testdata/missing"} {
		if _, err := list(folder); err == nil {
			t.Errorf("%s: no error", folder)
		}
	}
}
