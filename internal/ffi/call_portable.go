//go:build (linux && (loong64 || riscv64)) || (linux && (amd64 || arm64) && purecuda_portable) || (windows && (amd64 || arm64))

package ffi

import (
	"math"
	"reflect"
	goruntime "runtime"
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
	f.ret, _, _ = purego.SyscallN(fn, f.args(words)...)
	return f.ret
}

// args are the argument words, which follow the Frame.
func (f *Frame) args(words int) []uintptr {
	return unsafe.Slice((*uintptr)(unsafe.Add(unsafe.Pointer(f), unsafe.Sizeof(*f))), words)
}

// CallFloats is [Frame.Call] of a function that takes float or double: word i of the block is one if
// bit i of floats is set, made by [Float32] or [Float64]. It describes the function to purego by
// reflection. A float32 travels as the float64 with the same lower bits, which is the same register.
func (f *Frame) CallFloats(fn uintptr, words int, floats uint32) uintptr {
	if !dlhost.HasLoader() {
		return Unavailable
	}
	escape(f)
	types, values := make([]reflect.Type, words), make([]reflect.Value, words)
	for i, word := range f.args(words) {
		if floats&(1<<i) != 0 {
			values[i] = reflect.ValueOf(math.Float64frombits(uint64(word)))
		} else {
			values[i] = reflect.ValueOf(word)
		}
		types[i] = values[i].Type()
	}
	call := reflect.New(reflect.FuncOf(types, []reflect.Type{reflect.TypeFor[uintptr]()}, false))
	purego.RegisterFunc(call.Interface(), fn)
	f.ret = uintptr(call.Elem().Call(values)[0].Uint())
	return f.ret
}

// CallWithin is [Frame.CallFloats] between two other calls.
func (f *Frame) CallWithin(fn uintptr, words int, floats uint32, w Within) (ret uintptr, pushed, popped int32) {
	if !dlhost.HasLoader() {
		return Unavailable, 0, 0
	}
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	r, _, _ := purego.SyscallN(w.Push, w.Context)
	if pushed = int32(r); pushed != 0 {
		return 0, pushed, 0
	}
	if floats != 0 {
		ret = f.CallFloats(fn, words, floats)
	} else {
		ret = f.Call(fn, words)
	}
	off := new(uintptr)
	r, _, _ = purego.SyscallN(w.Pop, uintptr(unsafe.Pointer(off)))
	return ret, 0, int32(r)
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
