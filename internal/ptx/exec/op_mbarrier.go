package exec

import "github.com/purecuda/purecuda/internal/ptx"

// mbarrier objects (PTX ISA, "Parallel Synchronization and Communication Instructions:
// mbarrier") live in shared memory, which one goroutine owns. The layout of their 64
// bits is ours to choose.
var mbarrierDecoders = map[string]decoder{"mbarrier": decodeMbarrier}

const (
	mbBits     = 20
	mbMask     = 1<<mbBits - 1
	mbExpected = mbBits     // arrivals of a phase; the pending ones are at bit 0
	mbTx       = 2 * mbBits // bytes still expected, two's complement in 22 bits
	mbTxMask   = 1<<22 - 1
	mbPhase    = 63
)

const (
	mbInit uint8 = iota
	mbInval
	mbArrive
	mbDrop
	mbExpect
	mbComplete
	mbTest
)

// mbSettle begins the next phase when nothing is pending.
func mbSettle(v uint64) uint64 {
	if v&mbMask == 0 && v>>mbTx&mbTxMask == 0 {
		v ^= 1 << mbPhase
		v |= v >> mbExpected & mbMask
	}
	return v
}

func mbAddTx(v, n uint64) uint64 {
	return v&^(mbTxMask<<mbTx) | (v>>mbTx+n)&mbTxMask<<mbTx
}

func decodeMbarrier(x *fnc, in *ptx.Instruction, m *mods) error {
	o := in.Operands
	op := m.oneOf("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "pending_count")
	expectTx := m.has("expect_tx")
	m.has("noComplete")
	parity := m.has("parity")
	m.ordering()
	space := m.memSpace()
	if m.typ() != ptx.B64 {
		return x.unsupported("")
	}
	if op == "pending_count" {
		x.count(in, 2, 2)
		return x.aluTypes(ptx.U32, lift1(func(a uint64) uint64 { return a & mbMask }), &o[0], []*ptx.Operand{&o[1]}, []ptx.Type{ptx.B64})
	}
	r := blank(kRun)
	r.run = runMbarrier
	var addr *ptx.Operand
	args := 0 // operands after the address
	switch op {
	case "init":
		r.sub, args = mbInit, 1
	case "inval":
		r.sub = mbInval
	case "arrive", "arrive_drop":
		r.sub = mbArrive
		if op == "arrive_drop" {
			r.sub = mbDrop
		}
	case "expect_tx":
		r.sub, args = mbExpect, 1
	case "complete_tx":
		r.sub, args = mbComplete, 1
	case "test_wait", "try_wait":
		r.sub, args = mbTest, 1
	default:
		return x.unsupported("")
	}
	if r.sub == mbArrive || r.sub == mbDrop || r.sub == mbTest {
		if len(o) < 1 {
			return x.invalid("%d operands", len(o))
		}
		switch {
		case r.sub == mbTest:
			r.pd = x.dstPred(&o[0])
		case o[0].Kind == ptx.OperandMem: // no state wanted
			o = append([]ptx.Operand{{Kind: ptx.OperandSink}}, o...)
			r.d = x.dst(&o[0], ptx.B64, false)
		default:
			r.d = x.dst(&o[0], ptx.B64, false)
		}
		o = o[1:]
	}
	if len(o) == 0 {
		return x.invalid("needs an address")
	}
	addr, o = &o[0], o[1:]
	if len(o) < args || len(o) > 2 {
		return x.invalid("operands do not fit")
	}
	x.addressOf(addr, space, &r)
	// An arrival counts for one where nothing else is said.
	r.b = x.constant(1)
	switch {
	case r.sub == mbTest && parity:
		r.b = x.src(&o[0], ptx.U32, false)
		r.mask = 1
	case r.sub == mbTest:
		r.b = x.src(&o[0], ptx.B64, false)
	case len(o) > 0:
		r.b = x.src(&o[0], ptx.U32, false)
	}
	if expectTx && (r.sub == mbArrive || r.sub == mbDrop) {
		if len(o) != 1 {
			return x.invalid("operands do not fit")
		}
		r.mask = 1
	}
	x.emit(r)
	return nil
}

func runMbarrier(w *warp, in *inst, mask uint32) {
	as, bs := w.lane(in.a), w.lane(in.b)
	access := *in
	access.sub = memAtom
	for m := mask; m != 0; m &= m - 1 {
		i := firstLane(m)
		at := as[i] + in.imm
		if in.flags&flagAddr32 != 0 {
			at = uint64(uint32(at))
		}
		p, global := w.ptr(&access, i, in.space, at, 8, 8)
		if p == nil {
			return
		}
		if global {
			w.fail(IllegalInstruction, in, i, "mbarrier object is not in shared memory")
			return
		}
		q := (*uint64)(p)
		v, b := *q, bs[i]
		switch in.sub {
		case mbInit:
			if b == 0 || b > mbMask {
				w.fail(IllegalInstruction, in, i, "mbarrier count is out of range")
				return
			}
			v = b | b<<mbExpected
		case mbInval:
			v = 0
		case mbExpect:
			v = mbAddTx(v, b)
		case mbComplete:
			v = mbSettle(mbAddTx(v, -b))
		case mbArrive, mbDrop:
			w.reg(in.d)[i] = v
			n := b
			if in.mask != 0 {
				v = mbAddTx(v, b)
				n = 1
			}
			if v&mbMask < n || in.sub == mbDrop && v>>mbExpected&mbMask < n {
				w.fail(IllegalInstruction, in, i, "more arrivals than the mbarrier expects")
				return
			}
			if in.sub == mbDrop {
				v -= n << mbExpected
			}
			v = mbSettle(v - n)
		case mbTest:
			old := b >> mbPhase
			if in.mask != 0 {
				old = b & 1
			}
			done := v>>mbPhase != old
			for !done && w.b.tilesArrive(at) {
				done = *q>>mbPhase != old
			}
			if !done {
				w.spins = maxSpins // let others arrive
			}
			if in.pd != 0 {
				w.p[in.pd] &^= 1 << i
				if done {
					w.p[in.pd] |= 1 << i
				}
			}
			continue
		}
		*q = v
	}
}
