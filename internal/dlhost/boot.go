//go:build linux && !android && (amd64 || arm64) && !cgo && !purecuda_nohost

//lint:file-ignore U1000 assembly calls it: see rt0_linux_*.s

package dlhost

// This file and those named boot_*.go run before the Go runtime: on the kernel's stack,
// on the only thread, without a heap and without a goroutine. Therefore
//
//   - every function is nosplit, which a test looks after;
//   - nothing is allocated, and no pointer is kept: addresses are of type uintptr, and
//     what outlives a function lies in variables of the package;
//   - nothing of another package is called, and nothing may panic: no slices, no maps,
//     no interfaces, no conversions of strings;
//   - a table of strings would hold addresses that need relocation: lists are one string.

// entryPoint is the address of dlhost_rt0; its value stands in the assembly.
var entryPoint uintptr

// kept is where init stores it, so that the linker keeps the entry point: nothing else
// of the program refers to it.
var kept uintptr

func init() { kept = entryPoint }

// storage is where compiled Go code finds g before there is one.
var storage [128]byte

// start is what the kernel handed over.
var start struct {
	environment uintptr // address of the first variable

	// Of the auxiliary vector: addresses of the values, or 0.
	headersAt, baseAt, entryAt uintptr

	headers uintptr // address of the program headers
	count   uintptr // their number
	bias    uintptr // what has to be added to an address of the file
	page    uintptr // bytes
	secure  bool    // the program has gained privileges
}

// kernel makes a system call. It returns what the kernel returns, errors as negative
// numbers.
//
//go:noescape
func kernel(call, a, b, c, d, e, f uintptr) uintptr

// boot decides how the program starts. It returns the address at which the loader wants
// to be entered, or 0 for a start without one. The first argument is the kernel's block
// on the stack, the second the address at which the loader shall enter the program.
//
//go:nosplit
//go:nocheckptr
func boot(stack, entry uintptr) (loader uintptr) {
	if !readStack(stack) {
		return decline(causeKernel, 0)
	}
	// The Go runtime and the rest of boot need the addresses in their data. A loader
	// relocates once more, with the same result.
	relocate()
	choice := readChoice()
	if choice == choiceStatic {
		return decline(causeAsked, 0)
	}
	if choice != choiceHost && !anyHint() {
		return decline(causeNoGPU, 0)
	}
	loader = host(entry)
	if loader != 0 {
		record.mode = Hosted
	}
	return loader
}

// decline notes why no loader is used, and returns the 0 for boot to return.
//
//go:nosplit
func decline(why cause, errno uintptr) uintptr {
	record.mode, record.cause, record.errno = Static, why, errno
	protect()
	return 0
}

// Keys of the auxiliary vector.
const (
	auxNull   = 0
	auxPhdr   = 3
	auxPhent  = 4
	auxPhnum  = 5
	auxPagesz = 6
	auxBase   = 7
	auxEntry  = 9
	auxSecure = 23
)

// readStack reads the block that the kernel has put on the stack: the number of arguments, the
// arguments, the environment and the auxiliary vector. Arguments and environment end with a zero.
//
//go:nosplit
func readStack(stack uintptr) bool {
	p := stack + 8 + (load(stack)+1)*8
	start.environment = p
	for load(p) != 0 {
		p += 8
	}
	var size uintptr
	for p += 8; load(p) != auxNull; p += 16 {
		value := load(p + 8)
		switch load(p) {
		case auxPhdr:
			start.headers, start.headersAt = value, p+8
		case auxPhent:
			size = value
		case auxPhnum:
			start.count = value
		case auxPagesz:
			start.page = value
		case auxBase:
			start.baseAt = p + 8
		case auxEntry:
			start.entryAt = p + 8
		case auxSecure:
			start.secure = value != 0
		}
	}
	if start.headers == 0 || size != headerSize || start.page == 0 {
		return false
	}
	for i := uintptr(0); i < start.count; i++ {
		if h := start.headers + i*headerSize; load32(h) == ptPhdr {
			start.bias = start.headers - load(h+pVaddr)
		}
	}
	return true
}

// choice is what the environment asks for.
type choice uint8

const (
	choiceAuto choice = iota
	choiceHost
	choiceStatic
)

// readChoice reads the environment. A library that is named there is as good as a sign
// of a GPU.
//
//go:nosplit
func readChoice() choice {
	if start.secure {
		return choiceAuto
	}
	value := variable(text(loaderVariable), uintptr(len(loaderVariable)))
	switch {
	case value == 0: // not set
	case sameWord(value, text("host\x00")):
		return choiceHost
	case sameWord(value, text("static\x00")):
		return choiceStatic
	} // auto, and what Check refuses later
	if isSet(text(driverVariable), uintptr(len(driverVariable))) || isSet(text(nvrtcVariable), uintptr(len(nvrtcVariable))) {
		return choiceHost
	}
	return choiceAuto
}

// variable returns the address of what follows a prefix in the environment, or 0.
//
//go:nosplit
func variable(prefix, length uintptr) uintptr {
	for p := start.environment; load(p) != 0; p += 8 {
		if sameBytes(load(p), prefix, length) {
			return load(p) + length
		}
	}
	return 0
}

// isSet reports whether a variable has a value that is not empty, and counts: the loader as
// well ignores it in a program with privileges. The name comes without the sign of
// equality.
//
//go:nosplit
func isSet(name, length uintptr) bool {
	if start.secure {
		return false
	}
	value := variable(name, length)
	return value != 0 && load8(value) == '=' && load8(value+1) != 0
}

// sameWord compares two texts that end with a zero byte. In the first, capitals count
// as small letters.
//
//go:nosplit
func sameWord(a, word uintptr) bool {
	for ; ; a, word = a+1, word+1 {
		c := load8(a)
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != load8(word) {
			return false
		}
		if c == 0 {
			return true
		}
	}
}
