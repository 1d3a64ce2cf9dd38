//go:build linux && !android && (amd64 || arm64) && !cgo && !purecuda_nohost

//lint:file-ignore U1000 assembly calls it: see rt0_linux_*.s

package dlhost

import "unsafe"

const (
	protRead  = 1
	protWrite = 2
	protExec  = 4

	mapPrivate   = 0x02
	mapFixed     = 0x10
	mapAnonymous = 0x20

	seekEnd = 2

	// glibc's loader has a quarter of a megabyte. What wants more than this is not it.
	maxImage = 64 << 20
)

// loaderHead is the beginning of the loader's file, with its program headers.
var loaderHead [4096]byte

// image is the loader in memory.
var image struct {
	from, size uintptr // where it lies; size is 0 while it does not
	bias       uintptr // what has to be added to an address of the file
}

// host maps glibc's loader and prepares what it needs. It returns where the loader is to
// be entered, or 0 after noting why it is not used. Nothing of what the kernel handed
// over is changed before all is certain.
//
//go:nosplit
//go:nocheckptr
func host(entry uintptr) uintptr {
	if start.headersAt == 0 || start.baseAt == 0 || start.entryAt == 0 {
		return decline(causeKernel, 0)
	}
	if start.count > maxHeaders {
		return decline(causeHeaders, 0)
	}
	file := open(text(loaderPath))
	if failed(file) {
		return decline(causeNoLoader, -file)
	}
	why, errno := mapLoader(file)
	closeFile(file)
	if why == causeNone && !isGlibc() {
		why = causeNotGlibc
	}
	if why == causeNone && !hasLibraries() {
		why = causeNoLibc
	}
	if why != causeNone {
		if image.size != 0 {
			kernel(sysMunmap, image.from, image.size, 0, 0, 0, 0)
		}
		return decline(why, errno)
	}
	handOver(image.bias, entry)
	return image.bias + load(loaderHeader()+eEntry)
}

//go:nosplit
//go:nocheckptr
func loaderHeader() uintptr { return uintptr(unsafe.Pointer(&loaderHead)) }

// segment returns the i-th program header of the loader, or 0 after the last one.
//
//go:nosplit
func segment(i uintptr) uintptr {
	head := loaderHeader()
	if i >= uintptr(load16(head+ePhnum)) {
		return 0
	}
	return head + load(head+ePhoff) + i*headerSize
}

// mapLoader maps the loader as the kernel does for a program that asks for it.
//
//go:nosplit
func mapLoader(file uintptr) (why cause, errno uintptr) {
	head := loaderHeader()
	got := kernel(sysPread64, file, head, uintptr(len(loaderHead)), 0, 0, 0)
	if failed(got) {
		return causeNoLoader, -got
	}
	table := load(head + ePhoff)
	if got < fileHeaderSize || !isShared(head) || load16(head+ePhentsize) != headerSize ||
		table > got || table+uintptr(load16(head+ePhnum))*headerSize > got {
		return causeMalformed, 0
	}
	low, size := span(kernel(sysLseek, file, 0, seekEnd, 0, 0, 0))
	if size == 0 {
		return causeMalformed, 0
	}
	// Room for the whole first: the parts have to keep their distances.
	from := kernel(sysMmap, 0, size, 0, mapPrivate|mapAnonymous, ^uintptr(0), 0)
	if failed(from) {
		return causeNoMap, -from
	}
	image.from, image.size, image.bias = from, size, from-low
	for i := uintptr(0); segment(i) != 0; i++ {
		if load32(segment(i)) != ptLoad {
			continue
		}
		if result := mapSegment(file, segment(i)); failed(result) {
			return causeNoMap, -result
		}
	}
	return causeNone, 0
}

// span returns the lowest address of the loader and its length in memory, both in whole
// pages, or a length of 0 if its program headers make no sense. A part that reaches
// beyond the end of the file would end the process when it is touched.
//
//go:nosplit
func span(fileSize uintptr) (low, size uintptr) {
	low, high := ^uintptr(0), uintptr(0)
	for i := uintptr(0); segment(i) != 0; i++ {
		s := segment(i)
		if load32(s) != ptLoad {
			continue
		}
		vaddr, inFile, inMemory, offset := load(s+pVaddr), load(s+pFilesz), load(s+pMemsz), load(s+pOffset)
		if vaddr > 1<<47 || inMemory > maxImage || inFile > inMemory || (vaddr-offset)&(start.page-1) != 0 ||
			failed(fileSize) || offset > fileSize || inFile > fileSize-offset {
			return 0, 0
		}
		low = min(low, floor(vaddr))
		high = max(high, ceil(vaddr+inMemory))
	}
	if low >= high || high-low > maxImage {
		return 0, 0
	}
	return low, high - low
}

// mapSegment maps one part. What memory has more than the file is zero.
//
//go:nosplit
func mapSegment(file, s uintptr) uintptr {
	flags, prot := load32(s+pFlags), uintptr(0)
	if flags&4 != 0 {
		prot |= protRead
	}
	if flags&2 != 0 {
		prot |= protWrite
	}
	if flags&1 != 0 {
		prot |= protExec
	}
	begin := image.bias + load(s+pVaddr)
	end, memoryEnd := begin+load(s+pFilesz), ceil(begin+load(s+pMemsz))
	result := uintptr(0)
	if end > begin {
		result = kernel(sysMmap, floor(begin), ceil(end)-floor(begin), prot, mapPrivate|mapFixed, file, floor(load(s+pOffset)))
		if failed(result) {
			return result
		}
	} else {
		end = floor(begin)
	}
	if prot&protWrite != 0 {
		for ; end < ceil(end) && end < memoryEnd; end++ {
			store8(end, 0)
		}
	}
	if end = ceil(end); end < memoryEnd {
		result = kernel(sysMmap, end, memoryEnd-end, prot, mapPrivate|mapFixed|mapAnonymous, ^uintptr(0), 0)
	}
	return result
}

// isShared reports whether the head of a file belongs to a shared library, and the loader
// is one, for this processor.
//
//go:nosplit
func isShared(head uintptr) bool {
	return sameBytes(head, text(ident), uintptr(len(ident))) &&
		load16(head+eType) == typeShared && load16(head+eMachine) == machine
}

// inImage reports whether some bytes of the loader are in memory and come from its file.
//
//go:nosplit
func inImage(vaddr, size uintptr) bool {
	for i := uintptr(0); segment(i) != 0; i++ {
		s := segment(i)
		if load32(s) == ptLoad && vaddr >= load(s+pVaddr) && vaddr-load(s+pVaddr) <= load(s+pFilesz) &&
			size <= load(s+pFilesz)-(vaddr-load(s+pVaddr)) {
			return load32(s+pFlags)&4 != 0
		}
	}
	return false
}

// imageContains reports whether the loader has a text in it, the zero byte at its end
// included.
//
//go:nosplit
func imageContains(what uintptr) bool {
	n := length(what) + 1
	for i := uintptr(0); segment(i) != 0; i++ {
		s := segment(i)
		if from := image.bias + load(s+pVaddr); load32(s) == ptLoad && load32(s+pFlags)&4 != 0 &&
			contains(from, from+load(s+pFilesz), what, n) {
			return true
		}
	}
	return false
}

// glibcOnly is the version of the functions that the parts of glibc keep to themselves.
const glibcOnly = "GLIBC_PRIVATE\x00"

// isGlibc reports whether the loader is glibc's: the names in its dynamic section say so.
//
//go:nosplit
func isGlibc() bool {
	for i := uintptr(0); segment(i) != 0; i++ {
		s := segment(i)
		if load32(s) != ptDynamic || !inImage(load(s+pVaddr), load(s+pFilesz)) {
			continue
		}
		var table, size uintptr
		dynamic := image.bias + load(s+pVaddr)
		for end := dynamic + load(s+pFilesz); dynamic+16 <= end && load(dynamic) != dtNull; dynamic += 16 {
			switch load(dynamic) {
			case dtStrtab:
				table = load(dynamic + 8)
			case dtStrsz:
				size = load(dynamic + 8)
			}
		}
		if !inImage(table, size) {
			return false
		}
		table += image.bias
		return contains(table, table+size, text(glibcOnly), uintptr(len(glibcOnly)))
	}
	return false
}
