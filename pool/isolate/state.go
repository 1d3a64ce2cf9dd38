package isolate

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// ErrStateGone is the kind of the error of a request whose key had state in a child that has ended ([WithKey]).
const ErrStateGone driver.Kind = "StateGone"

// StateOf returns what an earlier request with the same key ([WithKey]) has made, or makes it. It stays in the process until
// [Group.Drop] or the end of the child, which close it if it has a Close. ctx is that of the function, [pool.Worker.CallContext], or that
// of a [Fallback].
//
// Requests with one key run one after the other, so that the state needs no lock against them. bytes is how much of [WithStates] it
// takes, on the host and the device. If there is not so much left, the error is of kind driver.ErrOutOfMemory. It is of kind
// driver.ErrInvalidArgument for a request without a key, and for a state of another type. Memory of the device that is part of a state has to
// be closed in Close. It is safe for concurrent use.
func StateOf[S any](ctx context.Context, bytes int64, create func() (S, error)) (state S, err error) {
	if ctx == nil || bytes < 0 || create == nil {
		return state, driver.Errorf(driver.ErrInvalidArgument, "StateOf(%d bytes) takes a context, a size that is not negative, and a function", bytes)
	}
	k, _ := ctx.Value(keyOf{}).(*keyed)
	if k == nil {
		return state, driver.Errorf(driver.ErrInvalidArgument, "the request has no key: call Do with WithKey, and StateOf with the context of the function")
	}
	value, err := k.get(bytes, func() (any, error) { return create() })
	if err != nil {
		return state, err
	}
	state, ok := value.(S)
	if !ok {
		return state, driver.Errorf(driver.ErrInvalidArgument, "the state of the key %.40q is a %T, and not a %T", k.key, value, state)
	}
	return state, nil
}

// keyOf is the key of a context for the state of its request.
type keyOf struct{}

// states are those of all keys of a process.
type states struct {
	limit int64

	mu    sync.Mutex
	bytes int64 // that were promised
	byKey map[string]*keyed
}

// keyed is the state of a key.
type keyed struct {
	of  *states
	key string
	// The mu of the states guards them:
	value any
	made  bool
	bytes int64
}

// with is ctx with the state of a key.
func (s *states) with(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byKey[key]
	if k == nil {
		if s.byKey == nil {
			s.byKey = map[string]*keyed{}
		}
		k = &keyed{of: s, key: key}
		s.byKey[key] = k
	}
	return context.WithValue(ctx, keyOf{}, k)
}

// get returns the state, which create makes without a lock.
func (k *keyed) get(bytes int64, create func() (any, error)) (value any, err error) {
	s := k.of
	s.mu.Lock()
	if k.made {
		defer s.mu.Unlock()
		return k.value, nil
	}
	if free := s.limit - s.bytes; bytes > free {
		defer s.mu.Unlock()
		return nil, driver.Errorf(driver.ErrOutOfMemory, "a state of %d bytes: %d of %d are left for the states of the process (WithStates)", bytes, free, s.limit)
	}
	s.bytes += bytes
	s.mu.Unlock()
	kept := false
	defer func() { // create may panic
		if !kept {
			s.mu.Lock()
			s.bytes -= bytes
			s.mu.Unlock()
		}
	}()
	if value, err = create(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	first := k.value
	if kept = !k.made && s.byKey[k.key] == k; kept {
		k.value, k.made, k.bytes = value, true, bytes
	}
	made := k.made
	s.mu.Unlock()
	switch {
	case kept:
		return value, nil
	case made: // another goroutine of the function was faster
		return first, closeState(value)
	}
	return nil, errors.Join(driver.Errorf(driver.ErrClosed, "the state of the key %.40q was dropped", k.key), closeState(value))
}

// take takes the state of a key away, to be closed.
func (s *states) take(key string) (value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.byKey[key]; k != nil {
		s.bytes -= k.bytes
		value, k.value, k.made, k.bytes = k.value, nil, false, 0
	}
	delete(s.byKey, key)
	return value
}

// close closes all states.
func (s *states) close() error {
	s.mu.Lock()
	var keys []string
	for key := range s.byKey {
		keys = append(keys, key)
	}
	s.mu.Unlock()
	var errs []error
	for _, key := range keys {
		errs = append(errs, closeState(s.take(key)))
	}
	return errors.Join(errs...)
}

// closeState closes a state, on a goroutine of its own: Close may call runtime.Goexit.
func closeState(value any) (err error) {
	if c, ok := value.(io.Closer); ok {
		failed := contain.Hook(func() { err = contain.Sound(c.Close()) })
		err = errors.Join(err, failed)
	}
	return err
}
