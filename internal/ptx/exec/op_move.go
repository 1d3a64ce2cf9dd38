package exec

import (
	"slices"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Moves and address conversions (PTX ISA, "Data Movement and Conversion Instructions").
var moveDecoders = map[string]decoder{
	"mov": operands(2, 2, decodeMov), "cvt": decodeCvt, "cvta": operands(2, 2, decodeCvta), "isspacep": operands(2, 2, decodeIsspacep),
	"mapa": operands(3, 3, decodeMapa), "getctarank": operands(2, 2, decodeCtaRank),
	"createpolicy": decodePolicy,
}

func decodeMov(x *fnc, in *ptx.Instruction, m *mods) error {
	m.drop("v2", "v4", "v8")
	t := m.typ()
	o := in.Operands
	if t == ptx.Pred {
		return x.predLogic(&ptx.Instruction{Op: "mov", Operands: o})
	}
	vd, vs := o[0].Kind == ptx.OperandVector, o[1].Kind == ptx.OperandVector
	switch {
	case vd && vs:
		// A vector register to another: PTX has it for special registers.
		if len(o[0].Elems) != len(o[1].Elems) {
			return x.invalid("vectors of different lengths")
		}
		return x.movVector(t, o[0].Elems, o[1].Elems)
	case vd:
		return x.unpack(t, o[0].Elems, &o[1])
	case vs:
		return x.packVector(t, &o[0], o[1].Elems)
	case t == ptx.B128:
		return x.mov128(&o[0], &o[1])
	}
	if c := t.Class(); c == ptx.ClassNone || c == ptx.ClassOpaque || t.Bits() > 64 {
		return x.invalid("needs a type")
	}
	if o[1].Kind == ptx.OperandLabel {
		return x.unsupported("address of a label")
	}
	a := x.src(&o[1], t, o[1].Kind != ptx.OperandReg)
	d := x.dst(&o[0], t, false)
	if o[1].Kind == ptx.OperandVar && t.Bits() == 32 {
		x.alu(addU[uint32], d, a, noSlot, noSlot) // a 32-bit address of shared or local memory
		return nil
	}
	x.alu(movU, d, a, noSlot, noSlot)
	return nil
}

// movVector moves all elements at once: a source may be among the destinations.
func (x *fnc) movVector(t ptx.Type, ds, as []ptx.Operand) error {
	kept := make([]int32, len(as))
	for i := range as {
		a := x.src(&as[i], t, false)
		kept[i] = x.newReg()
		x.alu(movU, kept[i], a, noSlot, noSlot)
	}
	for i := range ds {
		d := x.dst(&ds[i], t, false)
		x.alu(movU, d, kept[i], noSlot, noSlot)
	}
	return nil
}

// pair128 returns the two halves of a 128-bit register.
func (x *fnc) pair128(o *ptx.Operand) (lo, hi int32) {
	if o.Kind == ptx.OperandInt {
		return x.constant(o.Bits), x.constant(uint64(int64(o.Bits) >> 63))
	}
	if o.Kind != ptx.OperandReg || x.f.Registers[o.Reg].Type != ptx.B128 {
		panic(x.invalid("needs a 128-bit register"))
	}
	return x.vreg(o.Reg), x.high[o.Reg]
}

func (x *fnc) mov128(d, a *ptx.Operand) error {
	alo, ahi := x.pair128(a)
	dlo, dhi := x.pair128(d)
	if dlo < 0 {
		return x.invalid("needs a 128-bit register")
	}
	x.alu(movU, dlo, alo, noSlot, noSlot)
	x.alu(movU, dhi, ahi, noSlot, noSlot)
	return nil
}

// element gives the type of a part of a packed move.
func element(t ptx.Type, n int) ptx.Type {
	if n == 0 || n > 8 || t.Bits()%n != 0 {
		return ptx.TypeNone
	}
	return bitsType(t.Bits() / n)
}

// unpack is mov {d0, d1, ...}, a.
func (x *fnc) unpack(t ptx.Type, ds []ptx.Operand, a *ptx.Operand) error {
	e := element(t, len(ds))
	if e == ptx.TypeNone {
		return x.invalid("vector does not fit the type")
	}
	var lo, hi int32
	if t == ptx.B128 {
		lo, hi = x.pair128(a)
	} else {
		lo = x.src(a, t, false)
	}
	w := uint(e.Bits())
	mask := widthMask(int(w))
	// The source may be among the destinations.
	if lo >= 0 {
		copied := x.newReg()
		x.alu(movU, copied, lo, noSlot, noSlot)
		lo = copied
		if t == ptx.B128 {
			copied = x.newReg()
			x.alu(movU, copied, hi, noSlot, noSlot)
			hi = copied
		}
	}
	for i := range ds {
		if ds[i].Kind == ptx.OperandSink {
			continue
		}
		from, shift := lo, uint(i)*w
		if shift >= 64 {
			from, shift = hi, shift-64
		}
		d := x.dst(&ds[i], e, w == 8)
		x.alu(func(d, a, _, _ *lanes) {
			for i := range d {
				d[i] = a[i] >> shift & mask
			}
		}, d, from, noSlot, noSlot)
	}
	return nil
}

// packVector is mov d, {a0, a1, ...}.
func (x *fnc) packVector(t ptx.Type, d *ptx.Operand, as []ptx.Operand) error {
	e := element(t, len(as))
	if e == ptx.TypeNone {
		return x.invalid("vector does not fit the type")
	}
	w := uint(e.Bits())
	halves := [2]int32{noSlot, noSlot}
	for i := range as {
		a := x.src(&as[i], e, w == 8)
		h, shift := uint(i)*w/64, uint(i)*w%64
		r := x.newReg()
		mask := widthMask(int(w))
		x.alu(func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = b[i] | a[i]&mask<<shift
			}
		}, r, a, halves[h], noSlot)
		halves[h] = r
	}
	if t == ptx.B128 {
		lo, hi := x.pair128(d)
		if lo < 0 {
			return x.invalid("needs a 128-bit register")
		}
		x.alu(movU, lo, halves[0], noSlot, noSlot)
		x.alu(movU, hi, halves[1], noSlot, noSlot)
		return nil
	}
	dst := x.dst(d, t, false)
	x.alu(movU, dst, halves[0], noSlot, noSlot)
	return nil
}

// decodeCvta converts between the address within a space and the generic one, which
// differ by a constant. Global, constant and parameter addresses are generic already.
func decodeCvta(x *fnc, in *ptx.Instruction, m *mods) error {
	to := m.has("to")
	space := m.oneOf("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry")
	t := m.typ()
	if t != ptx.U64 && t != ptx.U32 || space == "" {
		return x.invalid("needs a state space and .u64")
	}
	var window uint64
	switch space {
	case "shared", "shared::cta", "shared::cluster":
		window = SharedWindow
	case "local":
		window = LocalWindow
	}
	if to {
		window = -window
	}
	o := in.Operands
	a := x.src(&o[1], t, false)
	d := x.dst(&o[0], t, false)
	f := aluFn(addU[uint64])
	if t == ptx.U32 {
		f = addU[uint32]
	}
	x.alu(f, d, a, x.constant(window), noSlot)
	return nil
}

func decodeIsspacep(x *fnc, in *ptx.Instruction, m *mods) error {
	space := m.oneOf("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", "param::entry")
	o := in.Operands
	s := blank(kSetp)
	s.a = x.src(&o[1], ptx.U64, false)
	s.pd = x.dstPred(&o[0])
	var window uint64
	switch space {
	case "shared", "shared::cta", "shared::cluster":
		window = SharedWindow
	case "local":
		window = LocalWindow
	case "param", "param::entry":
		window = ParamWindow
	case "global", "const":
	default:
		return x.invalid("needs a state space")
	}
	s.cmp = func(a, _ *lanes) (m uint32) {
		for i := range a {
			var is bool
			if window == 0 { // constant memory cannot be told from global memory here
				is = space == "global" && a[i]>>40 != SharedWindow>>40
			} else {
				is = a[i]&^0xffffffff == window
			}
			if is {
				m |= 1 << i
			}
		}
		return m
	}
	x.emit(s)
	return nil
}

// decodeMapa maps a shared address to the same place in another block of the cluster;
// clusters here have one block.
func decodeMapa(x *fnc, in *ptx.Instruction, m *mods) error {
	m.oneOf("shared::cluster")
	t := m.typ()
	if t != ptx.U32 && t != ptx.U64 {
		return x.invalid("needs .u32 or .u64")
	}
	return x.aluOp(t, movU, &in.Operands[0], &in.Operands[1])
}

func decodeCtaRank(x *fnc, in *ptx.Instruction, m *mods) error {
	m.oneOf("shared::cluster")
	t := m.typ()
	if t != ptx.U32 && t != ptx.U64 {
		return x.invalid("needs .u32 or .u64")
	}
	d := x.dst(&in.Operands[0], ptx.B32, false)
	x.alu(movU, d, noSlot, noSlot, noSlot)
	return nil
}

// decodePolicy makes a cache policy, which means nothing here.
func decodePolicy(x *fnc, in *ptx.Instruction, m *mods) error {
	m.used = ^uint64(0)
	if len(in.Operands) == 0 || !slices.Contains(in.Mods, "b64") {
		return x.invalid("needs a destination of type .b64")
	}
	d := x.dst(&in.Operands[0], ptx.B64, false)
	x.alu(movU, d, noSlot, noSlot, noSlot)
	return nil
}
