package exec

import (
	"math/bits"
	"unsafe"
)

// function is a compiled function: a range of the kernel's code and what a frame needs.
type function struct {
	name   string
	kernel bool
	entry  int32 // program counter
	slots  int32
	preds  int32
	local  uint32   // bytes of .local and .param variables per thread, aligned to 16
	stack  uint32   // bytes that a device takes of a thread's stack, at least
	junk   []copied // to registers that may be read before they are written

	params  []formal
	returns []formal
}

// copied is a slot that gets the value of another one.
type copied struct{ to, from int32 }

// formal is a parameter or return value as the callee sees it: in a register, a
// predicate or in its frame of local memory.
type formal struct {
	slot   int32 // register, where size is 0
	slotHi int32 // upper half of a 128-bit register, or noSlot
	pred   int32 // predicate; 0 for none
	offset uint32
	size   uint32
}

// actual is an argument as the caller sees it.
type actual struct {
	slot   int32
	slotHi int32
	pred   int32
	predX  uint32
	offset uint32
	size   uint32 // 0 for a register or constant
	mask   uint64 // of a register that receives a value
}

type callInfo struct {
	fn      *function
	args    []actual
	returns []actual
	fold    func(a, b uint64) uint64 // of redux
}

const (
	maxDepth      = 4096    // calls within calls
	maxFrameSlots = 1 << 17 // registers of all frames of a warp
)

// call enters fn for the lanes m.
func (w *warp) call(in *inst, m uint32, fn *function) bool {
	g := w.only(m)
	caller := g.fn
	if len(g.frames) >= maxDepth || g.base+caller.slots+fn.slots > maxFrameSlots ||
		uint64(g.lbase)+uint64(caller.local)+uint64(fn.local) > w.localSize || uint64(g.stack)+uint64(fn.stack) > w.stackSize {
		w.fail(HardwareStackError, in, firstLane(m), "call of "+fn.name+" overflows the stack")
		return false
	}
	g.frames = append(g.frames, frame{g.pc, g.base, g.pbase, g.lbase, g.fn})
	from := *g
	g.base += caller.slots
	g.pbase += caller.preds
	g.lbase += caller.local
	g.stack += fn.stack
	g.fn = fn
	g.pc = fn.entry
	w.growFrames(int(g.base+fn.slots), int(g.pbase+fn.preds))
	w.frame(g)
	w.enter(fn)
	for i := range in.call.args {
		if i >= len(fn.params) {
			break
		}
		w.pass(&from, g, &in.call.args[i], &fn.params[i], m, false)
	}
	return true
}

func (w *warp) growFrames(slots, preds int) {
	if slots > len(w.regs) {
		w.regs = append(w.regs, make([]lanes, slots-len(w.regs)+slots/2)...)
	}
	if preds > len(w.preds) {
		w.preds = append(w.preds, make([]uint32, preds-len(w.preds)+preds/2)...)
	}
}

// pass copies an argument into the callee's frame, or a result back.
func (w *warp) pass(caller, callee *group, a *actual, f *formal, m uint32, back bool) {
	if a.pred != 0 || f.pred != 0 {
		w.passPred(caller, callee, a, f, m, back)
		return
	}
	for ; m != 0; m &= m - 1 {
		i := firstLane(m)
		if a.size != 0 && f.size != 0 {
			src, dst := w.frameBytes(caller, a.offset, i), w.frameBytes(callee, f.offset, i)
			if back {
				src, dst = dst, src
			}
			n := min(a.size, f.size)
			copy(dst[:n], src[:n])
			continue
		}
		w.passWord(caller, callee, a, f, i, back)
	}
}

// passWord moves a value of which at least one side is a register.
func (w *warp) passWord(caller, callee *group, a *actual, f *formal, i int, back bool) {
	value := func(g *group, slot, hi int32, offset, size uint32) (lo, up uint64) {
		if size != 0 {
			var b [16]byte
			copy(b[:], w.frameBytes(g, offset, i)[:min(size, 16)])
			return *(*uint64)(unsafe.Pointer(&b[0])), *(*uint64)(unsafe.Pointer(&b[8]))
		}
		get := func(s int32) uint64 {
			if s < 0 {
				return w.k[^s][i]
			}
			return w.regs[g.base+s][i]
		}
		if hi != noSlot {
			up = get(hi)
		}
		return get(slot), up
	}
	put := func(g *group, slot, hi int32, offset, size uint32, lo, up, mask uint64) {
		if size != 0 {
			b := [2]uint64{lo, up}
			copy(w.frameBytes(g, offset, i)[:min(size, 16)], (*[16]byte)(unsafe.Pointer(&b))[:])
			return
		}
		if slot >= 0 {
			w.regs[g.base+slot][i] = lo & mask
		}
		if hi >= 0 {
			w.regs[g.base+hi][i] = up
		}
	}
	if back {
		lo, up := value(callee, f.slot, f.slotHi, f.offset, f.size)
		put(caller, a.slot, a.slotHi, a.offset, a.size, lo, up, a.mask)
		return
	}
	lo, up := value(caller, a.slot, a.slotHi, a.offset, a.size)
	put(callee, f.slot, f.slotHi, f.offset, f.size, lo, up, ^uint64(0))
}

func (w *warp) passPred(caller, callee *group, a *actual, f *formal, m uint32, back bool) {
	if a.pred == 0 || f.pred == 0 {
		return
	}
	from, to := w.preds[caller.pbase+a.pred]^a.predX, &w.preds[callee.pbase+f.pred]
	if back {
		from, to = w.preds[callee.pbase+f.pred], &w.preds[caller.pbase+a.pred]
	}
	*to = *to&^m | from&m
}

// frameBytes returns the local memory of a lane from an offset in a group's frame on. The
// compiler has checked that the frame holds what is asked for.
func (w *warp) frameBytes(g *group, offset uint32, lane int) []byte {
	at := uint64(lane)*w.localSize + uint64(g.lbase) + uint64(offset)
	return w.local[at : uint64(lane+1)*w.localSize]
}

// ret leaves the function, or ends the threads of a kernel.
func (w *warp) ret(in *inst, m uint32) bool {
	g := w.only(m)
	if len(g.frames) == 0 {
		w.kill(m)
		w.tryCollectives()
		return false
	}
	callee := *g
	f := g.frames[len(g.frames)-1]
	g.frames = g.frames[:len(g.frames)-1]
	g.base, g.pbase, g.lbase, g.fn = f.base, f.pbase, f.lbase, f.fn
	g.stack -= callee.fn.stack
	g.pc = f.pc
	call := w.code[g.pc].call
	w.frame(g)
	for i := range call.returns {
		if i >= len(callee.fn.returns) {
			break
		}
		w.pass(g, &callee, &call.returns[i], &callee.fn.returns[i], m, true)
	}
	g.pc++
	return true
}

// callIndirect calls the function whose address is in a; lanes may differ.
func (w *warp) callIndirect(in *inst, m uint32) bool {
	a := w.lane(in.a)
	lane := bits.TrailingZeros32(m) & 31
	addr := a[lane]
	fn := w.b.k.functionAt(addr)
	if fn == nil {
		w.fail(InvalidPC, in, lane, "call through a register that holds no function")
		return false
	}
	same := uint32(0)
	for t := m; t != 0; t &= t - 1 {
		if i := firstLane(t); a[i] == addr {
			same |= 1 << i
		}
	}
	if len(fn.params) != len(in.call.args) || len(fn.returns) != len(in.call.returns) {
		w.fail(InvalidPC, in, lane, "call through a register: "+fn.name+" has another signature")
		return false
	}
	if rest := m &^ same; rest != 0 { // they come round again
		w.split(w.cur, rest)
		if skip := w.groups[w.cur].mask &^ same; skip != 0 {
			w.groups[w.split(w.cur, skip)].pc++
		}
	}
	return w.call(in, same, fn)
}
