// Package library finds and opens NVIDIA's libraries other than the driver. Each is a [Description]: how
// its files are called, what it comes with, and what a user installs to have it.
package library

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/dl"
)

// Description describes a library.
type Description struct {
	Name     string // "NVRTC"
	Purpose  string // what it is needed for: "compile CUDA C++"
	Without  string // what a program does where NVIDIA has none: "kernels have to come as PTX"
	Install  string // what to install: "CUDA toolkit 11.2 or newer"
	Variable string // of the environment, which replaces the candidates by one file
	// OfDriver says that it comes with the graphics driver and lies where that lies.
	OfDriver       bool
	Linux, Windows Names
	// Before names what is loaded before a candidate, because it asks for that by its bare name. What is not
	// there is left out.
	Before func(candidate string) []string
	// Property is the function (type, *value) that tells the version, and CUDA the major version of CUDA that
	// a driver has at least for that version of the library, or 0 where nobody knows.
	Property string
	// Number is the function in its place that tells it as one number: 22304 is 2.23.4.
	Number string
	CUDA   func(Version) int
}

// Names are those of a library on a platform.
type Names struct {
	Files  []string // newest first; none where NVIDIA has no such library
	Wheels []string // folders of Python packages below site-packages
}

func (d Description) names() Names {
	return map[string]Names{"linux": d.Linux, "windows": d.Windows}[goruntime.GOOS]
}

// places are the folders of a platform that libraries of a toolkit lie in.
type places struct {
	toolkit, conda []string // below a toolkit, and below CONDA_PREFIX
	sites          string   // of Python, below an environment
	toolkits       string   // where toolkits are installed
	standard       []string // the first of them
}

func platformPlaces() places {
	if goruntime.GOOS == "windows" {
		programs := os.Getenv("ProgramFiles")
		if programs == "" {
			programs = `C:\Program Files`
		}
		return places{
			toolkit:  []string{`bin\x64`, `bin`}, // since 13.0, and before
			conda:    []string{`Library\bin`, `Library\bin\x64`},
			sites:    `Lib\site-packages`,
			toolkits: filepath.Join(programs, "NVIDIA GPU Computing Toolkit", "CUDA", "v*"),
		}
	}
	targets := map[string][]string{ // of a toolkit that has libraries for several processors
		"amd64": {"targets/x86_64-linux/lib"},
		"arm64": {"targets/sbsa-linux/lib", "targets/aarch64-linux/lib"}, // servers, Jetson
	}[goruntime.GOARCH]
	return places{
		toolkit:  append([]string{"lib64"}, targets...), // a link to the second
		conda:    append([]string{"lib"}, targets...),
		sites:    "lib/python3*/site-packages",
		toolkits: "/usr/local/cuda-*",
		standard: []string{"/usr/local/cuda"},
	}
}

// Candidates lists where Open looks, in order: the file that the variable names and nothing else
// if it is set. Otherwise it is one that is in the process already, then those of the driver, or of the
// toolkit of CUDA_PATH and CUDA_HOME. Then comes what the system's loader knows, then the toolkits in
// their usual folders, and last the active Python environment (VIRTUAL_ENV, CONDA_PREFIX). In each place
// the newest comes first. It is empty where NVIDIA has no such library. It reads directories.
func (d Description) Candidates() []string {
	if path := os.Getenv(d.Variable); path != "" {
		return []string{path}
	}
	names, p := d.names(), platformPlaces()
	if len(names.Files) == 0 {
		return nil
	}
	list := newList(d.Mapped())
	if d.OfDriver {
		return list.add(dl.DriverCandidates(names.Files...)...).all
	}
	for _, variable := range []string{"CUDA_PATH", "CUDA_HOME"} {
		if root := os.Getenv(variable); filepath.IsAbs(root) {
			list.addBelow(root, p.toolkit, names.Files)
		}
	}
	list.add(names.Files...)
	installed, _ := filepath.Glob(p.toolkits)
	slices.Sort(installed)
	slices.Reverse(installed)
	for _, root := range append(p.standard, installed...) {
		list.addBelow(root, p.toolkit, names.Files)
	}
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		root := os.Getenv(variable)
		if !filepath.IsAbs(root) {
			continue
		}
		sites, _ := filepath.Glob(filepath.Join(root, p.sites))
		for _, site := range sites {
			list.addBelow(site, names.Wheels, names.Files)
		}
		if variable == "CONDA_PREFIX" {
			list.addBelow(root, p.conda, names.Files)
		}
	}
	return list.all
}

// Mapped is the file of such a library that is in the process already, or "". It is not needed on Windows: the
// loader takes a library that is in the process already when it is asked for one of the same name.
func (d Description) Mapped() string {
	files := d.names().Files
	if len(files) == 0 || goruntime.GOOS == "windows" {
		return ""
	}
	name, _, _ := strings.Cut(files[0], ".so")
	return dl.MappedFile(name + ".so.")
}

// candidateList has each candidate once.
type candidateList struct {
	all  []string
	seen map[string]bool
}

func newList(first ...string) *candidateList {
	return (&candidateList{seen: map[string]bool{"": true}}).add(first...)
}

func (l *candidateList) add(candidates ...string) *candidateList {
	for _, c := range candidates {
		if !l.seen[c] {
			l.seen[c] = true
			l.all = append(l.all, c)
		}
	}
	return l
}

func (l *candidateList) addBelow(root string, folders, files []string) {
	for _, folder := range folders {
		for _, file := range files {
			l.add(filepath.Join(root, folder, file))
		}
	}
}

// Open opens the first candidate that use takes; with none, those of [Description.Candidates]. It returns
// those that were tried before, and why they were not used.
//
// The error is of kind [driver.ErrLibraryUnavailable] if no candidate is there or the platform has
// none, and says what to install; it is also a [driver.ErrUnsupported]. It is of kind
// [driver.ErrDriverLibraryLoadFailed] if one is there and none can be used. Both carry all
// attempts. It reads files, and may block on them.
func (d Description) Open(candidates []string, use func(*dl.Library) error) ([]driver.Attempt, error) {
	if len(candidates) == 0 {
		candidates = d.Candidates()
	}
	var attempts []driver.Attempt
	var broken error
	for _, name := range candidates {
		if d.Before != nil {
			for _, before := range d.Before(name) {
				_, _, _ = dl.Open(before)
			}
		}
		lib, _, err := dl.Open(name)
		if err == nil {
			err = use(lib)
		}
		if err == nil {
			return attempts, nil
		}
		attempts = append(attempts, driver.Attempt{Name: name, Reason: strings.TrimPrefix(err.Error(), name+": ")})
		if broken == nil && !errors.Is(err, dl.ErrNotFound) {
			broken = err
		}
	}
	var e *driver.Error
	switch {
	case broken != nil:
		e = driver.Errorf(driver.ErrDriverLibraryLoadFailed, "%s is there and cannot be used: %w", d.Name, broken)
	case len(candidates) == 0:
		e = driver.Errorf(driver.ErrLibraryUnavailable, "NVIDIA has no %s for this platform: %s", d.Name, d.Without)
	default:
		e = driver.Errorf(driver.ErrLibraryUnavailable, "no %s to %s with: install it (%s), or name the file in %s; tried %s",
			d.Name, d.Purpose, d.Install, d.Variable, strings.Join(candidates, ", "))
	}
	e.Attempts = attempts
	return attempts, e
}

// Resolve puts the addresses of functions into to. It returns those that symbol does not find.
func Resolve(functions []string, to []uintptr, symbol func(name string) uintptr) (missing []string) {
	for i, f := range functions {
		if to[i] = symbol(f); to[i] == 0 {
			missing = append(missing, f)
		}
	}
	return missing
}

// Lacks is why a file that was opened is of no use: it is too old for what is missing, or not the library. It is nil where nothing is missing.
func (d Description) Lacks(file string, since Since, found Version, missing []string) error {
	if len(missing) > 0 && found.Before(since) {
		return fmt.Errorf("%s: %s", file, d.TooOld(strings.Join(missing, ", "), since, found))
	}
	return d.Missing(file, since.String(), missing)
}

// TooOld names what is too old, and for what.
func (d Description) TooOld(function string, since Since, found Version) string {
	return fmt.Sprintf("%s needs %s %v, found %v", function, d.Name, since, found)
}

// Missing is why a file that was opened is not the library: it lacks required functions.
func (d Description) Missing(file, oldest string, functions []string) error {
	if len(functions) == 0 {
		return nil
	}
	return fmt.Errorf("%s: lacks %s: not %s, or one older than %s", file, strings.Join(functions, ", "), d.Name, oldest)
}
