package exec

import (
	"math"

	"github.com/purecuda/purecuda/internal/ptx"
)

// wmma (PTX ISA, "wmma.load", "wmma.mma", "wmma.store"). How a fragment is spread over the warp is
// not specified, so it is ours to choose. A lane holds p elements in order. Lane l, element e is
// element (l*p+e) mod size of the matrix, row by row for A, C and D, column by column for B.
var wmmaDecoders = map[string]decoder{"wmma": decodeWMMA}

var wmmaShapes = map[string]mmaShape{
	"m16n16k16": {16, 16, 16}, "m32n8k16": {32, 8, 16}, "m8n32k16": {8, 32, 16}, "m16n16k8": {16, 16, 8}, "m8n8k4": {8, 8, 4},
}

// fragment is one operand of wmma.
type fragment struct {
	rows, cols int
	bits       int
	elems      int  // per lane
	byColumn   bool // B
}

// slots are those of the registers of a lane.
func (f *fragment) slots(x *fnc, o *ptx.Operand, slot operandSlot) []int32 {
	width := max(f.bits, 32)
	return x.registers(o, f.elems*f.bits/width, bitsType(width), slot)
}

// at returns the row and column of an element.
func (f *fragment) at(lane, e int) (row, col int) {
	i := (lane*f.elems + e) % (f.rows * f.cols)
	if f.byColumn {
		return i % f.rows, i / f.rows
	}
	return i / f.cols, i % f.cols
}

func wmmaFragment(which string, s mmaShape, typ string) (fragment, bool) {
	bits := map[string]int{
		"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "f64": 64, "s8": 8, "u8": 8,
	}[typ]
	if bits == 0 {
		return fragment{}, false
	}
	f := fragment{rows: s.m, cols: s.n, bits: bits}
	switch which {
	case "a":
		f.rows, f.cols = s.m, s.k
	case "b":
		f.rows, f.cols, f.byColumn = s.k, s.n, true
	}
	f.elems = f.rows * f.cols / 32
	if typ == "f16" && which != "c" && which != "d" {
		f.elems = 16 // eight registers, whatever the shape
	}
	return f, f.elems*bits >= 32
}

func decodeWMMA(x *fnc, in *ptx.Instruction, m *mods) error {
	op := m.oneOf("load", "store", "mma")
	which := ""
	if op != "mma" {
		which = m.oneOf("a", "b", "c", "d")
	}
	if !m.has("sync") || op == "" {
		return x.unsupported("")
	}
	m.has("aligned")
	var shape mmaShape
	for name, s := range wmmaShapes {
		if m.has(name) {
			shape = s
		}
	}
	if shape.m == 0 {
		return x.unsupported("shape")
	}
	if op == "mma" {
		return x.wmmaMul(in, m, shape)
	}
	return x.wmmaMemory(in, m, shape, op, which)
}

// registers returns the slots of n registers, which slot decodes.
func (x *fnc) registers(o *ptx.Operand, n int, t ptx.Type, slot operandSlot) []int32 {
	list := []ptx.Operand{*o}
	if o.Kind == ptx.OperandVector {
		list = o.Elems
	}
	if len(list) != n {
		panic(x.invalid("%d registers, and %d are needed", len(list), n))
	}
	out := make([]int32, n)
	for i := range list {
		out[i] = slot(&list[i], t, false)
	}
	return out
}

// operandSlot is src or dst.
type operandSlot = func(o *ptx.Operand, t ptx.Type, wide bool) int32

func (x *fnc) wmmaMemory(in *ptx.Instruction, m *mods, shape mmaShape, op, which string) error {
	layout := m.oneOf("row", "col")
	space := m.memSpace()
	var typ string
	for i, s := range m.list {
		if m.used>>i&1 == 0 {
			typ = s
			m.used |= 1 << i
			break
		}
	}
	f, ok := wmmaFragment(which, shape, typ)
	if !ok || layout == "" || space != spGeneric && space != spGlobal && space != spShared {
		return x.unsupported("")
	}
	x.count(in, 2, 3)
	o := in.Operands
	store := op == "store"
	regs, addr := &o[0], &o[1]
	r := blank(kColl)
	if store {
		regs, addr = addr, regs
		r.sub = memStore
	}
	x.addressOf(addr, space, &r)
	byCol := layout == "col"
	ld := f.cols
	if byCol {
		ld = f.rows
	}
	r.b = x.constant(uint64(ld))
	if len(o) == 3 {
		r.b = x.src(&o[2], ptx.U32, false)
	}
	if store {
		r.vs = f.slots(x, regs, x.src)
	} else {
		r.vd = f.slots(x, regs, x.dst)
	}
	r.esz = uint8(f.bits / 8)
	r.coll = &collective{give: giveNothing, family: famMMA, sync: true, member: x.constant(uint64(full)),
		take: func(w *warp, in *inst, mask, _ uint32) { runWMMAMemory(w, in, mask, &f, byCol) }}
	x.emit(r)
	return nil
}

func runWMMAMemory(w *warp, in *inst, mask uint32, f *fragment, byCol bool) {
	as, lds := w.lane(in.a), w.lane(in.b)
	size := uint64(in.esz)
	per := max(32/f.bits, 1)
	for m := mask; m != 0; m &= m - 1 {
		lane := firstLane(m)
		base, ld := as[lane]+in.imm, uint64(int64(int32(lds[lane])))
		for e := range f.elems {
			row, col := f.at(lane, e)
			index := uint64(row)*ld + uint64(col)
			if byCol {
				index = uint64(col)*ld + uint64(row)
			}
			addr := base + index*size
			if in.flags&flagAddr32 != 0 {
				addr = uint64(uint32(addr))
			}
			p, _ := w.ptr(in, lane, in.space, addr, size, size)
			if p == nil {
				return
			}
			reg, shift := e/per, e%per*f.bits
			if in.sub == memStore {
				storeElem(in.esz, p, w.lane(in.vs[reg])[lane]>>shift, false)
				continue
			}
			d := w.reg(in.vd[reg])
			if shift == 0 {
				d[lane] = 0
			}
			d[lane] |= w.loadElem(in, p, false, false) << shift
		}
	}
}

func (x *fnc) wmmaMul(in *ptx.Instruction, m *mods, shape mmaShape) error {
	m.drop("row", "col") // fragments hold rows and columns, whatever the memory had
	sat := m.has("satfinite")
	rounded := m.oneOf("rn", "rz", "rm", "rp")
	if rounded != "" && rounded != "rn" {
		return x.unsupported("")
	}
	var types []string
	for i, s := range m.list {
		if m.used>>i&1 == 0 {
			types = append(types, s)
			m.used |= 1 << i
		}
	}
	if len(types) == 2 { // f16 leaves the types of A and B out
		types = []string{types[0], "f16", "f16", types[1]}
	}
	if len(types) != 4 {
		return x.unsupported("")
	}
	a, okA := mmaElement(types[1])
	b, okB := mmaElement(types[2])
	fa, ok1 := wmmaFragment("a", shape, types[1])
	fb, ok2 := wmmaFragment("b", shape, types[2])
	fc, ok3 := wmmaFragment("c", shape, types[3])
	fd, ok4 := wmmaFragment("d", shape, types[0])
	if !okA || !okB || !ok1 || !ok2 || !ok3 || !ok4 || a.bits != b.bits || (a.float == nil) != (b.float == nil) ||
		(a.float == nil) != (types[0] == "s32") || (types[0] == "s32") != (types[3] == "s32") ||
		(a.bits == 64) != (types[0] == "f64") || (types[0] == "f64") != (types[3] == "f64") {
		return x.unsupported("")
	}
	x.count(in, 4, 4)
	o := in.Operands
	r := blank(kColl)
	var n [3]int
	for i, f := range []*fragment{&fa, &fb, &fc} {
		r.vs = append(r.vs, f.slots(x, &o[i+1], x.src)...)
		n[i] = len(r.vs)
	}
	r.vd = fd.slots(x, &o[0], x.dst)
	info := &wmmaInfo{shape: shape, a: a, b: b, fa: fa, fb: fb, fc: fc, fd: fd, n: n, sat: sat}
	info.readC, info.writeD = wmmaValue(types[3]), types[0]
	r.coll = &collective{give: giveNothing, family: famMMA, sync: true, member: x.constant(uint64(full)), take: info.run}
	x.emit(r)
	return nil
}

type wmmaInfo struct {
	shape          mmaShape
	a, b           mmaElem
	fa, fb, fc, fd fragment
	n              [3]int // ends of A, B and C among the sources
	readC          func(v uint64) float64
	writeD         string
	sat            bool
}

func wmmaValue(typ string) func(v uint64) float64 {
	switch typ {
	case "f16":
		return f16
	case "s32":
		return func(v uint64) float64 { return float64(int32(v)) }
	case "f64":
		return f64
	}
	return f32
}

func (s *wmmaInfo) run(w *warp, in *inst, mask, _ uint32) {
	var a, b, c [32][32]float64
	fill := func(to *[32][32]float64, f *fragment, slots []int32, read func(v uint64) float64) {
		per, keep := max(32/f.bits, 1), widthMask(f.bits)
		for lane := range 32 {
			for e := range f.elems {
				row, col := f.at(lane, e)
				to[row][col] = read(w.lane(slots[e/per])[lane] >> (e % per * f.bits) & keep)
			}
		}
	}
	reader := func(e *mmaElem) func(v uint64) float64 {
		switch {
		case e.float != nil:
			return e.float
		case e.sign:
			return func(v uint64) float64 { return float64(sext(v, uint(e.bits))) }
		}
		return func(v uint64) float64 { return float64(v) }
	}
	fill(&a, &s.fa, in.vs[:s.n[0]], reader(&s.a))
	fill(&b, &s.fb, in.vs[s.n[0]:s.n[1]], reader(&s.b))
	fill(&c, &s.fc, in.vs[s.n[1]:s.n[2]], s.readC)
	for row := range s.shape.m {
		for col := range s.shape.n {
			var sum float64
			for k := range s.shape.k {
				sum += float64(a[row][k] * b[k][col])
			}
			c[row][col] += sum
		}
	}
	per := max(32/s.fd.bits, 1)
	for m := mask; m != 0; m &= m - 1 {
		lane := firstLane(m)
		for e := range s.fd.elems {
			row, col := s.fd.at(lane, e)
			d := w.reg(in.vd[e/per])
			shift := e % per * s.fd.bits
			if shift == 0 {
				d[lane] = 0
			}
			d[lane] |= s.result(c[row][col]) << shift
		}
	}
}

func (s *wmmaInfo) result(v float64) uint64 {
	switch s.writeD {
	case "f16":
		if s.sat {
			return fmtF16.packSat(v, rn)
		}
		return fmtF16.pack(v, rn)
	case "s32":
		i := int64(v)
		if s.sat {
			i = clampInt(i, 32)
		}
		return uint64(uint32(i))
	case "f64":
		return math.Float64bits(v)
	}
	return round32(v, rn)
}
