package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// libraryCall is a call of one of NVIDIA's libraries, as scripts/baseline has it in C.
type libraryCall struct {
	name    string // as in C
	perWait int    // how many before the stream is waited for
	waiting bool   // with that in the time
	do      func() error
}

// librarySuite is a suite of calls on the stream of a launcher. path is the library, once it is open.
func librarySuite(m *machine, program, path string, open func(l *launcher, c *closers) error, calls []libraryCall) *suite {
	l := new(launcher)
	s := &suite{open: func(c *closers) error {
		if err := l.open(m, c); err != nil {
			return err
		}
		err := open(l, c)
		if errors.Is(err, driver.ErrLibraryUnavailable) {
			return skip("%v", err)
		}
		return err
	}}
	c := inC{}
	if path != "" {
		c.program = []string{"LD_LIBRARY_PATH=" + libraryFolders(), program, path}
	}
	for _, call := range calls {
		c.name = call.name
		s.add(benchmark{program + "/call=" + call.name, c, loop(enqueue(&l.stream, call.perWait, call.waiting, func() error { return call.do() }))})
	}
	return s
}

// dense makes a buffer of zeros.
func dense[T any](l *launcher, c *closers, n int) (*runtime.Ref[T], error) {
	ref, err := runtime.Alloc[T](l.stream, n)
	if ref, err = opened(c, ref, err); err != nil {
		return nil, err
	}
	return ref, runtime.Zero(l.stream, ref)
}

// libraryFolders are those of the CUDA libraries of this process: what a library asks for may be in none that the loader
// knows.
func libraryFolders() string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	seen := map[string]bool{}
	var all []string
	for line := range strings.Lines(string(maps)) {
		at := strings.IndexByte(line, '/')
		if at < 0 {
			continue
		}
		folder, name := filepath.Split(strings.TrimSpace(line[at:]))
		if (strings.HasPrefix(name, "libcu") || strings.HasPrefix(name, "libnv")) && !seen[folder] {
			seen[folder] = true
			all = append(all, folder)
		}
	}
	return strings.Join(append(all, os.Getenv("LD_LIBRARY_PATH")), ":")
}

// addKernels adds what simulates the kernels of a library.
func addKernels(kernels map[string]drivertest.KernelFunc) {
	configure = append(configure, func(c *drivertest.Config) {
		if c.Kernels == nil {
			c.Kernels = map[string]drivertest.KernelFunc{}
		}
		maps.Copy(c.Kernels, kernels)
	})
}
