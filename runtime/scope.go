package runtime

import (
	"errors"
	"io"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// Scope closes what was made in it, in reverse order. It also keeps the first error of what was to be
// made, so that several things are made in a row and checked once:
//
//	var scope runtime.Scope
//	defer scope.Close()
//	s := runtime.Keep(c.NewStream())(&scope)
//	x := runtime.Keep(runtime.Alloc[float32](s, n))(&scope)
//	if err := scope.Err(); err != nil {
//		return err
//	}
//
// A call with a stream, Ref or context that was not made is an error, and does no harm. The zero value is
// ready. A Scope must not be copied, and is safe for concurrent use.
type Scope struct {
	mu     sync.Mutex
	made   []io.Closer
	err    error
	closed bool
}

// Keep returns a function that leaves it to a scope to close what was made, and returns that. The
// arguments are the results of the call that made it. If that is an error, the scope keeps
// the error unless it has one. If the scope is closed, what was made is closed at once.
func Keep[C io.Closer](made C, err error) func(*Scope) C {
	return func(s *Scope) C {
		if s == nil {
			s = &Scope{closed: true}
		}
		if err != nil {
			s.fail(err)
		} else if any(made) != nil && !s.keep(made) {
			s.fail(errors.Join(driver.Errorf(driver.ErrClosed, "the scope is closed"), contain.Do(made.Close)))
		}
		return made
	}
}

func (s *Scope) keep(made io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.made = append(s.made, made)
	}
	return !s.closed
}

func (s *Scope) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// Err is the first error of what was to be made in the scope, or nil.
func (s *Scope) Err() error {
	if s == nil {
		return errNothing("scope")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close closes what was made in the scope, the last first, and returns the errors of that, joined. One
// that fails or panics keeps none of the others open. It waits as these do. A second call does nothing.
func (s *Scope) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for made := s.last(); made != nil; made = s.last() {
		errs = append(errs, contain.Do(made.Close))
	}
	return errors.Join(errs...)
}

// last takes off what was made last, or closes the scope.
func (s *Scope) last() (made io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.made)
	if n == 0 {
		s.closed = true
		return nil
	}
	made, s.made = s.made[n-1], s.made[:n-1]
	return made
}
