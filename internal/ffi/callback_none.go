//go:build !(linux && (amd64 || arm64 || loong64 || riscv64)) && !(windows && (amd64 || arm64))

package ffi

// CanCallBack reports that C cannot call Go functions on this platform.
const CanCallBack = false

// HostFunc returns 0: no C function can be called here in the first place.
func HostFunc(f func(), keep bool) (fn, data uintptr) { return 0, 0 }

// AnswerFunc returns 0.
func AnswerFunc(f func() int32) (fn, data uintptr) { return 0, 0 }

// DropHostFunc does nothing.
func DropHostFunc(data uintptr) {}
