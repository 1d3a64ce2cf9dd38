package dl

import (
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
)

// ErrNotFound marks an attempt on a library that is not there at all. Any other
// failure means that a file was there and did not load.
var ErrNotFound = errors.New("not found")

// ErrNoLoader is the reason on platforms that have no loader we can call.
var ErrNoLoader = fmt.Errorf("%w: no dynamic loader that CUDA supports on this platform", ErrNotFound)

// Attempt is one candidate that was tried.
type Attempt struct {
	// Name is the file name or path as it was handed to the loader.
	Name string
	// Err is nil for the candidate that was opened. It wraps ErrNotFound where
	// the file is not there; otherwise it holds the loader's own words.
	Err error
}

// Library is an open shared library. It is never closed.
type Library struct {
	// Name is the candidate that was opened.
	Name string
	// Mapped says that the library was in the process already, opened by
	// somebody else.
	Mapped bool

	handle uintptr
}

// Open opens the first candidate that can be opened. It looks for one that is
// mapped into the process already before it loads anything: two copies of the
// CUDA driver in one process do not work.
//
// The attempts name every candidate that was tried, in order. The error is nil,
// or wraps [ErrNotFound] when no candidate is there at all, or is the first
// failure of a candidate that is there but does not load. In a process without a
// loader nothing is tried, and the error says why there is none. Open may block on
// the file system and runs the initialisers of the library.
func Open(candidates ...string) (*Library, []Attempt, error) {
	if err := noLoader(); err != nil {
		return nil, nil, err
	}
	for _, name := range candidates {
		if handle := mapped(name); handle != 0 {
			return &Library{Name: name, Mapped: true, handle: handle}, []Attempt{{Name: name}}, nil
		}
	}
	var attempts []Attempt
	var broken error
	for _, name := range candidates {
		handle, err := open(name)
		attempts = append(attempts, Attempt{Name: name, Err: err})
		if err == nil {
			return &Library{Name: name, handle: handle}, attempts, nil
		}
		if broken == nil && !errors.Is(err, ErrNotFound) {
			broken = named(name, err)
		}
	}
	if broken != nil {
		return nil, attempts, broken
	}
	if len(candidates) == 1 {
		return nil, attempts, named(candidates[0], attempts[0].Err)
	}
	return nil, attempts, fmt.Errorf("%w (tried %s)", ErrNotFound, strings.Join(candidates, ", "))
}

// named puts the name before an error, unless the loader has.
func named(name string, err error) error {
	if strings.HasPrefix(err.Error(), name+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Symbol returns the address of a symbol, or 0 where the library does not have
// it.
func (l *Library) Symbol(name string) uintptr { return symbol(l.handle, name) }

// classify turns the words of a loader that could not open name into an error.
// Only a message that says name itself is missing is absence: the same words
// about another file mean that name is there and one of its dependencies is not.
func classify(name, message string) error {
	missing := strings.Contains(message, "No such file or directory")
	// glibc: "NAME: cannot open shared object file: ..."; musl: "Error loading
	// shared library NAME: ..." and, for a dependency, "... (needed by NAME)".
	itself := strings.HasPrefix(message, name+":") ||
		strings.HasPrefix(message, "Error loading shared library "+name+":") && !strings.Contains(message, "(needed by ")
	switch {
	case !missing || !itself:
		return errors.New(message)
	case isThere(name):
		// So glibc speaks of a library for another processor.
		return fmt.Errorf("a file is there, and it is no library for %s/%s", goruntime.GOOS, goruntime.GOARCH)
	}
	return ErrNotFound
}

// isThere reports whether a path names a file. Names without a folder are looked for by the loader,
// and not here.
func isThere(name string) bool {
	if !strings.Contains(name, "/") {
		return false
	}
	_, err := os.Stat(name)
	return err == nil
}
