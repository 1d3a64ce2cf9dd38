package dlhost_test

import (
	"debug/elf"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// harmless are names that purego gives the Go runtime, and that a static start can leave
// as they are.
var harmless = map[string]string{
	"runtime.set_crosscall2": "called only if runtime.iscgo is true",
	"runtime.cgo_yield":      "points to _cgo_yield, which nobody sets",
}

var clearing = regexp.MustCompile(`(?m)^\s+MOV[BQD]\s+(?:\$0|ZR), ([\w·]+)\(SB\)`)

// takenBack lists the names that the entry point clears, in the linker's spelling.
func takenBack(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var names []string
	for _, m := range clearing.FindAllStringSubmatch(string(text), -1) {
		names = append(names, strings.ReplaceAll(m[1], "·", "."))
	}
	slices.Sort(names)
	require.NotEmpty(t, names)
	return names
}

var (
	linkname = regexp.MustCompile(`^//go:linkname\s+\S+\s+(\S+)`)
	// hook is a name through which the Go runtime or package syscall learns of C.
	hook = regexp.MustCompile(`^(runtime\.|syscall\.)?_?(is)?cgo($|_)|^runtime\.(iscgo|set_crosscall2)$`)
)

// Every name of the Go runtime that purego defines must be known here: a new one in a
// later version would stay set in a static start.
func TestNoHookIsForgottenInPurego(t *testing.T) {
	needsSource(t)
	known := takenBack(t, "rt0_linux_amd64.s")
	dir := goOutput(t, "list", "-m", "-f", "{{.Dir}}", "github.com/ebitengine/purego")
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(dir, "internal", "fakecgo", "*.go"))
	require.NoError(t, err)
	found := 0
	for _, name := range append(files, more...) {
		if base := filepath.Base(name); regexp.MustCompile(`_(darwin|freebsd|netbsd|windows|test)\b`).MatchString(base) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, group := range file.Comments {
			for _, comment := range group.List {
				m := linkname.FindStringSubmatch(comment.Text)
				if m == nil || !hook.MatchString(m[1]) || strings.HasPrefix(m[1], "_cgo_purego_") {
					continue
				}
				found++
				if harmless[m[1]] == "" {
					assert.Contains(t, known, m[1], "%s sets it", name)
				}
			}
		}
	}
	assert.GreaterOrEqual(t, found, len(known))
}

// In a finished program, every variable of the runtime and of package syscall that
// sounds of cgo and begins with a value must be known here.
func TestNoHookIsForgottenInTheRuntime(t *testing.T) {
	needsSource(t)
	known := takenBack(t, "rt0_linux_amd64.s")
	f, err := elf.Open(build{source: probeSource, stock: true}.make(t))
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	require.NoError(t, err)
	var set []string
	for _, s := range symbols {
		if !hook.MatchString(s.Name) || strings.HasPrefix(s.Name, "_cgo_purego_") || int(s.Section) >= len(f.Sections) || elf.ST_TYPE(s.Info) != elf.STT_OBJECT {
			continue
		}
		section := f.Sections[s.Section]
		if section.Type == elf.SHT_NOBITS || section.Flags&elf.SHF_WRITE == 0 {
			continue
		}
		value := make([]byte, s.Size)
		_, err := section.ReadAt(value, int64(s.Value-section.Addr))
		require.NoError(t, err)
		if strings.Trim(string(value), "\x00") != "" && harmless[s.Name] == "" {
			set = append(set, s.Name)
			assert.Contains(t, known, s.Name, "begins with a value")
		}
	}
	slices.Sort(set)
	assert.Equal(t, known, set, "and what is known does begin with one")
}

// goOutput runs the go command.
func goOutput(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("go", args...).Output()
	require.NoError(t, err, strings.Join(args, " "))
	return strings.TrimSpace(string(out))
}
