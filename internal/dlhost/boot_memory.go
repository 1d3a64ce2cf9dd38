//go:build linux && !android && (amd64 || arm64) && !cgo && !purecuda_nohost

//lint:file-ignore U1000 assembly calls it: see rt0_linux_*.s

package dlhost

import "unsafe"

// at turns an address into a pointer. The detour tells the tools that the address is
// none of a Go object.
//
//go:nosplit
//go:nocheckptr
func at(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

//go:nosplit
//go:nocheckptr
func load(address uintptr) uintptr { return *(*uintptr)(at(address)) }

//go:nosplit
//go:nocheckptr
func load32(address uintptr) uint32 { return *(*uint32)(at(address)) }

//go:nosplit
//go:nocheckptr
func load16(address uintptr) uint16 { return *(*uint16)(at(address)) }

//go:nosplit
//go:nocheckptr
func load8(address uintptr) byte { return *(*byte)(at(address)) }

//go:nosplit
//go:nocheckptr
func store(address, value uintptr) { *(*uintptr)(at(address)) = value }

//go:nosplit
//go:nocheckptr
func store32(address uintptr, value uint32) { *(*uint32)(at(address)) = value }

//go:nosplit
//go:nocheckptr
func store8(address uintptr, value byte) { *(*byte)(at(address)) = value }

// text is the address of the bytes of a constant.
//
//go:nosplit
//go:nocheckptr
func text(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s))) }

// sameBytes compares two runs of bytes, and does not read beyond a difference.
//
//go:nosplit
func sameBytes(a, b, n uintptr) bool {
	for i := uintptr(0); i < n; i++ {
		if load8(a+i) != load8(b+i) {
			return false
		}
	}
	return true
}

// length is the number of bytes before the zero byte.
//
//go:nosplit
func length(s uintptr) uintptr {
	n := uintptr(0)
	for load8(s+n) != 0 {
		n++
	}
	return n
}

// contains reports whether a run of bytes has another one in it.
//
//go:nosplit
func contains(from, to, what, n uintptr) bool {
	first := load8(what)
	for ; from+n <= to; from++ {
		if load8(from) == first && sameBytes(from, what, n) {
			return true
		}
	}
	return false
}

// failed reports whether the kernel returned an error.
//
//go:nosplit
func failed(result uintptr) bool { return result > ^uintptr(4095) }

const (
	currentDir = ^uintptr(99) // AT_FDCWD, -100
	readOnly   = 0x80000      // O_RDONLY | O_CLOEXEC
)

//go:nosplit
func open(path uintptr) uintptr { return kernel(sysOpenat, currentDir, path, readOnly, 0, 0, 0) }

//go:nosplit
func closeFile(file uintptr) { kernel(sysClose, file, 0, 0, 0, 0, 0) }

//go:nosplit
func exists(path uintptr) bool { return !failed(kernel(sysFaccessat, currentDir, path, 0, 0, 0, 0)) }
