// Package internal_test keeps the order of the packages.
package internal_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/purecuda/purecuda"

// order is the order of the packages: each may import those above it, and those below its own folder.
// why says what it needs from above.
var order = []struct{ folder, why string }{
	{"internal", "calls of C functions and the loader need nothing of ours"},
	{"driver", "its calls go through internal/ffi, and internal/dl opens the library"},
	{"internal/current", "it makes a context of the driver current for calls of other libraries"},
	{"internal/wait", "it waits for streams of a driver"},
	{"internal/typed", "it makes requests and results of pool/isolate and of the module cluster; its errors are driver.Error"},
	{"driver/library", "it opens libraries with internal/dl, and its errors are driver.Error"},
	{"driver/nvml", "it is loaded like the driver, which its library comes with, and its errors are driver.Error"},
	{"nvrtc", "it is loaded like the driver, and its errors are driver.Error"},
	{"arena", "it allocates with the driver, and its copies wait by tickets"},
	{"refs", "a handle is a block of an arena with the generation of its context"},
	{"runtime", "it is the door to all of the above: users import it"},
	{"gpu", "generated launches (gpu/launch) go through runtime; gpu itself imports nothing"},
	{"pool", "it has a context, a stream and a device of runtime for each worker"},
	{"kernels", "its launches are runtime's, and its Reducer runs over a pool"},
	{"internal/job", "the main job is a pool.Stream over files; cmd/smoke and the module cluster run it"},
	{"internal/promises", "its tests, and the kernels that they launch, use everything"},
	{"cmd/smoke", "the program uses everything"},
	{"cmd/purecuda-static", "it rewrites a finished file with internal/replace, and prints with internal/cleantext"},
	{"scripts", "scripts/walks measures runtime on the simulated driver"},
}

// programs may import what is simulated.
var programs = []string{"cmd/smoke", "examples", "scripts"}

// simulated are the simulated driver, NVRTC and GPU, for tests and for programs
// that show them. No package that a program is built from needs them.
var simulated = []string{"driver/drivertest", "driver/nvml/nvmltest", "nvrtc/nvrtctest", "gpu/gputest"}

// libraryModules are the modules of others that a package may import outside of its
// tests.
var libraryModules = []string{"github.com/ebitengine/purego"}

// platforms are those that differ in what they import.
var platforms = []string{"linux/amd64", "linux/arm64", "windows/amd64", "darwin/arm64", "js/wasm"}

// listed is what go list tells of a package.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	CgoFiles   []string
}

// list returns all packages of the module and what they depend on, as built without
// cgo for a platform.
func list(t *testing.T, platform string) (own, all []listed) {
	t.Helper()
	goos, goarch, _ := strings.Cut(platform, "/")
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,CgoFiles", module+"/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
		if _, ours := folder(p.ImportPath); ours {
			own = append(own, p)
		}
	}
	require.NotEmpty(t, own)
	return own, all
}

func TestImportsGoOneWay(t *testing.T) {
	needsSource(t)
	for _, platform := range platforms {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			own, all := list(t, platform)
			standard := map[string]bool{"C": false, "unsafe": true}
			for _, p := range all {
				standard[p.ImportPath] = p.Standard
				assert.Empty(t, p.CgoFiles, "%s needs cgo", p.ImportPath)
				assert.NotEqual(t, "runtime/cgo", p.ImportPath, "something needs cgo")
			}
			for _, p := range own {
				importer, _ := folder(p.ImportPath)
				for _, imported := range p.Imports {
					if !standard[imported] {
						assert.Empty(t, objection(importer, imported), "%s imports %s", importer, imported)
					}
				}
			}
		})
	}
}

// TestObjections shows what the order forbids.
func TestObjections(t *testing.T) {
	const (
		purego  = "github.com/ebitengine/purego"
		cli     = "github.com/urfave/cli/v3"
		testify = "github.com/stretchr/testify/require"
	)
	for _, c := range []struct {
		importer, imported string
		allowed            bool
	}{
		{"internal/ffi", purego, true},
		{"internal/ffi", module + "/internal/dl", true},
		{"internal/ffi", module + "/driver", false},
		{"driver", module + "/internal/ffi", true},
		{"driver", module + "/internal/wait", false},
		{"arena", module + "/internal/wait", true},
		{"internal/wait", module + "/driver", true},
		{"internal/wait", module + "/arena", false},
		{"nvrtc", module + "/driver/library", true},
		{"driver/nvml", module + "/driver/library", true},
		{"driver/nvml", module + "/driver/nvml/nvmltest", false},
		{"driver/nvml/nvmltest", module + "/driver/nvml", true},
		{"driver", module + "/driver/nvml", false},
		{"driver", module + "/driver/library", false},
		{"driver", module + "/runtime", false},
		{"driver", module + "/driver/drivertest", false},
		{"driver/drivertest", module + "/driver", true},
		{"driver/drivertest/hardware", module + "/driver", true},
		{"driver/drivertest", module + "/driver/drivertest/hardware", true},
		{"driver/drivertest", module + "/runtime", false},
		{"driver/drivertest", testify, false},
		{"driver", testify, false},
		{"nvrtc", module + "/driver", true},
		{"driver", module + "/nvrtc", false},
		{"nvrtc", module + "/nvrtc/nvrtctest", false},
		{"runtime", module + "/nvrtc/nvrtctest", false},
		{"nvrtc/nvrtctest", module + "/nvrtc", true},
		{"nvrtc/nvrtctest", module + "/runtime", false},
		{"arena", module + "/refs", false},
		{"refs", module + "/arena", true},
		{"runtime", module + "/driver", true},
		{"runtime", module + "/driver/drivertest", false},
		{"runtime", cli, false},
		{"pool", module + "/kernels", false},
		{"kernels", module + "/runtime", true},
		{"kernels", module + "/cmd/smoke", false},
		{"cmd/smoke", module + "/internal/job", true},
		{"cmd/smoke", module + "/driver/drivertest", true},
		{"cmd/smoke", cli, false},
		{"examples/saxpy", module + "/runtime", true},
		{"examples/saxpy", module + "/driver/drivertest", true},
		{"runtime", module + "/examples/saxpy", false},
		{"misc", module + "/internal/dl", false},
	} {
		why := objection(c.importer, c.imported)
		assert.Equal(t, c.allowed, why == "", "%s imports %s: %q", c.importer, c.imported, why)
	}
}

// objection says why a package may not import another one that is not of the standard
// library, or is empty.
func objection(importer, importPath string) string {
	imported, ours := folder(importPath)
	switch {
	case !ours && within(importPath, libraryModules...):
		return ""
	case !ours:
		return "outside of tests, a package imports " + strings.Join(libraryModules, ", ") + " and the standard library only"
	case within(importer, "examples", "scripts"):
		return ""
	case within(imported, simulated...) && !within(importer, slices.Concat(programs, simulated)...):
		return "only tests, examples and programs use what is simulated"
	}
	from, to := place(importer), place(imported)
	switch {
	case from < 0:
		return importer + " has no place in the order of the packages"
	case to < 0:
		return imported + " has no place in the order of the packages"
	case to > from:
		return "imports go one way, and " + importer + " comes first: " + order[from].why
	}
	return ""
}

// folder is the folder of one of our packages.
func folder(importPath string) (string, bool) {
	rest, ours := strings.CutPrefix(importPath, module)
	if !ours || rest != "" && rest[0] != '/' {
		return "", false
	}
	return path.Clean("./" + rest), true
}

// place is the position of the nearest folder in the order, or -1.
func place(folder string) int {
	at := slices.IndexFunc(order, func(p struct{ folder, why string }) bool { return p.folder == folder })
	if at >= 0 || folder == "." {
		return at
	}
	return place(path.Dir(folder))
}

// within reports whether a folder or an import path is one of the tops or lies in one.
func within(folder string, tops ...string) bool {
	return slices.ContainsFunc(tops, func(top string) bool {
		return folder == top || strings.HasPrefix(folder, top+"/")
	})
}

// needsSource skips a test where there is only its binary.
func needsSource(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not there to list the packages")
	}
	out, err := exec.Command("go", "list", "-m").Output()
	if err != nil || strings.TrimSpace(string(out)) != module {
		t.Skip("not in the source of " + module)
	}
}
