package compile

import (
	"fmt"
	"slices"
	"strings"
)

// rotate is a rotation. Two of 32 bits are one of 64.
func (k *kctx) rotate(name string, a []val) (val, bool) {
	width, ok := map[string]uint64{"RotateLeft8": 8, "RotateLeft16": 16, "RotateLeft32": 32, "RotateLeft64": 64, "RotateLeft": 64}[name]
	if !ok {
		return val{}, false
	}
	x, n := k.register(a[0]), a[1]
	switch {
	case width == 32:
		return k.pure("shf.l.wrap.b32", k32, x.r, x.r, k.low32(n, 31)), true
	case n.isC && n.c%width == 0:
		return x, true
	case width == 64 && n.isC:
		lo, hi := k.halves(x)
		if n.c%64 >= 32 {
			lo, hi = hi, lo
		}
		if n.c%32 == 0 {
			return k.pure("mov.b64", k64, "{"+lo+", "+hi+"}"), true
		}
		count := fmt.Sprint(n.c % 32)
		high, low := k.pure("shf.l.wrap.b32", k32, lo, hi, count), k.pure("shf.l.wrap.b32", k32, hi, lo, count)
		return k.pure("mov.b64", k64, "{"+low.r+", "+high.r+"}"), true
	case width == 64:
		left := k.pure("and.b32", k32, k.low32(n, 63), "63")
		right := k.pure("sub.u32", k32, "64", left.r) // of 64, shr makes 0
		return k.pure("or.b64", k64, k.pure("shl.b64", k64, x.r, left.r).r, k.pure("shr.u64", k64, x.r, right.r).r), true
	}
	count := k.low32(n, width-1)
	if !n.isC {
		count = k.pure("and.b32", k32, count, fmt.Sprint(width-1)).r
	}
	twice := k.pure("or.b32", k32, x.r, k.pure("shl.b32", k32, x.r, fmt.Sprint(width)).r)
	v := k.pure("shr.u32", k32, k.pure("shl.b32", k32, twice.r, count).r, fmt.Sprint(width))
	return k.pure("and.b32", k32, v.r, fmt.Sprint(uint64(1)<<width-1)), true
}

// halves are the low and the high 32 bits of a register.
func (k *kctx) halves(x val) (lo, hi string) {
	if v, ok := k.cur.get("halves " + x.r); ok {
		return v.e[0].r, v.e[1].r
	}
	v := val{k: kAgg, e: []val{k.reg(k32), k.reg(k32)}}
	k.emit("mov.b64", []string{v.e[0].r, v.e[1].r}, x.r)
	k.cur.m["halves "+x.r] = v
	return v.e[0].r, v.e[1].r
}

// carry is a sum or a difference with what it carries. Its instructions stay together, as they share the carry flag: see
// carried.
func (k *kctx) carry(name string, a []val) (val, bool) {
	op, t, kd := strings.ToLower(strings.TrimRight(name, "0123456789")), "u64", k64
	if op != "add" && op != "sub" {
		return val{}, false
	}
	if strings.HasSuffix(name, "32") {
		t, kd = "u32", k32
	}
	zero := func(v val) bool { return v.isC && v.c == 0 }
	switch {
	case zero(a[2]) && zero(a[1]):
		return val{k: kAgg, e: []val{a[0], cst(kd, 0)}}, true
	case zero(a[2]) && zero(a[0]) && op == "add":
		return val{k: kAgg, e: []val{a[1], cst(kd, 0)}}, true
	}
	key := fmt.Sprint("carried ", op, t, a[0], a[1], a[2])
	if v, ok := k.cur.get(key); ok {
		return v, true
	}
	v := val{k: kAgg, e: []val{k.reg(kd), k.reg(kd)}}
	v.e[1].hi = 1
	k.emit(op+".carried."+t, []string{v.e[0].r, v.e[1].r, k.reg(kd).r}, a[0].String(), a[1].String(), a[2].String())
	k.cur.m[key] = v
	return v, true
}

// carried is the text of a sum or a difference with what it carries.
func (i *ins) carried() string {
	op, t := i.op[:3], i.op[len(i.op)-3:]
	args := strings.Split(i.text, ", ")
	sum, out, unused, x, y, in := i.dst[0], i.dst[1], i.dst[2], args[0], args[1], args[2]
	var b strings.Builder
	line := func(op string, args ...string) {
		fmt.Fprintf(&b, "\t%s.%s %s;\n", op, t, strings.Join(args, ", "))
	}
	next := op
	switch {
	case in == "0":
	case op == "add": // a carry of 1 and all ones carry
		line("add.cc", unused, in, "-1")
		next = "addc"
	default:
		line("sub.cc", unused, "0", in)
		next = "subc"
	}
	line(next+".cc", sum, x, y)
	if len(args) > 3 {
		line(op+"c", out, args[3], "0")
		return b.String()
	}
	line(op+"c", out, "0", "0")
	if op == "sub" { // of a borrow it is -1
		fmt.Fprintf(&b, "\tand.b%s %s, %s, 1;\n", t[1:], out, out)
	}
	return b.String()
}

// addCarries lets a sum carry into the number that its carry is added to.
func addCarries(code []ins) (out []ins) {
	if !slices.ContainsFunc(code, func(i ins) bool { return strings.HasPrefix(i.op, "add.carried.") }) {
		return code
	}
	defs, uses := defsOf(code), usesOf(code)
	drop := map[int]bool{}
	for j := range code {
		i := &code[j]
		if !strings.HasPrefix(i.op, "add.carried.") || uses[i.dst[1]] != 1 || defs[i.dst[1]] != 1 {
			continue
		}
		n := j + 1
		read, written := map[string]bool{}, map[string]bool{i.dst[0]: true}
		for ; n < len(code) && code[n].label == "" && code[n].op != "bra" && !slices.Contains(code[n].src, i.dst[1]); n++ {
			for _, r := range append(code[n].src, code[n].guard) {
				read[r] = true
			}
			for _, r := range code[n].dst {
				written[r] = true
			}
		}
		if n == len(code) {
			break
		}
		a := &code[n]
		if a.op != "add."+strings.TrimPrefix(i.op, "add.carried.") || len(a.src) != 2 || a.guard != "" {
			continue
		}
		to := a.src[0]
		if to == i.dst[1] {
			to = a.src[1]
		}
		if d := a.dst[0]; to != i.dst[1] && !written[to] && !written[d] && !read[d] {
			i.dst = []string{i.dst[0], d, i.dst[2]}
			i.text, i.src = i.text+", "+to, append(slices.Clone(i.src), to)
			drop[n] = true
		}
	}
	for j, i := range code {
		if !drop[j] {
			out = append(out, i)
		}
	}
	return out
}
