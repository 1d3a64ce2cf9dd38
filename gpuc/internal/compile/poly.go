package compile

import (
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"
)

// poly is a 64-bit integer as a sum of products of registers. Integers wrap, so that two of the same terms are equal
// however they were computed: (y+8)*w + x is y*w + x and 8*w more. The terms are in order; that of no registers is the
// constant.
type poly []term

type term struct {
	regs string // joined by *, in order
	c    uint64
}

// maxTerms and maxDegree bound a sum; what is longer is a register of its own.
const maxTerms, maxDegree = 8, 3

// poly returns the sum that a value is known to be.
func (v val) poly() poly {
	switch {
	case v.isC && v.c == 0:
		return nil
	case v.isC:
		return poly{{"", v.c}}
	case v.sum != nil:
		return v.sum
	}
	return poly{{v.r, 1}}
}

// plus is p and c times q.
func (p poly) plus(q poly, c uint64) (sum poly) {
	for len(p) > 0 || len(q) > 0 {
		var t term
		switch {
		case len(q) == 0 || len(p) > 0 && p[0].regs < q[0].regs:
			t, p = p[0], p[1:]
		case len(p) == 0 || q[0].regs < p[0].regs:
			t, q = term{q[0].regs, c * q[0].c}, q[1:]
		default:
			t, p, q = term{p[0].regs, p[0].c + c*q[0].c}, p[1:], q[1:]
		}
		if t.c != 0 {
			sum = append(sum, t)
		}
	}
	return sum
}

// times is the product.
func (p poly) times(q poly) (product poly) {
	for _, s := range p {
		for _, t := range q {
			regs := slices.DeleteFunc(append(strings.Split(s.regs, "*"), strings.Split(t.regs, "*")...), func(r string) bool { return r == "" })
			slices.Sort(regs)
			product = product.plus(poly{{strings.Join(regs, "*"), s.c * t.c}}, 1)
		}
	}
	return product
}

// split takes the constant off.
func (p poly) split() (rest poly, c int64) {
	if len(p) > 0 && p[0].regs == "" {
		return p[1:], int64(p[0].c)
	}
	return p, 0
}

func (p poly) key() string {
	var b strings.Builder
	for _, t := range p {
		b.WriteString(t.regs + " " + strconv.FormatUint(t.c, 10) + " ")
	}
	return b.String()
}

// sum is what an operation on 64-bit integers gives, nil where that says nothing.
func (k *kctx) sum(op token.Token, x, y val) poly {
	if x.k != k64 || k.o.Plain {
		return nil
	}
	p, q := x.poly(), y.poly()
	var sum poly
	switch {
	case op == token.ADD:
		sum = p.plus(q, 1)
	case op == token.SUB:
		sum = p.plus(q, math.MaxUint64)
	case op == token.MUL && len(p)*len(q) <= maxTerms && p.degree()+q.degree() <= maxDegree:
		sum = p.times(q)
	case op == token.SHL && y.isC && y.c < 64:
		sum = poly(nil).plus(p, 1<<y.c)
	}
	if sum == nil || len(sum) > maxTerms {
		return nil
	}
	for _, v := range []val{x, y} {
		if v.sum == nil && !v.isC {
			k.cur.m["sum "+v.poly().key()] = v
		}
	}
	return sum
}

// apart finds a product that is the sum of one that is known and of a register: (i+1)*n is i*n and n.
func (k *kctx) apart(p poly) (val, bool) {
	if len(p) < 2 {
		return val{}, false
	}
	for i, t := range p {
		last := val{k: k64, r: t.regs, isC: t.regs == "", c: t.c}
		if rest, ok := k.known(slices.Delete(slices.Clone(p), i, i+1)); ok && (last.isC || t.c == 1 && !strings.Contains(t.regs, "*")) {
			return k.pure("add.s64", k64, rest.r, last.String()), true
		}
	}
	return val{}, false
}

// degree is how many registers the longest product has.
func (p poly) degree() (n int) {
	for _, t := range p {
		if t.regs != "" {
			n = max(n, 1+strings.Count(t.regs, "*"))
		}
	}
	return n
}

// known finds the register of a sum.
func (k *kctx) known(p poly) (val, bool) {
	if p == nil {
		return val{}, false
	}
	return k.cur.get("sum " + p.key())
}

// keep notes the register of a sum.
func (k *kctx) keep(v val, p poly) val {
	if p != nil && !v.isC {
		v.sum = p
		k.cur.m["sum "+p.key()] = v
	}
	return v
}
