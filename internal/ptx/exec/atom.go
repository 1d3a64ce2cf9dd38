package exec

import (
	"math"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Atomics (PTX ISA, "atom", "red"). On memory that other blocks may see they are Go's
// atomics, on shared and local memory, which one goroutine owns, plain.
var atomDecoders = map[string]decoder{"atom": decodeAtom, "red": decodeAtom}

// fold returns the new value of an atomic from the old one and the operands.
type fold func(old, b, c uint64) uint64

type atomInfo struct {
	shared, global fold // add.f32 flushes subnormals in global memory only
	add, exch      bool // done directly
}

var atomOps = []string{"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"}

func atomFold(op string, t ptx.Type) (a atomInfo, ok bool) {
	both := func(f fold) (atomInfo, bool) { return atomInfo{shared: f, global: f}, true }
	bits, class := t.Bits(), t.Class()
	isB := class == ptx.ClassBits
	switch op {
	case "exch":
		if !isB || bits < 32 {
			return a, false
		}
		a, ok = both(func(_, b, _ uint64) uint64 { return b })
		a.exch = true
		return a, ok
	case "cas":
		if !isB || bits < 16 {
			return a, false
		}
		return both(func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		})
	case "inc", "dec":
		if t != ptx.U32 {
			return a, false
		}
		if op == "inc" {
			return both(func(old, b, _ uint64) uint64 {
				if old >= b {
					return 0
				}
				return old + 1
			})
		}
		return both(func(old, b, _ uint64) uint64 {
			if old == 0 || old > b {
				return b
			}
			return old - 1
		})
	case "and", "or", "xor":
		if !isB || bits != 32 && bits != 64 {
			return a, false
		}
		f := integerFold(op, t)
		return both(func(old, b, _ uint64) uint64 { return f(old, b) })
	}
	if isInt(t) && bits >= 32 {
		f := integerFold(op, t)
		a, ok = both(func(old, b, _ uint64) uint64 { return f(old, b) })
		a.add = op == "add"
		return a, ok
	}
	return floatFold(op, t)
}

func floatFold(op string, t ptx.Type) (a atomInfo, ok bool) {
	both := func(f fold) (atomInfo, bool) { return atomInfo{shared: f, global: f}, true }
	half := func(h *format) func(x, y uint64) uint64 {
		if op == "add" {
			return func(x, y uint64) uint64 { return floatMode{}.halfOut(h, addOdd(unpack16(h, x), unpack16(h, y))) }
		}
		p := minMax{isMin: op == "min"}
		return func(x, y uint64) uint64 {
			return p.apply(x, y, 1<<15, h.nan, func(v uint64) float64 { return unpack16(h, v) })
		}
	}
	pair := func(f func(x, y uint64) uint64) (atomInfo, bool) {
		return both(func(old, b, _ uint64) uint64 { return f(old&0xffff, b&0xffff) | f(old>>16, b>>16)<<16 })
	}
	switch {
	case t == ptx.F32 && op == "add":
		add := func(x, y uint64) uint64 {
			return canon(math.Float32frombits(uint32(x)) + math.Float32frombits(uint32(y)))
		}
		return atomInfo{
			shared: func(old, b, _ uint64) uint64 { return add(old, b) },
			global: func(old, b, _ uint64) uint64 { return flush(add(flush(old), flush(b))) },
		}, true
	case t == ptx.F64 && op == "add":
		return both(func(old, b, _ uint64) uint64 { return math.Float64bits(f64(old) + f64(b)) })
	case t == ptx.F16:
		f := half(&fmtF16)
		return both(func(old, b, _ uint64) uint64 { return f(old, b) })
	case t == ptx.BF16:
		f := half(&fmtBF16)
		return both(func(old, b, _ uint64) uint64 { return f(old, b) })
	case t == ptx.F16x2:
		return pair(half(&fmtF16))
	case t == ptx.BF16x2:
		return pair(half(&fmtBF16))
	}
	return a, false
}

func decodeAtom(x *fnc, in *ptx.Instruction, m *mods) error {
	if m.has("async") || m.has("bulk") {
		return x.unsupported("")
	}
	order := m.ordering() &^ flagAtomic
	space := m.memSpace()
	op := m.oneOf(atomOps...)
	m.drop(cacheHints...)
	noftz := m.has("noftz")
	n := m.vectorWidth()
	t := m.typ()
	o := in.Operands
	if n := len(o); n > 0 && slices.Contains(in.Mods, "L2::cache_hint") {
		o = o[:n-1]
	}
	want := 2
	if in.Op == "atom" {
		want++
	}
	if op == "cas" {
		want++
	}
	if len(o) != want {
		return x.invalid("%d operands", len(o))
	}
	r := blank(kRun)
	r.sub, r.flags = memAtom, order
	d := (*ptx.Operand)(nil)
	if in.Op == "atom" {
		d, o = &o[0], o[1:]
	}
	x.addressOf(&o[0], space, &r)
	if t == ptx.B128 && (op == "exch" || op == "cas") {
		return x.atom128(r, d, o, op)
	}
	a, ok := atomFold(op, t)
	if !ok {
		return x.unsupported("no such atomic")
	}
	if noftz {
		a.global = a.shared
	}
	if n > 1 {
		return x.atomVector(r, a, n, t, d, &o[1])
	}
	r.b = x.src(&o[1], t, false)
	if op == "cas" {
		r.c = x.src(&o[2], t, false)
	}
	if d == nil {
		r.d = x.newReg()
	} else {
		r.d = x.dst(d, t, false)
	}
	r.esz = uint8(t.Size())
	r.run = a.runner(r.esz)
	x.emit(r)
	return nil
}

// atomVector is one atomic for each element, which is all that PTX promises.
func (x *fnc) atomVector(r inst, a atomInfo, n int, t ptx.Type, d, b *ptx.Operand) error {
	if t.Class() != ptx.ClassFloat && t.Class() != ptx.ClassPacked || b.Kind != ptx.OperandVector || len(b.Elems) != n ||
		d != nil && (d.Kind != ptx.OperandVector || len(d.Elems) != n) {
		return x.invalid("operands are not vectors of %d", n)
	}
	for i := range n {
		e := r
		e.b = x.src(&b.Elems[i], t, false)
		if d == nil {
			e.d = x.newReg()
		} else {
			e.d = x.dst(&d.Elems[i], t, false)
		}
		e.imm += uint64(i * t.Size())
		e.esz = uint8(t.Size())
		e.run = a.runner(e.esz)
		x.emit(e)
	}
	return nil
}

// runner returns the loop over lanes. Lanes that meet at one address are served in order.
func (a atomInfo) runner(esz uint8) func(w *warp, in *inst, mask uint32) {
	return func(w *warp, in *inst, mask uint32) {
		w.spins++
		w.order(in)
		d, as, bs, cs := w.reg(in.d), w.lane(in.a), w.lane(in.b), w.lane(in.c)
		for m := mask; m != 0; m &= m - 1 {
			i := firstLane(m)
			addr := as[i] + in.imm
			if in.flags&flagAddr32 != 0 {
				addr = uint64(uint32(addr))
			}
			p, global := w.ptr(in, i, in.space, addr, uint64(esz), uint64(esz))
			if p == nil {
				return
			}
			b, c := bs[i], cs[i]
			if !global {
				old := loadPlain(p, esz)
				storeElem(esz, p, a.shared(old, b, c), false)
				d[i] = old
				continue
			}
			d[i] = a.global1(p, esz, b, c)
		}
	}
}

func loadPlain(p unsafe.Pointer, esz uint8) uint64 {
	switch esz {
	case 2:
		return uint64(*(*uint16)(p))
	case 4:
		return uint64(*(*uint32)(p))
	}
	return *(*uint64)(p)
}

// global1 is one atomic on global memory; it gives the old value.
func (a *atomInfo) global1(p unsafe.Pointer, esz uint8, b, c uint64) uint64 {
	switch esz {
	case 4:
		q := (*uint32)(p)
		switch {
		case a.add:
			return uint64(atomic.AddUint32(q, uint32(b)) - uint32(b))
		case a.exch:
			return uint64(atomic.SwapUint32(q, uint32(b)))
		}
		for {
			old := atomic.LoadUint32(q)
			if atomic.CompareAndSwapUint32(q, old, uint32(a.global(uint64(old), b, c))) {
				return uint64(old)
			}
		}
	case 8:
		q := (*uint64)(p)
		switch {
		case a.add:
			return atomic.AddUint64(q, b) - b
		case a.exch:
			return atomic.SwapUint64(q, b)
		}
		for {
			old := atomic.LoadUint64(q)
			if atomic.CompareAndSwapUint64(q, old, a.global(old, b, c)) {
				return old
			}
		}
	}
	q, s := word(p)
	for {
		v := atomic.LoadUint32(q)
		old := uint64(v >> s & 0xffff)
		n := uint32(a.global(old, b, c)) & 0xffff
		if atomic.CompareAndSwapUint32(q, v, v&^(0xffff<<s)|n<<s) {
			return old
		}
	}
}

// atom128 is exch and cas of 128 bits. Go has no such atomic: a lock of the launch
// makes them atomic among themselves.
func (x *fnc) atom128(r inst, d *ptx.Operand, o []ptx.Operand, op string) error {
	if d == nil {
		return x.invalid("needs a destination")
	}
	cas := op == "cas"
	blo, bhi := x.pair128(&o[1])
	r.vs = []int32{blo, bhi}
	if cas {
		clo, chi := x.pair128(&o[2])
		r.vs = append(r.vs, clo, chi)
	}
	dlo, dhi := x.pair128(d)
	if dlo < 0 {
		return x.invalid("needs a 128-bit register")
	}
	r.vd = []int32{dlo, dhi}
	r.esz = 16
	r.run = func(w *warp, in *inst, mask uint32) {
		w.spins++
		w.order(in)
		as := w.lane(in.a)
		for m := mask; m != 0; m &= m - 1 {
			i := firstLane(m)
			addr := as[i] + in.imm
			if in.flags&flagAddr32 != 0 {
				addr = uint64(uint32(addr))
			}
			p, _ := w.ptr(in, i, in.space, addr, 16, 16)
			if p == nil {
				return
			}
			lo, hi := (*uint64)(p), (*uint64)(unsafe.Add(p, 8))
			w.b.l.wide.Lock()
			oldLo, oldHi := atomic.LoadUint64(lo), atomic.LoadUint64(hi)
			b0, b1 := w.lane(in.vs[0])[i], w.lane(in.vs[1])[i]
			switch {
			case !cas:
				atomic.StoreUint64(lo, b0)
				atomic.StoreUint64(hi, b1)
			case oldLo == b0 && oldHi == b1:
				atomic.StoreUint64(lo, w.lane(in.vs[2])[i])
				atomic.StoreUint64(hi, w.lane(in.vs[3])[i])
			}
			w.b.l.wide.Unlock()
			w.reg(in.vd[0])[i], w.reg(in.vd[1])[i] = oldLo, oldHi
		}
	}
	x.emit(r)
	return nil
}
