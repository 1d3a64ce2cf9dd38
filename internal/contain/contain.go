// Package contain calls functions of others so that a panic or the end of their goroutine
// becomes an error.
package contain

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/purecuda/purecuda/internal/callsite"
	"github.com/purecuda/purecuda/internal/zero"
)

// PanicError is a panic of a function of the caller. errors.Is and errors.As see through it if
// the value is an error.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine
}

// Error has the value, and not the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", zero.Or(e).Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := zero.Or(e).Value.(error)
	return err
}

// errExited is the error of a function that ends its goroutine, as FailNow of a test does.
var errExited = errors.New("the function ended its goroutine (runtime.Goexit)")

// Call calls f and then done with its error, also if f panics or ends the goroutine. If f ends the
// goroutine, Call does not return. Done may call what it likes of the error: see [Sound].
func Call(f func() error, done func(error)) {
	err := errExited
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
		done(err)
	}()
	err = Sound(f())
}

// panicked is the error of a panic, within the function that recovers.
func panicked(v any) error {
	if failed, ok := v.(error); ok {
		v = Sound(failed)
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// Sound returns an error of others as it is, unless its methods panic, as a nil pointer's often do. Then it
// returns an error that says so: errors.Is would take the program down.
func Sound(err error) (safe error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			safe = fmt.Errorf("an error of type %T, whose methods panic: %v", err, v)
		}
	}()
	_ = err.Error()
	if errors.Is(err, errExited) { // calls Is and Unwrap of all that it wraps
		return err
	}
	_, _ = errors.AsType[*none](err) // and As
	return err
}

// none is an error that nobody has.
type none struct{ error }

// Do returns the error of f, or of its panic. If f ends the goroutine, Do does not return.
func Do(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	return Sound(f())
}

// Hook calls f on a goroutine of its own, which it may end, and waits for it.
func Hook(f func()) error {
	done, carried := make(chan error, 1), callsite.Carry(f)
	go Call(func() error { carried(); return nil }, func(err error) { done <- err })
	return <-done
}
