package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"math"
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
	spParam
	spCell // an array or variable in registers
)

var spaceName = map[space]string{spGlobal: ".global", spShared: ".shared", spLocal: ".local", spConst: ".const", spParam: ".param"}

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
	sum   poly          // what base is, after the first index
	from  string        // what base was before it
	null  bool          // it is nil, which fits each space
	maybe bool          // it may be nil
	depth int           // how many loops are around the variable of the thread that it points to
	holds string        // the home of the pointers in the variable in memory that it points to
	early bool          // a check before a loop was for it
}

// alloca is a variable in registers: a cell for each scalar and pointer, or one value that it always has.
type alloca struct {
	key   string
	cells map[int64]string
	kinds map[int64]kind
	ptrs  map[int64]val
	funcs map[int64]val // functions, which are set in the block of the variable alone, and are in no memory
	block int
	index bool // it is an element whose index is not constant
	t     types.Type
	value *val
}

// meeting is what is known of the pointers that meet in one home.
type meeting struct {
	set   bool // there is one that is not nil
	null  bool // there is one that may be
	sp    space
	root  string // empty where they have several
	align int64
	holds string
	depth int
	fn    *ssa.Function // of functions
}

func offset(x val, off int64) val {
	p := *x.p
	p.off += off
	x.p = &p
	return x
}

// at is the address of element i.
func (k *kctx) at(x, i val, size int64) val {
	if i.isC {
		return offset(x, int64(i.c)*size)
	}
	p := *x.p
	if p.sp == spCell && p.al.value != nil && p.al.value.param != "" { // nobody writes it
		p.sp, p.base, p.align = spParam, p.al.value.param, sizes.Alignof(p.al.t)
		p.off += p.al.value.off
	}
	if p.sp == spCell {
		k.demote(p.al)
	}
	if strings.HasPrefix(p.base, tableMark) {
		p.base = k.table(&p)
	}
	if !isReg(p.base) {
		p.base = k.pure("mov.u64", k64, p.base).r
	}
	if p.g = nil; p.sp != spParam && p.al != nil {
		p.al = &alloca{funcs: p.al.funcs, index: true}
	}
	p.align = gcd(max(1, p.align), size)
	x.p = &p
	if k.o.Plain {
		p.base = k.pure("add.s64", k64, p.base, k.scaled(i, size).String()).r
		return x
	}
	// x[i+c] is x[i] and an offset
	if rest, c := i.poly().split(); c != 0 && c < 1<<20 && c > -1<<20 {
		if j, ok := k.known(rest); ok {
			i, p.off = j, p.off+c*size
		}
	}
	if p.sum == nil {
		p.sum, p.from = poly{{p.base, 1}}, p.base
	}
	p.sum = p.sum.plus(i.poly(), uint64(size))
	v, ok := k.known(p.sum)
	if !ok {
		v, ok = k.beside(&p, i)
	}
	if !ok {
		v = k.pure("add.s64", k64, p.base, k.scaled(i, size).String())
	}
	if p.base = v.r; len(p.sum) > maxTerms {
		p.sum = nil
		return x
	}
	k.cur.m["beside "+p.from] = k.keep(v, p.sum)
	return x
}

// beside goes on from the last address in the same memory, if what lies between is one product, or the distance of two
// registers. Passes of a loop have a row between them, say. An index of 32 bits needs no such help.
func (k *kctx) beside(p *ptr, i val) (val, bool) {
	last, ok := k.cur.get("beside " + p.from)
	if hi, low := k.bound(i); !ok || last.sum == nil || i.n32 != "" || low && hi <= math.MaxUint32 {
		return val{}, false
	}
	between := p.sum.plus(last.sum, math.MaxUint64)
	if d, ok := k.known(between); ok {
		return k.pure("add.s64", k64, last.r, d.r), true
	}
	if d, ok := k.known(poly(nil).plus(between, math.MaxUint64)); ok {
		return k.pure("sub.s64", k64, last.r, d.r), true
	}
	if len(between) == 0 || len(between) > 2 || between[0].regs == "" || len(between) == 2 && between[0].c != -between[1].c {
		return val{}, false
	}
	t, op := between[0], "add.s64"
	d := val{k: k64, r: t.regs}
	switch {
	case len(between) == 2 && strings.Contains(t.regs+between[1].regs, "*"):
		return val{}, false
	case len(between) == 2:
		if int64(t.c) < 0 {
			t, between[0], between[1] = between[1], between[1], between[0]
		}
		d = k.pure("sub.s64", k64, t.regs, between[1].regs)
	case strings.Contains(t.regs, "*"):
		if d, ok = k.known(poly{{t.regs, 1}}); !ok {
			return val{}, false
		}
	}
	if int64(t.c) < 0 {
		t.c, op = -t.c, "sub.s64"
	}
	switch {
	case t.c == 1:
	case t.c&(t.c-1) == 0:
		d = k.pure("shl.b64", k64, d.r, fmt.Sprint(bits.TrailingZeros64(t.c)))
	default:
		d = k.pure("mul.lo.s64", k64, d.r, fmt.Sprint(int64(t.c)))
	}
	if len(between) == 2 {
		k.cur.m["sum "+between.key()] = d
	}
	return k.pure(op, k64, last.r, d.r), true
}

// scaled is an index in bytes.
func (k *kctx) scaled(i val, size int64) val {
	if hi, ok := k.bound(i); ok && hi <= math.MaxUint32 && i.n32 == "" {
		i.n32 = k.pure("cvt.u32.u64", k32, i.r).r
	}
	switch {
	case size == 1:
		return i
	case i.n32 != "" && !i.n32s:
		return k.pure("mul.wide.u32", k64, i.n32, fmt.Sprint(size))
	case i.n32 != "":
		return k.pure("mul.wide.s32", k64, i.n32, fmt.Sprint(size))
	case size&(size-1) == 0:
		return k.pure("shl.b64", k64, i.String(), fmt.Sprint(bits.TrailingZeros64(uint64(size))))
	}
	return k.pure("mul.lo.s64", k64, i.String(), fmt.Sprint(size))
}

// index widens an index to 64 bits.
func (k *kctx) index(s *scope, v ssa.Value) val {
	if x, ok := k.widened(s, v); ok {
		return x
	}
	return k.convert(v.Type().Underlying().(*types.Basic), types.Typ[types.Int], k.get(s, v))
}

// address returns a pointer as a register.
func (k *kctx) address(v val) val {
	p := v.p
	if p.sp == spCell || p.sp == spParam {
		k.demote(p.al)
	}
	base := p.base
	if strings.HasPrefix(base, tableMark) {
		base = k.table(p)
	}
	if !isReg(base) {
		base = k.pure("mov.u64", k64, base).r
	}
	if p.off != 0 {
		return k.pure("add.s64", k64, base, fmt.Sprint(p.off))
	}
	return val{k: k64, r: base}
}

func (k *kctx) homePtr(key string) val {
	m := k.met[key]
	if !m.set { // nothing but nil, as far as this attempt has come
		m.sp = spGlobal
	}
	return val{k: kPtr, r: key, p: &ptr{sp: m.sp, root: m.root, align: m.align, holds: m.holds, null: !m.set, maybe: m.null, depth: m.depth, base: k.reg(k64).r}}
}

// meet checks that what is moved to a home has its space.
func (k *kctx) meet(dst, src val) {
	switch dst.k {
	case kAgg:
		for i := range dst.e {
			k.meet(dst.e[i], src.e[i])
		}
	case kFunc:
		k.meetFunc(dst, src)
	case kPtr:
		if (src.p.null || src.p.maybe) && k.nilAt(dst.r) {
			panic(restart{})
		}
		if src.p.null {
			return
		}
		if src.p.sp == spCell || src.p.sp == spParam {
			k.demote(src.p.al)
		}
		old := k.met[dst.r]
		m := meeting{set: true, null: old.null, sp: src.p.sp, root: src.p.root, align: gcd(max(1, src.p.align), src.p.off&15), holds: src.p.holds, depth: src.p.depth}
		if old.set {
			if m.sp != old.sp {
				k.fail(token.NoPos, "pointers to %s and to %s memory meet in one variable: write a variable for each", spaceName[m.sp], spaceName[old.sp])
			}
			if m.root != old.root {
				m.root = ""
			}
			if m.holds != old.holds {
				m.holds = ""
			}
			m.align, m.depth = gcd(old.align, m.align), max(old.depth, m.depth)
		}
		if m != old {
			k.met[dst.r] = m
			panic(restart{})
		}
	}
}

// present is a pointer that was found not to be nil.
func present(x val) val {
	if x.k == kPtr && x.p != nil && (x.p.maybe || x.p.null) {
		p := *x.p
		p.maybe, p.null = false, false
		x.p = &p
	}
	return x
}

// nilAt notes that a nil pointer comes to a home. It reports whether nobody knew.
func (k *kctx) nilAt(key string) bool {
	m := k.met[key]
	known := m.null
	m.null = true
	k.met[key] = m
	return !known
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
		p, n, et = present(k.notNil(x, in.Pos())), cst(k64, uint64(a.Len())), a.Elem()
	case *types.Basic: // a string
		p, n, et = x.e[0], x.e[1], types.Typ[types.Byte]
	default:
		k.fail(in.Pos(), "a kernel slices no %s: a slice or an array", in.X.Type())
	}
	if in.Max != nil { // the length is the capacity
		m := k.index(s, in.Max)
		k.le(m, n, in.Pos())
		n = m
	}
	low, high := cst(k64, 0), n
	if in.High != nil {
		high = k.index(s, in.High)
		k.le(high, n, in.Pos())
	}
	if in.Low != nil {
		low = k.index(s, in.Low)
		k.le(low, high, in.Pos())
		p = k.at(p, low, sizes.Sizeof(et))
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

// aligned reports whether bytes at a pointer can be one load or store.
func (p *ptr) aligned(size int64) bool { return max(1, p.align)%size == 0 && p.off%size == 0 }
