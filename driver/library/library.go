package library

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/internal/dl"
)

// Description says how a library is found, what it needs, and what its functions return. It is a plain value.
// What is not set is not asked for.
type Description struct {
	Name     string // "NVRTC"
	Purpose  string // what it is needed for: "compile CUDA C++"
	Without  string // what a program does where NVIDIA has none: "kernels have to come as PTX"
	Install  string // what to install: "CUDA toolkit 11.2 or newer"
	Variable string // of the environment, which replaces the candidates by one file
	// OfDriver says that it comes with the graphics driver and lies where that lies.
	OfDriver       bool
	Linux, Windows Names
	// Before names files that are loaded before a candidate, because it asks for them by their bare names. What is not
	// there is left out. A function that the candidate lacks is looked for in them.
	Before func(candidate string) []string
	// Functions are those without which a file is refused: it is not the library, or it is older than Oldest.
	Functions []string
	// Oldest is the version that has them, and Brings names what else that version brings which a program relies on.
	Oldest Since
	Brings string
	// Property is the function (type, *value) that tells the version.
	Property string
	// Number is the function in its place that tells the version as one number: 22304 is 2.23.4.
	Number string
	// Pair is the function (*major, *minor) in their place.
	Pair string
	// CUDA is the major version of CUDA that a driver has at least for a version of the library, or 0 where nobody knows.
	CUDA func(Version) int
	// Statuses are the names of what its functions return, for the errors of [Library.Call]. 0 is success.
	Statuses map[Status]string
}

// Names of a library on a platform.
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
	if path := dl.Getenv(d.Variable); path != "" {
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
		if root := dl.Getenv(variable); filepath.IsAbs(root) {
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
		root := dl.Getenv(variable)
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
