package library

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/zero"
)

// Library is an open library. It is safe for concurrent use, as far as its functions are, and never unloaded.
type Library struct {
	description Description
	files       []*dl.Library // the library, and what was loaded before it
	version     Version
	attempts    []driver.Attempt
}

// Open loads the library. With no argument it tries the [Description.Candidates]; otherwise the given files, in order.
// The first one that has the Functions is taken. It reads files, and may block on them.
//
// The error is of kind [driver.ErrLibraryUnavailable] if no candidate is there or the platform has
// none, and says what to install; it is also a [driver.ErrUnsupported]. It is of kind
// [driver.ErrDriverLibraryLoadFailed] if one is there and none can be used. Both carry all
// attempts.
func (d Description) Open(candidates ...string) (*Library, error) {
	if len(candidates) == 0 {
		candidates = d.Candidates()
	}
	var attempts []driver.Attempt
	var broken error
	for _, name := range candidates {
		l, err := d.open(name)
		if err == nil {
			l.attempts = attempts
			return l, nil
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
	return nil, e
}

// open opens one file, and refuses it if it is not the library, or too old.
func (d Description) open(name string) (*Library, error) {
	l := &Library{description: d, files: make([]*dl.Library, 1)}
	if d.Before != nil {
		for _, before := range d.Before(name) {
			if lib, _, err := dl.Open(before); err == nil {
				l.files = append(l.files, lib)
			}
		}
	}
	lib, _, err := dl.Open(name)
	if err != nil {
		return nil, err
	}
	l.files[0], l.version = lib, d.versionOf(lib)
	var missing []string
	for _, function := range d.Functions {
		if l.Symbol(function) == 0 {
			missing = append(missing, function)
		}
	}
	old := l.version.Before(d.Oldest)
	if old && d.Brings != "" {
		missing = append(missing, d.Brings)
	}
	switch {
	case len(missing) == 0:
		return l, nil
	case old:
		return nil, fmt.Errorf("%s: %s", name, d.TooOld(strings.Join(missing, ", "), d.Oldest, l.version))
	}
	oldest := d.Oldest.String()
	if d.OfDriver {
		oldest = "CUDA " + oldest
	}
	return nil, fmt.Errorf("%s: lacks %s: not %s, or one older than %s", name, strings.Join(missing, ", "), d.Name, oldest)
}

// TooOld says in an error that a function needs a version, and that another one is there.
func (d Description) TooOld(function string, since Since, found Version) string {
	return fmt.Sprintf("%s needs %s %v, found %v", function, d.Name, since, found)
}

// Symbol is the address of a function, or 0 where the library does not have it. [Library.Call] calls it; purego.RegisterFunc
// makes a Go function of it.
func (l *Library) Symbol(name string) uintptr {
	for _, lib := range zero.Or(l).files {
		if fn := lib.Symbol(name); fn != 0 {
			return fn
		}
	}
	return 0
}

// Path is the candidate that was opened.
func (l *Library) Path() string {
	if l == nil || len(l.files) == 0 {
		return ""
	}
	return l.files[0].Name
}

// File is the file of the library, where the loader has found it, or "" where that is not known.
func (l *Library) File() string {
	if path := l.Path(); path == "" || filepath.IsAbs(path) {
		return path
	}
	return l.description.Mapped()
}

// Shared reports that other code had loaded the library into the process before.
func (l *Library) Shared() bool { return l != nil && len(l.files) > 0 && l.files[0].Mapped }

// Attempts are the candidates that were tried before, and why they were not used.
func (l *Library) Attempts() []driver.Attempt {
	return append([]driver.Attempt(nil), zero.Or(l).attempts...)
}

// Version is the version of the library. It is 0.0.0 where that is not known.
func (l *Library) Version() Version { return zero.Or(l).version }
