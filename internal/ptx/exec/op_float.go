package exec

import (
	"math"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Floating-point arithmetic (PTX ISA, "Floating Point Instructions", "Half Precision
// Floating Point Instructions"). Every operation is described once, in float64 rounded
// to odd (see round.go), and made into one for each format; f64 and the default forms
// of f32 have direct ones.
var floatDecoders = map[string]decoder{
	"fma": func(x *fnc, in *ptx.Instruction, m *mods) error { return decodeFma(x, in, m, m.typ()) },
	"rcp": operands(2, 2, decodeRcp), "sqrt": operands(2, 2, decodeSqrt), "rsqrt": operands(2, 2, decodeApprox), "sin": operands(2, 2, decodeApprox), "cos": operands(2, 2, decodeApprox),
	"ex2": operands(2, 2, decodeApprox), "lg2": operands(2, 2, decodeApprox), "tanh": operands(2, 2, decodeApprox),
	"copysign": operands(3, 3, decodeCopysign), "testp": operands(2, 2, decodeTestp),
}

// floatMode is what the modifiers of an instruction say.
type floatMode struct {
	round rounding
	ftz   bool // subnormal inputs and results become zeros of their sign
	sat   bool // results are clamped to [0, 1], NaN becomes 0
	relu  bool // negative results become 0, a NaN stays one
	approx
}

type approx struct{ approx, full bool }

func (m *mods) float() floatMode {
	return floatMode{
		round: roundingOf(m.oneOf(roundingNames...)), ftz: m.has("ftz"), sat: m.has("sat"), relu: m.has("relu"),
		approx: approx{m.has("approx"), m.has("full")},
	}
}

func (f floatMode) plain() bool { return f.plainFTZ() && !f.ftz }

// plainFTZ reports that .ftz is the only modifier there may be.
func (f floatMode) plainFTZ() bool { return f.round == rn && !f.sat && !f.relu }

// f32 chooses between the direct forms; nil if there is none.
func (f floatMode) f32(plain, ftz aluFn) aluFn {
	switch {
	case f.plain():
		return plain
	case f.plainFTZ():
		return ftz
	}
	return nil
}

// flush makes a subnormal float32 zero.
func flush(v uint64) uint64 {
	if v&0x7f800000 == 0 {
		return v & 0x80000000
	}
	return v
}

// in32 reads an operand.
func (f *floatMode) in32(v uint64) float64 {
	if f.ftz {
		v = flush(v)
	}
	return f32(v)
}

// out32 rounds a result.
func (f *floatMode) out32(x float64) uint64 {
	v := round32(x, f.round)
	if f.ftz {
		v = flush(v)
	}
	if f.sat {
		v = sat32(v)
	}
	if f.relu && v>>31 != 0 && x == x {
		v = 0
	}
	return v
}

func sat32(v uint64) uint64 {
	x := math.Float32frombits(uint32(v))
	switch {
	case x != x || x <= 0:
		return 0
	case x > 1:
		return 0x3f800000
	}
	return v
}

// half is an operation of a 16-bit format.
func (f floatMode) halfOut(h *format, x float64) uint64 {
	if x != x {
		if f.sat {
			return 0
		}
		return h.nan
	}
	var v uint64
	if h == &fmtF16 && f.round == rn {
		v = packF16(x)
	} else {
		v = h.pack(x, f.round)
	}
	if f.ftz && h == &fmtF16 && v&0x7c00 == 0 {
		v &= 0x8000
	}
	if f.sat {
		switch y := h.unpack(v); {
		case y <= 0:
			return 0
		case y > 1:
			return h.pack(1, rn)
		}
	}
	if f.relu && v&0x8000 != 0 {
		v = 0
	}
	return v
}

func (f floatMode) halfIn(h *format, v uint64) float64 {
	if f.ftz && h == &fmtF16 && v&0x7c00 == 0 {
		v &= 0x8000
	}
	return unpack16(h, v)
}

// unpack16 is unpack for the common formats without its generality.
func unpack16(h *format, v uint64) float64 {
	if h == &fmtBF16 {
		return float64(math.Float32frombits(uint32(v&0xffff) << 16))
	}
	return f16(v)
}

// f16 reads a half: as the upper part of a float32 with another exponent bias, which a
// multiplication mends, for subnormals too.
func f16(v uint64) float64 {
	x := math.Float32frombits(uint32(v&0x7fff)<<13) * 0x1p112
	if v&0x7c00 == 0x7c00 { // infinity or NaN
		x = math.Float32frombits(uint32(v&0x7fff)<<13 | 0x7f800000)
	}
	return float64(math.Float32frombits(math.Float32bits(x) | uint32(v&0x8000)<<16))
}

// packF16 is fmtF16.pack in the default mode.
func packF16(x float64) uint64 {
	b := math.Float64bits(x)
	e := b >> 52 & 0x7ff
	if e < 1023-14 || e > 1023+14 {
		return fmtF16.pack(x, rn)
	}
	m := b&(1<<63-1) + (1<<41 - 1) + b>>42&1
	return b>>63<<15 | (m>>42 - (1023-15)<<10)
}

// op3 is an operation in float64, rounded to odd; two-operand ones ignore c.
type op3 func(a, b, c float64) float64

func addOp(a, b, _ float64) float64 { return addOdd(a, b) }
func subOp(a, b, _ float64) float64 { return addOdd(a, -b) }
func mulOp(a, b, _ float64) float64 { return a * b }
func fmaOp(a, b, c float64) float64 { return fmaOdd(a, b, c) }
func divOp(a, b, _ float64) float64 { return divOdd(a, b) }

// make returns the operation for a type; nil if the type has none.
func (f floatMode) make(t ptx.Type, op op3) aluFn {
	half := func(h *format) func(a, b, c uint64) uint64 {
		return func(a, b, c uint64) uint64 {
			return f.halfOut(h, op(f.halfIn(h, a), f.halfIn(h, b), f.halfIn(h, c)))
		}
	}
	pair := func(h *format) aluFn {
		g := half(h)
		return lift3(func(a, b, c uint64) uint64 {
			return g(a&0xffff, b&0xffff, c&0xffff) | g(a>>16, b>>16, c>>16)<<16
		})
	}
	switch t {
	case ptx.F32:
		return lift3(func(a, b, c uint64) uint64 { return f.out32(op(f.in32(a), f.in32(b), f.in32(c))) })
	case ptx.F32x2:
		return lift3(func(a, b, c uint64) uint64 {
			return f.out32(op(f.in32(a), f.in32(b), f.in32(c))) |
				f.out32(op(f.in32(a>>32), f.in32(b>>32), f.in32(c>>32)))<<32
		})
	case ptx.F16:
		return lift3(half(&fmtF16))
	case ptx.BF16:
		return lift3(half(&fmtBF16))
	case ptx.F16x2:
		return pair(&fmtF16)
	case ptx.BF16x2:
		return pair(&fmtBF16)
	}
	return nil
}

// canon gives the result of a float32 operation its only NaN.
func canon(x float32) uint64 {
	if x != x {
		return nan32
	}
	return uint64(math.Float32bits(x))
}

func addF32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = canon(math.Float32frombits(uint32(a[i])) + math.Float32frombits(uint32(b[i])))
	}
}

func subF32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = canon(math.Float32frombits(uint32(a[i])) - math.Float32frombits(uint32(b[i])))
	}
}

func mulF32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = canon(math.Float32frombits(uint32(a[i])) * math.Float32frombits(uint32(b[i])))
	}
}

func fmaF32(d, a, b, c *lanes) {
	for i := range d {
		d[i] = canon(fma32(f32(a[i]), f32(b[i]), f32(c[i])))
	}
}

// The .ftz forms, which fast-math code uses throughout.
func addF32ftz(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = flush(canon(math.Float32frombits(uint32(flush(a[i]))) + math.Float32frombits(uint32(flush(b[i])))))
	}
}

func subF32ftz(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = flush(canon(math.Float32frombits(uint32(flush(a[i]))) - math.Float32frombits(uint32(flush(b[i])))))
	}
}

func mulF32ftz(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = flush(canon(math.Float32frombits(uint32(flush(a[i]))) * math.Float32frombits(uint32(flush(b[i])))))
	}
}

func fmaF32ftz(d, a, b, c *lanes) {
	for i := range d {
		d[i] = flush(canon(fma32(f32(flush(a[i])), f32(flush(b[i])), f32(flush(c[i])))))
	}
}

func addF64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = math.Float64bits(f64(a[i]) + f64(b[i]))
	}
}

func subF64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = math.Float64bits(f64(a[i]) - f64(b[i]))
	}
}

func mulF64(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = math.Float64bits(f64(a[i]) * f64(b[i]))
	}
}

func fmaF64(d, a, b, c *lanes) {
	for i := range d {
		d[i] = math.Float64bits(math.FMA(f64(a[i]), f64(b[i]), f64(c[i])))
	}
}

func direct2(r rounding, f func(a, b float64, r rounding) float64) aluFn {
	return lift2(func(a, b uint64) uint64 { return math.Float64bits(f(f64(a), f64(b), r)) })
}

// emitFloat emits the operation for two or three sources.
func (x *fnc) emitFloat(in *ptx.Instruction, t ptx.Type, f aluFn) error {
	if f == nil {
		return x.unsupported("")
	}
	o := in.Operands
	var srcs []*ptx.Operand
	for i := 1; i < len(o); i++ {
		srcs = append(srcs, &o[i])
	}
	return x.aluTypes(t, f, &o[0], srcs, []ptx.Type{t, t, t})
}

func decodeFloatAdd(x *fnc, in *ptx.Instruction, m *mods, t ptx.Type) error {
	x.count(in, 3, 3)
	f := m.float()
	sub := in.Op == "sub"
	op, a32, a64 := addOp, f.f32(addF32, addF32ftz), aluFn(addF64)
	if sub {
		op, a32, a64 = subOp, f.f32(subF32, subF32ftz), subF64
	}
	switch {
	case t == ptx.F64 && f.round == rn:
		return x.emitFloat(in, t, a64)
	case t == ptx.F64:
		return x.emitFloat(in, t, direct2(f.round, func(a, b float64, r rounding) float64 {
			if sub {
				b = -b
			}
			return add64(a, b, r)
		}))
	case t == ptx.F32 && a32 != nil:
		return x.emitFloat(in, t, a32)
	}
	if f.round == rm {
		inner := op
		op = func(a, b, c float64) float64 {
			s := inner(a, b, c)
			y := b
			if sub {
				y = -b
			}
			if s == 0 && !(a == 0 && y == 0 && !math.Signbit(a) && !math.Signbit(y)) {
				return math.Copysign(0, -1)
			}
			return s
		}
	}
	return x.emitFloat(in, t, f.make(t, op))
}

func decodeFloatMul(x *fnc, in *ptx.Instruction, m *mods, t ptx.Type) error {
	x.count(in, 3, 3)
	f := m.float()
	switch {
	case t == ptx.F64 && f.round == rn:
		return x.emitFloat(in, t, mulF64)
	case t == ptx.F64:
		return x.emitFloat(in, t, direct2(f.round, mul64))
	case t == ptx.F32 && f.plainFTZ():
		return x.emitFloat(in, t, f.f32(mulF32, mulF32ftz))
	}
	return x.emitFloat(in, t, f.make(t, mulOp))
}

// decodeFma covers fma and mad of floating-point types, which is the same since sm_20.
func decodeFma(x *fnc, in *ptx.Instruction, m *mods, t ptx.Type) error {
	x.count(in, 4, 4)
	f := m.float()
	if m.has("oob") {
		return x.unsupported("modifier .oob")
	}
	switch {
	case t == ptx.F64 && f.round == rn:
		return x.emitFloat(in, t, fmaF64)
	case t == ptx.F64:
		return x.emitFloat(in, t, lift3(func(a, b, c uint64) uint64 {
			return math.Float64bits(fma64(f64(a), f64(b), f64(c), f.round))
		}))
	case t == ptx.F32 && f.plainFTZ():
		return x.emitFloat(in, t, f.f32(fmaF32, fmaF32ftz))
	}
	op := op3(fmaOp)
	if f.round == rm {
		op = func(a, b, c float64) float64 {
			s := fmaOdd(a, b, c)
			p := a * b
			if s == 0 && !(p == 0 && c == 0 && !math.Signbit(p) && !math.Signbit(c)) {
				return math.Copysign(0, -1)
			}
			return s
		}
	}
	return x.emitFloat(in, t, f.make(t, op))
}

// decodeFloatDiv: .approx (2 ulp) and .full (2 ulp) are computed right, except that
// .approx gives zero for a divisor beyond 2^126, as PTX says.
func decodeFloatDiv(x *fnc, in *ptx.Instruction, m *mods, t ptx.Type) error {
	x.count(in, 3, 3)
	if in.Op == "rem" {
		return x.invalid("no remainder of this type")
	}
	f := m.float()
	switch {
	case t == ptx.F64:
		return x.emitFloat(in, t, direct2(f.round, div64))
	case t != ptx.F32:
		return x.unsupported("")
	}
	op := op3(divOp)
	if f.approx.approx {
		op = func(a, b, _ float64) float64 {
			if y := math.Abs(b); y > 0x1p126 && !math.IsInf(y, 0) {
				if math.IsInf(a, 0) {
					return math.NaN()
				}
				return math.Copysign(0, a) * math.Copysign(1, b)
			}
			return divOdd(a, b)
		}
	}
	return x.emitFloat(in, t, f.make(t, op))
}

// decodeFloatSign covers abs and neg. They keep a NaN's bits in f32 and f64; the 16-bit
// types have one NaN, as an H100 gives it.
func decodeFloatSign(x *fnc, in *ptx.Instruction, m *mods, t ptx.Type) error {
	x.count(in, 2, 2)
	var sign uint64
	switch t {
	case ptx.F16, ptx.BF16:
		sign = 1 << 15
	case ptx.F16x2, ptx.BF16x2:
		sign = 1<<15 | 1<<31
	case ptx.F32:
		sign = 1 << 31
	case ptx.F64:
		sign = 1 << 63
	default:
		return x.unsupported("")
	}
	ftz := m.has("ftz")
	neg := in.Op == "neg"
	f := func(a uint64) uint64 {
		if ftz {
			a = flushType(t, a)
		}
		d := a &^ sign
		if neg {
			d = a ^ sign
		}
		switch t {
		case ptx.F16, ptx.F16x2:
			return oneNaN16(d, 0x7c00)
		case ptx.BF16, ptx.BF16x2:
			return oneNaN16(d, 0x7f80)
		}
		return d
	}
	return x.emitFloat(in, t, lift1(f))
}

// oneNaN16 makes NaNs in either half of v, which are above infinity, the only one.
func oneNaN16(v, inf uint64) uint64 {
	if v&0x7fff > inf {
		v = v&^0xffff | 0x7fff
	}
	if v>>16&0x7fff > inf {
		v = v&0xffff | 0x7fff<<16
	}
	return v
}

// flushType is flush for f32, f16 and f16x2.
func flushType(t ptx.Type, a uint64) uint64 {
	switch t {
	case ptx.F32:
		return flush(a)
	case ptx.F16, ptx.F16x2:
		if a&0x7c00 == 0 {
			a &^= 0x3ff
		}
		if a&0x7c000000 == 0 {
			a &^= 0x3ff0000
		}
	}
	return a
}

// minMax follows PTX: a NaN loses against a number unless .NaN is given, +0 is above
// -0, and .xorsign.abs compares magnitudes and takes the product of the signs.
type minMax struct {
	isMin, nan, xorsign, ftz bool
}

func (p minMax) apply(a, b, sign, nan uint64, value func(uint64) float64) uint64 {
	var s uint64
	if p.xorsign {
		s = (a ^ b) & sign
		a, b = a&^sign, b&^sign
	}
	x, y := value(a), value(b)
	var r uint64
	switch {
	case x != x && y != y, p.nan && (x != x || y != y):
		return nan
	case x != x:
		r = b
	case y != y:
		r = a
	case x == y:
		r = a | b
		if x == 0 && !p.isMin {
			r = a & b
		}
	case (x < y) == p.isMin:
		r = a
	default:
		r = b
	}
	if p.xorsign {
		r = r&^sign | s
	}
	return r
}

func decodeFloatMinMax(x *fnc, in *ptx.Instruction, m *mods, t ptx.Type) error {
	x.count(in, 3, 4)
	p := minMax{isMin: in.Op == "min", nan: m.has("NaN"), xorsign: m.has("xorsign"), ftz: m.has("ftz")}
	if p.xorsign && !m.has("abs") {
		return x.invalid(".xorsign without .abs")
	}
	var f func(a, b uint64) uint64
	half := func(h *format) func(a, b uint64) uint64 {
		return func(a, b uint64) uint64 {
			return p.apply(a, b, 1<<15, h.nan, func(v uint64) float64 { return unpack16(h, v) })
		}
	}
	pair := func(g func(a, b uint64) uint64) func(a, b uint64) uint64 {
		return func(a, b uint64) uint64 { return g(a&0xffff, b&0xffff) | g(a>>16, b>>16)<<16 }
	}
	switch t {
	case ptx.F32:
		f = func(a, b uint64) uint64 { return p.apply(a, b, 1<<31, nan32, f32) }
	case ptx.F64:
		f = func(a, b uint64) uint64 { return p.apply(a, b, 1<<63, 0x7ff8000000000000, f64) }
	case ptx.F16:
		f = half(&fmtF16)
	case ptx.BF16:
		f = half(&fmtBF16)
	case ptx.F16x2:
		f = pair(half(&fmtF16))
	case ptx.BF16x2:
		f = pair(half(&fmtBF16))
	default:
		return x.unsupported("")
	}
	if p.ftz {
		g := f
		f = func(a, b uint64) uint64 { return g(flushType(t, a), flushType(t, b)) }
	}
	if len(in.Operands) == 4 { // three inputs
		g := f
		return x.emitFloat(in, t, lift3(func(a, b, c uint64) uint64 { return g(g(a, b), c) }))
	}
	return x.emitFloat(in, t, lift2(f))
}

func decodeCopysign(x *fnc, in *ptx.Instruction, m *mods) error {
	t := m.typ()
	if t != ptx.F32 && t != ptx.F64 {
		return x.invalid("needs .f32 or .f64")
	}
	s := uint64(1) << (t.Bits() - 1)
	o := in.Operands
	return x.aluOp(t, lift2(func(a, b uint64) uint64 { return b&^s | a&s }), &o[0], &o[1], &o[2])
}

func decodeTestp(x *fnc, in *ptx.Instruction, m *mods) error {
	what := m.oneOf("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t := m.typ()
	if t != ptx.F32 && t != ptx.F64 || what == "" {
		return x.invalid("needs a property and .f32 or .f64")
	}
	man := uint(52)
	if t == ptx.F32 {
		man = 23
	}
	test := func(a uint64) bool {
		a &= 1<<(t.Bits()-1) - 1
		e, f := a>>man, a&(1<<man-1)
		top := uint64(1)<<(uint(t.Bits())-1-man) - 1
		switch what {
		case "finite":
			return e != top
		case "infinite":
			return e == top && f == 0
		case "number":
			return e != top || f == 0
		case "notanumber":
			return e == top && f != 0
		case "normal":
			return e != top && e != 0
		}
		return e == 0 && f != 0
	}
	s := blank(kSetp)
	o := in.Operands
	s.a = x.src(&o[1], t, false)
	s.pd = x.dstPred(&o[0])
	s.cmp = func(a, _ *lanes) (m uint32) {
		for i := range a {
			if test(a[i]) {
				m |= 1 << i
			}
		}
		return m
	}
	x.emit(s)
	return nil
}
