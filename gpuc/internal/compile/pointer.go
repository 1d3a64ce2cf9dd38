package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"math/bits"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// space is an address space.
type space uint8

const (
	spNone space = iota
	spGlobal
	spShared
	spLocal
	spConst
	spCell // an array or variable in registers
)

var spaceName = map[space]string{spGlobal: ".global", spShared: ".shared", spLocal: ".local", spConst: ".const"}

// ptr is an address while a kernel is compiled.
type ptr struct {
	sp    space
	base  string // register, or symbol
	off   int64
	al    *alloca
	g     map[int64]val // values of a table of constants
	t     types.Type    // of the table
	align int64         // of what base points to; 0 means 1
	root  string        // the slice parameter that it points into
}

// alloca is a variable in registers: a cell for each scalar.
type alloca struct {
	key   string
	cells map[int64]string
	kinds map[int64]kind
}

func offset(x val, off int64) val {
	p := *x.p
	p.off += off
	x.p = &p
	return x
}

// at is the address of element i.
func (k *kctx) at(s *scope, x, i val, v ssa.Value, size int64) val {
	if i.isC {
		return offset(x, int64(i.c)*size)
	}
	// x[i+c] is x[i] and an offset
	if b, ok := v.(*ssa.BinOp); ok && (b.Op == token.ADD || b.Op == token.SUB) && kindOf(v.Type()) == k64 {
		if y, ok := k.tryGet(s, b.Y); ok && y.isC && int64(y.c) < 1<<20 && int64(y.c) > -1<<20 {
			if w, ok := k.tryGet(s, b.X); ok {
				d := int64(y.c)
				if b.Op == token.SUB {
					d = -d
				}
				return offset(k.at(s, x, w, b.X, size), d*size)
			}
		}
		if y, ok := k.tryGet(s, b.X); ok && y.isC && b.Op == token.ADD && int64(y.c) < 1<<20 && int64(y.c) > -1<<20 {
			if w, ok := k.tryGet(s, b.Y); ok {
				return offset(k.at(s, x, w, b.Y, size), int64(y.c)*size)
			}
		}
	}
	p := *x.p
	if p.sp == spCell {
		k.demote(p.al)
	}
	base := p.base
	if strings.HasPrefix(base, tableMark) {
		base = k.table(&p)
	}
	if !isReg(base) {
		base = k.pure("mov.u64", k64, base).r
	}
	var scaled val
	switch {
	case size == 1:
		scaled = i
	case i.n32 != "" && !i.n32s:
		scaled = k.pure("mul.wide.u32", k64, i.n32, fmt.Sprint(size))
	case i.n32 != "":
		scaled = k.pure("mul.wide.s32", k64, i.n32, fmt.Sprint(size))
	case size&(size-1) == 0:
		scaled = k.pure("shl.b64", k64, i.String(), fmt.Sprint(bits.TrailingZeros64(uint64(size))))
	default:
		scaled = k.pure("mul.lo.s64", k64, i.String(), fmt.Sprint(size))
	}
	p.base = k.pure("add.s64", k64, base, scaled.String()).r
	p.g = nil
	p.align = gcd(max(1, p.align), size)
	x.p = &p
	return x
}

// index widens an index to 64 bits.
func (k *kctx) index(s *scope, v ssa.Value) val {
	return k.convert(v.Type().Underlying().(*types.Basic), types.Typ[types.Int], k.get(s, v))
}

// address gives a pointer as a register.
func (k *kctx) address(v val) val {
	p := v.p
	if p.sp == spCell {
		k.demote(p.al)
	}
	base := p.base
	if !isReg(base) {
		base = k.pure("mov.u64", k64, base).r
	}
	if p.off != 0 {
		return k.pure("add.s64", k64, base, fmt.Sprint(p.off))
	}
	return val{k: k64, r: base}
}

func (k *kctx) homePtr(key string) val {
	sp := k.phiSpace[key]
	if sp == spNone {
		sp = spGlobal
	}
	kd := k64
	return val{k: kPtr, r: key, p: &ptr{sp: sp, base: k.reg(kd).r}}
}

// meet checks that what is moved to a home has its space.
func (k *kctx) meet(dst, src val) {
	switch dst.k {
	case kAgg:
		for i := range dst.e {
			k.meet(dst.e[i], src.e[i])
		}
	case kPtr:
		if src.p.sp == spCell {
			k.demote(src.p.al)
		}
		if src.p.sp != dst.p.sp {
			if _, ok := k.phiSpace[dst.r]; ok {
				k.fail(k.fn.Pos(), "pointers to %s and to %s memory meet in one variable", spaceName[src.p.sp], spaceName[dst.p.sp])
			}
			k.phiSpace[dst.r] = src.p.sp
			panic(restart{})
		}
	}
}

func (k *kctx) demote(a *alloca) {
	k.demoted[a.key] = true
	panic(restart{})
}

func (k *kctx) memOperand(p *ptr) string {
	base := p.base
	if strings.HasPrefix(base, tableMark) {
		base = k.table(p)
	}
	if p.off != 0 {
		return fmt.Sprintf("[%s+%d]", base, p.off)
	}
	return "[" + base + "]"
}

func (k *kctx) slice(s *scope, in *ssa.Slice) val {
	x := k.get(s, in.X)
	var p, n val
	var et types.Type
	switch t := in.X.Type().Underlying().(type) {
	case *types.Slice:
		p, n, et = x.e[0], x.e[1], t.Elem()
	case *types.Pointer:
		a := t.Elem().Underlying().(*types.Array)
		p, n, et = x, cst(k64, uint64(a.Len())), a.Elem()
	default:
		k.fail(in.Pos(), "a kernel slices no %s: a slice or an array", in.X.Type())
	}
	low, high := cst(k64, 0), n
	if in.High != nil {
		high = k.index(s, in.High)
		k.le(high, n, in.Pos())
	}
	if in.Low != nil {
		low = k.index(s, in.Low)
		k.le(low, high, in.Pos())
		p = k.at(s, p, low, in.Low, sizes.Sizeof(et))
	}
	b := types.Typ[types.Int]
	return val{k: kAgg, e: []val{p, k.bin(token.SUB, b, b, high, low, in.Pos())}}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// aligned tells whether 16 bytes at a pointer can be one load or store.
func (p *ptr) aligned() bool { return max(1, p.align)%16 == 0 && p.off%16 == 0 }
