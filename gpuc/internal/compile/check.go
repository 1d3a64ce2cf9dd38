package compile

import (
	"fmt"
	"go/token"
	"path/filepath"
)

// check traps if i is not within [0, n). It returns the index to go on with, and whether it did so before a loop.
func (k *kctx) check(i, n val, pos token.Pos) (at val, early bool) {
	if i.isC && n.isC {
		if i.c < n.c {
			return i, false
		}
		if !k.off() {
			k.trap(pos, "index out of range [%d] with length %d", i.String(), n.String(), k.holds())
		}
		return cst(i.k, 0), false
	}
	return i, k.checkVariable(i, n, pos)
}

// holds is a predicate that always holds. One pass of an unrolled loop fails so, behind a condition, or one call of a function. What
// follows in the block is compiled all the same, which it would not be behind a jump without a predicate.
func (k *kctx) holds() string {
	return k.pure("setp.eq.u64", kPred, k.pure("mov.u64", k64, "0").r, "0").r
}

func (k *kctx) checkVariable(i, n val, pos token.Pos) (early bool) {
	if k.within(i, n) {
		return false
	}
	key := "checked " + i.String() + " " + n.String()
	if v, ok := k.cur.get(key); ok {
		return v.isC
	}
	if k.guard.r == "" {
		if k.isAhead(i, n) {
			k.cur.m[key] = cst(kPred, 1)
			return !n.isC
		}
		k.cur.m[key] = val{}
	}
	a, b := i.String(), n.String()
	var p val
	if i.isC {
		p = k.pure("setp.le.u64", kPred, b, a)
	} else {
		p = k.pure("setp.ge.u64", kPred, a, b)
	}
	k.trap(pos, "index out of range [%d] with length %d", a, b, p.r)
	k.out[len(k.out)-1].asked = &asked{i.poly(), b, k.guard.r != "", k.cur}
	return false
}

// within reports whether no check is needed.
func (k *kctx) within(i, n val) bool {
	if keep := k.cur; k.facts != nil {
		k.cur = k.facts
		defer func() { k.cur = keep }()
	}
	hi, ok := k.bound(i)
	_, less := k.cur.get("lt " + i.String() + " " + n.String())
	return k.off() || less || k.upTo(i, n) || ok && n.isC && hi < n.c
}

// trap ends the thread, or the launch, if p holds, or always where p is empty. In a block that is computed early this
// is so only where its guard holds. The text has a %d each for idx and n, as far as it has any.
func (k *kctx) trap(pos token.Pos, what, idx, n, p string) {
	switch {
	case k.guard.r == "":
	case p == "":
		p = k.guard.r
	default:
		p = k.pure("and.pred", kPred, k.guard.r, p).r
	}
	at := k.p.fset.Position(pos)
	text := fmt.Sprintf("%s:%d: %s", filepath.Base(at.Filename), at.Line, what)
	site := find(&k.unit.sites, text, func(s string) bool { return s == text })
	fl := fail{k.label(), site, idx, n}
	k.fails = append(k.fails, fl)
	k.out = append(k.out, ins{op: "bra", text: fl.label, target: fl.label, side: true, guard: p, note: text, src: append(regsIn(idx), regsIn(n)...)})
}

// le traps if not 0 <= a <= b.
func (k *kctx) le(a, b val, pos token.Pos) {
	if k.off() || a.isC && (a.c == 0 || b.isC && a.c <= b.c) {
		return
	}
	var p val
	if a.isC {
		p = k.pure("setp.lt.u64", kPred, b.String(), a.String())
	} else {
		p = k.pure("setp.gt.u64", kPred, a.String(), b.String())
	}
	k.trap(pos, "slice bounds out of range [:%d] with length %d", a.String(), b.String(), p.r)
}

type fail struct {
	label  string
	site   int
	idx, n string
}
