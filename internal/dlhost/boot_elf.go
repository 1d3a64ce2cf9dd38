//go:build linux && !android && (amd64 || arm64) && !cgo && !purecuda_nohost

//lint:file-ignore U1000 assembly calls it: see rt0_linux_*.s

package dlhost

import "unsafe"

// The ELF structures of 64-bit files, as offsets.
const (
	fileHeaderSize = 64
	eType          = 16
	eMachine       = 18
	eEntry         = 24
	ePhoff         = 32
	ePhentsize     = 54
	ePhnum         = 56
	typeShared     = 3

	headerSize = 56
	pFlags     = 4
	pOffset    = 8
	pVaddr     = 16
	pPaddr     = 24
	pFilesz    = 32
	pMemsz     = 40

	ptNull    = 0
	ptLoad    = 1
	ptDynamic = 2
	ptInterp  = 3
	ptPhdr    = 6
	ptRelro   = 0x6474e552

	dtNull   = 0
	dtStrtab = 5
	dtRela   = 7
	dtRelasz = 8
	dtStrsz  = 10

	relaSize = 24
)

// ident begins every ELF file that the kernel of this processor starts: 64 bits,
// little-endian.
const ident = "\x7fELF\x02\x01\x01"

// maxHeaders is how many program headers there is room for; Go writes 9 to 13.
const maxHeaders = 32

// headerCopy holds our program headers as the loader is to see them.
var headerCopy [maxHeaders * headerSize]byte

// relocate adds the bias to the addresses in our data. Only a position-independent
// program has such relocations, and what purego imports is left alone: nothing calls
// it unless a loader has come and resolved it.
//
//go:nosplit
func relocate() {
	dynamic := uintptr(0)
	for i := uintptr(0); i < start.count; i++ {
		if h := start.headers + i*headerSize; load32(h) == ptDynamic {
			dynamic = start.bias + load(h+pVaddr)
		}
	}
	if dynamic == 0 || start.bias == 0 {
		return
	}
	var table, size uintptr
	for ; load(dynamic) != dtNull; dynamic += 16 {
		switch load(dynamic) {
		case dtRela:
			table = start.bias + load(dynamic+8)
		case dtRelasz:
			size = load(dynamic + 8)
		}
	}
	if table == 0 {
		return
	}
	for r := table; r+relaSize <= table+size; r += relaSize {
		if load(r+8) == relative {
			store(start.bias+load(r), start.bias+load(r+16))
		}
	}
}

// protect makes read-only what the loader would have made read-only after relocation.
//
//go:nosplit
func protect() {
	for i := uintptr(0); i < start.count; i++ {
		h := start.headers + i*headerSize
		if load32(h) != ptRelro {
			continue
		}
		from := start.bias + load(h+pVaddr)
		to := floor(from + load(h+pMemsz))
		if from = floor(from); from < to {
			kernel(sysMprotect, from, to-from, protRead, 0, 0, 0)
		}
	}
}

// handOver tells the loader what the kernel would have: where our program headers are,
// where it lies itself, and where it shall enter the program. The headers are a copy in
// which PT_INTERP is back; in a position-independent program the loader computes the
// bias from where PT_PHDR says that the headers are.
//
//go:nosplit
//go:nocheckptr
func handOver(base, entry uintptr) {
	to := uintptr(unsafe.Pointer(&headerCopy))
	for i := uintptr(0); i < start.count*headerSize; i += 8 {
		store(to+i, load(start.headers+i))
	}
	for i := uintptr(0); i < start.count; i++ {
		h := to + i*headerSize
		switch load32(h) {
		case ptPhdr:
			store(h+pVaddr, to-start.bias)
			store(h+pPaddr, to-start.bias)
		case ptNull:
			store32(h, ptInterp)
			store(h+pVaddr, text(loaderPath)-start.bias)
			store(h+pPaddr, text(loaderPath)-start.bias)
			store(h+pFilesz, uintptr(len(loaderPath)))
			store(h+pMemsz, uintptr(len(loaderPath)))
		}
	}
	store(start.headersAt, to)
	store(start.baseAt, base)
	store(start.entryAt, entry)
}

//go:nosplit
func floor(address uintptr) uintptr { return address &^ (start.page - 1) }

//go:nosplit
func ceil(address uintptr) uintptr { return (address + start.page - 1) &^ (start.page - 1) }
