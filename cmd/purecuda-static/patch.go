package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// marker stands in the entry point, behind a jump over it. Only code that the kernel
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
	tableOffset      = 32 // e_phoff
	entrySizeOffset  = 54 // e_phentsize
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

// patchFile changes a file, or only looks at it, and says what it found.
func patchFile(path string, check bool) (string, error) {
	mode := os.O_RDWR
	if check {
		mode = os.O_RDONLY
	}
	file, err := os.OpenFile(path, mode, 0)
	if err != nil {
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err // the caller names the file
		}
		return "", err
	}
	p, err := examine(file)
	switch {
	case err != nil:
	case p.entry == 0:
	case check:
		err = errNotDone
	default:
		err = p.write(file)
	}
	return p.outcome, errors.Join(err, file.Close())
}

// write changes the two fields. The entry point comes first: until the interpreter is
// gone as well, it sees that a C library has started the program, and does nothing.
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

// examine finds out what is to be changed, and refuses what the entry point could not
// start.
func examine(r io.ReaderAt) (patch, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return patch{}, fmt.Errorf("%w: %w", errNotLinux, err)
	}
	jump, known := jumps[f.Machine]
	program := f.Type == elf.ET_EXEC || f.Type == elf.ET_DYN
	linux := f.OSABI == elf.ELFOSABI_NONE || f.OSABI == elf.ELFOSABI_LINUX
	if !known || f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || !program || !linux {
		return patch{}, errNotLinux
	}
	var head [64]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return patch{}, err
	}
	if size := binary.LittleEndian.Uint16(head[entrySizeOffset:]); size != programEntrySize {
		return patch{}, fmt.Errorf("program headers of %d bytes", size)
	}
	table := int64(binary.LittleEndian.Uint64(head[tableOffset:]))
	entry, err := findEntry(f, jump)
	if err != nil {
		return patch{}, err
	}
	interpreters, path := []int64{}, ""
	for i, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			interpreters = append(interpreters, table+int64(i)*programEntrySize)
			name, err := io.ReadAll(segment.Open())
			if err != nil {
				return patch{}, err
			}
			path = string(bytes.TrimRight(name, "\x00"))
		}
	}
	switch {
	case len(interpreters) == 0 && entry != 0 && f.Entry == entry:
		return patch{outcome: "starts without a loader already"}, nil
	case len(interpreters) == 0:
		return patch{outcome: "asks for no interpreter, nothing to do"}, nil
	case entry == 0:
		return patch{}, errNoMarker
	case len(interpreters) > 1:
		return patch{}, errors.New("asks for more than one interpreter")
	}
	if err := refuse(f); err != nil {
		return patch{}, err
	}
	return patch{
		entry:       entry,
		interpreter: interpreters[0],
		outcome:     fmt.Sprintf("starts without a loader now: entered at %#x instead of %#x, %s no longer asked for", entry, f.Entry, path),
	}, nil
}

// findEntry looks for the entry point in the executable parts of a program. It returns
// 0 where there is none.
func findEntry(f *elf.File, jump []byte) (uint64, error) {
	found := uint64(0)
	what := append(bytes.Clone(jump), marker...)
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_LOAD || segment.Flags&elf.PF_X == 0 {
			continue
		}
		code, err := io.ReadAll(segment.Open())
		if err != nil {
			return 0, err
		}
		for at := 0; ; {
			i := bytes.Index(code[at:], what)
			if i < 0 {
				break
			}
			if found != 0 {
				return 0, errors.New("has the entry point of package dlhost twice")
			}
			found = segment.Vaddr + uint64(at+i)
			at += i + len(what)
		}
	}
	return found, nil
}

// refuse looks for what an ordinary loader does and the entry point does not: a program
// that was linked by an external linker may need it.
func refuse(f *elf.File) error {
	if f.Type == elf.ET_DYN && !hasSegment(f, elf.PT_PHDR) {
		return errors.New("position-independent and without PT_PHDR: the entry point could not tell where it runs")
	}
	if !hasSegment(f, elf.PT_DYNAMIC) {
		return errors.New("asks for an interpreter and has no dynamic section")
	}
	for _, tag := range []elf.DynTag{
		elf.DT_INIT, elf.DT_INIT_ARRAY, elf.DT_PREINIT_ARRAY, elf.DT_FINI_ARRAY, elf.DT_TEXTREL, elf.DT_REL,
		35, 36, // DT_RELRSZ, DT_RELR
	} {
		values, err := f.DynValue(tag)
		if err != nil {
			return err
		}
		if len(values) > 0 {
			return fmt.Errorf("has %v, so Go's own linker did not make it: build it with -ldflags=-linkmode=internal", tag)
		}
	}
	return refuseRelocations(f)
}

// relocations are the kinds that may be there: addresses of the program itself, which
// the entry point relocates, and functions of libraries, which are not called without
// a loader.
var relocations = map[elf.Machine][]uint32{
	elf.EM_X86_64: {uint32(elf.R_X86_64_RELATIVE), uint32(elf.R_X86_64_JMP_SLOT), uint32(elf.R_X86_64_GLOB_DAT), uint32(elf.R_X86_64_64)},
	elf.EM_AARCH64: {uint32(elf.R_AARCH64_RELATIVE), uint32(elf.R_AARCH64_JUMP_SLOT), uint32(elf.R_AARCH64_GLOB_DAT),
		uint32(elf.R_AARCH64_ABS64)},
}

func refuseRelocations(f *elf.File) error {
	table, size, err := relocationTable(f)
	if err != nil || size == 0 {
		return err
	}
	for _, segment := range f.Progs {
		if segment.Type != elf.PT_LOAD || table < segment.Vaddr || size > segment.Filesz || table-segment.Vaddr > segment.Filesz-size {
			continue
		}
		data := make([]byte, size)
		if _, err := segment.ReadAt(data, int64(table-segment.Vaddr)); err != nil {
			return err
		}
		for ; len(data) >= relocationSize; data = data[relocationSize:] {
			if kind := binary.LittleEndian.Uint32(data[8:]); !slices.Contains(relocations[f.Machine], kind) {
				return fmt.Errorf("has a relocation of type %d, which the entry point does not know", kind)
			}
		}
		return nil
	}
	return errors.New("has a relocation table that is in no segment")
}

// relocationTable is the address and the size of the table of relocations.
func relocationTable(f *elf.File) (table, size uint64, err error) {
	for tag, value := range map[elf.DynTag]*uint64{elf.DT_RELA: &table, elf.DT_RELASZ: &size} {
		values, err := f.DynValue(tag)
		if err != nil {
			return 0, 0, err
		}
		if len(values) > 0 {
			*value = values[0]
		}
	}
	return table, size, nil
}

func hasSegment(f *elf.File, kind elf.ProgType) bool {
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == kind })
}
