package exec

import (
	"github.com/purecuda/purecuda/internal/ptx"
)

// Comparison and selection (PTX ISA, "Comparison and Selection Instructions").
var compareDecoders = map[string]decoder{
	"setp": operands(3, 4, decodeSetp), "set": operands(3, 4, decodeSet), "selp": operands(4, 4, decodeSelp), "slct": operands(4, 4, decodeSlct),
}

type cmpFn = func(a, b *lanes) uint32

type ordered interface {
	uint16 | uint32 | uint64 | int16 | int32 | int64
}

// The comparisons of integers are written out: the compiler makes branch-free loops of
// them.
func cmpLt[T ordered](a, b *lanes) (m uint32) {
	for i := range a {
		var t uint32
		if T(a[i]) < T(b[i]) {
			t = 1
		}
		m |= t << i
	}
	return m
}

func cmpLe[T ordered](a, b *lanes) (m uint32) {
	for i := range a {
		var t uint32
		if T(a[i]) <= T(b[i]) {
			t = 1
		}
		m |= t << i
	}
	return m
}

func cmpEqU(a, b *lanes) (m uint32) {
	for i := range a {
		var t uint32
		if a[i] == b[i] {
			t = 1
		}
		m |= t << i
	}
	return m
}

func cmpNeU(a, b *lanes) uint32 { return ^cmpEqU(a, b) }

func swapped(f cmpFn) cmpFn { return func(a, b *lanes) uint32 { return f(b, a) } }

// intCompare returns the comparison of an integer or bit type.
func intCompare(op string, t ptx.Type) cmpFn {
	type pair struct{ lt, le cmpFn }
	unsignedPair := map[int]pair{
		16: {cmpLt[uint16], cmpLe[uint16]}, 32: {cmpLt[uint32], cmpLe[uint32]}, 64: {cmpLt[uint64], cmpLe[uint64]},
	}
	signedPair := map[int]pair{
		16: {cmpLt[int16], cmpLe[int16]}, 32: {cmpLt[int32], cmpLe[int32]}, 64: {cmpLt[int64], cmpLe[int64]},
	}
	switch op {
	case "eq":
		return cmpEqU
	case "ne":
		return cmpNeU
	}
	if t.Class() == ptx.ClassBits {
		return nil
	}
	p := unsignedPair[t.Bits()]
	if isSigned(t) {
		p = signedPair[t.Bits()]
	}
	switch op {
	case "lt":
		return p.lt
	case "le":
		return p.le
	case "gt":
		return swapped(p.lt)
	case "ge":
		return swapped(p.le)
	}
	if isSigned(t) {
		return nil
	}
	switch op { // the names of unsigned comparisons
	case "lo":
		return p.lt
	case "ls":
		return p.le
	case "hi":
		return swapped(p.lt)
	case "hs":
		return swapped(p.le)
	}
	return nil
}

// floatCompare returns the comparison of two numbers. The forms that end in u are true
// when one of them is NaN.
func floatCompare(op string) func(a, b float64) bool {
	switch op {
	case "eq":
		return func(a, b float64) bool { return a == b }
	case "ne":
		return func(a, b float64) bool { return a < b || a > b }
	case "lt":
		return func(a, b float64) bool { return a < b }
	case "le":
		return func(a, b float64) bool { return a <= b }
	case "gt":
		return func(a, b float64) bool { return a > b }
	case "ge":
		return func(a, b float64) bool { return a >= b }
	case "equ":
		return func(a, b float64) bool { return !(a < b || a > b) }
	case "neu":
		return func(a, b float64) bool { return a != b }
	case "ltu":
		return func(a, b float64) bool { return !(a >= b) }
	case "leu":
		return func(a, b float64) bool { return !(a > b) }
	case "gtu":
		return func(a, b float64) bool { return !(a <= b) }
	case "geu":
		return func(a, b float64) bool { return !(a < b) }
	case "num":
		return func(a, b float64) bool { return a == a && b == b }
	case "nan":
		return func(a, b float64) bool { return a != a || b != b }
	}
	return nil
}

var compareNames = []string{
	"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
	"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
}

// comparison decodes the operator and type of setp and set.
func (x *fnc) comparison(op string, t ptx.Type, ftz bool) cmpFn {
	switch {
	case t.Class() == ptx.ClassFloat && floatReader(t, ftz) != nil:
		f := floatCompare(op)
		if f == nil {
			panic(x.invalid("no such comparison"))
		}
		read := floatReader(t, ftz)
		if ftz && t == ptx.F16 {
			inner := read
			read = func(v uint64) float64 { return inner(flushType(t, v)) }
		}
		return func(a, b *lanes) (m uint32) {
			for i := range a {
				if f(read(a[i]), read(b[i])) {
					m |= 1 << i
				}
			}
			return m
		}
	case (t.Class() == ptx.ClassBits || cvtInt(t)) && t.Bits() >= 16 && t.Bits() <= 64:
		if f := intCompare(op, t); f != nil {
			return f
		}
	}
	panic(x.invalid("no such comparison"))
}

// combine decodes the boolean operator and its predicate, the last operand.
func (x *fnc) combine(s *inst, m *mods, o []ptx.Operand, at int) {
	op := m.oneOf("and", "or", "xor")
	if (op != "") != (len(o) > at) {
		panic(x.invalid("a boolean operator and a predicate go together"))
	}
	if op == "" {
		return
	}
	s.sub = map[string]uint8{"and": boolAnd, "or": boolOr, "xor": boolXor}[op]
	s.pa, s.pax = x.pred(&o[at])
}

func decodeSetp(x *fnc, in *ptx.Instruction, m *mods) error {
	op := m.oneOf(compareNames...)
	ftz := m.has("ftz")
	o := in.Operands
	s := blank(kSetp)
	x.combine(&s, m, o, 3)
	t := m.typ()
	if t == ptx.F16x2 || t == ptx.BF16x2 {
		return x.setpPacked(in, s, op, t, ftz)
	}
	s.cmp = x.comparison(op, t, ftz)
	s.a = x.src(&o[1], t, false)
	s.b = x.src(&o[2], t, false)
	x.setpDst(&s, &o[0])
	x.emit(s)
	return nil
}

// setpDst decodes p or p|q.
func (x *fnc) setpDst(s *inst, d *ptx.Operand) {
	if d.Kind != ptx.OperandPair {
		s.pd = x.dstPred(d)
		return
	}
	s.pd = x.dstPred(&d.Elems[0])
	s.pq = x.dstPred(&d.Elems[1])
}

// setpPacked compares both halves: p is the result of the lower, q of the upper.
func (x *fnc) setpPacked(in *ptx.Instruction, s inst, op string, t ptx.Type, ftz bool) error {
	o := in.Operands
	e := ptx.F16
	if t == ptx.BF16x2 {
		e = ptx.BF16
	}
	cmp := x.comparison(op, e, ftz)
	s.a = x.src(&o[1], t, false)
	s.b = x.src(&o[2], t, false)
	if o[0].Kind != ptx.OperandPair {
		return x.invalid("needs two destinations")
	}
	lo, hi := s, s
	lo.pd = x.dstPred(&o[0].Elems[0])
	hi.pd = x.dstPred(&o[0].Elems[1])
	if lo.pd != 0 && lo.pd == s.pa {
		return x.unsupported("the first destination is also the predicate operand")
	}
	hi.a, hi.b = x.newReg(), x.newReg()
	upper := aluFn(func(d, a, _, _ *lanes) {
		for i := range d {
			d[i] = a[i] >> 16
		}
	})
	x.alu(upper, hi.a, s.a, noSlot, noSlot)
	x.alu(upper, hi.b, s.b, noSlot, noSlot)
	low := cmp // the reader of a 16-bit type ignores the upper half
	lo.cmp, hi.cmp = low, cmp
	x.emit(lo)
	x.emit(hi)
	return nil
}

// decodeSet writes a comparison as 0 or all ones, or as 0.0 or 1.0.
func decodeSet(x *fnc, in *ptx.Instruction, m *mods) error {
	op := m.oneOf(compareNames...)
	ftz := m.has("ftz")
	o := in.Operands
	s := blank(kSetp)
	x.combine(&s, m, o, 3)
	dt, st := m.typ(), m.typ()
	if st == ptx.F16x2 || st == ptx.BF16x2 {
		return x.setPacked(in, s, op, dt, st, ftz)
	}
	var yes uint64
	switch dt {
	case ptx.U32, ptx.S32:
		yes = 0xffffffff
	case ptx.U16, ptx.S16:
		yes = 0xffff
	case ptx.F32:
		yes = 0x3f800000
	case ptx.F16:
		yes = 0x3c00
	case ptx.BF16:
		yes = 0x3f80
	default:
		return x.invalid("no such destination type")
	}
	s.cmp = x.comparison(op, st, ftz)
	s.a = x.src(&o[1], st, false)
	s.b = x.src(&o[2], st, false)
	d := x.dst(&o[0], dt, false)
	s.pd = x.np
	x.np++
	x.emit(s)
	x.selectInto(d, x.constant(yes), noSlot, s.pd)
	return nil
}

func (x *fnc) selectInto(d, a, b, p int32) {
	sel := blank(kSelp)
	sel.d, sel.a, sel.b, sel.pa = d, a, b, p
	x.emit(sel)
}

func (x *fnc) setPacked(in *ptx.Instruction, s inst, op string, dt, st ptx.Type, ftz bool) error {
	yes, ok := map[ptx.Type]uint64{ptx.F16x2: 0x3c00, ptx.BF16x2: 0x3f80, ptx.U32: 0xffff, ptx.S32: 0xffff}[dt]
	if !ok || s.sub != boolNone {
		return x.unsupported("")
	}
	h := &fmtF16
	if st == ptx.BF16x2 {
		h = &fmtBF16
	}
	f := floatCompare(op)
	if f == nil {
		return x.invalid("no such comparison")
	}
	half := func(a, b uint64) uint64 {
		if f(unpack16(h, a), unpack16(h, b)) {
			return yes
		}
		return 0
	}
	o := in.Operands
	return x.aluTypes(dt, lift2(func(a, b uint64) uint64 {
		if ftz {
			a, b = flushType(st, a), flushType(st, b)
		}
		return half(a&0xffff, b&0xffff) | half(a>>16, b>>16)<<16
	}), &o[0], []*ptx.Operand{&o[1], &o[2]}, []ptx.Type{st, st})
}

func decodeSelp(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t.Bits() < 16 || t.Bits() > 64 {
		return x.invalid("needs a type of 16, 32 or 64 bits")
	}
	s := blank(kSelp)
	o := in.Operands
	s.a = x.src(&o[1], t, false)
	s.b = x.src(&o[2], t, false)
	s.pa, s.pax = x.pred(&o[3])
	s.d = x.dst(&o[0], t, false)
	x.emit(s)
	return nil
}

// decodeSlct selects by the sign of c: a where c >= 0, which NaN is not.
func decodeSlct(x *fnc, in *ptx.Instruction, m *mods) error {
	ftz := m.has("ftz")
	t, ct := m.typ(), m.typ()
	if t.Bits() < 16 || t.Bits() > 64 {
		return x.invalid("needs a type of 16, 32 or 64 bits")
	}
	var f func(a, b, c uint64) uint64
	switch ct {
	case ptx.S32:
		f = func(a, b, c uint64) uint64 {
			if int32(c) >= 0 {
				return a
			}
			return b
		}
	case ptx.F32:
		f = func(a, b, c uint64) uint64 {
			if ftz {
				c = flush(c)
			}
			if f32(c) >= 0 {
				return a
			}
			return b
		}
	default:
		return x.invalid("selects by .s32 or .f32")
	}
	o := in.Operands
	return x.aluTypes(t, lift3(f), &o[0], []*ptx.Operand{&o[1], &o[2], &o[3]}, []ptx.Type{t, t, ct})
}
