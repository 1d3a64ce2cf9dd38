package nvrtc

import (
	"unsafe"

	"github.com/purecuda/purecuda/internal/ffi"
)

// cStrings returns an array of strings of C ([ffi.CString]), nil for none.
func cStrings(texts []string) (**byte, bool) {
	array := make([]*byte, len(texts))
	for i, text := range texts {
		var ok bool
		if array[i], ok = ffi.CString(text); !ok {
			return nil, false
		}
	}
	return unsafe.SliceData(array), true
}
