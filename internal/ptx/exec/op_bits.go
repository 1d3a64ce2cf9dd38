package exec

import (
	"math/bits"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Logic, shifts and bit fields (PTX ISA, "Logic and Shift Instructions", and the bit
// instructions among "Integer Arithmetic Instructions").
var bitDecoders = map[string]decoder{
	"and": decodeLogic, "or": decodeLogic, "xor": decodeLogic, "not": decodeLogic, "cnot": operands(2, 2, decodeCnot),
	"shl": operands(3, 3, decodeShift), "shr": operands(3, 3, decodeShift), "shf": operands(4, 4, decodeFunnel), "lop3": operands(5, 6, decodeLop3),
	"prmt": operands(4, 4, decodePrmt), "bfe": operands(4, 4, decodeBfe), "bfi": operands(5, 5, decodeBfi), "bfind": operands(2, 2, decodeBfind), "fns": operands(4, 4, decodeFns),
	"popc": operands(2, 2, decodeCount), "clz": operands(2, 2, decodeCount), "brev": operands(2, 2, decodeBrev), "szext": operands(3, 3, decodeSzext), "bmsk": operands(3, 3, decodeBmsk),
}

func decodeLogic(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	n := 3
	if in.Op == "not" {
		n = 2
	}
	x.count(in, n, n)
	o := in.Operands
	if t == ptx.Pred {
		return x.predLogic(in)
	}
	if t.Class() != ptx.ClassBits {
		return x.invalid("needs a .b type")
	}
	var f aluFn
	switch in.Op {
	case "and":
		f = pick(t, andU, andU, andU)
	case "or":
		f = pick(t, orU, orU, orU)
	case "xor":
		f = pick(t, xorU, xorU, xorU)
	default:
		f = pick(t, notU[uint16], notU[uint32], notU[uint64])
	}
	if f == nil {
		return x.unsupported("")
	}
	if n == 2 {
		return x.aluOp(t, f, &o[0], &o[1])
	}
	return x.aluOp(t, f, &o[0], &o[1], &o[2])
}

// Predicate logic works on all lanes of a warp at once.
const (
	predAnd uint8 = iota
	predOr
	predXor
	predMov
)

func (x *fnc) predLogic(in *ptx.Instruction) error {
	r := blank(kRun)
	r.run = runPredLogic
	o := in.Operands
	switch in.Op {
	case "and":
		r.sub = predAnd
	case "or":
		r.sub = predOr
	case "xor":
		r.sub = predXor
	default:
		r.sub = predMov
	}
	r.pa, r.pax = x.pred(&o[1])
	if in.Op == "not" {
		r.pax = ^r.pax
	}
	if len(o) > 2 {
		// The second source lives in the fields that a predicate operation has free.
		q, inv := x.pred(&o[2])
		r.pq, r.imm = q, uint64(inv)
	}
	r.pd = x.dstPred(&o[0])
	x.emit(r)
	return nil
}

func runPredLogic(w *warp, in *inst, mask uint32) {
	v := w.p[in.pa] ^ in.pax
	switch in.sub {
	case predAnd:
		v &= w.p[in.pq] ^ uint32(in.imm)
	case predOr:
		v |= w.p[in.pq] ^ uint32(in.imm)
	case predXor:
		v ^= w.p[in.pq] ^ uint32(in.imm)
	}
	if in.pd != 0 {
		w.p[in.pd] = w.p[in.pd]&^mask | v&mask
	}
}

func decodeCnot(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t.Class() != ptx.ClassBits || t.Bits() < 16 || t.Bits() > 64 {
		return x.invalid("needs a .b type")
	}
	return x.aluOp(t, lift1(func(a uint64) uint64 {
		if a == 0 {
			return 1
		}
		return 0
	}), &in.Operands[0], &in.Operands[1])
}

func decodeShift(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t.Bits() < 16 || t.Bits() > 64 || t.Class() == ptx.ClassFloat || t.Class() == ptx.ClassPacked {
		return x.invalid("needs an integer type")
	}
	var f aluFn
	switch {
	case in.Op == "shl":
		f = pick(t, shlU[uint16], shlU[uint32], shlU[uint64])
	case isSigned(t):
		w := uint(t.Bits())
		f = lift2(func(a, b uint64) uint64 { return uint64(sext(a, w)>>uint32(b)) & widthMask(int(w)) })
		if t == ptx.S32 {
			f = shrS32
		}
	default:
		f = pick(t, shrU[uint16], shrU[uint32], shrU[uint64])
	}
	o := in.Operands
	return x.aluTypes(t, f, &o[0], []*ptx.Operand{&o[1], &o[2]}, []ptx.Type{t, ptx.U32})
}

func funnelLeftWrap(d, a, b, c *lanes) {
	for i := range d {
		d[i] = (b[i]<<32 | a[i]) << (c[i] & 31) >> 32
	}
}

func funnelRightWrap(d, a, b, c *lanes) {
	for i := range d {
		d[i] = uint64(uint32((b[i]<<32 | a[i]) >> (c[i] & 31)))
	}
}

func rotateLeft(d, a, _, c *lanes) {
	for i := range d {
		d[i] = uint64(bits.RotateLeft32(uint32(a[i]), int(c[i]&31)))
	}
}

func rotateRight(d, a, _, c *lanes) {
	for i := range d {
		d[i] = uint64(bits.RotateLeft32(uint32(a[i]), -int(c[i]&31)))
	}
}

func decodeFunnel(x *fnc, in *ptx.Instruction, m *mods) error {
	dir, mode := m.oneOf("l", "r"), m.oneOf("wrap", "clamp")
	if t := m.typ(); t != ptx.B32 || dir == "" || mode == "" {
		return x.invalid("needs .l or .r, .wrap or .clamp, and .b32")
	}
	o := in.Operands
	var f aluFn
	same := o[1].Kind == ptx.OperandReg && o[2].Kind == ptx.OperandReg && o[1].Reg == o[2].Reg
	switch {
	case dir == "l" && mode == "wrap" && same:
		f = rotateLeft
	case dir == "r" && mode == "wrap" && same:
		f = rotateRight
	case dir == "l" && mode == "wrap":
		f = funnelLeftWrap
	case dir == "r" && mode == "wrap":
		f = funnelRightWrap
	case dir == "l":
		f = lift3(func(a, b, c uint64) uint64 { return uint64(uint32((b<<32 | a) << min(c, 32) >> 32)) })
	default:
		f = lift3(func(a, b, c uint64) uint64 { return uint64(uint32((b<<32 | a) >> min(c, 32))) })
	}
	return x.aluTypes(ptx.B32, f, &o[0], []*ptx.Operand{&o[1], &o[2], &o[3]}, []ptx.Type{ptx.B32, ptx.B32, ptx.U32})
}

// lut returns the function of a lop3 table: bit 4a+2b+c of the table is the result for
// input bits a, b, c.
func lut(table uint8) aluFn {
	switch table {
	case 0x96:
		return func(d, a, b, c *lanes) {
			for i := range d {
				d[i] = a[i] ^ b[i] ^ c[i]
			}
		}
	case 0xe8:
		return func(d, a, b, c *lanes) {
			for i := range d {
				d[i] = a[i]&b[i] | (a[i]|b[i])&c[i]
			}
		}
	case 0xca:
		return func(d, a, b, c *lanes) {
			for i := range d {
				d[i] = c[i] ^ a[i]&(b[i]^c[i])
			}
		}
	}
	return lift3(func(a, b, c uint64) uint64 {
		var r uint64
		for k := range 8 {
			if table>>k&1 == 0 {
				continue
			}
			// ^ with all ones where the minterm wants the input inverted.
			x := a ^ (uint64(k>>2&1) - 1)
			y := b ^ (uint64(k>>1&1) - 1)
			z := c ^ (uint64(k&1) - 1)
			r |= x & y & z
		}
		return r & 0xffffffff
	})
}

// decodeLop3 covers lop3.b32 and lop3.BoolOp.b32 d|p, a, b, c, table, q.
func decodeLop3(x *fnc, in *ptx.Instruction, m *mods) error {
	op := m.oneOf("or", "and")
	if m.typ() != ptx.B32 {
		return x.invalid("needs .b32")
	}
	o := in.Operands
	if o[4].Kind != ptx.OperandInt || o[4].Bits > 255 {
		return x.invalid("the table is not a constant of 8 bits")
	}
	d, p := &o[0], (*ptx.Operand)(nil)
	if d.Kind == ptx.OperandPair {
		d, p = &d.Elems[0], &d.Elems[1]
	}
	if (p != nil) != (len(o) == 6) || (p != nil) != (op != "") {
		return x.invalid("operands do not fit")
	}
	if p == nil {
		return x.aluOp(ptx.B32, lut(uint8(o[4].Bits)), d, &o[1], &o[2], &o[3])
	}
	f := blank(kALU)
	f.a = x.src(&o[1], ptx.B32, false)
	f.b = x.src(&o[2], ptx.B32, false)
	f.c = x.src(&o[3], ptx.B32, false)
	f.d = x.dst(d, ptx.B32, false)
	f.alu = lut(uint8(o[4].Bits))
	s := blank(kSetp)
	s.pa, s.pax = x.pred(&o[5])
	s.pd = x.dstPred(p)
	s.sub = boolAnd
	if op == "or" {
		s.sub = boolOr
	}
	s.a, s.cmp = f.d, cmpNeU
	x.emit(f)
	x.emit(s)
	return nil
}

// prmt picks bytes of {b, a} (PTX ISA, "prmt"); the modes make the selectors from the
// low bits of c.
var prmtModes = map[string]func(c uint64) [4]uint64{
	"f4e":  func(c uint64) [4]uint64 { return [4]uint64{c & 3, c&3 + 1, c&3 + 2, c&3 + 3} },
	"b4e":  func(c uint64) [4]uint64 { c &= 3; return [4]uint64{c, (c - 1) & 7, (c - 2) & 7, (c - 3) & 7} },
	"rc8":  func(c uint64) [4]uint64 { c &= 3; return [4]uint64{c, c, c, c} },
	"ecl":  func(c uint64) [4]uint64 { c &= 3; return [4]uint64{c, max(c, 1), max(c, 2), 3} },
	"ecr":  func(c uint64) [4]uint64 { c &= 3; return [4]uint64{0, min(c, 1), min(c, 2), c} },
	"rc16": func(c uint64) [4]uint64 { c = c & 1 * 2; return [4]uint64{c, c + 1, c, c + 1} },
}

func decodePrmt(x *fnc, in *ptx.Instruction, m *mods) error {
	mode := m.oneOf("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
	if m.typ() != ptx.B32 {
		return x.invalid("needs .b32")
	}
	sel := prmtModes[mode]
	f := func(a, b, c uint64) uint64 {
		v := b<<32 | a
		var r uint64
		for i := range 4 {
			s := c >> (4 * i) & 15
			by := v >> (8 * (s & 7)) & 0xff
			if s&8 != 0 { // the sign in every bit
				by = uint64(int64(int8(by))>>7) & 0xff
			}
			r |= by << (8 * i)
		}
		return r
	}
	if sel != nil {
		f = func(a, b, c uint64) uint64 {
			v := b<<32 | a
			var r uint64
			for i, s := range sel(c) {
				r |= v >> (8 * s) & 0xff << (8 * i)
			}
			return r
		}
	}
	o := in.Operands
	return x.aluOp(ptx.B32, lift3(f), &o[0], &o[1], &o[2], &o[3])
}

func decodeBfe(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if !isInt(t) || t.Bits() < 32 {
		return x.invalid("needs a 32-bit or 64-bit integer type")
	}
	w := uint64(t.Bits())
	signed := isSigned(t)
	mask := widthMask(int(w))
	o := in.Operands
	return x.aluTypes(t, lift3(func(a, b, c uint64) uint64 {
		pos, n := b&0xff, c&0xff
		if n == 0 {
			return 0
		}
		if !signed {
			return a >> pos & widthMask(int(min(n, w)))
		}
		// Beyond the top of the register the field is filled with its sign.
		v := sext(a, uint(w)) >> min(pos, w-1)
		if n < 64 && pos+n <= w {
			v = sext(uint64(v), uint(n))
		}
		return uint64(v) & mask
	}), &o[0], []*ptx.Operand{&o[1], &o[2], &o[3]}, []ptx.Type{t, ptx.U32, ptx.U32})
}

func decodeBfi(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t != ptx.B32 && t != ptx.B64 {
		return x.invalid("needs .b32 or .b64")
	}
	mask := widthMask(t.Bits())
	o := in.Operands
	// Position and length go into one register: an instruction has three sources.
	pos := x.src(&o[3], ptx.U32, false)
	n := x.src(&o[4], ptx.U32, false)
	a := x.src(&o[1], t, false)
	b := x.src(&o[2], t, false)
	d := x.dst(&o[0], t, false)
	var pn int32
	if o[3].Kind == ptx.OperandInt && o[4].Kind == ptx.OperandInt {
		pn = x.constant(o[3].Bits&0xff | o[4].Bits&0xff<<8)
	} else {
		pn = x.newReg()
		x.alu(lift2(func(p, n uint64) uint64 { return p&0xff | n&0xff<<8 }), pn, pos, n, noSlot)
	}
	x.alu(func(d, a, b, c *lanes) {
		for i := range d {
			f := widthMask(int(c[i]>>8)) << (c[i] & 0xff) & mask
			d[i] = b[i]&^f | a[i]<<(c[i]&0xff)&f
		}
	}, d, a, b, pn)
	return nil
}

func decodeBfind(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	shift := m.has("shiftamt")
	if !isInt(t) || t.Bits() < 32 {
		return x.invalid("needs a 32-bit or 64-bit integer type")
	}
	w := uint(t.Bits())
	signed := isSigned(t)
	o := in.Operands
	return x.aluTypes(ptx.U32, lift1(func(a uint64) uint64 {
		if signed && sext(a, w) < 0 {
			a = ^a & widthMask(int(w))
		}
		if a == 0 {
			return 0xffffffff
		}
		n := uint64(bits.Len64(a) - 1)
		if shift {
			n = uint64(w) - 1 - n
		}
		return n
	}), &o[0], []*ptx.Operand{&o[1]}, []ptx.Type{t})
}

// fns finds the n-th set bit from a base, upwards or downwards.
func decodeFns(x *fnc, in *ptx.Instruction, m *mods) error {
	if m.typ() != ptx.B32 {
		return x.invalid("needs .b32")
	}
	o := in.Operands
	return x.aluTypes(ptx.B32, lift3(func(mask, base, off uint64) uint64 {
		n := int32(off)
		base &= 31
		if n == 0 {
			if mask>>base&1 != 0 {
				return base
			}
			return 0xffffffff
		}
		step, count := 1, int64(n)
		if n < 0 {
			step, count = -1, -int64(n)
		}
		for i := int(base); i >= 0 && i < 32; i += step {
			if mask>>i&1 != 0 {
				if count--; count == 0 {
					return uint64(i)
				}
			}
		}
		return 0xffffffff
	}), &o[0], []*ptx.Operand{&o[1], &o[2], &o[3]}, []ptx.Type{ptx.B32, ptx.B32, ptx.S32})
}

func decodeCount(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t != ptx.B32 && t != ptx.B64 {
		return x.invalid("needs .b32 or .b64")
	}
	f := func(a uint64) uint64 { return uint64(bits.OnesCount64(a)) }
	if in.Op == "clz" {
		drop := 64 - t.Bits()
		f = func(a uint64) uint64 { return uint64(bits.LeadingZeros64(a) - drop) }
	}
	return x.aluTypes(ptx.U32, lift1(f), &in.Operands[0], []*ptx.Operand{&in.Operands[1]}, []ptx.Type{t})
}

func decodeBrev(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t != ptx.B32 && t != ptx.B64 {
		return x.invalid("needs .b32 or .b64")
	}
	drop := 64 - t.Bits()
	return x.aluOp(t, lift1(func(a uint64) uint64 { return bits.Reverse64(a) >> drop }), &in.Operands[0], &in.Operands[1])
}

func decodeSzext(x *fnc, in *ptx.Instruction, m *mods) error {
	wrap := m.oneOf("wrap", "clamp") == "wrap"
	t := m.typ()
	if t != ptx.U32 && t != ptx.S32 {
		return x.invalid("needs .u32 or .s32")
	}
	o := in.Operands
	return x.aluTypes(t, lift2(func(a, b uint64) uint64 {
		n := min(b, 32)
		if wrap {
			n = b & 31
		}
		switch {
		case n == 0:
			return 0
		case t == ptx.S32:
			return uint64(uint32(sext(a, uint(n))))
		}
		return a & widthMask(int(n))
	}), &o[0], []*ptx.Operand{&o[1], &o[2]}, []ptx.Type{t, ptx.U32})
}

func decodeBmsk(x *fnc, in *ptx.Instruction, m *mods) error {
	wrap := m.oneOf("wrap", "clamp") == "wrap"
	if m.typ() != ptx.B32 {
		return x.invalid("needs .b32")
	}
	o := in.Operands
	return x.aluOp(ptx.B32, lift2(func(a, b uint64) uint64 {
		if wrap {
			a, b = a&31, b&31
		} else {
			a, b = min(a, 32), min(b, 32)
		}
		return uint64(uint32(widthMask(int(b)) << a))
	}), &o[0], &o[1], &o[2])
}
