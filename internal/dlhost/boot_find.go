//go:build linux && !android && (amd64 || arm64) && !cgo && !purecuda_nohost

//lint:file-ignore U1000 assembly calls it: see rt0_linux_*.s

package dlhost

import "unsafe"

// anyHint reports whether something says that a GPU may be there. To use the loader costs
// about a millisecond, to miss a GPU costs the GPU: a hint need not be a proof.
//
//go:nosplit
func anyHint() bool {
	for path := text(hints); load8(path) != 0; path += length(path) + 1 {
		if exists(path) {
			return true
		}
	}
	return false
}

// pathBuffer is where paths are put together, and libraryHead the beginning of a library
// that is looked at.
var (
	pathBuffer  [128]byte
	libraryHead [fileHeaderSize]byte
)

// hasLibraries reports whether the loader will find what purego asks for: all libraries
// in one folder, and that folder among those that the loader searches. Otherwise the
// loader would end the process.
//
//go:nosplit
func hasLibraries() bool {
	for dir := text(libraryDirs); load8(dir) != 0; dir += length(dir) + 1 {
		if allIn(dir) && searched(dir) {
			return true
		}
	}
	return false
}

// allIn reports whether a folder has all libraries, for this processor: on some systems
// /lib is for programs of 32 bits.
//
//go:nosplit
//go:nocheckptr
func allIn(dir uintptr) bool {
	for name := text(libraryNames); load8(name) != 0; name += length(name) + 1 {
		file := open(join(dir, name))
		if failed(file) {
			return false
		}
		head := uintptr(unsafe.Pointer(&libraryHead))
		got := kernel(sysPread64, file, head, uintptr(len(libraryHead)), 0, 0, 0)
		closeFile(file)
		if got != fileHeaderSize || !isShared(head) {
			return false
		}
	}
	return true
}

// searched reports whether the loader looks into a folder. Its own list is text in it, in
// which each folder ends with a slash. Where the administrator or the user has added
// folders, we do not know, and host.
//
//go:nosplit
func searched(dir uintptr) bool {
	if exists(text(cachePath)) || isSet(text(searchVariable), uintptr(len(searchVariable))) {
		return true
	}
	return imageContains(join(dir, text("\x00")))
}

// join is a folder, a slash and a name, until the next call.
//
//go:nosplit
//go:nocheckptr
func join(dir, name uintptr) uintptr {
	buffer := uintptr(unsafe.Pointer(&pathBuffer))
	n := length(dir)
	for i := uintptr(0); i < n; i++ {
		store8(buffer+i, load8(dir+i))
	}
	store8(buffer+n, '/')
	for i := uintptr(0); ; i++ {
		store8(buffer+n+1+i, load8(name+i))
		if load8(name+i) == 0 {
			return buffer
		}
	}
}
