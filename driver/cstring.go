package driver

import (
	"strings"
	"unsafe"
)

// cString returns s with a NUL behind it, on the heap, and false if s has a NUL
// of its own: C would see another string than the caller.
func cString(s string) (*byte, bool) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, false
	}
	b := make([]byte, len(s)+1)
	copy(b, s)
	return unsafe.SliceData(b), true
}

// goString copies a string of C.
func goString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// textOf returns the text in a buffer that C has written to.
func textOf(buffer []byte) string {
	text, _, _ := strings.Cut(string(buffer), "\x00")
	return text
}
