package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// marker stands in the entry point, after a jump over it. Only code that the kernel
// would execute is searched for it, so that this program does not find its own copy.
const marker = "purecuda/dlhost entry point no.1"

var (
	// errNotLinux marks a file that the kernel of linux on amd64 or arm64 would not
	// start anyway.
	errNotLinux = errors.New("not an ELF program for linux/amd64 or linux/arm64")

	errNoMarker = errors.New("the entry point of package dlhost is not in this program: " +
		"import github.com/purecuda/purecuda/driver in it, " +
		"and build it with CGO_ENABLED=0 and without the tag purecuda_nohost")

	errNotDone = errors.New("not done: the program asks for an interpreter, and would not start without one")
)

// Where the two fields stand in a file of 64 bits.
const (
	entryOffset      = 24 // e_entry
	programEntrySize = 56
	relocationSize   = 24
)

// jumps are the machine code before the marker: a jump over it.
var jumps = map[elf.Machine][]byte{
	elf.EM_X86_64:  {0xeb, 32},
	elf.EM_AARCH64: {9, 0, 0, 0x14},
}

// patch is the change to a file.
type patch struct {
	entry       uint64 // new address of entry, or 0 where nothing is to do
	interpreter int64  // where the type of the entry of the interpreter stands
	outcome     string // in words
}

// write changes the two fields.
func (p patch) write(file io.WriterAt) error {
	var field [8]byte
	binary.LittleEndian.PutUint64(field[:], p.entry)
	if _, err := file.WriteAt(field[:], entryOffset); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(field[:], uint32(elf.PT_NULL))
	_, err := file.WriteAt(field[:4], p.interpreter)
	return err
}

// examine finds out what is to be changed in a file of a given size, and refuses what the entry
// point could not start. The file may be anything.
func examine(file io.ReaderAt, size int64) (patch, error) {
	p, err := readProgram(file, size)
	if err != nil {
		return patch{}, err
	}
	entry, err := p.find(append(bytes.Clone(jumps[elf.Machine(p.header.Machine)]), marker...))
	if err != nil {
		return patch{}, err
	}
	interpreter, err := p.only(elf.PT_INTERP)
	switch {
	case err != nil:
		return patch{}, err
	case interpreter == nil && entry != 0 && p.header.Entry == entry:
		return patch{outcome: "starts without a loader already"}, nil
	case interpreter == nil:
		return patch{outcome: "asks for no interpreter, nothing to do"}, nil
	case entry == 0:
		return patch{}, errNoMarker
	}
	name, err := p.content(interpreter, maxInterpreter)
	if err != nil {
		return patch{}, err
	}
	if err := refuse(p); err != nil {
		return patch{}, err
	}
	index := slices.IndexFunc(p.segments, func(s elf.Prog64) bool { return elf.ProgType(s.Type) == elf.PT_INTERP })
	return patch{
		entry:       entry,
		interpreter: int64(p.header.Phoff) + int64(index)*programEntrySize,
		outcome: fmt.Sprintf("starts without a loader now: entered at %#x instead of %#x, %s no longer asked for",
			entry, p.header.Entry, bytes.TrimRight(name, "\x00")),
	}, nil
}

// refuse looks for what an ordinary loader does and the entry point does not: a program
// that was linked by an external linker may need it.
func refuse(p *program) error {
	headers, err := p.only(elf.PT_PHDR)
	if err != nil {
		return err
	}
	if elf.Type(p.header.Type) == elf.ET_DYN && headers == nil {
		return errors.New("position-independent and without PT_PHDR: the entry point could not tell where it runs")
	}
	dynamic, err := p.dynamic()
	if err != nil {
		return err
	}
	if dynamic == nil {
		return errors.New("asks for an interpreter and has no dynamic section")
	}
	for _, tag := range []elf.DynTag{
		elf.DT_INIT, elf.DT_INIT_ARRAY, elf.DT_PREINIT_ARRAY, elf.DT_FINI_ARRAY, elf.DT_TEXTREL, elf.DT_REL,
		35, 36, // DT_RELRSZ, DT_RELR
	} {
		if _, there := dynamic[tag]; there {
			return fmt.Errorf("has %v, so Go's own linker did not make it: build it with -ldflags=-linkmode=internal", tag)
		}
	}
	return refuseRelocations(p, dynamic[elf.DT_RELA], dynamic[elf.DT_RELASZ])
}

// relocations are the kinds that may be there: addresses of the program itself, which
// the entry point relocates, and functions of libraries, which are not called without
// a loader.
var relocations = map[elf.Machine][]uint32{
	elf.EM_X86_64: {uint32(elf.R_X86_64_RELATIVE), uint32(elf.R_X86_64_JMP_SLOT), uint32(elf.R_X86_64_GLOB_DAT), uint32(elf.R_X86_64_64)},
	elf.EM_AARCH64: {uint32(elf.R_AARCH64_RELATIVE), uint32(elf.R_AARCH64_JUMP_SLOT), uint32(elf.R_AARCH64_GLOB_DAT),
		uint32(elf.R_AARCH64_ABS64)},
}

func refuseRelocations(p *program, address, size uint64) error {
	if size == 0 {
		return nil
	}
	part, err := p.at(address, size)
	if err != nil {
		return err
	}
	table := bufio.NewReaderSize(part, 64<<10)
	var entry [relocationSize]byte
	for range size / relocationSize {
		if _, err := io.ReadFull(table, entry[:]); err != nil {
			return err
		}
		if kind := binary.LittleEndian.Uint32(entry[8:]); !slices.Contains(relocations[elf.Machine(p.header.Machine)], kind) {
			return fmt.Errorf("has a relocation of type %d, which the entry point does not know", kind)
		}
	}
	return nil
}
