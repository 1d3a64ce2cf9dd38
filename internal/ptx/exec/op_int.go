package exec

import (
	"math/bits"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision
// Integer Arithmetic Instructions"). add, sub, mul, ... of floating-point types are in
// op_float.go; the decoders here hand over by type.
var intDecoders = map[string]decoder{
	"add": decodeAdd, "sub": decodeAdd, "mul": decodeMul, "mad": decodeMad,
	"mul24": decodeMul24, "mad24": decodeMul24,
	"addc": decodeCarry, "subc": decodeCarry, "madc": decodeMadCarry,
	"div": decodeDiv, "rem": decodeDiv, "abs": decodeAbs, "neg": decodeNeg,
	"min": decodeMinMax, "max": decodeMinMax, "sad": operands(4, 4, decodeSad),
	"dp4a": operands(4, 4, decodeDot), "dp2a": operands(4, 4, decodeDot),
}

func decodeAdd(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t.Class() == ptx.ClassFloat || t.Class() == ptx.ClassPacked && t != ptx.U16x2 && t != ptx.S16x2 {
		return decodeFloatAdd(x, in, m, t)
	}
	x.count(in, 3, 3)
	o := in.Operands
	sub := in.Op == "sub"
	if m.has("cc") {
		return x.carry(in, t, sub, false, true)
	}
	if t == ptx.U16x2 || t == ptx.S16x2 {
		f := func(a, b uint64) uint64 { return (a+b)&0xffff | (a&^0xffff+b&^0xffff)&0xffff0000 }
		if sub {
			f = func(a, b uint64) uint64 { return (a-b)&0xffff | (a&^0xffff-b&^0xffff)&0xffff0000 }
		}
		return x.aluOp(t, lift2(f), &o[0], &o[1], &o[2])
	}
	if !isInt(t) {
		return x.unsupported("")
	}
	if m.has("sat") {
		if t != ptx.S32 {
			return x.invalid("only .s32 saturates")
		}
		return x.aluOp(t, lift2(func(a, b uint64) uint64 {
			y := int64(int32(b))
			if sub {
				y = -y
			}
			return uint64(uint32(clampInt(int64(int32(a))+y, 32)))
		}), &o[0], &o[1], &o[2])
	}
	f := pick(t, addU[uint16], addU[uint32], addU[uint64])
	if sub {
		f = pick(t, subU[uint16], subU[uint32], subU[uint64])
	}
	return x.aluOp(t, f, &o[0], &o[1], &o[2])
}

// clampInt saturates to a signed width.
func clampInt(v int64, bits uint) int64 {
	return min(max(v, -1<<(bits-1)), 1<<(bits-1)-1)
}

// mulHi is the upper half of the product.
func mulHi(t ptx.Type) aluFn {
	switch {
	case t == ptx.S64:
		return lift2(func(a, b uint64) uint64 {
			hi, _ := bits.Mul64(a, b)
			return hi - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a
		})
	case t == ptx.U64:
		return lift2(func(a, b uint64) uint64 {
			hi, _ := bits.Mul64(a, b)
			return hi
		})
	case t == ptx.U32:
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = uint64(uint32(a[i])) * uint64(uint32(b[i])) >> 32
			}
		}
	case t == ptx.S32:
		return func(d, a, b, _ *lanes) {
			for i := range d {
				d[i] = uint64(uint32(uint64(int64(int32(a[i]))*int64(int32(b[i]))) >> 32))
			}
		}
	case t == ptx.U16:
		return lift2(func(a, b uint64) uint64 { return uint64(uint16(a)) * uint64(uint16(b)) >> 16 })
	}
	return lift2(func(a, b uint64) uint64 {
		return uint64(uint16(uint32(int32(int16(a))*int32(int16(b))) >> 16))
	})
}

// wideType is the type of twice the width; 64-bit types have none that runs.
func wideType(t ptx.Type) ptx.Type {
	switch t {
	case ptx.U16:
		return ptx.U32
	case ptx.S16:
		return ptx.S32
	case ptx.U32:
		return ptx.U64
	case ptx.S32:
		return ptx.S64
	}
	return ptx.TypeNone
}

func mulWide(t ptx.Type) aluFn {
	switch t {
	case ptx.U32:
		return mulWideU32
	case ptx.S32:
		return mulWideS32
	case ptx.U16:
		return lift2(func(a, b uint64) uint64 { return uint64(uint16(a)) * uint64(uint16(b)) })
	}
	return lift2(func(a, b uint64) uint64 { return uint64(uint32(int32(int16(a)) * int32(int16(b)))) })
}

func decodeMul(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t.Class() == ptx.ClassFloat || t.Class() == ptx.ClassPacked {
		return decodeFloatMul(x, in, m, t)
	}
	x.count(in, 3, 3)
	if !isInt(t) {
		return x.unsupported("")
	}
	o := in.Operands
	switch m.oneOf("lo", "hi", "wide") {
	case "hi":
		return x.aluOp(t, mulHi(t), &o[0], &o[1], &o[2])
	case "wide":
		wt := wideType(t)
		if wt == ptx.TypeNone {
			return x.unsupported("")
		}
		return x.aluTypes(wt, mulWide(t), &o[0], []*ptx.Operand{&o[1], &o[2]}, []ptx.Type{t, t})
	case "lo":
		return x.aluOp(t, pick(t, mulU[uint16], mulU[uint32], mulU[uint64]), &o[0], &o[1], &o[2])
	}
	return x.invalid("needs .lo, .hi or .wide")
}

func decodeMad(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t.Class() == ptx.ClassFloat {
		return decodeFma(x, in, m, t)
	}
	x.count(in, 4, 4)
	if !isInt(t) {
		return x.unsupported("")
	}
	o := in.Operands
	part := m.oneOf("lo", "hi", "wide")
	if m.has("cc") {
		return x.madCarry(in, t, part, false, true)
	}
	switch part {
	case "lo":
		return x.aluOp(t, pick(t, madU[uint16], madU[uint32], madU[uint64]), &o[0], &o[1], &o[2], &o[3])
	case "wide":
		wt := wideType(t)
		if wt == ptx.TypeNone {
			return x.unsupported("")
		}
		f := aluFn(madWideU32)
		switch t {
		case ptx.S32:
			f = madWideS32
		case ptx.U16, ptx.S16:
			s := t == ptx.S16
			f = lift3(func(a, b, c uint64) uint64 {
				if s {
					return uint64(uint32(int32(int16(a))*int32(int16(b))) + uint32(c))
				}
				return uint64(uint32(uint16(a))*uint32(uint16(b)) + uint32(c))
			})
		}
		return x.aluTypes(wt, f, &o[0], []*ptx.Operand{&o[1], &o[2], &o[3]}, []ptx.Type{t, t, wt})
	case "hi":
		sat := m.has("sat")
		a, b, c, d := x.four(in, t)
		p := x.newReg()
		x.alu(mulHi(t), p, a, b, noSlot)
		if sat {
			if t != ptx.S32 {
				return x.invalid("only .s32 saturates")
			}
			x.alu(lift2(func(a, b uint64) uint64 {
				return uint64(uint32(clampInt(int64(int32(a))+int64(int32(b)), 32)))
			}), d, p, c, noSlot)
			return nil
		}
		x.alu(pick(t, addU[uint16], addU[uint32], addU[uint64]), d, p, c, noSlot)
		return nil
	}
	return x.invalid("needs .lo, .hi or .wide")
}

// four returns the slots of d, a, b, c that all have type t.
func (x *fnc) four(in *ptx.Instruction, t ptx.Type) (a, b, c, d int32) {
	o := in.Operands
	a, b = x.src(&o[1], t, false), x.src(&o[2], t, false)
	if len(o) > 3 {
		c = x.src(&o[3], t, false)
	}
	return a, b, c, x.dst(&o[0], t, false)
}

func decodeMul24(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	mad := in.Op == "mad24"
	n := 3
	if mad {
		n = 4
	}
	x.count(in, n, n)
	if t != ptx.U32 && t != ptx.S32 {
		return x.invalid("needs .u32 or .s32")
	}
	shift := uint(0)
	if m.oneOf("lo", "hi") == "hi" {
		shift = 16
	}
	sat := m.has("sat")
	signed := t == ptx.S32
	f := lift3(func(a, b, c uint64) uint64 {
		var p uint64
		if signed {
			p = uint64(sext(a, 24)*sext(b, 24)) >> shift
		} else {
			p = (a & 0xffffff) * (b & 0xffffff) >> shift
		}
		if sat && signed {
			return uint64(uint32(clampInt(int64(int32(p))+int64(int32(c)), 32)))
		}
		return uint64(uint32(p) + uint32(c))
	})
	a, b, c, d := x.four(in, t)
	if !mad {
		c = noSlot
	}
	x.alu(f, d, a, b, c)
	return nil
}

// The carry flag (PTX ISA, "Condition Code Register") is a bit per lane of the warp. A
// subtraction is the addition of the complement and one, so that the flag is set where
// there is no borrow: addc after sub.cc shows it on the devices.
const (
	carrySub = 1 << iota
	carryIn
	carryOut
)

func runCarry(w *warp, in *inst, mask uint32) {
	d, a, b := w.reg(in.d), w.lane(in.a), w.lane(in.b)
	wide := widthMask(8 * int(in.esz))
	for m := mask; m != 0; m &= m - 1 {
		i := firstLane(m)
		x, y := a[i], b[i]
		var cin, cout, r uint64
		if in.sub&carrySub != 0 {
			y = ^y & wide
			cin = 1
		}
		if in.sub&carryIn != 0 {
			cin = uint64(w.cc >> i & 1)
		}
		if in.esz == 8 {
			r, cout = bits.Add64(x, y, cin)
		} else {
			r = x + y + cin
			cout = r >> 32
			r = uint64(uint32(r))
		}
		d[i] = r
		if in.sub&carryOut != 0 {
			w.cc = w.cc&^(1<<i) | uint32(cout)<<i
		}
	}
}

func (x *fnc) emitCarry(t ptx.Type, sub, cin, cout bool, d, a, b int32) {
	in := blank(kRun)
	in.run, in.esz = runCarry, uint8(t.Size())
	for _, f := range []struct {
		on  bool
		bit uint8
	}{{sub, carrySub}, {cin, carryIn}, {cout, carryOut}} {
		if f.on {
			in.sub |= f.bit
		}
	}
	in.d, in.a, in.b = d, a, b
	x.emit(in)
}

func (x *fnc) carry(in *ptx.Instruction, t ptx.Type, sub, cin, cout bool) error {
	x.count(in, 3, 3)
	if !isInt(t) || t.Bits() < 32 {
		return x.invalid("needs a 32-bit or 64-bit integer type")
	}
	a, b, _, d := x.four(in, t)
	x.emitCarry(t, sub, cin, cout, d, a, b)
	return nil
}

func decodeCarry(x *fnc, in *ptx.Instruction, m *mods) error {
	return x.carry(in, m.typ(), in.Op == "subc", true, m.has("cc"))
}

func (x *fnc) madCarry(in *ptx.Instruction, t ptx.Type, part string, cin, cout bool) error {
	x.count(in, 4, 4)
	if !isInt(t) || t.Bits() < 32 {
		return x.invalid("needs a 32-bit or 64-bit integer type")
	}
	a, b, c, d := x.four(in, t)
	f := mulHi(t)
	switch part {
	case "lo":
		f = pick(t, nil, mulU[uint32], mulU[uint64])
	case "hi":
	default:
		return x.invalid("needs .lo or .hi")
	}
	p := x.newReg()
	x.alu(f, p, a, b, noSlot)
	x.emitCarry(t, false, cin, cout, d, p, c)
	return nil
}

func decodeMadCarry(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	part := m.oneOf("lo", "hi")
	return x.madCarry(in, t, part, true, m.has("cc"))
}

// decodeDiv covers div and rem. Division by zero is unspecified in PTX; the devices
// give all ones for the quotient and the dividend for the remainder.
func decodeDiv(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t.Class() == ptx.ClassFloat {
		return decodeFloatDiv(x, in, m, t)
	}
	x.count(in, 3, 3)
	if !isInt(t) {
		return x.unsupported("")
	}
	w := uint(t.Bits())
	mask := widthMask(int(w))
	rem := in.Op == "rem"
	var f func(a, b uint64) uint64
	switch {
	case isSigned(t):
		f = func(a, b uint64) uint64 {
			p, q := sext(a, w), sext(b, w)
			switch {
			case q == 0 && rem:
				return a
			case q == 0:
				return mask
			case rem:
				return uint64(p%q) & mask
			}
			return uint64(p/q) & mask
		}
	default:
		f = func(a, b uint64) uint64 {
			switch {
			case b == 0 && rem:
				return a
			case b == 0:
				return mask
			case rem:
				return a % b
			}
			return a / b
		}
	}
	o := in.Operands
	return x.aluOp(t, lift2(f), &o[0], &o[1], &o[2])
}

func decodeAbs(x *fnc, in *ptx.Instruction, m *mods) error {
	return x.sign(in, m, func(a uint64, bits int) uint64 {
		if v := sext(a, uint(bits)); v < 0 {
			return uint64(-v)
		}
		return a
	})
}

func decodeNeg(x *fnc, in *ptx.Instruction, m *mods) error {
	return x.sign(in, m, func(a uint64, _ int) uint64 { return -a })
}

// sign decodes abs and neg; f is the operation for integers.
func (x *fnc) sign(in *ptx.Instruction, m *mods, f func(a uint64, bits int) uint64) error {
	t := m.typ()
	if t.Class() == ptx.ClassFloat || t.Class() == ptx.ClassPacked {
		return decodeFloatSign(x, in, m, t)
	}
	x.count(in, 2, 2)
	if !isInt(t) {
		return x.unsupported("")
	}
	n := t.Bits()
	mask := widthMask(n)
	return x.aluOp(t, lift1(func(a uint64) uint64 { return f(a, n) & mask }), &in.Operands[0], &in.Operands[1])
}

// minMaxInt returns min or max of an integer type as a function of lanes' values.
func minMaxInt(t ptx.Type, isMin bool) func(a, b uint64) uint64 {
	w := uint(t.Bits())
	switch {
	case isSigned(t) && isMin:
		return func(a, b uint64) uint64 {
			if sext(a, w) < sext(b, w) {
				return a
			}
			return b
		}
	case isSigned(t):
		return func(a, b uint64) uint64 {
			if sext(a, w) > sext(b, w) {
				return a
			}
			return b
		}
	case isMin:
		return func(a, b uint64) uint64 { return min(a, b) }
	}
	return func(a, b uint64) uint64 { return max(a, b) }
}

func decodeMinMax(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t.Class() == ptx.ClassFloat || t.Class() == ptx.ClassPacked && t != ptx.U16x2 && t != ptx.S16x2 {
		return decodeFloatMinMax(x, in, m, t)
	}
	x.count(in, 3, 3)
	o := in.Operands
	isMin := in.Op == "min"
	relu := m.has("relu")
	var f func(a, b uint64) uint64
	switch {
	case t == ptx.U16x2 || t == ptx.S16x2:
		e := ptx.U16
		if t == ptx.S16x2 {
			e = ptx.S16
		}
		half := withRelu(minMaxInt(e, isMin), relu, 16)
		f = func(a, b uint64) uint64 {
			return half(a&0xffff, b&0xffff) | half(a>>16, b>>16)<<16
		}
	case isInt(t):
		if !isSigned(t) && !relu {
			if isMin {
				return x.aluOp(t, minU, &o[0], &o[1], &o[2])
			}
			return x.aluOp(t, maxU, &o[0], &o[1], &o[2])
		}
		f = withRelu(minMaxInt(t, isMin), relu, uint(t.Bits()))
	default:
		return x.unsupported("")
	}
	return x.aluOp(t, lift2(f), &o[0], &o[1], &o[2])
}

func withRelu(f func(a, b uint64) uint64, relu bool, bits uint) func(a, b uint64) uint64 {
	if !relu {
		return f
	}
	return func(a, b uint64) uint64 {
		if v := f(a, b); sext(v, bits) >= 0 {
			return v
		}
		return 0
	}
}

func decodeSad(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if !isInt(t) {
		return x.unsupported("")
	}
	w := uint(t.Bits())
	mask := widthMask(int(w))
	signed := isSigned(t)
	o := in.Operands
	return x.aluOp(t, lift3(func(a, b, c uint64) uint64 {
		less := a < b
		if signed {
			less = sext(a, w) < sext(b, w)
		}
		if less {
			a, b = b, a
		}
		return (c + a - b) & mask
	}), &o[0], &o[1], &o[2], &o[3])
}

// decodeDot covers dp4a and dp2a: dot products of bytes, and of half words with bytes.
func decodeDot(x *fnc, in *ptx.Instruction, m *mods) error {
	ta, tb := m.typ(), m.typ()
	if ta.Bits() != 32 || tb.Bits() != 32 || !isInt(ta) || !isInt(tb) {
		return x.invalid("needs two of .u32 and .s32")
	}
	field := func(v uint64, i, bits uint, signed bool) int64 {
		v = v >> (i * bits) & (1<<bits - 1)
		if signed {
			return sext(v, bits)
		}
		return int64(v)
	}
	sa, sb := isSigned(ta), isSigned(tb)
	var f func(a, b, c uint64) uint64
	if in.Op == "dp4a" {
		f = func(a, b, c uint64) uint64 {
			s := int64(c)
			for i := range uint(4) {
				s += field(a, i, 8, sa) * field(b, i, 8, sb)
			}
			return uint64(uint32(s))
		}
	} else {
		var base uint
		switch m.oneOf("lo", "hi") {
		case "hi":
			base = 2
		case "lo":
		default:
			return x.invalid("needs .lo or .hi")
		}
		f = func(a, b, c uint64) uint64 {
			s := int64(c)
			for i := range uint(2) {
				s += field(a, i, 16, sa) * field(b, base+i, 8, sb)
			}
			return uint64(uint32(s))
		}
	}
	o := in.Operands
	return x.aluTypes(ptx.U32, lift3(f), &o[0], []*ptx.Operand{&o[1], &o[2], &o[3]}, []ptx.Type{ta, tb, ptx.U32})
}
