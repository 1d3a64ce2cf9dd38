package exec

import (
	"math"
	"slices"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Matrix instructions (PTX ISA, "Warp Level Matrix Instructions"): mma.sync with dense
// operands, ldmatrix, stmatrix, movmatrix. All shapes share one layout. With g the lane
// divided by 4, t the rest, and p elements per 32-bit register,
//
//	A: register r holds row g + 8*(r&1), columns p*t + 4*p*(r>>1) + 0..p-1
//	B: register r holds rows p*t + 4*p*r + 0..p-1, column g
//	C: element i is row g + 8*(i>>1), column 2*t + (i&1)
//
// Products are exact and summed in float64. A device sums in an order and with a width of its own,
// so that results agree within its error, not in every bit. Integers are exact.
var mmaDecoders = map[string]decoder{
	"mma": decodeMMA, "ldmatrix": decodeLdMatrix, "stmatrix": decodeLdMatrix, "movmatrix": operands(2, 2, decodeMovMatrix),
}

type mmaShape struct{ m, n, k int }

var mmaShapes = map[string]mmaShape{
	"m16n8k4": {16, 8, 4}, "m16n8k8": {16, 8, 8}, "m16n8k16": {16, 8, 16}, "m16n8k32": {16, 8, 32}, "m16n8k64": {16, 8, 64},
	"m8n8k4": {8, 8, 4}, "m8n8k16": {8, 8, 16}, "m8n8k32": {8, 8, 32},
}

// mmaKinds lists the element types with the depths that PTX has for them.
var mmaKinds = map[string][]int{
	"f16": {8, 16}, "bf16": {8, 16}, "tf32": {4, 8}, "f64": {4, 8, 16},
	"e4m3": {16, 32}, "e5m2": {16, 32},
	"s8": {16, 32}, "u8": {16, 32}, "s4": {32, 64}, "u4": {32, 64},
}

// mmaElem reads elements of A and B.
type mmaElem struct {
	bits  int
	float func(v uint64) float64 // of a floating-point type
	sign  bool                   // of an integer type
}

func mmaElement(name string) (mmaElem, bool) {
	switch name {
	case "f16":
		return mmaElem{16, f16, false}, true
	case "bf16":
		return mmaElem{16, func(v uint64) float64 { return f32(v << 16) }, false}, true
	case "tf32":
		return mmaElem{32, func(v uint64) float64 { return f32(v &^ 0x1fff) }, false}, true
	case "f64":
		return mmaElem{64, f64, false}, true
	case "e4m3":
		return mmaElem{8, fmtE4M3.unpack, false}, true
	case "e5m2":
		return mmaElem{8, fmtE5M2.unpack, false}, true
	case "s8", "u8":
		return mmaElem{8, nil, name == "s8"}, true
	case "s4", "u4":
		return mmaElem{4, nil, name == "s4"}, true
	}
	return mmaElem{}, false
}

// number is what bits stand for.
func (e *mmaElem) number(v uint64) float64 {
	switch {
	case e.float != nil:
		return e.float(v)
	case e.sign:
		return float64(sext(v, uint(e.bits)))
	}
	return float64(v)
}

type mmaInfo struct {
	shape   mmaShape
	a, b    mmaElem
	dt, ct  ptx.Type
	sat     bool
	perReg  int // elements of A and B in a register
	integer bool
}

func decodeMMA(x *fnc, in *ptx.Instruction, m *mods) error {
	if !m.has("sync") || m.has("sp") || m.has("sp::ordered_metadata") {
		return x.unsupported("")
	}
	m.has("aligned")
	info := &mmaInfo{}
	found := false
	for name, s := range mmaShapes {
		if m.has(name) {
			info.shape, found = s, true
		}
	}
	row, col := m.has("row"), m.has("col")
	info.sat = m.has("satfinite")
	if !found || !row || !col {
		return x.unsupported("shape or layout")
	}
	x.mmaTypes(m, info)
	x.count(in, 4, 4)
	s := info.shape
	regBits := 32
	if info.a.bits == 64 {
		regBits = 64
	}
	info.perReg = max(regBits/info.a.bits, 1)
	o := in.Operands
	part := func(i, elements, bits int, slot operandSlot) []int32 {
		width := max(bits, 32)
		return x.registers(&o[i], elements*bits/32/width, bitsType(width), slot)
	}
	a, b := part(1, s.m*s.k, info.a.bits, x.src), part(2, s.k*s.n, info.b.bits, x.src)
	r := blank(kColl)
	r.vs = slices.Concat(a, b, part(3, s.m*s.n, info.ct.Bits(), x.src))
	r.vd = part(0, s.m*s.n, info.dt.Bits(), x.dst)
	na, nb := len(a), len(b)
	r.coll = &collective{give: giveNothing, family: famMMA, sync: true, member: x.constant(uint64(full)),
		take: func(w *warp, in *inst, mask, _ uint32) {
			if mask != full {
				w.fail(IllegalInstruction, in, firstLane(mask), "mma without all lanes of a warp")
				return
			}
			// The slots are those after register allocation.
			info.run(w, in.vd, in.vs[:na], in.vs[na:na+nb], in.vs[na+nb:], mask)
		}}
	x.emit(r)
	return nil
}

// mmaTypes takes the four types: d, a, b, c.
func (x *fnc) mmaTypes(m *mods, info *mmaInfo) {
	var names []string
	for i, s := range m.list {
		if m.used>>i&1 != 0 {
			continue
		}
		if s == "kind::f8f6f4" {
			m.used |= 1 << i
			continue
		}
		names = append(names, s)
		m.used |= 1 << i
	}
	if len(names) != 4 {
		panic(x.unsupported(""))
	}
	var okA, okB bool
	info.a, okA = mmaElement(names[1])
	info.b, okB = mmaElement(names[2])
	info.dt, _ = ptx.ParseType(names[0])
	info.ct, _ = ptx.ParseType(names[3])
	if !okA || !okB || info.a.bits != info.b.bits || (info.a.float == nil) != (info.b.float == nil) || info.dt != info.ct {
		panic(x.unsupported(""))
	}
	info.integer = info.a.float == nil
	depth := false
	for _, k := range mmaKinds[names[1]] {
		depth = depth || k == info.shape.k
	}
	var sum bool
	switch {
	case info.integer:
		sum = info.dt == ptx.S32
	case info.a.bits == 64:
		sum = info.dt == ptx.F64
	case names[1] == "f16" || info.a.bits == 8:
		sum = info.dt == ptx.F16 || info.dt == ptx.F32
	default:
		sum = info.dt == ptx.F32
	}
	// m8n8 exists for f64 and integers; the f16 form of sm_70 has a layout of its own.
	if !depth || !sum || info.shape.m == 8 && !info.integer && info.a.bits != 64 {
		panic(x.unsupported(""))
	}
}

// run computes the product for the lanes in mask.
func (s *mmaInfo) run(w *warp, d, a, b, c []int32, mask uint32) {
	var fa [16][64]float64
	var fb [64][8]float64
	p, bits := s.perReg, s.a.bits
	read := func(e *mmaElem, v uint64, i int) float64 { return e.number(v >> (i * bits) & widthMask(bits)) }
	for lane := range 32 {
		g, t := lane>>2, lane&3
		for r, slot := range a {
			row, col := g+8*(r&1), p*t+4*p*(r>>1)
			if s.shape.m == 8 {
				row, col = g, p*t+4*p*r
			}
			v := w.lane(slot)[lane]
			for i := range p {
				fa[row][col+i] = read(&s.a, v, i)
			}
		}
		for r, slot := range b {
			v := w.lane(slot)[lane]
			for i := range p {
				fb[p*t+4*p*r+i][g] = read(&s.b, v, i)
			}
		}
	}
	var fd [16][8]float64
	if s.dt != ptx.F64 { // exact products; what a sum loses is far below the result's last bit
		for row := range s.shape.m {
			for k := range s.shape.k {
				x := fa[row][k]
				for col := range 8 {
					fd[row][col] += float64(x * fb[k][col])
				}
			}
		}
	}
	var out [4]lanes
	for m := mask; m != 0; m &= m - 1 {
		lane := firstLane(m)
		g, t := lane>>2, lane&3
		for i := range s.shape.m * s.shape.n / 32 {
			row, col := g+8*(i>>1), 2*t+i&1
			sum := fd[row][col]
			switch {
			case s.dt == ptx.F16:
				c := w.lane(c[i>>1])[lane] >> (16 * (i & 1))
				out[i>>1][lane] |= packF16(sum+f16(c)) << (16 * (i & 1))
			case s.integer:
				v := int64(int32(w.lane(c[i])[lane])) + int64(sum)
				if s.sat {
					v = clampInt(v, 32)
				}
				out[i][lane] = uint64(uint32(v))
			case s.dt == ptx.F64:
				v := f64(w.lane(c[i])[lane])
				for k := range s.shape.k {
					v = math.FMA(fa[row][k], fb[k][col], v)
				}
				out[i][lane] = math.Float64bits(v)
			default:
				out[i][lane] = round32(sum+f32(w.lane(c[i])[lane]), rn)
			}
		}
	}
	for i, slot := range d {
		blend(w.reg(slot), &out[i], mask)
	}
}

// decodeLdMatrix covers ldmatrix and stmatrix of 8x8 matrices of 16-bit elements. Lane 8*j+i gives
// the address of row i of matrix j. A lane's register j holds elements 2*t and 2*t+1 of row g,
// transposed of column g.
func decodeLdMatrix(x *fnc, in *ptx.Instruction, m *mods) error {
	if !m.has("sync") {
		return x.invalid("needs .sync")
	}
	m.has("aligned")
	num := m.oneOf("x1", "x2", "x4")
	trans := m.has("trans")
	if !m.has("m8n8") || num == "" {
		return x.unsupported("")
	}
	space := m.memSpace()
	if space != spGeneric && space != spShared || m.typ() != ptx.B16 {
		return x.unsupported("")
	}
	x.count(in, 2, 2)
	n := int(num[1] - '0')
	store := in.Op == "stmatrix"
	r := blank(kColl)
	regs, addr := &in.Operands[0], &in.Operands[1]
	if store {
		regs, addr = addr, regs
		r.sub = memStore
	}
	x.addressOf(addr, space, &r)
	if store {
		r.vs = x.registers(regs, n, ptx.B32, x.src)
	} else {
		r.vd = x.registers(regs, n, ptx.B32, x.dst)
	}
	r.coll = &collective{give: giveNothing, family: famMMA, sync: true, member: x.constant(uint64(full)),
		take: func(w *warp, in *inst, mask, _ uint32) { runMatrix(w, in, mask, n, trans, store) }}
	x.emit(r)
	return nil
}

func runMatrix(w *warp, in *inst, mask uint32, n int, trans, store bool) {
	as := w.lane(in.a)
	var rows [32]*[8]uint16
	for i := range 8 * n {
		addr := as[i] + in.imm
		if in.flags&flagAddr32 != 0 {
			addr = uint64(uint32(addr))
		}
		p, _ := w.ptr(in, i, in.space, addr, 16, 16)
		if p == nil {
			return
		}
		rows[i] = (*[8]uint16)(unsafe.Pointer(p))
	}
	for j := range n {
		for m := mask; m != 0; m &= m - 1 {
			lane := firstLane(m)
			g, t := lane>>2, lane&3
			lo, hi := &rows[8*j+g][2*t], &rows[8*j+g][2*t+1]
			if trans {
				lo, hi = &rows[8*j+2*t][g], &rows[8*j+2*t+1][g]
			}
			if store {
				v := w.lane(in.vs[j])[lane]
				*lo, *hi = uint16(v), uint16(v>>16)
				continue
			}
			w.reg(in.vd[j])[lane] = uint64(*lo) | uint64(*hi)<<16
		}
	}
}

// decodeMovMatrix transposes an 8x8 matrix that lies in the registers of a warp.
func decodeMovMatrix(x *fnc, in *ptx.Instruction, m *mods) error {
	if !m.has("sync") || !m.has("m8n8") || !m.has("trans") || m.typ() != ptx.B16 {
		return x.unsupported("")
	}
	m.has("aligned")
	r := blank(kColl)
	r.a = x.src(&in.Operands[1], ptx.B32, false)
	r.d = x.dst(&in.Operands[0], ptx.B32, false)
	r.coll = &collective{give: giveA, family: famMMA, sync: true, member: x.constant(uint64(full)),
		take: func(w *warp, in *inst, mask, _ uint32) {
			at := func(row, col int) uint64 { return w.xa[4*row+col/2] >> (16 * (col & 1)) & 0xffff }
			d := w.reg(in.d)
			for m := mask; m != 0; m &= m - 1 {
				lane := firstLane(m)
				g, t := lane>>2, lane&3
				d[lane] = at(2*t, g) | at(2*t+1, g)<<16
			}
		}}
	x.emit(r)
	return nil
}
