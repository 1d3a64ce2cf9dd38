//go:build !(linux && (amd64 || arm64 || loong64 || riscv64)) && !(windows && (amd64 || arm64))

package ffi

// Call returns [Unavailable]: no function of C can be called on this platform.
func (f *Frame) Call(fn uintptr, words int) uintptr { return Unavailable }

// CallFloats returns [Unavailable].
func (f *Frame) CallFloats(fn uintptr, words int, floats uint32) uintptr { return Unavailable }

// CallWithin returns [Unavailable].
func (f *Frame) CallWithin(fn uintptr, words int, floats uint32, w Within) (ret uintptr, pushed, popped int32) {
	return Unavailable, 0, 0
}
