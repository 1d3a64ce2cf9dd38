package exec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/internal/ptx"
)

// wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions") of float16 and bfloat16 with sums in float32. B lies in
// shared memory, and A there or in registers. A warp computes its own 16 rows. All is done in the wait: a kernel that does not wait
// finds what was in the accumulators before.
var wgmmaDecoders = map[string]decoder{"wgmma": decodeWGMMA}

// later is what is done in a wait for its group.
type later struct {
	lane, group int
	f           func()
}

// finish does what belongs to groups before first.
func finish(list []later, lanes uint32, first func(lane int) int) []later {
	return slices.DeleteFunc(list, func(l later) bool {
		done := lanes>>l.lane&1 != 0 && l.group < first(l.lane)
		if done {
			l.f()
		}
		return done
	})
}

func decodeWGMMA(x *fnc, in *ptx.Instruction, m *mods) error {
	switch what := m.oneOf("fence", "commit_group", "wait_group"); what {
	case "":
	case "fence":
		m.used = ^uint64(0)
		return nil
	default:
		m.used = ^uint64(0)
		r := blank(kRun)
		r.run = func(w *warp, _ *inst, _ uint32) { w.productGroup++ }
		if what == "wait_group" {
			if len(in.Operands) != 1 || in.Operands[0].Kind != ptx.OperandInt || in.Operands[0].Bits > 7 {
				return x.invalid("needs a number of groups, at most 7")
			}
			but := int(in.Operands[0].Bits)
			r.run = func(w *warp, _ *inst, _ uint32) {
				w.products = finish(w.products, full, func(int) int { return w.productGroup - but })
			}
		}
		x.emit(r)
		return nil
	}
	p := &wgmma{}
	for _, s := range m.list {
		if rest, ok := strings.CutPrefix(s, "m64n"); ok {
			p.n, _ = strconv.Atoi(strings.TrimSuffix(rest, "k16"))
		}
	}
	var ok bool
	p.elem, ok = mmaElement(m.list[len(m.list)-1])
	if !m.has("mma_async") || p.n < 8 || p.n > 256 || p.n%8 != 0 || !slices.Contains(m.list, "f32") || !ok || p.elem.bits != 16 {
		return x.unsupported("")
	}
	m.used = ^uint64(0)
	return x.wgmma(in, p)
}

// wgmma is the instruction: accumulators, A, B, whether it adds, two signs, and whether each operand in shared memory is transposed.
type wgmma struct {
	n      int
	elem   mmaElem
	inRegs bool // A
	rows   bool // B is not transposed: its rows lie in memory one after another
}

func (x *fnc) wgmma(in *ptx.Instruction, p *wgmma) error {
	o := in.Operands
	if len(o) < 7 || len(o[0].Elems) != p.n/2 {
		return x.invalid("operands do not fit")
	}
	p.inRegs = o[1].Kind == ptx.OperandVector
	flags := []uint64{1, 1, 0, 0}
	if p.inRegs {
		flags = flags[:3]
	}
	if p.rows = o[len(o)-1].Bits == 1; p.rows {
		flags[len(flags)-1] = 1
	}
	for i, want := range flags {
		if len(o) != 4+len(flags) || o[4+i].Kind != ptx.OperandInt || o[4+i].Bits != want {
			return x.unsupported("negated or transposed")
		}
	}
	r := blank(kColl)
	r.vd, r.vs = x.registers(&o[0], p.n/2, ptx.B32, x.dst), x.registers(&o[0], p.n/2, ptx.B32, x.src)
	if p.inRegs {
		r.vs = append(r.vs, x.registers(&o[1], len(o[1].Elems), ptx.B32, x.src)...)
	} else {
		r.vs = append(r.vs, x.src(&o[1], ptx.B64, false))
	}
	r.vs = append(r.vs, x.src(&o[2], ptx.B64, false))
	pred, inv := x.pred(&o[3])
	sel := blank(kSelp)
	sel.d, sel.a, sel.b, sel.pa, sel.pax = x.newReg(), x.constant(1), x.constant(0), pred, inv
	x.emit(sel)
	r.vs = append(r.vs, sel.d)
	r.coll = &collective{give: giveNothing, family: famMMA, sync: true, member: x.constant(uint64(full)),
		take: func(w *warp, in *inst, mask, _ uint32) { p.begin(w, in, mask) }}
	x.emit(r)
	return nil
}

// begin notes what the product needs: all but the accumulators and shared memory is as it is now.
func (p *wgmma) begin(w *warp, in *inst, mask uint32) {
	if mask != full {
		w.fail(IllegalInstruction, in, firstLane(mask), "wgmma without all lanes of a warp")
		return
	}
	rest := in.vs[p.n/2:]
	var a [][16]float64
	var from uint64
	if p.inRegs {
		a = make([][16]float64, 16)
		for lane := range 32 {
			for i := range 4 {
				for e := range 2 {
					a[lane>>2+i&1*8][lane&3*2+i>>1*8+e] = p.elem.float(w.lane(rest[i])[lane] >> (16 * e) & 0xffff)
				}
			}
		}
		rest = rest[4:]
	} else {
		from, rest = w.lane(rest[0])[0], rest[1:]
	}
	b, add := w.lane(rest[0])[0], w.lane(rest[1])[0] != 0
	base := w.groups[w.cur].base
	w.products = append(w.products, later{group: w.productGroup, f: func() {
		rows, cols := a, [][16]float64(nil)
		if !p.inRegs {
			rows = w.tile(in, from, w.id&3*16, 16, p.elem)
		}
		if p.rows {
			cols = w.tileOfRows(in, b, p.n, p.elem)
		} else {
			cols = w.tile(in, b, 0, p.n, p.elem)
		}
		if rows == nil || cols == nil {
			return
		}
		for lane := range 32 {
			g, t := lane>>2, lane&3
			for i := range p.n / 2 {
				sum := 0.0
				col := &cols[i>>2*8+2*t+i&1]
				for k, v := range rows[g+i>>1&1*8] {
					sum += float64(v * col[k])
				}
				d := &w.regs[base+in.vd[i]]
				if add {
					sum += f32(d[lane])
				}
				d[lane] = round32(sum, rn)
			}
		}
	}})
}

// tile reads rows of 16 elements that a descriptor tells of: the address, the distance of 8 rows, and the swizzle.
func (w *warp) tile(in *inst, desc uint64, first, rows int, elem mmaElem) [][16]float64 {
	base, pitch, mode := desc&0x3fff<<4, desc>>32&0x3fff<<4, desc>>62
	if mode == 0 {
		w.fail(IllegalInstruction, in, 0, "a matrix descriptor without a swizzle, which is not supported")
		return nil
	}
	out := make([][16]float64, rows)
	load := *in
	load.sub = memLoad
	for i := range out {
		row := uint64(first + i)
		for k := range uint64(16) {
			at := base + row>>3*pitch + row&7*(256>>mode) + k*2
			at ^= at >> 7 & (15 >> mode) << 4
			p, _ := w.ptr(&load, 0, spShared, at, 2, 2)
			if p == nil {
				return nil
			}
			out[i][k] = elem.float(uint64(*(*uint16)(p)))
		}
	}
	return out
}

// tileOfRows reads 16 rows, each of many columns, that a descriptor tells of: 64 columns lie in a row of 128 bytes.
func (w *warp) tileOfRows(in *inst, desc uint64, cols int, elem mmaElem) [][16]float64 {
	base, next, pitch := desc&0x3fff<<4, desc>>16&0x3fff<<4, desc>>32&0x3fff<<4
	if desc>>62 != 1 {
		w.fail(IllegalInstruction, in, 0, "a matrix descriptor without the swizzle of 128 bytes, which is not supported")
		return nil
	}
	out := make([][16]float64, cols)
	load := *in
	load.sub = memLoad
	for i := range out {
		col := uint64(i)
		for k := range uint64(16) {
			at := base + col>>6*next + k>>3*pitch + k&7*128 + col&63*2
			at ^= at >> 7 & 7 << 4
			p, _ := w.ptr(&load, 0, spShared, at, 2, 2)
			if p == nil {
				return nil
			}
			out[i][k] = elem.float(uint64(*(*uint16)(p)))
		}
	}
	return out
}
