package exec

import (
	"maps"
	"math"
	"slices"

	"github.com/purecuda/purecuda/internal/ptx"
)

// decoder translates one PTX instruction; it marks the modifiers that it understood. It returns why it does not take the
// instruction. What decodes an operand panics with that, and compileFunction returns it.
type decoder func(x *fnc, in *ptx.Instruction, m *mods) error

// operands is a decoder of an instruction with lo to hi operands.
func operands(lo, hi int, d decoder) decoder {
	return func(x *fnc, in *ptx.Instruction, m *mods) error {
		x.count(in, lo, hi)
		return d(x, in, m)
	}
}

// decoders has an entry for every instruction that runs. It is filled by the tables of
// the decode_*.go files.
var decoders = func() map[string]decoder {
	all := map[string]decoder{}
	for _, t := range []map[string]decoder{
		intDecoders, bitDecoders, floatDecoders, moveDecoders, memDecoders, compareDecoders,
		controlDecoders, warpDecoders, atomDecoders, mmaDecoders, mbarrierDecoders, wgmmaDecoders, wmmaDecoders, videoDecoders,
	} {
		maps.Copy(all, t)
	}
	return all
}()

// mods are the modifiers of an instruction; what no decoder asks for is not supported.
type mods struct {
	list []string
	used uint64
}

// has takes a modifier.
func (m *mods) has(name string) bool {
	for i, s := range m.list {
		if s == name && i < 64 && m.used>>i&1 == 0 {
			m.used |= 1 << i
			return true
		}
	}
	return false
}

// oneOf takes the first of the names that is there.
func (m *mods) oneOf(names ...string) string {
	for i, s := range m.list {
		if i < 64 && m.used>>i&1 == 0 && slices.Contains(names, s) {
			m.used |= 1 << i
			return s
		}
	}
	return ""
}

// drop takes modifiers that mean nothing here, such as cache hints.
func (m *mods) drop(names ...string) {
	for m.oneOf(names...) != "" {
	}
}

// typ takes the first type; TypeNone if there is none.
func (m *mods) typ() ptx.Type {
	for i, s := range m.list {
		if i >= 64 || m.used>>i&1 != 0 {
			continue
		}
		if t, ok := ptx.ParseType(s); ok {
			m.used |= 1 << i
			return t
		}
	}
	return ptx.TypeNone
}

func (m *mods) left() (string, bool) {
	for i, s := range m.list {
		if i >= 64 || m.used>>i&1 == 0 {
			return s, true
		}
	}
	return "", false
}

// count checks the number of operands.
func (x *fnc) count(in *ptx.Instruction, lo, hi int) {
	if n := len(in.Operands); n < lo || n > hi {
		panic(x.invalid("%d operands", n))
	}
}

// widthMask has the low bits set.
func widthMask(bits int) uint64 {
	if bits >= 64 {
		return math.MaxUint64
	}
	return 1<<uint(bits) - 1
}

// dst returns the register that an instruction writes. t is the type of the result; a wider
// register is an error unless wide is set, for instructions that extend what they write.
func (x *fnc) dst(o *ptx.Operand, t ptx.Type, wide bool) int32 {
	if o.Kind == ptx.OperandSink {
		return x.newReg()
	}
	if o.Kind != ptx.OperandReg || o.Not || o.Neg || o.Bits != 0 {
		panic(x.invalid("destination is not a register"))
	}
	r := x.f.Registers[o.Reg]
	if !agree(r.Type, t, wide) {
		panic(x.invalid("register %s of type %v does not take a result of type %v", r.Name, r.Type, t))
	}
	return x.vreg(o.Reg)
}

// agree reports whether a register of type r may stand where an instruction has type t, or with
// wide a type of fewer bits. See PTX ISA, "Type Checking of Operands", and what NVIDIA's assembler
// takes: testdata/registers.txt.
func agree(r, t ptx.Type, wide bool) bool {
	if r == ptx.Pred || r == ptx.B128 || r.Bits() != t.Bits() && !(wide && r.Bits() > t.Bits()) {
		return false
	}
	number := func(t ptx.Type) bool { return t.Class() == ptx.ClassUint || t.Class() == ptx.ClassSint }
	switch {
	case r == t || r.Class() == ptx.ClassBits || t.Class() == ptx.ClassBits:
		return true
	case t == ptx.TF32:
		return r == ptx.F32
	case number(t) || t == ptx.U16x2 || t == ptx.S16x2:
		return r.Class() != ptx.ClassFloat
	case t.Bits() == 8 || t == ptx.E4M3x2 || t == ptx.E5M2x2: // they have no registers
		return number(r)
	}
	return false
}

// bitsType is the untyped type of a width.
func bitsType(bits int) ptx.Type {
	switch bits {
	case 8:
		return ptx.B8
	case 16:
		return ptx.B16
	case 32:
		return ptx.B32
	case 64:
		return ptx.B64
	}
	return ptx.TypeNone
}

// regBits is the width of a register operand.
func (x *fnc) regBits(o *ptx.Operand) int {
	if o.Kind == ptx.OperandReg {
		return x.f.Registers[o.Reg].Type.Bits()
	}
	return 64
}

// src returns the slot of a source of type t. A wider register is allowed where wide is
// set; its upper bits are not cut off.
func (x *fnc) src(o *ptx.Operand, t ptx.Type, wide bool) int32 {
	bits := t.Bits()
	switch o.Kind {
	case ptx.OperandReg:
		r := x.f.Registers[o.Reg]
		if o.Not || o.Neg {
			panic(x.unsupported("negated operand"))
		}
		if !agree(r.Type, t, wide) {
			panic(x.invalid("register %s of type %v is not an operand of type %v", r.Name, r.Type, t))
		}
		if o.Bits != 0 && bits >= 16 { // %r+4
			sum := x.newReg()
			x.alu(pick(t, addU[uint16], addU[uint32], addU[uint64]), sum, x.vreg(o.Reg), x.constant(o.Bits), noSlot)
			return sum
		}
		return x.vreg(o.Reg)
	case ptx.OperandInt:
		if t == ptx.F32 || t == ptx.F64 {
			panic(x.invalid("an integer is not an operand of type %v: write 0f3f800000 or 1.0", t))
		}
		return x.constant(immediate(o, t))
	case ptx.OperandF32, ptx.OperandF64:
		if c := t.Class(); c == ptx.ClassUint || c == ptx.ClassSint {
			panic(x.invalid("a floating-point number is not an operand of type %v", t))
		}
		return x.constant(immediate(o, t))
	case ptx.OperandSpecial:
		return x.special(o, bits)
	case ptx.OperandVar:
		return x.varAddress(o)
	case ptx.OperandFunc:
		return x.constant(x.prog.functionAddress(o.Func))
	}
	panic(x.invalid("operand is not a register or constant"))
}

// immediate returns the bits of a constant as type t. Integers keep their low bits; a
// floating-point constant becomes the type's where that is one of 32 or 64 bits.
func immediate(o *ptx.Operand, t ptx.Type) uint64 {
	v := o.Bits
	switch {
	case o.Kind == ptx.OperandF32 && t.Bits() == 64:
		v = math.Float64bits(float64(math.Float32frombits(uint32(v))))
	case o.Kind == ptx.OperandF64 && t.Bits() == 32:
		v = uint64(math.Float32bits(float32(math.Float64frombits(v))))
	case o.Kind == ptx.OperandF64 && t.Bits() == 16:
		f := &fmtF16
		if t == ptx.BF16 {
			f = &fmtBF16
		}
		v = f.pack(math.Float64frombits(v), rn)
	}
	return v & widthMask(t.Bits())
}

// pred returns a source predicate and the mask that inverts it.
func (x *fnc) pred(o *ptx.Operand) (p int32, inverted uint32) {
	var inv uint32
	if o.Not {
		inv = full
	}
	switch {
	case o.Kind == ptx.OperandReg && x.f.Registers[o.Reg].Type == ptx.Pred:
		return x.predOf(o.Reg), inv
	case o.Kind == ptx.OperandInt && o.Bits != 0:
		return 0, inv
	case o.Kind == ptx.OperandInt:
		return 0, ^inv
	case o.Kind == ptx.OperandSpecial && o.Special == ptx.IsExplicitCluster:
		return 0, full
	}
	panic(x.invalid("operand is not a predicate"))
}

// dstPred returns a destination predicate; the sink is 0.
func (x *fnc) dstPred(o *ptx.Operand) int32 {
	if o.Kind == ptx.OperandSink {
		return 0
	}
	if o.Kind != ptx.OperandReg || o.Not || x.f.Registers[o.Reg].Type != ptx.Pred {
		panic(x.invalid("destination is not a predicate"))
	}
	return x.predOf(o.Reg)
}

func isPredOperand(x *fnc, o *ptx.Operand) bool {
	return o.Kind == ptx.OperandReg && x.f.Registers[o.Reg].Type == ptx.Pred
}

// aluOp emits d = f(a, b, c) for operands of type t.
func (x *fnc) aluOp(t ptx.Type, f func(d, a, b, c *lanes), d *ptx.Operand, srcs ...*ptx.Operand) error {
	return x.aluTypes(t, f, d, srcs, []ptx.Type{t, t, t})
}

// aluTypes is aluOp with a type for each source.
func (x *fnc) aluTypes(dt ptx.Type, f func(d, a, b, c *lanes), d *ptx.Operand, srcs []*ptx.Operand, types []ptx.Type) error {
	in := blank(kALU)
	in.alu = f
	fields := []*int32{&in.a, &in.b, &in.c}
	for i, s := range srcs {
		*fields[i] = x.src(s, types[i], false)
	}
	in.d = x.dst(d, dt, false)
	x.emit(in)
	return nil
}

// alu emits d = f(a, b, c) on slots.
func (x *fnc) alu(f func(d, a, b, c *lanes), d, a, b, c int32) {
	in := blank(kALU)
	in.alu, in.d, in.a, in.b, in.c = f, d, a, b, c
	x.emit(in)
}

// special emits the read of a special register into a fresh one.
func (x *fnc) special(o *ptx.Operand, bits int) int32 {
	t := o.Special.Type()
	if t == ptx.TypeNone || t == ptx.Pred {
		panic(x.invalid("special register is not an operand here"))
	}
	if o.Special == ptx.WarpSize {
		return x.constant(32)
	}
	in := blank(kRun)
	in.run, in.sub, in.esz = runSpecial, uint8(o.Special), o.Dim
	in.d = x.newReg()
	in.mask = widthMask(min(bits, 64))
	x.emit(in)
	return in.d
}

// varAddress returns the address of a variable within its state space.
func (x *fnc) varAddress(o *ptx.Operand) int32 {
	v := o.Var
	switch v.Space {
	case ptx.Shared:
		off, ok := x.layout.Offset[v]
		if !ok {
			panic(x.invalid("shared variable %s has no place", v.Name))
		}
		return x.constant(off + o.Bits)
	case ptx.Global, ptx.Const:
		return x.address(x.prog.index[v], o.Bits)
	}
	if off, ok := x.local[v]; ok {
		in := blank(kRun)
		in.run, in.imm, in.d = runFrameAddress, uint64(off)+o.Bits, x.newReg()
		if v.Space == ptx.ParamSpace {
			in.imm += LocalWindow // the parameter of a function has a generic address only
		}
		x.emit(in)
		return in.d
	}
	if i := slices.Index(x.f.ParamVars, v); i >= 0 && x.f.IsEntry {
		return x.constant(ParamWindow + x.f.Params[i].Offset + o.Bits)
	}
	panic(x.invalid("variable %s has no address here", v.Name))
}

func runFrameAddress(w *warp, in *inst, mask uint32) {
	w.broadcast(in.d, in.imm+uint64(w.lbase), mask)
}
