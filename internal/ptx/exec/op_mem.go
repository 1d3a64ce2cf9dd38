package exec

import (
	"slices"

	"github.com/purecuda/purecuda/internal/ptx"
	"github.com/purecuda/purecuda/internal/race"
)

// Memory instructions (PTX ISA, "ld", "st", "prefetch", "cp.async"). Cache operators and
// hints mean nothing here.
var memDecoders = map[string]decoder{
	"ld": decodeLoad, "ldu": decodeLoad, "st": decodeStore,
	"prefetch": decodeNothing, "prefetchu": decodeNothing, "applypriority": decodeNothing, "discard": decodeNothing,
	"cp": decodeCp,
}

var cacheHints = []string{
	"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak",
	"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
	"L2::evict_normal", "L2::evict_first", "L2::evict_last",
	"L2::cache_hint", "L2::64B", "L2::128B", "L2::256B",
	"unified",
}

var scopes = []string{"cta", "cluster", "gpu", "sys"}

var spaceOf = map[string]uint8{
	"global": spGlobal, "shared": spShared, "shared::cta": spShared, "shared::cluster": spShared,
	"local": spLocal, "param": spParam, "param::entry": spParam, "param::func": spParam, "const": spGlobal,
}

var spaceMods = []string{
	"global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "param::func", "const",
}

// memSpace takes the state space; generic if there is none.
func (m *mods) memSpace() uint8 { return spaceOf[m.oneOf(spaceMods...)] }

// ordering takes what orders memory accesses, as flags of the instruction.
func (m *mods) ordering() (flags uint8) {
	order := m.oneOf("volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio")
	if m.has("mmio") || order != "" {
		flags = flagAtomic
	}
	block := m.has("cta")
	m.drop(scopes...)
	switch {
	case block:
	case order == "acquire":
		flags |= flagAcquire
	case order == "release":
		flags |= flagRelease
	case order == "acq_rel", order == "sc":
		flags |= flagAcquire | flagRelease
	}
	return flags
}

// addressOf decodes [base + offset] for a space: the base slot, the constant part, and the
// space in which the access really goes.
func (x *fnc) addressOf(o *ptx.Operand, space uint8, in *inst) {
	if o.Kind != ptx.OperandMem {
		panic(x.invalid("operand is not an address"))
	}
	base := &o.Elems[0]
	in.space, in.imm, in.a = space, o.Bits, noSlot
	if len(o.Elems) > 1 {
		panic(x.invalid("address has coordinates"))
	}
	switch base.Kind {
	case ptx.OperandInt:
		in.imm += base.Bits
		return
	case ptx.OperandReg:
		r := x.f.Registers[base.Reg]
		short := r.Type.Bits() == 32 && (space != spGlobal && space != spGeneric || slices.Contains(x.in.Mods, "const"))
		if base.Not || base.Neg || !agree(r.Type, ptx.U64, false) && !(short && agree(r.Type, ptx.U32, false)) {
			panic(x.invalid("register %s of type %v is not an address", r.Name, r.Type))
		}
		in.a = x.vreg(base.Reg)
		if r.Type.Bits() == 32 {
			in.flags |= flagAddr32
		}
		if space == spParam && !x.f.IsEntry {
			in.space = spGeneric // a parameter of a function lives in local memory
		}
		return
	case ptx.OperandVar:
		x.varOperand(base, space, in)
		return
	}
	panic(x.invalid("operand is not an address"))
}

// varOperand is an access to a variable by name.
func (x *fnc) varOperand(o *ptx.Operand, space uint8, in *inst) {
	v := o.Var
	home := map[ptx.Space]uint8{
		ptx.Global: spGlobal, ptx.Const: spGlobal, ptx.Shared: spShared, ptx.Local: spLocal, ptx.ParamSpace: spParam,
	}[v.Space]
	if space != spGeneric && space != home {
		panic(x.invalid("variable %s is not in this state space", v.Name))
	}
	in.imm += o.Bits
	in.space = home
	if off, ok := x.local[v]; ok {
		in.space = spFrame
		in.imm += uint64(off)
		return
	}
	switch home {
	case spParam:
		i := slices.Index(x.f.ParamVars, v)
		if i < 0 || !x.f.IsEntry {
			panic(x.invalid("parameter %s is not reachable here", v.Name))
		}
		in.imm += x.f.Params[i].Offset
		return
	case spShared:
		off, ok := x.layout.Offset[v]
		if !ok {
			panic(x.invalid("shared variable %s has no place", v.Name))
		}
		in.imm += off
		return
	case spGlobal:
		in.a = x.compiler.address(x.prog.index[v], 0)
		return
	}
	panic(x.invalid("variable %s has no address here", v.Name))
}

// vectorWidth takes .v2, .v4 or .v8.
func (m *mods) vectorWidth() int {
	switch m.oneOf("v2", "v4", "v8") {
	case "v2":
		return 2
	case "v4":
		return 4
	case "v8":
		return 8
	}
	return 1
}

// accessType checks the type of a load or store.
func (x *fnc) accessType(t ptx.Type, n int) {
	switch t.Class() {
	case ptx.ClassBits, ptx.ClassUint, ptx.ClassSint, ptx.ClassFloat, ptx.ClassPacked:
	default:
		panic(x.invalid("needs a type"))
	}
	if t.Size()*n > 32 {
		panic(x.invalid("access of more than 32 bytes"))
	}
}

// elementType is the type of a register of a load or store of n elements, which may be wider
// where wide says so. An integer in a vector may stand in any register of its width.
func elementType(t ptx.Type, n int) (et ptx.Type, wide bool) {
	if n > 1 && t.Class() != ptx.ClassFloat {
		t = bitsType(t.Bits())
	}
	return t, n == 1 || t.Bits() < 32
}

// dropHint takes the last operand of an access with a cache policy.
func dropHint(in *ptx.Instruction, n int) []ptx.Operand {
	if o := in.Operands; len(o) == n+1 && slices.Contains(in.Mods, "L2::cache_hint") {
		return o[:n]
	}
	return in.Operands
}

// access decodes what loads and stores have in common. Operand address is the address, and the other one
// has the n values.
func (x *fnc) access(in *ptx.Instruction, m *mods, address int) (r inst, t ptx.Type, n int, values []ptx.Operand) {
	order := m.ordering()
	space := m.memSpace()
	m.drop(cacheHints...)
	n, t = m.vectorWidth(), m.typ()
	o := dropHint(in, 2)
	if len(o) != 2 {
		panic(x.invalid("%d operands", len(o)))
	}
	x.accessType(t, n)
	r = blank(kRun)
	x.addressOf(&o[address], space, &r)
	r.flags |= order
	value := o[1-address]
	values = []ptx.Operand{value}
	if n > 1 || value.Kind == ptx.OperandVector {
		values = value.Elems
		if value.Kind != ptx.OperandVector || len(values) != n {
			panic(x.invalid("the value is not a vector of %d", n))
		}
	}
	r.esz, r.n = uint8(t.Size()), uint8(n)
	if t == ptx.B128 {
		r.esz, r.n = 8, uint8(2*n)
	}
	return r, t, n, values
}

func decodeLoad(x *fnc, in *ptx.Instruction, m *mods) error {
	r, t, n, ds := x.access(in, m, 1)
	r.sub, r.run = memLoad, runLoad
	if isSigned(t) {
		r.flags |= flagSigned
	}
	width := 0
	for i := range ds {
		if t == ptx.B128 {
			lo, hi := x.newReg(), x.newReg()
			if ds[i].Kind != ptx.OperandSink {
				if lo, hi = x.pair128(&ds[i]); lo < 0 {
					return x.invalid("needs 128-bit registers")
				}
			}
			r.vd = append(r.vd, lo, hi)
			continue
		}
		et, wide := elementType(t, n)
		d := x.dst(&ds[i], et, wide)
		if ds[i].Kind == ptx.OperandReg {
			width = max(width, x.regBits(&ds[i]))
		}
		r.vd = append(r.vd, d)
	}
	r.mask = widthMask(max(width, t.Bits()))
	if r.n == 1 {
		r.d, r.vd = r.vd[0], nil
	}
	switch {
	case r.space == spParam && r.a == noSlot:
		r.run = runLoadParam
	case !race.Enabled && t.Bits() == 32 && r.n == 1 && (r.space == spGlobal || r.space == spGeneric) &&
		r.flags&(flagAddr32|flagAtomic) == 0 && (r.flags&flagSigned == 0 || width <= 32):
		r.run = runLoad32
	case t.Bits() == 32 && r.n == 1 && r.space == spShared && r.flags&flagAtomic == 0 && (r.flags&flagSigned == 0 || width <= 32):
		r.run = runLoadShared32
	}
	x.emit(r)
	return nil
}

func decodeStore(x *fnc, in *ptx.Instruction, m *mods) error {
	if m.has("async") || m.has("bulk") {
		return x.unsupported("")
	}
	r, t, n, vs := x.access(in, m, 0)
	r.sub, r.run = memStore, runStore
	for i := range vs {
		if t == ptx.B128 {
			lo, hi := x.pair128(&vs[i])
			r.vs = append(r.vs, lo, hi)
			continue
		}
		et, wide := elementType(t, n)
		s := x.src(&vs[i], et, wide)
		r.vs = append(r.vs, s)
	}
	if r.n == 1 {
		r.b, r.vs = r.vs[0], nil
	}
	x.emit(r)
	return nil
}

// decodeNothing accepts what only tunes.
func decodeNothing(_ *fnc, _ *ptx.Instruction, m *mods) error {
	m.used = ^uint64(0)
	return nil
}
