package driver

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
	"github.com/purecuda/purecuda/internal/zero"
)

// Library is the CUDA driver of this machine. It implements [API] and is safe for
// concurrent use. It is never unloaded.
type Library struct {
	name     string
	mapped   bool
	attempts []Attempt
	version  Version
	fn       [entryCount]uintptr

	// impossible is what a function has returned last that cannot be true, by its name.
	impossible sync.Map
}

// Open loads the driver library and resolves its functions. It does not
// initialise the driver. With no argument it looks in the places where drivers
// are installed (see [Candidates]); otherwise it tries the given files, in order.
//
// The error is of kind [ErrDriverLibraryUnavailable] if no candidate is there or the platform has
// none. It is of kind [ErrDriverLibraryLoadFailed] if one is there and cannot be used. Both carry
// all attempts. It reads files, and may block on them.
func Open(candidates ...string) (*Library, error) {
	if len(candidates) == 0 {
		candidates = Candidates()
	}
	lib, tried, err := dl.Open(candidates...)
	attempts := make([]Attempt, 0, len(tried))
	for _, t := range tried {
		if t.Err != nil {
			attempts = append(attempts, Attempt{Name: t.Name, Reason: t.Err.Error()})
		}
	}
	if err != nil {
		kind, what := ErrDriverLibraryLoadFailed, "the CUDA driver library does not load"
		if errors.Is(err, dl.ErrNotFound) {
			kind, what = ErrDriverLibraryUnavailable, "no CUDA driver library"
		}
		e := Errorf(kind, "%s: %w", what, err)
		e.Attempts = attempts
		return nil, e
	}
	l, err := NewLibrary(lib.Name, lib.Symbol)
	if e, ok := err.(*Error); ok {
		e.Attempts = append(attempts, Attempt{Name: lib.Name, Reason: "lacks required functions"})
		return nil, e
	}
	l.mapped, l.attempts = lib.Mapped, attempts
	return l, nil
}

// NewLibrary makes a Library of functions that are in the process already, for tests of the call
// layer. symbol returns the address of a function of C by its exact name, "cuMemAlloc_v2", or 0.
// The functions must have the signatures of cuda.h. On Linux they must not call back into Go,
// except as driver/drivertest/internal/conformance/c_bridge_test.go says. The error is of kind
// [ErrDriverLibraryLoadFailed] and names the required functions that are missing.
func NewLibrary(name string, symbol func(name string) uintptr) (*Library, error) {
	if symbol == nil {
		return nil, Errorf(ErrInvalidArgument, "NewLibrary takes a function that is not nil")
	}
	l := &Library{name: name}
	l.resolve(symbol)
	if missing := l.missing(true); len(missing) > 0 {
		return nil, Errorf(ErrDriverLibraryLoadFailed, "%s lacks %s: not a CUDA driver, or one older than 11.0",
			name, strings.Join(missing, ", "))
	}
	l.version, _ = l.DriverGetVersion()
	return l, nil
}

// Path is the candidate that was opened.
func (l *Library) Path() string { return zero.Or(l).name }

// Shared tells that somebody else had loaded the library into the process before.
func (l *Library) Shared() bool { return zero.Or(l).mapped }

// Attempts are the candidates that were tried before, and why they were not used.
func (l *Library) Attempts() []Attempt { return append([]Attempt(nil), zero.Or(l).attempts...) }

// Version is the newest CUDA version that the driver supports.
func (l *Library) Version() Version { return zero.Or(l).version }

// Missing names the functions that this driver does not have, each with the
// version that brings it: "cuLibraryLoadData (12.0)".
func (l *Library) Missing() []string { return zero.Or(l).missing(false) }

func (l *Library) missing(requiredOnly bool) []string {
	var names []string
	for i, fn := range l.fn {
		e := entries[i]
		if fn == 0 && (e.Required || !requiredOnly) {
			names = append(names, fmt.Sprintf("%s (%v)", e.Name, e.Since()))
		}
	}
	return names
}

// call makes one call. It lets frame, and what it points to, stay on the stack.
func (l *Library) call(index int, frame *ffi.Frame, words int) Result {
	if l == nil || l.fn[index] == 0 {
		return ResultSymbolMissing
	}
	fn := l.fn[index]
	r := Result(int32(frame.Call(fn, words)))
	if r < Success { // ours are negative
		return l.fails(index, "returned %d: want a result that is not negative", int32(r))
	}
	return r
}
