package exec

import (
	"math"
	"slices"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ptx"
)

// asyncCopy is a cp.async that has begun. Its data arrive in shared memory when the lane waits for them: a kernel that does
// not wait finds what was there before.
type asyncCopy struct {
	lane, group int
	to          []byte
	data        [16]byte
}

// decodeCp covers cp.async of the kind that sm_80 has.
func decodeCp(x *fnc, in *ptx.Instruction, m *mods) error {
	if !m.has("async") {
		return x.unsupported("")
	}
	if m.has("bulk") {
		return x.bulk(in, m)
	}
	if what := m.oneOf("commit_group", "wait_group", "wait_all"); what != "" {
		return x.cpGroup(in, what)
	}
	if m.oneOf("mbarrier::arrive", "mbarrier") != "" {
		return x.cpArrive(in, m)
	}
	m.drop("ca", "cg")
	if m.memSpace() != spShared || m.memSpace() != spGlobal {
		return x.unsupported("")
	}
	m.drop(cacheHints...)
	o := in.Operands
	if n := len(o); n >= 4 && slices.Contains(in.Mods, "L2::cache_hint") {
		o = o[:n-1]
	}
	if len(o) < 3 || len(o) > 4 || o[2].Kind != ptx.OperandInt {
		return x.invalid("operands do not fit")
	}
	size := o[2].Bits
	if size != 4 && size != 8 && size != 16 {
		return x.invalid("copies 4, 8 or 16 bytes")
	}
	// The addresses: a and imm are the destination, b and mask the source.
	r := blank(kRun)
	r.run, r.esz, r.sub = runCpAsync, uint8(size), memStore
	var src inst
	x.addressOf(&o[1], spGlobal, &src)
	x.addressOf(&o[0], spShared, &r)
	r.b, r.mask = src.a, src.imm
	r.c = x.constant(size)
	if len(o) == 4 {
		if isPredOperand(x, &o[3]) { // ignore-src
			p, inv := x.pred(&o[3])
			r.c = x.newReg()
			sel := blank(kSelp)
			sel.d, sel.a, sel.b, sel.pa, sel.pax = r.c, noSlot, x.constant(size), p, inv
			x.emit(sel)
		} else {
			r.c = x.src(&o[3], ptx.U32, false)
		}
	}
	x.emit(r)
	return nil
}

// cpGroup ends a group, or waits for groups.
func (x *fnc) cpGroup(in *ptx.Instruction, what string) error {
	r := blank(kRun)
	switch what {
	case "commit_group":
		r.run = func(w *warp, _ *inst, mask uint32) {
			for m := mask; m != 0; m &= m - 1 {
				w.copyGroups[firstLane(m)]++
			}
		}
	case "wait_all":
		r.run = func(w *warp, _ *inst, mask uint32) { w.copiesArrive(mask, -1) }
	default:
		if len(in.Operands) != 1 || in.Operands[0].Kind != ptx.OperandInt || in.Operands[0].Bits > math.MaxInt32 {
			return x.invalid("needs a number of groups")
		}
		but := int(in.Operands[0].Bits)
		r.run = func(w *warp, _ *inst, mask uint32) { w.copiesArrive(mask, but) }
	}
	x.emit(r)
	return nil
}

// copiesArrive completes the copies of lanes, but for those of the last groups, and of none that has ended where but is not
// negative.
func (w *warp) copiesArrive(mask uint32, but int) {
	w.copies = slices.DeleteFunc(w.copies, func(c asyncCopy) bool {
		done := mask>>c.lane&1 != 0 && c.group < w.copyGroups[c.lane]-but
		if done {
			copy(c.to, c.data[:])
		}
		return done
	})
}

// cpArrive is cp.async.mbarrier.arrive: the copies of the lane are done, so that the arrival is due
// at once. Without .noinc it adds itself to the pending ones first, which leaves nothing.
func (x *fnc) cpArrive(in *ptx.Instruction, m *mods) error {
	done := blank(kRun)
	done.run = func(w *warp, _ *inst, mask uint32) { w.copiesArrive(mask, -1) }
	x.emit(done)
	m.has("arrive")
	noinc := m.has("noinc")
	if !noinc {
		m.memSpace()
		m.typ()
		return nil
	}
	names := []string{"arrive"}
	for _, s := range in.Mods {
		if !slices.Contains([]string{"async", "mbarrier", "arrive", "noinc", "mbarrier::arrive"}, s) {
			names = append(names, s)
		}
	}
	arrive := &ptx.Instruction{Line: in.Line, Op: "mbarrier", Mods: names, Operands: in.Operands}
	m.used = ^uint64(0)
	inner := mods{list: arrive.Mods}
	return decodeMbarrier(x, arrive, &inner)
}

// runCpAsync begins to copy c bytes of esz from global memory at b+mask to shared memory at
// a+imm, which it fills up with zeros.
func runCpAsync(w *warp, in *inst, mask uint32) {
	as, bs, cs := w.lane(in.a), w.lane(in.b), w.lane(in.c)
	size := uint64(in.esz)
	load := *in
	load.sub = memLoad
	for m := mask; m != 0; m &= m - 1 {
		i := firstLane(m)
		dst := as[i] + in.imm
		if in.flags&flagAddr32 != 0 {
			dst = uint64(uint32(dst))
		}
		p, _ := w.ptr(in, i, spShared, dst, size, size)
		if p == nil {
			return
		}
		n := min(cs[i], size)
		w.copies = append(w.copies, asyncCopy{lane: i, group: w.copyGroups[i], to: unsafe.Slice((*byte)(p), size)})
		if n == 0 {
			continue
		}
		addr := bs[i] + in.mask
		if addr&(size-1) != 0 {
			w.memFault(MisalignedAddress, &load, i, spGlobal, addr, size)
			return
		}
		q, _ := w.ptr(&load, i, spGlobal, addr, n, 1)
		if q == nil {
			return
		}
		copy(w.copies[len(w.copies)-1].data[:], unsafe.Slice((*byte)(q), n))
	}
}
