package promises_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/promises"
)

var write = flag.Bool("write", false, "write docs/promises.md")

const root = "../.."

// needSource skips a test that reads or builds the source, in a test binary that runs elsewhere.
func needSource(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Skipf("the source is not there: %v", err)
	}
}

// The page has the table.
func TestDocument(t *testing.T) {
	const begin, end = "<!-- written by go test ./internal/promises -run TestDocument -write -->\n", "<!-- end -->\n"
	needSource(t)
	file := filepath.Join(root, "docs/promises.md")
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok, begin)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, end)
	want := before + begin + markdown() + end + after
	if *write {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(page), "write it: go test ./internal/promises -run TestDocument -write")
}

// markdown is the part of docs/promises.md that is written from the table.
func markdown() string {
	var b strings.Builder
	b.WriteString("| promise | what you rely on |\n|---|---|\n")
	for _, p := range promises.Promises {
		fmt.Fprintf(&b, "| `%s` | %s |\n", p.Name, p.Text)
	}
	b.WriteString("\n## The doors\n\nA `+` is a test. A number is a reason, below, why the promise makes no sense at the door. A `!` is a promise that the door does not hold yet.\n\n")
	b.WriteString("| door |")
	for _, p := range promises.Promises {
		fmt.Fprintf(&b, " %s |", p.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(promises.Promises)) + "\n")
	var reasons []string
	var broken []string
	for _, d := range promises.Doors {
		fmt.Fprintf(&b, "| %s |", d.Name)
		for _, p := range promises.Promises {
			cell := "+"
			if reason := d.Not[p.Name]; reason != "" {
				at := slices.Index(reasons, reason)
				if at < 0 {
					at, reasons = len(reasons), append(reasons, reason)
				}
				cell = fmt.Sprint(at + 1)
			}
			if what := d.Broken[p.Name]; what != "" {
				cell = "!"
				broken = append(broken, fmt.Sprintf("- %s, `%s`: %s", d.Name, p.Name, what))
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, reason := range reasons {
		fmt.Fprintf(&b, "%d. %s\n", i+1, reason)
	}
	if len(broken) > 0 {
		fmt.Fprintf(&b, "\nNot held yet:\n\n%s\n", strings.Join(broken, "\n"))
	}
	b.WriteString("\nCalls that are no door of their own:\n\n")
	for _, reason := range slices.Sorted(maps.Keys(promises.NoDoors)) {
		var names []string
		for _, name := range promises.NoDoors[reason] {
			names = append(names, "`"+name+"`")
		}
		fmt.Fprintf(&b, "- %s %s.\n", reason, strings.Join(names, ", "))
	}
	return b.String()
}

// doorPackages are those whose calls may run a function of the user, wait, or go to the CPU. The others are below them, or
// libraries with a handle that lives in a context.
var doorPackages = []string{"cluster", "gpu", "gpu/launch", "kernels", "libs/cublas/gonumblas", "libs/curand", "pool", "pool/isolate", "runtime"}

// A call looks like a door if it takes a context, a function, or what devices hang on; or if its name says that it is for the CPU.
var (
	declaration = regexp.MustCompile(`^pkg (\S+), (?:func|method \(\*?(\w+)(?:\[.*?\])?\)) (\w+)(?:\[.*?\])?\((.*)$`)
	looks       = regexp.MustCompile(`context\.Context|func\(|\*(?:runtime\.)?Runtime\b|\*(?:pool\.)?Pool\b|\*Cluster\b|\*Group\b`)
)

// A new call that looks like a door has a row, or a reason.
func TestDoorsAreAll(t *testing.T) {
	needSource(t)
	text, err := os.ReadFile(filepath.Join(root, "api/purecuda.txt"))
	require.NoError(t, err)
	known := map[string]string{}
	note := func(name, where string) {
		assert.Empty(t, known[name], "%s is in %s as well", name, where)
		known[name] = where
	}
	for _, d := range promises.Doors {
		for _, name := range d.Calls {
			note(name, d.Name)
		}
		if d.Folder != "" {
			note(d.Folder, d.Name)
		}
	}
	for reason, names := range promises.NoDoors {
		for _, name := range names {
			note(name, reason)
		}
	}
	exists := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		m := declaration.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		folder, of, name, parameters := m[1], m[2], m[3], m[4]
		full := folder + "." + name
		if of != "" {
			full = folder + "." + of + "." + name
		}
		exists[full] = true
		if at := strings.LastIndex(parameters, ") "); at >= 0 && !strings.Contains(parameters[at:], "func(") {
			parameters = parameters[:at] // without the results
		}
		if slices.Contains(doorPackages, folder) && !strings.HasPrefix(name, "With") && (looks.MatchString(parameters) || strings.HasSuffix(name, "CPU") || folder == "kernels" && strings.HasPrefix(parameters, "*runtime.Stream")) {
			assert.NotEmpty(t, known[full], "%s looks like a door: give it a row in internal/promises/doors.go, or a reason in nodoors.go", full)
		}
	}
	for _, folders := range []string{"cmd/*", "examples/*", "libs/examples/*", "cluster/cmd/*"} {
		mains, err := filepath.Glob(filepath.Join(root, folders))
		require.NoError(t, err)
		for _, folder := range mains {
			if info, err := os.Stat(folder); err != nil || !info.IsDir() {
				continue
			}
			folder = strings.TrimPrefix(filepath.ToSlash(folder), root+"/")
			exists[folder] = true
			assert.NotEmpty(t, known[folder], "%s is a program: give it a row in internal/promises/doors.go, or a reason in nodoors.go", folder)
		}
	}
	for name, where := range known {
		assert.True(t, exists[name], "%s: there is no %s", where, name)
	}
}

// Each row has a test, in whatever module.
func TestRowsAreTested(t *testing.T) {
	needSource(t)
	for _, d := range promises.Doors {
		text, err := os.ReadFile(path.Join(root, d.Test))
		if !assert.NoError(t, err, d.Name) || d.Test == here {
			continue
		}
		assert.Contains(t, string(text), `promises.Test(t, "`+d.Name+`"`, "%s", d.Test)
	}
}
