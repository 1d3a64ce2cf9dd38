package exec

import (
	"slices"

	"github.com/purecuda/purecuda/internal/ptx"
)

// Control flow, barriers and fences (PTX ISA, "Control Flow Instructions", "Parallel
// Synchronization and Communication Instructions", "Miscellaneous Instructions").
// Fences have nothing to do but in a launch by chance: within a block all is in order, and between blocks the
// atomic accesses of Go are sequentially consistent.
var controlDecoders = map[string]decoder{
	"bra": operands(1, 1, decodeBra), "brx": operands(2, 2, decodeBrx), "call": decodeCall, "ret": operands(0, 0, decodeRet), "exit": operands(0, 0, decodeExit),
	"trap": operands(0, 0, decodeTrap), "brkpt": operands(0, 0, decodeTrap), "nanosleep": decodeYield,
	"bar": decodeBar, "barrier": decodeBar,
	"membar": decodeFence, "fence": decodeFence, "griddepcontrol": decodeNothing, "setmaxnreg": decodeNothing,
	"pmevent": decodeNothing,
}

func decodeBra(x *fnc, in *ptx.Instruction, m *mods) error {
	m.has("uni")
	if in.Operands[0].Kind != ptx.OperandLabel {
		return x.invalid("target is not a label")
	}
	r := blank(kBra)
	r.target = int32(in.Operands[0].Index)
	x.emit(r)
	return nil
}

func decodeBrx(x *fnc, in *ptx.Instruction, m *mods) error {
	m.has("uni")
	if !m.has("idx") {
		return x.invalid("needs .idx")
	}
	o := in.Operands
	if o[1].Kind != ptx.OperandTable {
		return x.invalid("target is not a list of .branchtargets")
	}
	r := blank(kBrx)
	r.a = x.src(&o[0], ptx.U32, false)
	for _, t := range x.f.Tables[o[1].Index].Targets {
		if t.Kind != ptx.OperandLabel {
			return x.invalid("target is not a label")
		}
		r.table = append(r.table, int32(t.Index))
	}
	x.emit(r)
	return nil
}

func decodeRet(x *fnc, in *ptx.Instruction, m *mods) error {
	m.has("uni")
	r := blank(kRet)
	r.vs = x.returnSlots()
	x.emit(r)
	return nil
}

func decodeExit(x *fnc, in *ptx.Instruction, m *mods) error {
	x.emit(blank(kExit))
	return nil
}

func decodeTrap(x *fnc, in *ptx.Instruction, m *mods) error {
	r := blank(kRun)
	op := in.Op
	r.run = func(w *warp, in *inst, mask uint32) {
		msg := op
		if hint := w.b.noGridHint(0); hint != "" {
			msg += ": " + hint
		}
		w.fail(LaunchFailed, in, firstLane(mask), msg)
	}
	x.emit(r)
	return nil
}

func decodeFence(x *fnc, _ *ptx.Instruction, m *mods) error {
	block := m.has("cta")
	m.used = ^uint64(0)
	if block {
		return nil
	}
	r := blank(kRun)
	r.flags = flagAcquire | flagRelease
	r.run = func(w *warp, in *inst, _ uint32) { w.order(in) }
	x.emit(r)
	return nil
}

func decodeYield(x *fnc, in *ptx.Instruction, m *mods) error {
	m.used = ^uint64(0)
	r := blank(kYield)
	// The guard decides nothing: all lanes may wait a little.
	x.emit(r)
	return nil
}

// clusterBarrier is the number of barrier.cluster, beyond the numbers of bar.
const clusterBarrier = 16

// decodeBar covers bar, barrier and bar.warp.sync.
func decodeBar(x *fnc, in *ptx.Instruction, m *mods) error {
	o := in.Operands
	if m.has("warp") {
		if !m.has("sync") {
			return x.invalid("needs .sync")
		}
		x.count(in, 1, 1)
		r := blank(kColl)
		r.coll = &collective{give: giveNothing, take: takeNothing, family: famBar, member: noSlot}
		x.members(&o[0], r.coll)
		x.emit(r)
		return nil
	}
	if m.has("cluster") {
		// The cluster is this block: arrive is remembered by reaching wait.
		wait := m.oneOf("arrive", "wait") == "wait"
		m.drop("release", "acquire", "relaxed", "aligned")
		if wait {
			r := blank(kBar)
			r.sub, r.flags, r.a = barSync, flagCluster, x.constant(clusterBarrier)
			x.emit(r)
		}
		return nil
	}
	m.has("cta")
	kind := m.oneOf("sync", "arrive", "red")
	m.has("aligned")
	r := blank(kBar)
	lo, hi := 1, 2
	switch kind {
	case "sync":
		r.sub = barSync
	case "arrive":
		r.sub, lo = barArrive, 2
	case "red":
		lo, hi = 3, 4
		op, t := m.oneOf("popc", "and", "or"), m.typ()
		switch {
		case op == "popc" && t == ptx.U32:
			r.sub = barRedPopc
		case op == "and" && t == ptx.Pred:
			r.sub = barRedAnd
		case op == "or" && t == ptx.Pred:
			r.sub = barRedOr
		default:
			return x.invalid("no such reduction")
		}
	default:
		return x.invalid("needs .sync, .arrive or .red")
	}
	x.count(in, lo, hi)
	if kind == "red" {
		r.pa, r.pax = x.pred(&o[len(o)-1])
		if r.sub == barRedPopc {
			r.d = x.dst(&o[0], ptx.U32, false)
		} else if r.pd = x.dstPred(&o[0]); r.pd == 0 {
			r.pd = x.np
			x.np++
		}
		o = o[1 : len(o)-1]
	}
	r.a = x.src(&o[0], ptx.U32, false)
	if len(o) == 2 {
		r.b = x.src(&o[1], ptx.U32, false)
		r.imm = 1
	}
	x.emit(r)
	return nil
}

// decodeCall covers direct calls, calls through a register, and the functions of the
// CUDA runtime that every module may declare.
func decodeCall(x *fnc, in *ptx.Instruction, m *mods) error {
	m.has("uni")
	o := in.Operands
	info := &callInfo{}
	if len(o) > 0 && o[0].Kind == ptx.OperandList {
		x.actuals(&info.returns, o[0].Elems, true)
		o = o[1:]
	}
	if len(o) == 0 {
		return x.invalid("needs a function")
	}
	callee := &o[0]
	o = o[1:]
	if len(o) > 0 && o[0].Kind == ptx.OperandList {
		x.actuals(&info.args, o[0].Elems, false)
		o = o[1:]
	}
	if callee.Kind == ptx.OperandFunc {
		return x.directCall(callee.Func, info)
	}
	if callee.Kind != ptx.OperandReg || len(o) != 1 || o[0].Kind != ptx.OperandTable && o[0].Kind != ptx.OperandProto {
		return x.invalid("needs a function, or a register with a prototype or .calltargets")
	}
	r := blank(kCallI)
	r.a = x.src(callee, ptx.U64, false)
	r.call = info
	x.indirect[x.fn] = true
	x.emit(r)
	return nil
}

func (x *fnc) directCall(f *ptx.Function, info *callInfo) error {
	if f.Declared {
		if ext, ok := externals[f.Name]; ok && len(info.args) >= ext.args {
			r := blank(kRun)
			r.run, r.call = ext.run, info
			x.emit(r)
			return nil
		}
		return x.unsupported("function " + f.Name + " has no body in this module")
	}
	if f.IsEntry {
		return x.unsupported("call of a kernel")
	}
	if len(f.Params) != len(info.args) || len(f.Returns) != len(info.returns) {
		return x.invalid("%s takes %d arguments and gives %d results", f.Name, len(f.Params), len(f.Returns))
	}
	r := blank(kCall)
	info.fn = x.compiler.function(f)
	r.call = info
	if !slices.Contains(x.calls[x.fn], info.fn) {
		x.calls[x.fn] = append(x.calls[x.fn], info.fn)
	}
	x.emit(r)
	return nil
}

// actuals decodes arguments or results of a call.
func (x *fnc) actuals(list *[]actual, o []ptx.Operand, result bool) {
	for i := range o {
		a := actual{slot: noSlot, slotHi: noSlot, mask: ^uint64(0)}
		e := &o[i]
		switch {
		case e.Kind == ptx.OperandVar && (e.Var.Space == ptx.ParamSpace || e.Var.Space == ptx.Local):
			off, ok := x.local[e.Var]
			if !ok || e.Bits > e.Var.Size {
				panic(x.unsupported("argument " + e.Var.Name + " is not a parameter of this function"))
			}
			a.offset, a.size = off+uint32(e.Bits), uint32(e.Var.Size-e.Bits)
		case isPredOperand(x, e):
			a.pred, a.predX = x.pred(e)
		case e.Kind == ptx.OperandReg:
			a.slot = x.vreg(e.Reg)
			a.slotHi = noSlot
			if h := x.high[e.Reg]; h >= 0 {
				a.slotHi = h
			}
			a.mask = widthMask(x.regBits(e))
		case e.Kind == ptx.OperandSink && result:
			a.slot = x.newReg()
		case !result && (e.Kind == ptx.OperandInt || e.Kind == ptx.OperandF32 || e.Kind == ptx.OperandF64):
			a.slot = x.constant(e.Bits)
		default:
			panic(x.invalid("operand cannot be passed"))
		}
		*list = append(*list, a)
	}
}
