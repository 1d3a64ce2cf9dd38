package exec

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Program is a compiled module. It is immutable and may be linked any number of times.
type Program struct {
	Module  *ptx.Module
	globals []Global
	index   map[*ptx.Variable]int
	funcs   []*ptx.Function // with a body; function i has address CodeWindow + 16*(i+1)
	address map[*ptx.Function]uint64
	entries map[string]*Kernel
}

// Global is a variable in global or constant memory that the caller has to allocate.
type Global struct {
	Name     string // of a variable within a function: function.name
	Const    bool
	External bool // declared .extern: the caller provides the address and the content
	Managed  bool
	Size     uint64
	Align    uint64

	v *ptx.Variable
}

// Globals lists the variables that Link wants addresses for.
func (p *Program) Globals() []Global { return slices.Clone(p.globals) }

// Initial returns the first bytes of global i, with the addresses of other symbols filled
// in; what follows up to its size is zero. addrs is as for Link.
func (p *Program) Initial(i int, addrs []uint64) ([]byte, error) {
	v := p.globals[i].v
	if len(addrs) != len(p.globals) {
		return nil, fmt.Errorf("exec: %d addresses for %d globals", len(addrs), len(p.globals))
	}
	data := slices.Clone(v.Init)
	for _, r := range v.Relocs {
		var a uint64
		switch {
		case r.Func != nil:
			a = p.functionAddress(r.Func)
		case r.Var != nil:
			j, ok := p.index[r.Var]
			if !ok {
				return nil, fmt.Errorf("exec: %s holds the address of %s, which has none before a launch", v.Name, r.Var.Name)
			}
			a = addrs[j]
		}
		a = (a + uint64(r.Addend)) & r.Mask >> r.Shift
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], a)
		if r.Offset+uint64(r.Size) <= uint64(len(data)) {
			copy(data[r.Offset:r.Offset+uint64(r.Size)], word[:])
		}
	}
	return data, nil
}

// functionAddress is zero for a function without a body.
func (p *Program) functionAddress(f *ptx.Function) uint64 { return p.address[f] }

// Entry returns a kernel of a module without globals, or whose globals are not needed, as
// it can be launched at once; nil if there is none of that name. Kernels that use
// globals come from Link.
func (p *Program) Entry(name string) *Kernel { return p.entries[name] }

// Linked is a program whose variables have addresses.
type Linked struct {
	Program *Program
	entries map[string]*Kernel
}

// Entry returns a kernel, or nil.
func (l *Linked) Entry(name string) *Kernel { return l.entries[name] }

// Link gives the variables the addresses addrs, one for each of Globals.
func (p *Program) Link(addrs []uint64) (*Linked, error) {
	if len(addrs) != len(p.globals) {
		return nil, fmt.Errorf("exec: %d addresses for %d globals", len(addrs), len(p.globals))
	}
	l := &Linked{p, make(map[string]*Kernel, len(p.entries))}
	for name, k := range p.entries {
		c := &Kernel{kernelCode: k.kernelCode, consts: slices.Clone(k.consts)}
		for _, r := range k.relocs {
			v := addrs[r.global] + r.addend
			for i := range c.consts[r.slot] {
				c.consts[r.slot][i] = v
			}
		}
		l.entries[name] = c
	}
	return l, nil
}

// kernelCode is what all linked copies of a kernel share.
type kernelCode struct {
	name       string
	code       []inst
	fn         *function
	funcs      map[uint64]*function // by address, for indirect calls
	relocs     []constReloc
	params     []ptx.Param
	paramBytes uint64
	sharedBase uint64 // where dynamic shared memory begins
	shared     uint64 // static bytes
	localBytes uint64 // per thread, without the stack of recursive calls
	recursive  bool
	reqNTID    [3]uint32
	maxNTID    [3]uint32
}

type constReloc struct {
	slot   int32
	global int
	addend uint64
}

// Name is the kernel's name in PTX.
func (k *Kernel) Name() string { return k.name }

// Params are the parameters of the kernel.
func (k *Kernel) Params() []ptx.Param { return slices.Clone(k.params) }

// ParamBytes is the size of the parameter buffer.
func (k *Kernel) ParamBytes() int { return int(k.paramBytes) }

// SharedBytes is the static shared memory of a block.
func (k *Kernel) SharedBytes() int { return int(k.shared) }

// LocalBytes is the local memory of a thread.
func (k *Kernel) LocalBytes() int { return int(k.localBytes) }

// Registers is the number of registers that a thread needs in this interpreter.
func (k *Kernel) Registers() int { return int(k.fn.slots) }

func (k *Kernel) functionAt(addr uint64) *function { return k.funcs[addr] }
