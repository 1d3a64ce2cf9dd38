package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// What a file may have at most. Linkers stay far below, and whoever made a file that does not
// costs neither much memory nor much time.
const (
	maxProgram     = 4 << 30
	maxSegments    = 128 // Go's linker writes about ten
	maxInterpreter = 4096
	maxDynamic     = 1 << 20
	readStep       = 1 << 20
)

// program is what the kernel reads of an ELF file of 64 bits: the header and the program
// headers. Sections may say something else, or may be missing.
type program struct {
	file     io.ReaderAt
	header   elf.Header64
	segments []elf.Prog64
}

// readProgram reads the headers of a file of a given size. Afterwards each segment lies within
// the file.
func readProgram(file io.ReaderAt, size int64) (*program, error) {
	p := &program{file: file}
	var head [64]byte
	if _, err := file.ReadAt(head[:], 0); err != nil && err != io.EOF {
		return nil, err
	}
	_ = binary.Read(bytes.NewReader(head[:]), binary.LittleEndian, &p.header) // the sizes fit
	h := p.header
	_, known := jumps[elf.Machine(h.Machine)]
	kind, abi := elf.Type(h.Type), elf.OSABI(h.Ident[elf.EI_OSABI])
	switch {
	case string(h.Ident[:4]) != elf.ELFMAG, h.Ident[elf.EI_CLASS] != byte(elf.ELFCLASS64),
		h.Ident[elf.EI_DATA] != byte(elf.ELFDATA2LSB), !known,
		kind != elf.ET_EXEC && kind != elf.ET_DYN,
		abi != elf.ELFOSABI_NONE && abi != elf.ELFOSABI_LINUX:
		return nil, errNotLinux
	case h.Phnum == 0: // the head of one
		return nil, errNotLinux
	case size > maxProgram:
		return nil, fmt.Errorf("has %d bytes, more than %d, the most for a program", size, int64(maxProgram))
	case h.Phentsize != programEntrySize:
		return nil, fmt.Errorf("has program headers of %d bytes, not of %d", h.Phentsize, programEntrySize)
	case h.Phnum > maxSegments:
		return nil, fmt.Errorf("has %d program headers, more than %d", h.Phnum, maxSegments)
	case !inside(h.Phoff, uint64(h.Phnum)*programEntrySize, size):
		return nil, fmt.Errorf("is damaged: its program headers at %#x are not in its %d bytes", h.Phoff, size)
	}
	p.segments = make([]elf.Prog64, h.Phnum)
	table := io.NewSectionReader(file, int64(h.Phoff), int64(h.Phnum)*programEntrySize)
	if err := binary.Read(table, binary.LittleEndian, p.segments); err != nil {
		return nil, err
	}
	for i, s := range p.segments {
		if !inside(s.Off, s.Filesz, size) || s.Filesz > math.MaxUint64-s.Vaddr {
			return nil, fmt.Errorf("is damaged: its segment %d, %d bytes at %#x, is not in its %d bytes", i, s.Filesz, s.Off, size)
		}
	}
	return p, nil
}

// inside reports whether n bytes at off lie in a file of a size.
func inside(off, n uint64, size int64) bool {
	return off <= uint64(size) && n <= uint64(size)-off
}

// only is the segment of a type that may be there once, or nil.
func (p *program) only(kind elf.ProgType) (found *elf.Prog64, err error) {
	for i := range p.segments {
		if elf.ProgType(p.segments[i].Type) != kind {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("has more than one segment of type %v", kind)
		}
		found = &p.segments[i]
	}
	return found, nil
}

// content of a small segment.
func (p *program) content(s *elf.Prog64, most uint64) ([]byte, error) {
	if s.Filesz > most {
		return nil, fmt.Errorf("has a segment of type %v of %d bytes, more than %d", elf.ProgType(s.Type), s.Filesz, most)
	}
	data := make([]byte, s.Filesz)
	_, err := p.file.ReadAt(data, int64(s.Off))
	return data, err
}

// find returns the address of what in the executable segments, or 0.
func (p *program) find(what []byte) (found uint64, err error) {
	left := uint64(maxProgram) // segments that lie over each other are read more than once
	for _, s := range p.segments {
		if elf.ProgType(s.Type) != elf.PT_LOAD || elf.ProgFlag(s.Flags)&elf.PF_X == 0 {
			continue
		}
		if s.Filesz > left {
			return 0, errors.New("is damaged: its executable segments lie over each other")
		}
		left -= s.Filesz
		window := make([]byte, 0, min(readStep, s.Filesz)+uint64(len(what)))
		for from := uint64(0); from < s.Filesz; {
			kept := len(window)
			window = window[:kept+int(min(readStep, s.Filesz-from))]
			if _, err := p.file.ReadAt(window[kept:], int64(s.Off+from)); err != nil {
				return 0, err
			}
			start := s.Vaddr + from - uint64(kept)
			from += uint64(len(window) - kept)
			for at := 0; ; at++ {
				i := bytes.Index(window[at:], what)
				if i < 0 {
					break
				}
				if at += i; found != 0 {
					return 0, errors.New("has the entry point of package dlhost twice")
				}
				found = start + uint64(at)
			}
			tail := min(len(window), len(what)-1) // it may go on in the next step
			window = append(window[:0], window[len(window)-tail:]...)
		}
	}
	return found, nil
}

// dynamic are the entries of the dynamic section, the first value of each. It is nil where there
// is no such section.
func (p *program) dynamic() (map[elf.DynTag]uint64, error) {
	s, err := p.only(elf.PT_DYNAMIC)
	if s == nil || err != nil {
		return nil, err
	}
	data, err := p.content(s, maxDynamic)
	if err != nil {
		return nil, err
	}
	values := map[elf.DynTag]uint64{}
	for ; len(data) >= 16; data = data[16:] {
		tag := elf.DynTag(binary.LittleEndian.Uint64(data))
		if tag == elf.DT_NULL {
			break
		}
		if _, there := values[tag]; !there {
			values[tag] = binary.LittleEndian.Uint64(data[8:])
		}
	}
	return values, nil
}

// at is a part of the file by its address.
func (p *program) at(address, size uint64) (*io.SectionReader, error) {
	for _, s := range p.segments {
		if elf.ProgType(s.Type) == elf.PT_LOAD && address >= s.Vaddr && size <= s.Filesz && address-s.Vaddr <= s.Filesz-size {
			return io.NewSectionReader(p.file, int64(s.Off+address-s.Vaddr), int64(size)), nil
		}
	}
	return nil, fmt.Errorf("has a table of %d bytes at address %#x, which is in no segment", size, address)
}
