package exec

import (
	"github.com/purecuda/purecuda/internal/ptx"
)

// Warp-wide instructions (PTX ISA, "Parallel Synchronization and Communication
// Instructions"); collective.go executes them.
var warpDecoders = map[string]decoder{
	"shfl": decodeShfl, "vote": decodeVote, "match": operands(3, 3, decodeMatch), "redux": operands(3, 3, decodeRedux),
	"activemask": operands(1, 1, decodeActive), "elect": operands(2, 2, decodeElect),
}

// members decodes the member mask.
func (x *fnc) members(o *ptx.Operand, c *collective) {
	c.sync = true
	c.member = x.src(o, ptx.U32, false)
}

func decodeShfl(x *fnc, in *ptx.Instruction, m *mods) error {
	sync := m.has("sync")
	mode := m.oneOf("up", "down", "bfly", "idx")
	if t := m.typ(); t.Bits() != 32 || mode == "" {
		return x.invalid("needs .up, .down, .bfly or .idx and .b32")
	}
	n := 4
	if sync {
		n = 5
	}
	x.count(in, n, n)
	o := in.Operands
	r := blank(kColl)
	r.sub = map[string]uint8{"up": shflUp, "down": shflDown, "bfly": shflBfly, "idx": shflIdx}[mode]
	r.coll = &collective{give: giveA, take: takeShfl, family: famShfl, member: noSlot}
	d := &o[0]
	if d.Kind == ptx.OperandPair {
		r.pd = x.dstPred(&d.Elems[1])
		d = &d.Elems[0]
	}
	r.a = x.src(&o[1], ptx.B32, false)
	r.b = x.src(&o[2], ptx.B32, false)
	r.c = x.src(&o[3], ptx.B32, false)
	if sync {
		x.members(&o[4], r.coll)
	}
	r.d = x.dst(d, ptx.B32, false)
	x.emit(r)
	return nil
}

func decodeVote(x *fnc, in *ptx.Instruction, m *mods) error {
	sync := m.has("sync")
	mode := m.oneOf("all", "any", "uni", "ballot")
	t := m.typ()
	n := 2
	if sync {
		n = 3
	}
	x.count(in, n, n)
	o := in.Operands
	r := blank(kColl)
	r.coll = &collective{give: givePred, take: takeVote, family: famVote, member: noSlot}
	r.pa, r.pax = x.pred(&o[1])
	if sync {
		x.members(&o[2], r.coll)
	}
	switch {
	case mode == "ballot" && t == ptx.B32:
		r.sub = voteBallot
		r.d = x.dst(&o[0], ptx.B32, false)
	case mode != "" && mode != "ballot" && t == ptx.Pred:
		r.sub = map[string]uint8{"all": voteAll, "any": voteAny, "uni": voteUni}[mode]
		if r.pd = x.dstPred(&o[0]); r.pd == 0 {
			r.pd = x.np // thrown away
			x.np++
		}
	default:
		return x.invalid("no such vote")
	}
	x.emit(r)
	return nil
}

func decodeMatch(x *fnc, in *ptx.Instruction, m *mods) error {
	mode := m.oneOf("any", "all")
	if !m.has("sync") || mode == "" {
		return x.invalid("needs .any or .all and .sync")
	}
	t := m.typ()
	if t != ptx.B32 && t != ptx.B64 {
		return x.invalid("needs .b32 or .b64")
	}
	o := in.Operands
	r := blank(kColl)
	r.coll = &collective{give: giveA, take: takeMatch, family: famMatch, member: noSlot}
	d := &o[0]
	if d.Kind == ptx.OperandPair {
		if mode == "any" {
			return x.invalid("match.any has one destination")
		}
		r.pd = x.dstPred(&d.Elems[1])
		d = &d.Elems[0]
	}
	if mode == "all" {
		r.sub = 1
	}
	r.a = x.src(&o[1], t, false)
	x.members(&o[2], r.coll)
	r.d = x.dst(d, ptx.U32, false)
	x.emit(r)
	return nil
}

func decodeRedux(x *fnc, in *ptx.Instruction, m *mods) error {
	if !m.has("sync") {
		return x.invalid("needs .sync")
	}
	op := m.oneOf("add", "min", "max", "and", "or", "xor")
	abs, nan := m.has("abs"), m.has("NaN")
	t := m.typ()
	var f func(a, b uint64) uint64
	switch {
	case t == ptx.F32 && (op == "min" || op == "max"):
		p := minMax{isMin: op == "min", nan: nan}
		f = func(a, b uint64) uint64 {
			if abs {
				a, b = a&0x7fffffff, b&0x7fffffff
			}
			return p.apply(a, b, 1<<31, nan32, f32)
		}
	case abs || nan:
		return x.invalid("no such reduction")
	case t.Bits() != 32 || t.Class() == ptx.ClassFloat || t.Class() == ptx.ClassPacked:
		return x.invalid("no such reduction")
	case t == ptx.B32 && (op == "and" || op == "or" || op == "xor"), isInt(t) && (op == "add" || op == "min" || op == "max"):
		f = integerFold(op, t)
	default:
		return x.invalid("no such reduction")
	}
	o := in.Operands
	r := blank(kColl)
	r.coll = &collective{give: giveA, take: takeRedux, family: famRedux, member: noSlot}
	r.call = &callInfo{fold: f}
	r.a = x.src(&o[1], t, false)
	x.members(&o[2], r.coll)
	r.d = x.dst(&o[0], ptx.U32, false)
	x.emit(r)
	return nil
}

// integerFold returns the operation of a reduction or an atomic; nil if there is none.
func integerFold(op string, t ptx.Type) func(a, b uint64) uint64 {
	mask := widthMask(t.Bits())
	switch op {
	case "add":
		return func(a, b uint64) uint64 { return (a + b) & mask }
	case "min", "max":
		return minMaxInt(t, op == "min")
	case "and":
		return func(a, b uint64) uint64 { return a & b }
	case "or":
		return func(a, b uint64) uint64 { return a | b }
	case "xor":
		return func(a, b uint64) uint64 { return a ^ b }
	}
	return nil
}

func decodeActive(x *fnc, in *ptx.Instruction, m *mods) error {
	if m.typ() != ptx.B32 {
		return x.invalid("needs .b32")
	}
	r := blank(kRun)
	r.run = runActive
	r.d = x.dst(&in.Operands[0], ptx.B32, false)
	x.emit(r)
	return nil
}

func decodeElect(x *fnc, in *ptx.Instruction, m *mods) error {
	if !m.has("sync") {
		return x.invalid("needs .sync")
	}
	o := in.Operands
	if o[0].Kind != ptx.OperandPair {
		return x.invalid("needs two destinations")
	}
	r := blank(kColl)
	r.coll = &collective{give: giveNothing, take: takeElect, family: famElect, member: noSlot}
	r.pd = x.dstPred(&o[0].Elems[1])
	x.members(&o[1], r.coll)
	r.d = x.dst(&o[0].Elems[0], ptx.B32, false)
	x.emit(r)
	return nil
}
