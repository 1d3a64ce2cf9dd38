package exec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ptx"
)

// wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions") with sums in float32, and of integers in int32. B lies in
// shared memory, and A there or, of 16 bits, in registers. A warp computes its own 16 rows. All is done in the wait: a kernel that does not wait
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
	p := &wgmma{sat: m.has("satfinite")}
	shape, k, last := "", 0, len(m.list)-1
	for _, s := range m.list {
		if rest, ok := strings.CutPrefix(s, "m64n"); ok {
			shape = rest
		}
	}
	if n, depth, ok := strings.Cut(shape, "k"); ok {
		p.n, _ = strconv.Atoi(n)
		k, _ = strconv.Atoi(depth)
	}
	var okA, okB bool
	p.a, okA = mmaElement(m.list[max(0, last-1)])
	p.b, okB = mmaElement(m.list[last])
	sum, unit := "f32", 8
	if p.a.float == nil {
		sum = "s32"
		if p.n > 24 {
			unit = 16
		}
	}
	same := p.a.bits == 8 && (p.a.float == nil) == (p.b.float == nil) || m.list[last] == m.list[max(0, last-1)]
	if !m.has("mma_async") || p.n < 8 || p.n > 256 || p.n%unit != 0 || !slices.Contains(m.list, sum) || !okA || !okB || !same ||
		p.a.bits != p.b.bits || p.a.bits < 8 || p.a.bits > 32 || k*p.a.bits != 256 || p.sat && sum != "s32" {
		return x.unsupported("")
	}
	m.used = ^uint64(0)
	return x.wgmma(in, p)
}

// wgmma is the instruction: accumulators, A, B, and whether it adds. Floats have two signs more, and those of 16 bits whether each operand in shared memory is transposed.
type wgmma struct {
	n      int
	a, b   mmaElem
	sat    bool
	inRegs bool // A
	// The rows of what is multiplied lie in memory one after another: 16 of A or of B, where they are not transposed.
	rowsA, rowsB bool
}

func (x *fnc) wgmma(in *ptx.Instruction, p *wgmma) error {
	o := in.Operands
	if len(o) < 4 || len(o[0].Elems) != p.n/2 {
		return x.invalid("operands do not fit")
	}
	p.inRegs = o[1].Kind == ptx.OperandVector
	flags := []uint64{1, 1, 0, 0}
	switch {
	case p.a.float == nil:
		flags = nil
	case p.a.bits != 16:
		flags = flags[:2]
	case p.inRegs:
		flags = flags[:3]
	}
	if p.inRegs && p.a.bits != 16 {
		return x.unsupported("A in registers")
	}
	if p.a.bits == 16 && len(o) == 4+len(flags) {
		last := len(flags) - 1
		if p.rowsB = o[4+last].Bits == 1; p.rowsB {
			flags[last] = 1
		}
		if p.rowsA = !p.inRegs && o[3+last].Bits == 1; p.rowsA {
			flags[last-1] = 1
		}
	}
	if len(o) != 4+len(flags) {
		return x.invalid("%d operands, want %d", len(o), 4+len(flags))
	}
	for i, want := range flags {
		if o[4+i].Kind != ptx.OperandInt || o[4+i].Bits != want {
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
	if len(w.b.warps) < w.id&^3+4 {
		w.fail(IllegalInstruction, in, 0, fmt.Sprintf("wgmma without all four warps of a group: the block has %d threads", w.b.threads))
		return
	}
	rest := in.vs[p.n/2:]
	var a [][32]float64
	var from uint64
	if p.inRegs {
		a = make([][32]float64, 16)
		for lane := range 32 {
			for i := range 4 {
				for e := range 2 {
					a[lane>>2+i&1*8][lane&3*2+i>>1*8+e] = p.a.float(w.lane(rest[i])[lane] >> (16 * e) & 0xffff)
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
		rows, cols := a, [][32]float64(nil)
		switch {
		case p.rowsA:
			if rows = w.tileOfRows(in, from, 64, p.a); rows != nil {
				rows = rows[w.id&3*16:]
			}
		case !p.inRegs:
			rows = w.tile(in, from, w.id&3*16, 16, p.a)
		}
		if p.rowsB {
			cols = w.tileOfRows(in, b, p.n, p.b)
		} else {
			cols = w.tile(in, b, 0, p.n, p.b)
		}
		if rows == nil || cols == nil {
			return
		}
		for lane := range 32 {
			g, t := lane>>2, lane&3
			for i := range p.n / 2 {
				sum := 0.0
				col := &cols[i>>2*8+2*t+i&1]
				for k, v := range rows[g+i>>1&1*8][:256/p.a.bits] {
					sum += float64(v * col[k])
				}
				d := &w.regs[base+in.vd[i]]
				switch {
				case p.a.float == nil:
					v := int64(sum)
					if add {
						v += int64(int32(d[lane]))
					}
					if p.sat {
						v = clampInt(v, 32)
					}
					d[lane] = uint64(uint32(v))
					continue
				case add:
					sum += f32(d[lane])
				}
				d[lane] = round32(sum, rn)
			}
		}
	}})
}

// tile reads rows of 32 bytes that a descriptor tells of: the address, the distance of 8 rows, and the swizzle.
func (w *warp) tile(in *inst, desc uint64, first, rows int, elem mmaElem) [][32]float64 {
	base, pitch, mode := desc&0x3fff<<4, desc>>32&0x3fff<<4, desc>>62
	if mode == 0 {
		w.fail(IllegalInstruction, in, 0, "a matrix descriptor without a swizzle, which is not supported")
		return nil
	}
	out, size := make([][32]float64, rows), uint64(elem.bits/8)
	load := *in
	load.sub = memLoad
	for i := range out {
		row := uint64(first + i)
		for k := range 32 / size {
			at := base + row>>3*pitch + row&7*(256>>mode) + k*size
			at ^= at >> 7 & (15 >> mode) << 4
			p, _ := w.ptr(&load, 0, spShared, at, size, size)
			if p == nil {
				return nil
			}
			var v uint64
			copy((*[8]byte)(unsafe.Pointer(&v))[:], unsafe.Slice((*byte)(p), size))
			out[i][k] = elem.number(v)
		}
	}
	return out
}

// tileOfRows reads 16 rows, each of many columns, that a descriptor tells of: 64 columns lie in a row of 128 bytes.
func (w *warp) tileOfRows(in *inst, desc uint64, cols int, elem mmaElem) [][32]float64 {
	base, next, pitch := desc&0x3fff<<4, desc>>16&0x3fff<<4, desc>>32&0x3fff<<4
	if desc>>62 != 1 {
		w.fail(IllegalInstruction, in, 0, "a matrix descriptor without the swizzle of 128 bytes, which is not supported")
		return nil
	}
	out := make([][32]float64, cols)
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
