package exec

import (
	"math"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Conversions (PTX ISA, "cvt"). A source becomes a float64 or a 64-bit integer, which
// then becomes the destination: floats are exact or rounded to odd in between.

// floatFormat returns the narrow format of a type; nil for f64 and integers.
func floatFormat(t ptx.Type) *format {
	switch t {
	case ptx.F32:
		return &fmtF32
	case ptx.F16:
		return &fmtF16
	case ptx.BF16:
		return &fmtBF16
	case ptx.TF32:
		return &fmtTF32
	case ptx.E4M3:
		return &fmtE4M3
	case ptx.E5M2:
		return &fmtE5M2
	}
	return nil
}

// floatReader returns the function that reads a type as float64.
func floatReader(t ptx.Type, ftz bool) func(v uint64) float64 {
	switch t {
	case ptx.F64:
		return f64
	case ptx.F32, ptx.TF32:
		if ftz {
			return func(v uint64) float64 { return f32(flush(v & 0xffffffff)) }
		}
		return f32
	}
	if t == ptx.F16 {
		return f16
	}
	f := floatFormat(t)
	w := widthMask(t.Bits())
	return func(v uint64) float64 { return f.unpack(v & w) }
}

type cvtMode struct {
	round     rounding
	integer   bool // .rni and its kin: round to an integral value
	ftz, sat  bool
	relu      bool
	satFinite bool
}

func (m *mods) cvt() cvtMode {
	var c cvtMode
	switch r := m.oneOf("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"); {
	case r == "":
	case len(r) == 3 && r[2] == 'i':
		c.integer, c.round = true, roundingOf(r[:2])
	default:
		c.round = roundingOf(r)
	}
	c.relu = m.has("relu")
	c.satFinite = m.has("satfinite")
	c.ftz = m.has("ftz")
	c.sat = m.has("sat")
	return c
}

func roundIntegral(x float64, r rounding) float64 {
	switch r {
	case rz:
		return math.Trunc(x)
	case rm:
		return math.Floor(x)
	case rp:
		return math.Ceil(x)
	}
	return math.RoundToEven(x)
}

// floatWriter returns the function that makes a type of an exact or odd-rounded float64.
func (c cvtMode) floatWriter(t ptx.Type) func(x float64) uint64 {
	if t == ptx.F64 {
		return func(x float64) uint64 {
			if c.sat {
				switch {
				case x != x || x <= 0:
					return 0
				case x > 1:
					x = 1
				}
			}
			return math.Float64bits(x)
		}
	}
	f := floatFormat(t)
	var shift uint
	if t == ptx.TF32 {
		shift = 13 // a tf32 is the upper part of an f32
	}
	return func(x float64) uint64 {
		if c.relu && x <= 0 {
			x = 0 // also for -0
		}
		if c.sat {
			switch {
			case x != x || x <= 0:
				return 0
			case x > 1:
				x = 1
			}
		}
		var v uint64
		switch {
		case x != x:
			v = f.nan
			if shift != 0 {
				return nan32
			}
		case c.satFinite:
			v = f.packSat(x, c.round)
		default:
			v = f.pack(x, c.round)
		}
		if c.ftz && t == ptx.F32 {
			v = flush(v)
		}
		return v << shift
	}
}

// floatToInt saturates; see PTX ISA, "cvt", for NaN: zero, unless 64 bits are involved.
func floatToInt(x float64, bits uint, signed, wide bool) uint64 {
	if x != x {
		if !wide {
			return 0
		}
		return 1 << (bits - 1)
	}
	if signed {
		lim := math.Ldexp(1, int(bits-1))
		switch {
		case x >= lim:
			return 1<<(bits-1) - 1
		case x < -lim:
			return 1 << (bits - 1)
		}
		return uint64(int64(x)) & widthMask(int(bits))
	}
	switch {
	case x <= 0:
		return 0
	case x >= math.Ldexp(1, int(bits)):
		return widthMask(int(bits))
	case x >= 1<<63:
		return uint64(x-1<<63) + 1<<63
	}
	return uint64(x)
}

func decodeCvt(x *fnc, in *ptx.Instruction, m *mods) error {
	if m.has("pack") {
		return decodeCvtPack(x, in, m)
	}
	c := m.cvt()
	dt, st := m.typ(), m.typ()
	x.count(in, 2, 3)
	if dt.Class() == ptx.ClassPacked || st.Class() == ptx.ClassPacked {
		return decodeCvtPacked(x, in, c, dt, st)
	}
	x.count(in, 2, 2)
	return x.cvtEmit(in, dt, st, x.cvtFunc(c, dt, st))
}

// cvtEmit applies f to a source that may be wider than its type, for a destination that may be
// wider than its type. Signed results are then extended by their sign.
func (x *fnc) cvtEmit(in *ptx.Instruction, dt, st ptx.Type, f func(uint64) uint64) error {
	o := in.Operands
	wide := dt != ptx.BF16 && st != ptx.BF16
	a := x.src(&o[1], st, wide)
	db, sb := dt.Bits(), st.Bits()
	d := x.dst(&o[0], dt, wide)
	reg := db
	if o[0].Kind == ptx.OperandReg {
		reg = x.regBits(&o[0])
	}
	if x.regBits(&o[1]) > sb {
		g, w := f, widthMask(sb)
		f = func(v uint64) uint64 { return g(v & w) }
	}
	if reg > db && isSigned(dt) {
		g, w := f, widthMask(reg)
		f = func(v uint64) uint64 { return uint64(sext(g(v), uint(db))) & w }
	}
	x.alu(lift1(f), d, a, noSlot, noSlot)
	return nil
}

func cvtInt(t ptx.Type) bool {
	return t.Class() == ptx.ClassSint || t.Class() == ptx.ClassUint
}

// cvtFunc returns the conversion of one value, whose bits above its type are zero.
func (x *fnc) cvtFunc(c cvtMode, dt, st ptx.Type) func(v uint64) uint64 {
	dInt, sInt := cvtInt(dt), cvtInt(st)
	dFloat, sFloat := dt.Class() == ptx.ClassFloat, st.Class() == ptx.ClassFloat
	if !dInt && !dFloat || !sInt && !sFloat {
		panic(x.invalid("no such conversion"))
	}
	db, sb := uint(dt.Bits()), uint(st.Bits())
	mask := widthMask(int(db))
	switch {
	case dInt && sInt:
		return intToInt(c.sat, db, sb, isSigned(dt), isSigned(st), mask)
	case dInt:
		read := floatReader(st, c.ftz)
		if !c.integer {
			panic(x.invalid("a conversion to an integer needs .rni, .rzi, .rmi or .rpi"))
		}
		signed := isSigned(dt)
		wide := st == ptx.F64 || db == 64
		return func(v uint64) uint64 {
			return floatToInt(roundIntegral(read(v), c.round), db, signed, wide)
		}
	case sInt:
		signed := isSigned(st)
		if dt == ptx.F64 {
			return func(v uint64) uint64 { return math.Float64bits(intTo64(v, sb, signed, c.round)) }
		}
		write := c.floatWriter(dt)
		return func(v uint64) uint64 {
			if signed {
				return write(intToFloat(sext(v, sb)))
			}
			return write(uintToFloat(v))
		}
	}
	read, write := floatReader(st, c.ftz), c.floatWriter(dt)
	if c.integer {
		return func(v uint64) uint64 { return write(roundIntegral(read(v), c.round)) }
	}
	if st == dt && !c.sat && !c.ftz && !c.relu {
		return func(v uint64) uint64 { return v }
	}
	convert := func(v uint64) uint64 { return write(read(v)) }
	if c.sat || c.relu {
		return convert
	}
	// Which NaN these give, PTX leaves open; an H100 keeps the upper bits of the payload.
	switch {
	case st == ptx.F64 && (dt == ptx.F32 || dt == ptx.F16):
		f := floatFormat(dt)
		return func(v uint64) uint64 {
			if v<<1 > 0x7ff<<53 {
				low := v >> (52 - f.man) & (1<<f.man - 1)
				return v>>63*f.sign() | (1<<f.exp-1)<<f.man | 1<<(f.man-1) | low
			}
			return convert(v)
		}
	case st == ptx.BF16 && dt == ptx.F32:
		return func(v uint64) uint64 {
			if v&0x7fff > 0x7f80 {
				return v & 0xffff << 16
			}
			return convert(v)
		}
	}
	return convert
}

// intTo64 rounds an integer to float64.
func intTo64(v uint64, bits uint, signed bool, r rounding) float64 {
	if signed {
		s := sext(v, bits)
		if s >= 0 {
			return uint64To64(uint64(s), r)
		}
		switch r { // the negative of the mirrored mode
		case rm:
			r = rp
		case rp:
			r = rm
		}
		return -uint64To64(-uint64(s), r)
	}
	return uint64To64(v, r)
}

func uint64To64(v uint64, r rounding) float64 {
	y := float64(v)
	if r == rn {
		return y
	}
	// y is within [0, 2^64]: compare as integers.
	if y >= 1<<64 {
		if r == rp {
			return y
		}
		return math.Nextafter(y, 0)
	}
	switch n := uint64(y); {
	case n > v && r != rp:
		return math.Nextafter(y, 0)
	case n < v && r == rp:
		return math.Nextafter(y, math.Inf(1))
	}
	return y
}

func intToInt(sat bool, db, sb uint, dSigned, sSigned bool, mask uint64) func(v uint64) uint64 {
	if !sat {
		if sSigned {
			return func(v uint64) uint64 { return uint64(sext(v, sb)) & mask }
		}
		return func(v uint64) uint64 { return v & mask }
	}
	return func(v uint64) uint64 {
		if sSigned {
			s := sext(v, sb)
			if dSigned {
				return uint64(clampInt64(s, db)) & mask
			}
			if s < 0 {
				return 0
			}
			v = uint64(s)
		}
		top := mask
		if dSigned {
			top >>= 1
		}
		return min(v, top)
	}
}

func clampInt64(s int64, bits uint) int64 {
	if bits >= 64 {
		return s
	}
	return clampInt(s, bits)
}

// decodeCvtPacked covers the conversions to and from two values in one register:
// d = {a, b} with a in the upper half.
func decodeCvtPacked(x *fnc, in *ptx.Instruction, c cvtMode, dt, st ptx.Type) error {
	element := map[ptx.Type]ptx.Type{
		ptx.F16x2: ptx.F16, ptx.BF16x2: ptx.BF16, ptx.E4M3x2: ptx.E4M3, ptx.E5M2x2: ptx.E5M2,
	}
	o := in.Operands
	if st == ptx.F32 {
		e, ok := element[dt]
		if !ok {
			return x.unsupported("")
		}
		x.count(in, 3, 3)
		read, write := floatReader(ptx.F32, c.ftz), c.floatWriter(e)
		w := e.Bits()
		return x.aluTypes(dt, lift2(func(a, b uint64) uint64 {
			return write(read(a))<<w | write(read(b))
		}), &o[0], []*ptx.Operand{&o[1], &o[2]}, []ptx.Type{st, st})
	}
	de, ok := element[dt]
	se, ok2 := element[st]
	if !ok || !ok2 {
		return x.unsupported("")
	}
	x.count(in, 2, 2)
	read, write := floatReader(se, false), c.floatWriter(de)
	dw, sw := de.Bits(), se.Bits()
	return x.aluTypes(dt, lift1(func(a uint64) uint64 {
		return write(read(a>>sw))<<dw | write(read(a&widthMask(sw)))
	}), &o[0], []*ptx.Operand{&o[1]}, []ptx.Type{st})
}

// decodeCvtPack is cvt.pack.sat: two integers into narrow fields beside what c holds.
func decodeCvtPack(x *fnc, in *ptx.Instruction, m *mods) error {
	m.has("sat")
	names := m.oneOf("u2", "s2", "u4", "s4")
	if names != "" {
		return x.unsupported("")
	}
	dt, st := m.typ(), m.typ()
	m.has("b32")
	x.count(in, 3, 4)
	if !cvtInt(dt) || dt.Bits() > 16 || st != ptx.S32 && st != ptx.U32 {
		return x.unsupported("")
	}
	w := uint(dt.Bits())
	conv := intToInt(true, w, 32, isSigned(dt), isSigned(st), widthMask(int(w)))
	f := lift3(func(a, b, c uint64) uint64 {
		return uint64(uint32(c<<(2*w) | conv(a)<<w | conv(b)))
	})
	o := in.Operands
	srcs := []*ptx.Operand{&o[1], &o[2]}
	if len(o) == 4 {
		srcs = append(srcs, &o[3])
	}
	return x.aluTypes(ptx.B32, f, &o[0], srcs, []ptx.Type{ptx.B32, ptx.B32, ptx.B32})
}
