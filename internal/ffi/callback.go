//go:build (linux && (amd64 || arm64 || loong64 || riscv64)) || (windows && (amd64 || arm64))

package ffi

import (
	"sync"

	"github.com/ebitengine/purego"
)

// CanCallBack reports that C can call Go functions on this platform.
const CanCallBack = true

// A process has room for 2000 callbacks and never gets one back. There is one for
// all host functions, made at its first use; the user data that C hands back is
// the key of the Go function. These are the package's only variables that change.
var (
	callback = sync.OnceValue(func() uintptr {
		return purego.NewCallback(func(key uintptr) uintptr { return hostFuncs.run(key) })
	})
	hostFuncs = registry{funcs: map[uintptr]hostFunc{}}
)

// HostFunc makes f callable as a C function of type void (*)(void *): it returns
// the function's address and the data to pass to it. With keep, f may be called
// any number of times and is never forgotten; otherwise it is called once.
// C waits for f, which runs on another thread.
func HostFunc(f func(), keep bool) (fn, data uintptr) {
	return callback(), hostFuncs.add(hostFunc{call: f, keep: keep})
}

// AnswerFunc makes f callable as a C function of type int (*)(void *, ...) that looks at
// its first argument only. f may be called any number of times, on any thread and on
// several at once, until [DropHostFunc] forgets it; after that C gets 0.
func AnswerFunc(f func() int32) (fn, data uintptr) {
	return callback(), hostFuncs.add(hostFunc{answer: f, keep: true})
}

// DropHostFunc forgets a function that C will not call after all.
func DropHostFunc(data uintptr) { hostFuncs.drop(data) }

// hostFunc has one of the two functions: to make either of the other would allocate.
type hostFunc struct {
	call   func()
	answer func() int32
	keep   bool
}

type registry struct {
	mu    sync.Mutex
	next  uintptr
	funcs map[uintptr]hostFunc
}

func (r *registry) add(f hostFunc) uintptr {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	r.funcs[r.next] = f
	return r.next
}

func (r *registry) drop(key uintptr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.funcs, key)
}

func (r *registry) run(key uintptr) uintptr {
	r.mu.Lock()
	f, ok := r.funcs[key]
	if ok && !f.keep {
		delete(r.funcs, key)
	}
	r.mu.Unlock()
	switch {
	case !ok:
		return 0
	case f.answer != nil:
		return uintptr(f.answer())
	}
	// On a goroutine of its own, which f may end: this one belongs to C.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.call()
	}()
	<-ended
	return 0
}
