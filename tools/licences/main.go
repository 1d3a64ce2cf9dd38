// Licences prints the third-party modules that the packages and programs of this repository link. It
// prints the version and the licence of each, and the texts that a program has to include. From the
// root of the repository:
//
//	go run -C tools ./licences >THIRD_PARTY.md
//
// It fails if a licence is not accepted or cannot be identified.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// root is the root of the repository, as seen from where the program runs.
const root = ".."

// group is what is linked together.
type group struct {
	title    string
	folder   string // of the module, from the root
	packages []string
	programs bool // binaries are made of it, which the texts have to go with
}

// testKit are the packages that a program imports in its tests only.
var testKit = []string{"./driver/drivertest/...", "./nvrtc/nvrtctest/..."}

var groups = []group{
	{"The library packages", ".", nil, false}, // their names are asked for
	{"driver/drivertest and nvrtc/nvrtctest, for tests", ".", testKit, false},
	{"cmd/smoke", ".", []string{"./cmd/smoke"}, true},
	{"cmd/purecuda-static", ".", []string{"./cmd/purecuda-static"}, true},
	{"gpuc", "gpuc", []string{"."}, true},
	{"cluster", "cluster", []string{"."}, false},
	{"cluster/cmd/purecuda-cluster", "cluster", []string{"./cmd/purecuda-cluster"}, true},
	{"contrib/prometheus", "contrib/prometheus", []string{"."}, false},
	{"contrib/otel", "contrib/otel", []string{"."}, false},
	{"libs", "libs", []string{"./cublas", "./cublas/cublastest", "./cublas/gonumblas", "./cufft", "./cufft/cuffttest", "./curand", "./curand/curandtest", "./cusolver", "./cusolver/cusolvertest", "./nccl", "./nccl/nccltest"}, false},
}

// platforms are those that differ in what is linked.
var platforms = []string{"linux/amd64", "linux/arm64", "windows/amd64", "darwin/arm64"}

func main() {
	log.SetFlags(0)
	log.SetPrefix("licences: ")
	if err := write(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// write writes the page.
func write(w io.Writer) error {
	page := &bytes.Buffer{}
	page.WriteString(`# Modules of others

This is what the packages and programs here link, without tests. ` + "`tools/licences`" + ` makes it from the packages on
linux (amd64, arm64), windows/amd64 and darwin/arm64. ` + "`.ci/run licences`" + ` fails if it is not up to date. It also fails
if a licence is not one of these: ` + acceptedText() + `. A person has read
what the usual files do not say, version by version: ` + "`tools/licences/judged.go`" + `.

Every Go program also links Go's standard library, of the version that builds it, under BSD-3-Clause.
`)
	texts := map[string][]string{} // by text, the modules that have it
	var errs []error
	for _, g := range groups {
		linked, err := g.modules()
		if err != nil {
			return fmt.Errorf("%s: %w", g.title, err)
		}
		fmt.Fprintf(page, "\n## %s\n\n", g.title)
		if len(linked) == 0 {
			page.WriteString("None.\n")
			continue
		}
		page.WriteString("| module | version | licence |\n|---|---|---|\n")
		for _, m := range linked {
			licence, files, err := m.licence()
			errs = append(errs, err)
			fmt.Fprintf(page, "| %s | %s | %s |\n", m.Path, m.Version, licence)
			if !g.programs {
				continue
			}
			for _, f := range files {
				if of := texts[f.text]; !slices.Contains(of, m.Path) {
					texts[f.text] = append(of, m.Path)
				}
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	page.WriteString("\n## The texts\n\nOf what the programs link: they have to go with a binary.\n")
	byModule := func(a, b string) int { return cmp.Or(slices.Compare(texts[a], texts[b]), cmp.Compare(a, b)) }
	for _, text := range slices.SortedFunc(maps.Keys(texts), byModule) {
		fmt.Fprintf(page, "\n%s:\n\n```text\n%s\n```\n", strings.Join(texts[text], ", "), text)
	}
	_, err := w.Write(page.Bytes())
	return err
}

// module is a module and the folders of its packages that are linked.
type module struct {
	Path, Version, Dir string
	Replace            *module
	folders            map[string]bool
	embedded           []string // files that are built in
}

// modules returns the modules of others that a group links on any platform.
func (g group) modules() ([]*module, error) {
	patterns := g.packages
	if patterns == nil {
		var err error
		if patterns, err = libraryPackages(); err != nil {
			return nil, err
		}
	}
	found := map[string]*module{}
	for _, platform := range platforms {
		out, err := goList(g.folder, platform, append([]string{"-deps", "-json=Dir,Standard,EmbedFiles,Module"}, patterns...)...)
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				Dir        string
				Standard   bool
				EmbedFiles []string
				Module     *module
			}
			if err := d.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
			if p.Standard || own(p.Module) {
				continue
			}
			if p.Module.Replace != nil {
				return nil, fmt.Errorf("%s is replaced by %s: a module of others is linked as it is", p.Module.Path, p.Module.Replace.Path)
			}
			if found[p.Module.Path] == nil {
				found[p.Module.Path] = p.Module
				p.Module.folders = map[string]bool{}
			}
			m := found[p.Module.Path]
			m.folders[p.Dir] = true
			m.embedded = append(m.embedded, p.EmbedFiles...)
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *module) int { return cmp.Compare(a.Path, b.Path) }), nil
}

// libraryPackages are what other programs import.
func libraryPackages() ([]string, error) {
	out, err := goList(".", platforms[0], "-f", "{{if .GoFiles}}{{.ImportPath}}{{end}}", "./...")
	if err != nil {
		return nil, err
	}
	left := regexp.MustCompile(`/(cmd|examples|driver/drivertest|nvrtc/nvrtctest)(/|$)`)
	return slices.DeleteFunc(strings.Fields(string(out)), left.MatchString), nil
}

// own reports whether a module is of this repository.
func own(m *module) bool {
	const path = "github.com/purecuda/purecuda"
	return m == nil || m.Path == path || strings.HasPrefix(m.Path, path+"/")
}

// goList runs go list in a folder of the repository, for a platform.
func goList(folder, platform string, args ...string) ([]byte, error) {
	goos, goarch, _ := strings.Cut(platform, "/")
	command := exec.Command("go", append([]string{"list"}, args...)...)
	command.Dir = filepath.Join(root, folder)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+goos, "GOARCH="+goarch)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", command, err, stderr.Bytes())
	}
	return out, nil
}
