package compile

import (
	"fmt"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// maxStraight is how many elements clear and copy move without a loop.
const maxStraight = 32

// each runs body for an index: n times, from at, in steps of one.
func (k *kctx) each(at, step, n val, body func(i val)) {
	i, left := k.reg(k64), k.reg(k64)
	k.mov(i, at)
	k.mov(left, n)
	head, end := k.label(), k.label()
	k.bra(head)
	k.place(head, true)
	keep := k.cur
	k.cur = newTable(keep)
	k.cbra(k.pure("setp.eq.s64", kPred, left.r, "0").r, false, end)
	body(i)
	k.emit("add.s64", []string{i.r}, i.r, step.String())
	k.emit("add.s64", []string{left.r}, left.r, "-1")
	k.bra(head)
	k.place(end, false)
	k.cur = keep
}

// clear is Go's clear of a slice.
func (k *kctx) clear(in *ssa.Call, x val) {
	s, ok := in.Call.Args[0].Type().Underlying().(*types.Slice)
	if !ok {
		k.fail(in.Pos(), "a kernel has no maps: use an array")
	}
	t, p, n := s.Elem(), x.e[0], x.e[1]
	size, zero := sizes.Sizeof(t), k.zero(t)
	if n.isC && n.c <= maxStraight {
		for i := range int64(n.c) {
			k.store(offset(p, i*size), zero, t, in.Pos())
		}
		return
	}
	p = k.inMemory(p)
	k.each(cst(k64, 0), cst(k64, 1), n, func(i val) { k.store(k.at(p, i, size), zero, t, in.Pos()) })
}

// copy is Go's copy, whose slices may overlap. It gives the number of elements.
func (k *kctx) copy(in *ssa.Call, dst, src val) val {
	t := in.Call.Args[0].Type().Underlying().(*types.Slice).Elem()
	size, to, from := sizes.Sizeof(t), dst.e[0], src.e[0]
	n := k.minMax("min", types.Typ[types.Int], dst.e[1], src.e[1])
	if n.isC && n.c <= maxStraight {
		var list []val
		for i := range int64(n.c) {
			list = append(list, k.load(offset(from, i*size), t, in.Pos()))
		}
		for i, v := range list {
			k.store(offset(to, int64(i)*size), v, t, in.Pos())
		}
		return n
	}
	to, from = k.inMemory(to), k.inMemory(from)
	at, step := cst(k64, 0), cst(k64, 1)
	if to.p.sp == from.p.sp { // from the end, where the elements move up
		up := k.pure("setp.gt.u64", kPred, k.address(to).r, k.address(from).r).r
		at = k.pure("selp.b64", k64, k.bin(token.SUB, types.Typ[types.Int], types.Typ[types.Int], n, cst(k64, 1), in.Pos()).String(), "0", up)
		step = k.pure("selp.b64", k64, "-1", "1", up)
	}
	k.each(at, step, n, func(i val) {
		k.store(k.at(to, i, size), k.load(k.at(from, i, size), t, in.Pos()), t, in.Pos())
	})
	return n
}

// inMemory is a pointer that an index can be added to.
func (k *kctx) inMemory(x val) val {
	if x.p.sp == spCell {
		k.demote(x.p.al)
	}
	return x
}

// arrayOf is a slice as a pointer to an array, which fails where the slice is shorter.
func (k *kctx) arrayOf(in *ssa.SliceToArrayPointer, x val) val {
	n := elem(in.Type()).Underlying().(*types.Array).Len()
	text, have := fmt.Sprintf("a slice with length %%d is no array of %d", n), x.e[1]
	switch {
	case have.isC && int64(have.c) < n:
		k.fail(in.Pos(), text, have.c)
	case !have.isC && n > 0 && !k.off():
		k.trap(in.Pos(), text, have.String(), "0", k.pure("setp.lt.s64", kPred, have.r, fmt.Sprint(n)).r)
	}
	return x.e[0]
}
