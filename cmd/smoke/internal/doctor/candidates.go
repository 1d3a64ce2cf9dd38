package doctor

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/dl"
)

// ptxVersion is the directive that PTX begins with.
var ptxVersion = regexp.MustCompile(`(?m)^\s*\.version\s+(\d+\.\d+)`)

// candidates are the names with the files that each may mean. The loader passes over files
// of other processors in silence and says that there is none, so they are looked at here.
func candidates(names []string) []Candidate {
	list := make([]Candidate, len(names))
	for i, name := range names {
		list[i] = Candidate{Name: name, Files: libraryFiles(name)}
	}
	return list
}

// notTried is the reason of candidates after the one that was taken, and of all in a process that
// cannot load libraries.
const notTried = "not tried"

// recordAttempts sets the outcome of each candidate.
func recordAttempts(list []Candidate, attempts []driver.Attempt, taken string) {
	if loader, _ := driver.HasLoader(); !loader {
		attempts = nil // all have that reason, and the report has it once
	}
	for i := range list {
		c := &list[i]
		c.Taken, c.Reason = taken != "" && c.Name == taken, notTried
		if c.Taken {
			c.Reason = ""
			continue
		}
		for _, a := range attempts {
			if a.Name == c.Name {
				c.Reason = oneLine(strings.TrimPrefix(a.Reason, a.Name+": "))
			}
		}
	}
}

func attemptsOf(err error) []driver.Attempt {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Attempts
	}
	return nil
}

// libraryFiles are the files that a name may mean to the loader: the file itself, or those
// of that name in LD_LIBRARY_PATH and in the system's usual folders.
func libraryFiles(name string) []LibraryFile {
	if strings.ContainsRune(name, filepath.Separator) {
		if f, ok := libraryFile(name); ok {
			return []LibraryFile{f}
		}
		return nil
	}
	if goruntime.GOOS != "linux" {
		return nil
	}
	var list []LibraryFile
	for _, dir := range loaderDirs() {
		if f, ok := libraryFile(filepath.Join(dir, name)); ok && !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list
}

// loaderDirs are where glibc's loader looks, as far as that can be known without reading its
// cache.
func loaderDirs() []string {
	dirs := strings.FieldsFunc(os.Getenv("LD_LIBRARY_PATH"), func(c rune) bool { return c == ':' || c == ';' })
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[goruntime.GOARCH]
	for _, dir := range []string{"/lib/" + triplet, "/usr/lib/" + triplet, "/lib64", "/usr/lib64", "/lib", "/usr/lib"} {
		if real, err := filepath.EvalSymlinks(dir); err == nil && real == filepath.Clean(dir) { // /lib is a link to /usr/lib as a rule
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// machines are ELF's names of the processors that Go programs load CUDA on.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

var machineNames = map[elf.Machine]string{
	elf.EM_X86_64: "x86-64", elf.EM_AARCH64: "arm64", elf.EM_386: "32-bit x86", elf.EM_ARM: "32-bit arm", elf.EM_PPC64: "ppc64le",
}

func machineName(m elf.Machine) string {
	if name := machineNames[m]; name != "" {
		return name
	}
	return fmt.Sprintf("processor %d of ELF's list", int(m))
}

// libraryFile looks at a file, and tells false if it is not there.
func libraryFile(path string) (LibraryFile, bool) {
	f := LibraryFile{Path: path}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if link, err := os.Readlink(path); err == nil {
			f.Wrong = "is a link to " + link + ", which is not there"
			return f, true
		}
		return f, false
	}
	switch {
	case err != nil:
		f.Wrong = "cannot be looked at: " + cause(err)
	case info.IsDir():
		f.Wrong = "is a folder"
	case !info.Mode().IsRegular():
		f.Wrong = "is no regular file"
	case info.Size() == 0:
		f.Wrong = "is empty"
	case goruntime.GOOS == "linux":
		f.Wrong = wrongELF(path)
	}
	return f, true
}

// wrongELF is why a file is no library for this processor, or "".
func wrongELF(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return "cannot be opened: " + cause(err)
	}
	defer file.Close()
	var head [20]byte
	if _, err := io.ReadFull(file, head[:]); err != nil || string(head[:4]) != elf.ELFMAG {
		return "is no library"
	}
	machine := elf.Machine(uint16(head[18]) | uint16(head[19])<<8)
	if want, known := machines[goruntime.GOARCH]; known && machine != want {
		return fmt.Sprintf("is for %s, and this program for %s", machineName(machine), machineName(want))
	}
	if elf.Class(head[4]) != elf.ELFCLASS64 {
		return "is a 32-bit library"
	}
	return ""
}

// cause is an error without the path that it is about.
func cause(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// loadedFile is the file of a candidate that was loaded into this process, or "".
func loadedFile(name string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		if real, err := filepath.EvalSymlinks(name); err == nil {
			return real
		}
		return name
	}
	stem, _, _ := strings.Cut(name, ".so")
	return dl.MappedFile(stem + ".so")
}

var release = regexp.MustCompile(`\d{3,}\.\d+(\.\d+)*`)

// releaseOf is the release in the name of a driver's file, libcuda.so.580.65.06.
func releaseOf(file string) string { return release.FindString(filepath.Base(file)) }
