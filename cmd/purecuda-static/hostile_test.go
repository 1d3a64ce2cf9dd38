package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crafted is a small file with all that a program has which can be changed.
type crafted struct {
	header      elf.Header64
	segments    []elf.Prog64
	interpreter string
	dynamic     [][2]uint64
	relocations []elf.Rela64
	code        []byte
}

const craftedBase = 0x400000

func newCrafted(machine elf.Machine) *crafted {
	return &crafted{
		header: elf.Header64{
			Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Entry: craftedBase + 0x500,
			Phoff: 64, Ehsize: 64, Phentsize: programEntrySize, Shentsize: 64,
		},
		interpreter: "/lib64/ld-linux-x86-64.so.2\x00",
		dynamic:     [][2]uint64{{uint64(elf.DT_RELA), craftedBase + 0x400}, {uint64(elf.DT_RELASZ), relocationSize}, {uint64(elf.DT_NULL), 0}},
		relocations: []elf.Rela64{{Off: craftedBase, Info: uint64(relocations[machine][0])}},
		code:        append(bytes.Clone(jumps[machine]), marker...),
	}
}

// file is the file: headers, then the interpreter at 0x200, the dynamic section at 0x300, the
// relocations at 0x400 and the code at 0x500. change may damage the headers before.
func (c *crafted) file(change func(h *elf.Header64, load, interp, dynamic *elf.Prog64)) []byte {
	size := uint64(0x500 + len(c.code))
	load := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: craftedBase, Filesz: size, Memsz: size}
	interp := elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 0x200, Filesz: uint64(len(c.interpreter))}
	dynamic := elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: 0x300, Filesz: uint64(16 * len(c.dynamic))}
	h := c.header
	h.Phnum = uint16(3 + len(c.segments))
	if change != nil {
		change(&h, &load, &interp, &dynamic)
	}
	data := make([]byte, 0x500, size)
	put := func(at int, v any) {
		var b bytes.Buffer
		_ = binary.Write(&b, binary.LittleEndian, v)
		copy(data[at:], b.Bytes())
	}
	put(0, h)
	put(64, append([]elf.Prog64{load, interp, dynamic}, c.segments...))
	put(0x200, []byte(c.interpreter))
	put(0x300, c.dynamic)
	put(0x400, c.relocations)
	return append(data, c.code...)
}

func TestCraftedProgramIsChanged(t *testing.T) {
	for _, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
		data := newCrafted(machine).file(nil)
		p, err := examine(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		assert.EqualValues(t, craftedBase+0x500, p.entry)
		assert.EqualValues(t, 64+programEntrySize, p.interpreter)
	}
}

// Whatever the numbers in a file say, what is read of it stays small, and the reason is told.
func TestHostileFiles(t *testing.T) {
	const huge = 1 << 62
	c := newCrafted(elf.EM_X86_64)
	with := func(f func(c *crafted)) []byte {
		other := *c
		f(&other)
		return other.file(nil)
	}
	for name, test := range map[string]struct {
		data []byte
		says string
	}{
		"size of a segment":     {c.file(func(_ *elf.Header64, load, _, _ *elf.Prog64) { load.Filesz = huge }), "segment 0"},
		"negative size":         {c.file(func(_ *elf.Header64, load, _, _ *elf.Prog64) { load.Filesz = 1 << 63 }), "segment 0"},
		"offset of a segment":   {c.file(func(_ *elf.Header64, load, _, _ *elf.Prog64) { load.Off = huge }), "segment 0"},
		"offset that overflows": {c.file(func(_ *elf.Header64, load, _, _ *elf.Prog64) { load.Off = 1<<64 - 1 }), "segment 0"},
		"address that overflows": {c.file(func(_ *elf.Header64, load, _, _ *elf.Prog64) {
			load.Vaddr = 1<<64 - 8
		}), "segment 0"},
		"interpreter's size":  {c.file(func(_ *elf.Header64, _, interp, _ *elf.Prog64) { interp.Filesz = 1 << 40 }), "segment 1"},
		"interpreter's name":  {c.file(func(_ *elf.Header64, load, interp, _ *elf.Prog64) { interp.Off, interp.Filesz = 0, load.Filesz }), ""},
		"dynamic's size":      {c.file(func(_ *elf.Header64, _, _, dynamic *elf.Prog64) { dynamic.Filesz = huge }), "segment 2"},
		"headers' place":      {c.file(func(h *elf.Header64, _, _, _ *elf.Prog64) { h.Phoff = huge }), "program headers at"},
		"headers' number":     {c.file(func(h *elf.Header64, _, _, _ *elf.Prog64) { h.Phnum = 65535 }), "65535 program headers"},
		"headers' size":       {c.file(func(h *elf.Header64, _, _, _ *elf.Prog64) { h.Phentsize = 1 }), "program headers of 1 bytes"},
		"relocations' size":   {with(func(c *crafted) { c.dynamic = [][2]uint64{c.dynamic[0], {uint64(elf.DT_RELASZ), huge}} }), "in no segment"},
		"relocations' wrap":   {with(func(c *crafted) { c.dynamic = [][2]uint64{c.dynamic[0], {uint64(elf.DT_RELASZ), 1<<64 - 1}} }), "in no segment"},
		"relocations' place":  {with(func(c *crafted) { c.dynamic = [][2]uint64{{uint64(elf.DT_RELA), 1<<64 - 1}, c.dynamic[1]} }), "in no segment"},
		"relocation's kind":   {with(func(c *crafted) { c.relocations = []elf.Rela64{{Info: 99}} }), "relocation of type 99"},
		"two interpreters":    {with(func(c *crafted) { c.segments = []elf.Prog64{{Type: uint32(elf.PT_INTERP)}} }), "more than one segment of type PT_INTERP"},
		"two dynamics":        {with(func(c *crafted) { c.segments = []elf.Prog64{{Type: uint32(elf.PT_DYNAMIC)}} }), "more than one segment of type PT_DYNAMIC"},
		"a function to begin": {with(func(c *crafted) { c.dynamic = append([][2]uint64{{uint64(elf.DT_INIT_ARRAY), 1}}, c.dynamic...) }), "DT_INIT_ARRAY"},
		"the marker twice":    {with(func(c *crafted) { c.code = append(bytes.Clone(c.code), c.code...) }), "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after goruntime.MemStats
			goruntime.ReadMemStats(&before)
			p, err := examine(bytes.NewReader(test.data), int64(len(test.data)))
			goruntime.ReadMemStats(&after)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
			if test.says == "" {
				assert.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Contains(t, err.Error(), test.says)
			assert.Zero(t, p)
		})
	}
}

// A file with holes is as large as it likes and costs nobody anything to make.
func TestSparseFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	for _, size := range []int64{1 << 40, 3 << 30} {
		data := newCrafted(elf.EM_X86_64).file(func(_ *elf.Header64, load, interp, dynamic *elf.Prog64) {
			load.Flags = uint32(elf.PF_R)
			interp.Filesz, dynamic.Filesz = uint64(size)-interp.Off, uint64(size)-dynamic.Off
		})
		require.NoError(t, os.WriteFile(path, data, 0o755))
		if err := os.Truncate(path, size); err != nil {
			t.Skipf("this file system has no sparse files: %v", err)
		}
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		code, _, stderr := command(path)
		goruntime.ReadMemStats(&after)
		assert.Equal(t, exitFailed, code, stderr)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
	}
}

// What a file or its name holds reaches the terminal as visible text, on one line.
func TestNoRawBytesArePrinted(t *testing.T) {
	const nasty = "\x1b]0;gone\a\x1b[2J\n\u009b31m\u202e\xff"
	c := newCrafted(elf.EM_X86_64)
	c.interpreter = nasty + "\x00"
	data := c.file(nil)
	dir := t.TempDir()
	names := []string{"plain"}
	if goruntime.GOOS == "linux" {
		names = append(names, strings.ReplaceAll(nasty, "/", ""))
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, data, 0o755))
		code, stdout, stderr := command(path)
		assert.Equal(t, exitOK, code, stderr)
		assert.Contains(t, stdout, `\x1b]0;gone\a\x1b[2J\n\u009b31m\u202e\xff no longer asked for`)
		_, _, missing := command(path + "none")
		_, _, flag := command("-" + nasty)
		for _, text := range []string{strings.TrimSuffix(stdout, "\n"), strings.TrimSuffix(missing, "\n"), strings.SplitN(flag, "\nusage", 2)[0]} {
			assert.NotRegexp(t, `[\x00-\x1f\x7f]|[\x{80}-\x{9f}]|\x{202e}`, text)
		}
	}
}

// FuzzExamine: no file makes the program panic, or read beyond it, and what is changed is done.
func FuzzExamine(f *testing.F) {
	for _, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
		c := newCrafted(machine)
		f.Add(c.file(nil))
		f.Add(c.file(func(h *elf.Header64, _, _, _ *elf.Prog64) { h.Type = uint16(elf.ET_DYN) }))
		f.Add(c.file(func(_ *elf.Header64, load, _, _ *elf.Prog64) { load.Filesz = 1 << 40 }))
		c.segments = []elf.Prog64{{Type: uint32(elf.PT_PHDR), Off: 64}, {Type: uint32(elf.PT_TLS)}}
		f.Add(c.file(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := examine(bytes.NewReader(data), int64(len(data)))
		if err != nil || p.entry == 0 {
			return
		}
		changed := patched(data)
		require.NoError(t, p.write(&changed))
		require.Len(t, changed, len(data))
		again, err := examine(bytes.NewReader(changed), int64(len(changed)))
		require.NoError(t, err)
		assert.Zero(t, again.entry)
		assert.Equal(t, "starts without a loader already", again.outcome)
	})
}

// patched is a file in memory that does not grow.
type patched []byte

func (p *patched) WriteAt(b []byte, at int64) (int, error) {
	return copy((*p)[at:at+int64(len(b))], b), nil
}
