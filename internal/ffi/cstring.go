package ffi

import (
	"strings"
	"unsafe"
)

// CString returns s with a NUL at its end, on the heap, and false if s has a NUL of its own:
// C would see another string than the caller.
func CString(s string) (*byte, bool) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, false
	}
	b := make([]byte, len(s)+1)
	copy(b, s)
	return unsafe.SliceData(b), true
}

// maxString is the length in bytes that a string of C has at most: one without an end is cut.
const maxString = 1 << 16

// GoString copies a string of C, up to 64 KiB. Of nil it is empty.
func GoString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for n < maxString && *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
