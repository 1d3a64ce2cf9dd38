package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// Where a loop makes several passes with one test, its checks come before it. An index that grows by the same in each pass is
// in range in all of them if it is in the first and in the last one. If it is not, or numbers are so large that this could
// overflow, the loop makes no pass. The other loop then asks in each of its own.

// ahead is such a loop while it is written.
type ahead struct {
	f     *frame
	c     *counter
	phi   *ssa.Phi
	latch *ssa.BasicBlock
	plus  int64  // what the condition adds to the phi
	x     string // the register of the phi, in 64 bits
	first val    // the register of the phi before the loop
	step  poly
	limit val
	begin int // of the loop in the code
	seen  int // up to where set is known
	set   map[string]bool
	copy  int  // of the body that is written now
	sure  bool // what is written now runs in each pass
	calls int  // of functions with branches, which are written now
	asked []forAll
}

// forAll is a check of all passes: rest + times*x is below n.
type forAll struct {
	rest, times poly
	n           val
}

// askAhead begins a loop whose checks come before it, if they can. Its limit becomes a register, which is set in the end.
func (k *kctx) askAhead(f *frame, s *scope, l *loop, c *counter, step val) {
	wide := sizes.Sizeof(c.t) == 8
	if k.off() || k.ahead != nil || k.rolled["ahead "+f.loopKey(l)] || wide && unsigned(c.t) || !wide && !step.isC {
		return
	}
	a := &ahead{f: f, c: c, limit: c.limit, step: step.poly(), set: map[string]bool{}}
	switch x := c.x.(type) {
	case *ssa.Phi:
		a.phi = x
	case *ssa.BinOp:
		a.phi, a.plus = x.X.(*ssa.Phi), x.Y.(*ssa.Const).Int64()
	}
	if a.plus <= -maxPlus || a.plus >= maxPlus {
		return
	}
	for _, p := range l.head.Preds {
		if l.blocks[p] {
			a.latch = p
		}
	}
	a.first = s.m[a.phi]
	if a.x = a.first.r; !wide {
		a.x = k.reg(k64).r
	}
	c.limit = k.reg(a.limit.k)
	a.begin = len(k.out)
	a.seen = a.begin
	k.ahead = a
}

// widen sets the counter in 64 bits.
func (a *ahead) widen(k *kctx) {
	if a.x != a.first.r {
		k.emit("cvt."+map[bool]string{true: "u64.u32", false: "s64.s32"}[unsigned(a.c.t)], []string{a.x}, a.first.r)
	}
}

// widened is the counter of a loop as 64 bits, in a copy of its body. It does not overflow there.
func (k *kctx) widened(s *scope, v ssa.Value) (val, bool) {
	a := k.ahead
	if a == nil || v != ssa.Value(a.phi) || a.x == a.first.r || s.loop == nil || s.loop.counted != a.c {
		return val{}, false
	}
	b := types.Typ[types.Int]
	_, by := a.step.split()
	return k.bin(token.ADD, b, b, val{k: k64, r: a.x}, cst(k64, uint64(by*int64(s.number))), token.NoPos), true
}

// sets reports whether the loop sets a register of a sum.
func (a *ahead) sets(code []ins, p poly) bool {
	for ; a.seen < len(code); a.seen++ {
		for _, r := range code[a.seen].dst {
			a.set[r] = true
		}
	}
	return slices.ContainsFunc(p, func(t term) bool {
		return slices.ContainsFunc(strings.Split(t.regs, "*"), func(r string) bool { return a.set[r] || r == a.first.r })
	})
}

// isAhead reports whether a check comes before the loop.
func (k *kctx) isAhead(i, n val) bool {
	a := k.ahead
	if a == nil || !a.sure || a.calls > 0 || i.isC {
		return false
	}
	c := forAll{n: n}
	for _, t := range i.poly() {
		regs := strings.Split(t.regs, "*")
		at := slices.Index(regs, a.x)
		if at < 0 {
			c.rest = append(c.rest, t)
			continue
		}
		c.times = c.times.plus(poly{{strings.Join(slices.Delete(regs, at, at+1), "*"), t.c}}, 1)
	}
	if len(c.times) != 1 || c.times[0].regs == "" && int64(c.times[0].c+1<<maxTimesBits)>>(maxTimesBits+1) != 0 {
		return false
	}
	c.rest = c.rest.plus(c.times.times(a.step), -uint64(a.copy)) // as if this were the first copy
	if a.sets(k.out, n.poly()) || a.sets(k.out, c.times) || a.sets(k.out, c.rest) {
		return false
	}
	if !slices.ContainsFunc(a.asked, func(o forAll) bool {
		return o.rest.key() == c.rest.key() && o.times.key() == c.times.key() && o.n.String() == n.String()
	}) {
		a.asked = append(a.asked, c)
	}
	return true
}

// maxTimesBits and maxFactorBits bound what a counter is multiplied by: a constant, or a register. Counters are below 2 to the 47 then,
// or to the 31.
const maxTimesBits, maxFactorBits = 15, 31

// askedAhead ends the loop: it writes the checks before it, in the table up.
func (k *kctx) askedAhead(l *loop, n, step val, up *table) {
	a := k.ahead
	k.ahead = nil
	for _, c := range a.asked {
		if a.sets(k.out, c.n.poly()) || a.sets(k.out, c.times) || a.sets(k.out, c.rest) { // later than the check
			k.rolled["ahead "+a.f.loopKey(l)] = true
			panic(restart{})
		}
	}
	body, keep := slices.Clone(k.out[a.begin:]), k.cur
	k.out, k.cur = k.out[:a.begin], newTable(up)
	defer func() { k.out, k.cur = append(k.out, body...), keep }()
	t := num(a.c.t)
	if len(a.asked) == 0 {
		k.emit("mov."+t, []string{a.c.limit.r}, a.limit.String())
		return
	}
	b := types.Typ[types.Int]
	do := func(op token.Token, x, y val) val { return k.bin(op, b, b, x, y, token.NoPos) }
	first := k.reg(k64)
	if a.x == a.first.r {
		k.emit("mov.b64", []string{first.r}, a.first.r)
	} else {
		k.emit("cvt."+map[bool]string{true: "u64.u32", false: "s64.s32"}[unsigned(a.c.t)], []string{first.r}, a.first.r)
	}
	last := do(token.SUB, k.convert(a.c.t, b, n), cst(k64, uint64(a.plus+1)))
	if s := step.c; step.isC && s > 1 && s&(s-1) == 0 {
		last = do(token.ADD, first, do(token.AND, do(token.SUB, last, first), cst(k64, -s)))
	}
	bits, bad := 62-maxTimesBits, ""
	ask := func(op, x, y string) {
		p := k.reg(kPred).r
		k.emit("setp."+op+".u64", []string{p}, x, y)
		if bad != "" {
			both := k.reg(kPred).r
			k.emit("or.pred", []string{both}, bad, p)
			p = both
		}
		bad = p
	}
	for _, c := range a.asked {
		times, rest := k.written64(c.times), k.written64(c.rest)
		if !times.isC {
			bits = maxFactorBits
			ask("ge", do(token.ADD, times, cst(k64, 1<<maxFactorBits)).String(), fmt.Sprint(uint64(1)<<(maxFactorBits+1)))
		}
		for _, x := range []val{first, last} {
			ask("ge", do(token.ADD, rest, do(token.MUL, x, times)).String(), c.n.String())
		}
	}
	ask("ge", do(token.OR, first, last).String(), fmt.Sprint(uint64(1)<<bits))
	lowest := cst(a.limit.k, 0)
	if !unsigned(a.c.t) {
		lowest.c = norm(a.c.t, 1<<(8*sizes.Sizeof(a.c.t)-1))
	}
	k.emit("selp."+t, []string{a.c.limit.r}, lowest.String(), a.limit.String(), bad)
}

// written64 computes a sum of products.
func (k *kctx) written64(p poly) val {
	if v, ok := k.known(p); ok {
		return v
	}
	b, sum := types.Typ[types.Int], cst(k64, 0)
	for _, t := range p {
		product := cst(k64, t.c)
		if t.regs != "" {
			for _, r := range strings.Split(t.regs, "*") {
				product = k.bin(token.MUL, b, b, val{k: k64, r: r}, product, token.NoPos)
			}
		}
		sum = k.bin(token.ADD, b, b, sum, product, token.NoPos)
	}
	return sum
}
