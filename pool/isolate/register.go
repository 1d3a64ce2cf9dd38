package isolate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/pool"
)

// Func is a function that runs in a child. It gets a worker of the child's device, and must not keep the worker or the
// request. It may run several times at the same time. When [pool.Worker.Ctx] ends it should return.
// What it has put on the stream is waited for before its caller hears of the result.
type Func func(w *pool.Worker, r *Request) ([]byte, error)

// Request is what a function is called with.
type Request struct {
	// Data are the bytes that Do was called with.
	Data []byte
	// Buffers are those that Do was called with, in their order.
	Buffers []*Buffer
}

// NewRequest makes a request for [Run], and for functions that do its work on the CPU. Each of the buffers becomes
// one of [Request.Buffers].
func NewRequest(data []byte, buffers ...[]byte) *Request {
	r := &Request{Data: data}
	for _, b := range buffers {
		r.Buffers = append(r.Buffers, &Buffer{data: b})
	}
	return r
}

// Run runs a registered function in this process, with a worker of [pool.Do], for programs that do not isolate all their
// functions. It waits for what the function has put on the stream, as a child does.
func Run(w *pool.Worker, name string, r *Request) (result []byte, err error) {
	if w == nil || r == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "Run(%.40q) takes a worker and a request", name)
	}
	result, err = call(w, name, r)
	for _, b := range r.Buffers {
		err = errors.Join(err, b.unregister())
	}
	return result, err
}

// call calls a function, and waits for its stream.
func call(w *pool.Worker, name string, r *Request) (result []byte, err error) {
	f, err := lookUp(name)
	if err != nil {
		return nil, err
	}
	err = contain.Do(func() (err error) {
		result, err = f(w, r)
		return err
	})
	return result, errors.Join(err, w.Stream().Synchronize(context.Background()))
}

// functions are those that were registered.
var functions struct {
	mu     sync.RWMutex
	byName map[string]Func
	err    error // of the first one that could not be registered
}

// Register makes a function known by a name, which should have a version: "blur/v1". Call it from an init
// function, or before [Main], in every process of the program. A name that is empty or taken, and a function that
// is nil, are an error of [Open] later.
func Register(name string, f Func) {
	functions.mu.Lock()
	defer functions.mu.Unlock()
	_, taken := functions.byName[name]
	switch {
	case functions.err != nil:
	case name == "" || len(name) > maxName:
		functions.err = driver.Errorf(driver.ErrInvalidArgument, "isolate.Register(%.40q): a name has 1 to %d bytes", name, maxName)
	case f == nil:
		functions.err = driver.Errorf(driver.ErrInvalidArgument, "isolate.Register(%q) of no function", name)
	case taken:
		functions.err = driver.Errorf(driver.ErrInvalidArgument, "isolate.Register(%q): the name is taken", name)
	default:
		if functions.byName == nil {
			functions.byName = map[string]Func{}
		}
		functions.byName[name] = f
	}
}

const maxName = 255

func lookUp(name string) (Func, error) {
	functions.mu.RLock()
	defer functions.mu.RUnlock()
	if f := functions.byName[name]; f != nil {
		return f, nil
	}
	return nil, driver.Errorf(driver.ErrInvalidArgument, "no function %.40q was registered; there are: %q",
		name, slices.Sorted(maps.Keys(functions.byName)))
}

func registerError() error {
	functions.mu.RLock()
	defer functions.mu.RUnlock()
	return functions.err
}

// Functions are the names that were registered, sorted.
func Functions() []string {
	functions.mu.RLock()
	defer functions.mu.RUnlock()
	return slices.Sorted(maps.Keys(functions.byName))
}
