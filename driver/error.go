package driver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/purecuda/purecuda/internal/cleantext"
	"github.com/purecuda/purecuda/internal/zero"
)

// NoDevice is the value of [Error.Device] when no device is concerned.
const NoDevice = -1

// Error is the error that purecuda's packages return. Fields that are not known
// are zero, Device is [NoDevice]. errors.Is matches its Kind, its Code and the
// cause behind it.
type Error struct {
	Kind   Kind
	Op     string // function of the driver, "cuMemAlloc"
	Code   Result // what it returned; Success if no call is concerned
	Device int    // ordinal
	Stream uint64 // identity of the stream
	Kernel string
	Bytes  uint64 // asked for
	Free   uint64 // on the device at that time
	Total  uint64 // of the device
	Sticky bool   // the process cannot use CUDA any more
	// Detail says what was asked, and what to do.
	Detail string
	// Log is what a compiler said.
	Log string
	// Attempts are the libraries that were tried.
	Attempts []Attempt
	// Err is the cause.
	Err error
}

// Attempt is a library that was tried.
type Attempt struct {
	Name   string // file name or path as it was handed to the loader
	Reason string // why it was not used, in the loader's words
}

func (a Attempt) String() string { return cleantext.String(a.Name + ": " + a.Reason) }

// Errorf makes an error of a kind with a detail. %w keeps the cause, and each of several.
func Errorf(kind Kind, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	e := &Error{Kind: kind, Device: NoDevice, Detail: wrapped.Error()}
	switch u := wrapped.(type) {
	case interface{ Unwrap() error }:
		e.Err = u.Unwrap()
	case interface{ Unwrap() []error }:
		e.Err = wrapped
	}
	return e
}

// Failed makes the error of a call that did not return Success. The kind follows
// from the result.
func Failed(op string, r Result) *Error {
	return &Error{Kind: kindOf(r), Op: op, Code: r, Device: NoDevice, Sticky: r.Sticky()}
}

func kindOf(r Result) Kind {
	switch {
	case r == ResultSymbolMissing:
		return ErrSymbolMissing
	case r == ResultOutOfMemory:
		return ErrOutOfMemory
	case r == ResultNotSupported:
		return ErrUnsupported
	case r == ResultTimeout:
		return ErrTimeout
	case r >= ResultStreamCaptureUnsupported && r <= ResultStreamCaptureWrongThread:
		return ErrCaptureFailed
	case r.Sticky():
		return ErrDeviceLost
	}
	return ErrDriverCallFailed
}

// missingSymbol makes the error of a function that the driver does not have.
func missingSymbol(op string, found Version) *Error {
	e := Failed(op, ResultSymbolMissing)
	if entry, ok := entryByName(op); ok {
		e.Detail = fmt.Sprintf("%s needs CUDA driver API %v, found %v", op, entry.Since(), found)
	}
	return e
}

// Name is the name of Code in cuda.h, or "" where no call is concerned.
func (e *Error) Name() string {
	if e = zero.Or(e); e.Code == Success {
		return ""
	}
	return e.Code.Name()
}

// Is makes errors.Is match a [Kind] and a [Result].
func (e *Error) Is(target error) bool {
	e = zero.Or(e)
	switch t := target.(type) {
	case Kind:
		return t == e.Kind || t == ErrUnsupported && e.Kind == ErrLibraryUnavailable
	case Result:
		return t == e.Code && t != Success
	}
	return false
}

func (e *Error) Unwrap() error { return zero.Or(e).Err }

// UnfitDevice reports whether an error says that its device can never do the work, and another one may. No image of a kernel runs there, or
// it lacks a feature ([ErrUnsupported]).
func UnfitDevice(err error) bool {
	e, _ := errors.AsType[*Error](err)
	if e == nil {
		return false
	}
	cause, tried := errors.AsType[*Error](e.Err)
	return e.Kind == ErrUnsupported || e.Kind == ErrModuleLoadFailed && (!tried || zero.Or(cause).Code.ImageUnusable())
}

// Error begins with the kind and says on one line all that is known, except the
// log and the attempts beyond what the detail has of them. Names that come from the machine are
// in it, so that what does not print is escaped.
func (e *Error) Error() string {
	return cleantext.String(strings.ReplaceAll(zero.Or(e).text(), "\n", "; "))
}

func (e *Error) text() string {
	var b strings.Builder
	b.WriteString(string(e.Kind))
	if e.Code != Success && e.Code != ResultSymbolMissing {
		fmt.Fprintf(&b, ": %s: %v", e.Op, e.Code)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail)
	}
	var about []string
	add := func(known bool, format string, args ...any) {
		if known {
			about = append(about, fmt.Sprintf(format, args...))
		}
	}
	add(e.Device != NoDevice, "device %d", e.Device)
	add(e.Stream != 0, "stream %d", e.Stream)
	add(e.Kernel != "", "kernel %s", e.Kernel)
	add(e.Bytes != 0, "%d bytes", e.Bytes)
	add(e.Total != 0, "%d of %d bytes free", e.Free, e.Total)
	if len(about) > 0 {
		fmt.Fprintf(&b, " [%s]", strings.Join(about, ", "))
	}
	if e.Err == nil {
		return b.String()
	}
	if cause := e.Err.Error(); !strings.Contains(e.Detail, cause) {
		// One of the same kind need not say so again.
		b.WriteString(": " + strings.TrimPrefix(cause, string(e.Kind)+": "))
	}
	return b.String()
}
