package nvrtc

import (
	"strings"
	"unsafe"
)

// cString returns s with a NUL behind it, on the heap, and false if s has a NUL of its
// own: C would see another string than the caller.
func cString(s string) (*byte, bool) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, false
	}
	b := make([]byte, len(s)+1)
	copy(b, s)
	return unsafe.SliceData(b), true
}

// cStrings returns an array of such strings, nil for none.
func cStrings(texts []string) (**byte, bool) {
	array := make([]*byte, len(texts))
	for i, text := range texts {
		var ok bool
		if array[i], ok = cString(text); !ok {
			return nil, false
		}
	}
	return unsafe.SliceData(array), true
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
