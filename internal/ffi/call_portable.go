//go:build (linux && (loong64 || riscv64)) || (linux && (amd64 || arm64) && purecuda_portable) || (windows && (amd64 || arm64))

package ffi

import (
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/purecuda/purecuda/internal/dlhost"
)

// Call calls the C function at address fn with the given number of argument
// words (at most [MaxWords]) and returns its result register. C functions that
// return a 32-bit integer leave the upper half undefined. It blocks as long as
// the C function does. The block and what it points to live on the heap here,
// because SyscallN takes plain words that no stack move would update.
// fn must not be 0. In a process without a loader it returns [Unavailable].
func (f *Frame) Call(fn uintptr, words int) uintptr {
	if !dlhost.HasLoader() {
		return Unavailable // the Go runtime would end the process
	}
	escape(f)
	args := unsafe.Slice((*uintptr)(unsafe.Add(unsafe.Pointer(f), unsafe.Sizeof(*f))), words)
	f.ret, _, _ = purego.SyscallN(fn, args...)
	return f.ret
}

var sink *Frame

// escape moves the block of f to the heap: to the compiler, f is stored in a
// variable of the package.
//
//go:noinline
func escape(f *Frame) {
	if never {
		sink = f
	}
}

// never is false. It is a variable so that the compiler cannot know.
var never bool
