package driver

import (
	"bytes"
	"encoding/binary"
)

// The driver takes an image by its address alone and trusts the lengths that
// stand in it. A truncated file would be read beyond its end, so they are
// checked here first.

var (
	elfMagic    = []byte("\x7fELF")
	fatbinMagic = []byte{0x50, 0xed, 0x55, 0xba}
)

// imageForC returns the image in the form that C takes, and false if it is empty
// or cut off: PTX with a NUL behind it, and cubins and fatbins as they are.
func imageForC(image []byte) ([]byte, bool) {
	switch {
	case len(image) == 0:
		return nil, false
	case bytes.HasPrefix(image, elfMagic):
		return image, elfComplete(image)
	case bytes.HasPrefix(image, fatbinMagic):
		return image, fatbinComplete(image)
	}
	text, _, _ := bytes.Cut(image, []byte{0})
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, false
	}
	return append(text[:len(text):len(text)], 0), true
}

// elfComplete checks that the section and program headers of a 64-bit ELF file,
// and the sections they name, lie within it.
func elfComplete(image []byte) bool {
	const headerSize, noBits = 64, 8
	if len(image) < headerSize || image[4] != 2 /* 64-bit */ || image[5] != 1 /* little-endian */ {
		return false
	}
	u16 := func(at int) uint64 { return uint64(binary.LittleEndian.Uint16(image[at:])) }
	u64 := func(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
	size := uint64(len(image))
	within := func(offset, length uint64) bool { return offset <= size && length <= size-offset }

	sections, each, count := u64(image[0x28:]), u16(0x3a), u16(0x3c)
	programs, programSize, programCount := u64(image[0x20:]), u16(0x36), u16(0x38)
	if !within(programs, programSize*programCount) || !within(sections, each*count) || count > 0 && each < headerSize {
		return false
	}
	for i := range count {
		header := image[sections+i*each:]
		kind := binary.LittleEndian.Uint32(header[4:])
		if kind != noBits && !within(u64(header[0x18:]), u64(header[0x20:])) {
			return false
		}
	}
	return true
}

// fatbinComplete checks the size in the header of a fatbin: magic, version and
// header size of 16 bits each, then the bytes that follow the header.
func fatbinComplete(image []byte) bool {
	if len(image) < 16 {
		return false
	}
	header := uint64(binary.LittleEndian.Uint16(image[6:]))
	body := binary.LittleEndian.Uint64(image[8:])
	size := uint64(len(image))
	return header <= size && body <= size-header
}
