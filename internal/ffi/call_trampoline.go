//go:build linux && (amd64 || arm64) && !purecuda_portable

package ffi

import (
	"structs"
	"unsafe"

	// purego brings the C runtime that runtime.cgocall needs in a binary
	// that was built without cgo.
	_ "github.com/ebitengine/purego"

	"github.com/purecuda/purecuda/internal/dlhost"
)

// Call calls the C function at address fn with the given number of argument
// words (at most [MaxWords]) and returns its result register. C functions that
// return a 32-bit integer leave the upper half undefined. It blocks as long as
// the C function does and does not allocate. fn must not be 0.
// In a process without a loader it returns [Unavailable].
func (f *Frame) Call(fn uintptr, words int) uintptr {
	if !dlhost.HasLoader() {
		return Unavailable // the Go runtime would end the process
	}
	f.fn, f.words = fn, uintptr(words)
	cgocall(trampolineAddress, unsafe.Pointer(f))
	return f.ret
}

// CallFloats is [Frame.Call] of a function that takes float or double: word i of the block is one if
// bit i of floats is set, made by [Float32] or [Float64].
func (f *Frame) CallFloats(fn uintptr, words int, floats uint32) uintptr {
	if !dlhost.HasLoader() {
		return Unavailable
	}
	f.fn, f.words = fn, uintptr(words)|uintptr(floats)<<32
	cgocall(floatsTrampolineAddress, unsafe.Pointer(f))
	return f.ret
}

// CallWithin is [Frame.CallFloats] between two other calls, which cost no crossing of their own.
func (f *Frame) CallWithin(fn uintptr, words int, floats uint32, w Within) (ret uintptr, pushed, popped int32) {
	if !dlhost.HasLoader() {
		return Unavailable, 0, 0
	}
	f.fn, f.words = fn, uintptr(words)|uintptr(floats)<<32
	c := within{frame: f, call: trampolineAddress, Within: w}
	if floats != 0 {
		c.call = floatsTrampolineAddress
	}
	cgocall(withinTrampolineAddress, unsafe.Pointer(&c))
	return f.ret, int32(c.pushed), int32(c.popped)
}

// within is the block of CallWithin.
type within struct {
	_     structs.HostLayout
	frame *Frame
	call  uintptr // what makes the call of the frame
	Within
	off            uintptr // what pop has taken off
	pushed, popped uintptr
}

// withinTrampolineAddress is of the routine for CallWithin.
var withinTrampolineAddress uintptr

// trampolineAddress is the address of the assembly routine that unpacks the
// block by the C calling convention. Its initial value stands in the .s file,
// where the address of a symbol can be had without a Go wrapper around it.
var trampolineAddress uintptr

// floatsTrampolineAddress is of the routine for floats.
var floatsTrampolineAddress uintptr

// cgocall runs fn(arg) on the system stack, as a call of cgo would. It does not
// let arg escape: see the package comment for what that asks of the callee.
//
//go:noescape
//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32
