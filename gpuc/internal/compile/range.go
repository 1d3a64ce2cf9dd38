package compile

import (
	"go/token"
	"go/types"
	"math"
	"math/bits"

	"golang.org/x/tools/go/ssa"
)

// bound returns the largest number that an integer can be, if it is known not to be negative.
func (k *kctx) bound(v val) (hi uint64, ok bool) {
	switch {
	case v.isC && v.k == k32:
		return v.c, v.c <= math.MaxInt32
	case v.isC:
		return v.c, v.c <= math.MaxInt64
	}
	hi, ok = v.hi, v.hi > 0
	if f, found := k.cur.get("hi " + v.r); found && (!ok || f.c < hi) {
		return f.c, true
	}
	if v.k != k64 {
		return hi, ok
	}
	if !ok && k.least(poly{{v.r, 1}}) >= 0 {
		hi, ok = math.MaxInt64, true
	}
	rest, c := v.sum.split()
	if c == 0 || c < -maxApart || c > maxApart || len(rest) != 1 || rest[0].c != 1 {
		return hi, ok
	}
	x, found := k.cur.get("sum " + rest.key())
	if !found || x.r != rest[0].regs || c < 0 && k.least(rest)+c < 0 { // x-1 is not negative where x is 1 or more
		return hi, ok
	}
	if most, low := k.bound(x); low && int64(most) <= math.MaxInt64-maxApart {
		if sum := uint64(max(0, int64(most)+c)); !ok || sum < hi {
			return sum, true
		}
	} else if low && c < 0 && !ok {
		return most, true
	}
	return hi, ok
}

// least is the least that a register can be, as far as conditions say.
func (k *kctx) least(p poly) int64 {
	if len(p) == 1 && p[0].c == 1 {
		if f, ok := k.cur.get("least " + p[0].regs); ok {
			return int64(f.c)
		}
	}
	return -maxApart * maxApart
}

// learnLeast notes that y is above x, or at least x, or not x.
func (k *kctx) learnLeast(op token.Token, vx ssa.Value, x, y val) {
	if op == token.NEQ && y.isC && y.c == 0 {
		if _, low := k.bound(x); low || nonneg(vx, 0) {
			op, x, y = token.LSS, y, x
		}
	}
	least := int64(0)
	if x.isC {
		least = int64(x.c)
	} else if _, low := k.bound(x); !low && !nonneg(vx, 0) {
		return
	}
	if op == token.LSS {
		least++
	}
	if p := y.poly(); (op == token.LSS || op == token.LEQ) && y.k == k64 && !y.isC && least < maxApart && len(p) == 1 && p[0].c == 1 && least > k.least(p) {
		k.cur.m["least "+p[0].regs] = cst(k64, uint64(least))
	}
}

// limit is the largest number of a type, as far as bounds go.
func limit(b *types.Basic) uint64 {
	n := sizes.Sizeof(b)*8 - 1
	if unsigned(b) && n < 63 {
		n++
	}
	return 1<<n - 1
}

// bounded notes the bound of a result, where its type holds it.
func bounded(b *types.Basic, v val, hi uint64) val {
	if v.hi = 0; hi <= limit(b) {
		v.hi = max(1, hi)
	}
	return v
}

// resultBound returns the bound of the result of an operation.
func (k *kctx) resultBound(op token.Token, b *types.Basic, x, y val) (hi uint64, ok bool) {
	xh, okX := k.bound(x)
	yh, okY := k.bound(y)
	if unsigned(b) && !okX {
		xh, okX = math.MaxUint64>>(64-8*sizes.Sizeof(b)), true
	}
	both := okX && okY
	switch op {
	case token.ADD:
		sum, carry := bits.Add64(xh, yh, 0)
		return sum, both && carry == 0
	case token.MUL:
		over, product := bits.Mul64(xh, yh)
		return product, both && over == 0
	case token.AND:
		switch {
		case both:
			return min(xh, yh), true
		case okX:
			return xh, true
		}
		return yh, okY
	case token.OR, token.XOR:
		return 1<<bits.Len64(xh|yh) - 1, both
	case token.SHL:
		return xh << (y.c & 63), okX && y.isC && bits.Len64(xh)+int(min(y.c, 64)) < 64
	case token.SHR:
		if y.isC {
			xh >>= y.c
		}
		return xh, okX
	case token.QUO:
		if y.isC && y.c > 0 {
			xh /= y.c
		}
		return xh, both
	case token.REM:
		if okY && yh > 0 {
			xh = min(xh, yh-1)
		}
		return xh, both
	}
	return 0, false
}

// learnUpTo notes that a number that is not negative is below another one, or at most that. Of both it takes the constants
// off.
func (k *kctx) learnUpTo(op token.Token, vx ssa.Value, x, y val) {
	if op != token.LSS && op != token.LEQ || x.k != k64 || x.isC || y.isC || unsigned(vx.Type().Underlying().(*types.Basic)) {
		return
	}
	low := uint64(unknown)
	if b, ok := vx.(*ssa.BinOp); ok && b.Op == token.ADD {
		if c, ok := b.Y.(*ssa.Const); ok && c.Int64() >= 0 && c.Int64() < maxApart && nonneg(b.X, 0) {
			low = uint64(c.Int64())
		}
	}
	if _, ok := k.bound(x); low == unknown && (ok || nonneg(vx, 0)) {
		low = 0
	}
	rest, m := y.poly().split()
	from, e := x.poly().split()
	if low == unknown || m <= -maxApart || m >= maxApart || e <= -maxApart || e >= maxApart {
		return
	}
	if op == token.LSS {
		m--
	}
	// from is at least low-e, and at most rest+m-e.
	key := "up to " + rest.key()
	before, _ := k.cur.get(key)
	fact := val{sum: from, hi: uint64(low), off: e, c: uint64(m)}
	k.cur.m[key] = val{e: append([]val{fact}, before.e[:min(len(before.e), 7)]...)}
}

// maxApart bounds the constants that are looked at, far below an overflow of what is added to a length.
const maxApart = 1 << 20

// upTo reports whether conditions say that 0 <= i < n, of a length n.
func (k *kctx) upTo(i, n val) bool {
	rest, m := n.poly().split()
	from, e := i.poly().split()
	facts, _ := k.cur.get("up to " + rest.key())
	for _, f := range facts.e {
		if f.sum.key() == from.key() && m > -maxApart && m < maxApart && e > -maxApart && e < maxApart {
			if least, most := max(int64(f.hi)-f.off, k.least(from))+e, int64(f.c)-f.off+e; least >= 0 && most < m {
				return true
			}
		}
	}
	return false
}

// learn notes what a condition says, where it holds.
func (k *kctx) learn(s *scope, cond ssa.Value, holds bool) {
	c, ok := cond.(*ssa.BinOp)
	if ok {
		k.learnNil(s, c, holds)
	}
	if !ok || kindOf(c.X.Type()) != k64 && kindOf(c.X.Type()) != k32 {
		return
	}
	x, okX := k.tryGet(s, c.X)
	y, okY := k.tryGet(s, c.Y)
	if !okX || !okY {
		return
	}
	op, vx, vy := c.Op, c.X, c.Y
	defer func() { k.learnUpTo(op, vx, x, y) }()
	if !holds {
		op = map[token.Token]token.Token{token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR, token.NEQ: token.EQL}[op]
	}
	if op == token.GTR || op == token.GEQ {
		op, x, y, vx, vy = map[token.Token]token.Token{token.GTR: token.LSS, token.GEQ: token.LEQ}[op], y, x, c.Y, c.X
	}
	b := vx.Type().Underlying().(*types.Basic)
	if !unsigned(b) {
		k.learnLeast(op, vx, x, y)
	}
	_, low := k.bound(x)
	hi, high := k.bound(y)
	if d, ok := vy.(*ssa.BinOp); ok && d.Op == token.SUB && !high && !unsigned(b) && nonneg(d.X, 0) && nonneg(d.Y, 0) { // below 255-n is below 255
		if from, ok := d.X.(*ssa.Const); ok {
			hi, high = from.Uint64(), true
		}
	}
	if x.isC || !low && !unsigned(b) && (x.k != k64 || !nonneg(vx, 0)) || op != token.LSS && op != token.LEQ {
		return
	}
	if op == token.LSS && x.k == k64 {
		k.cur.m["lt "+x.String()+" "+y.String()] = val{}
	}
	if !high && !unsigned(b) {
		hi = limit(b) // what is above a number that is not negative
	} else if !high {
		return
	}
	if op == token.LSS && hi > 0 {
		hi--
	}
	if x.k == k32 && hi > math.MaxInt32 {
		return // a conversion keeps the register: what an int32 reads there could be negative
	}
	if old, ok := k.bound(x); !ok || hi < old {
		k.cur.m["hi "+x.r] = cst(k64, hi)
	}
}
