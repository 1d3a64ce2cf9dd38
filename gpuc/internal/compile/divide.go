package compile

import (
	"slices"
	"strings"
)

// divisions puts a branch around divisions of 64 bits: a GPU divides 32 bits in a quarter of the time, and most numbers
// are small. Where the quotient and the remainder of the same numbers are wanted, one division gives both. A constant
// divisor is for ptxas, which multiplies.
func (k *kctx) divisions(code []ins) (out []ins) {
	if !slices.ContainsFunc(code, func(i ins) bool { return i.divides64() }) {
		return code
	}
	defs := defsOf(code)
	done := map[int]bool{}
	for j, i := range code {
		switch {
		case done[j]:
		case i.divides64() && len(i.src) == 2 && i.guard == "":
			q, r := "", ""
			if i.op[:3] == "div" {
				q = i.dst[0]
			} else {
				r = i.dst[0]
			}
			if o := partner(code, j, defs); o > 0 {
				done[o] = true
				q, r = q+r, code[o].dst[0]
				if i.op[:3] == "rem" {
					q, r = r, q
				}
			}
			out = append(out, k.divide(i, q, r)...)
		default:
			out = append(out, i)
		}
	}
	return out
}

func (i *ins) divides64() bool {
	return i.label == "" && (i.op == "div.s64" || i.op == "div.u64" || i.op == "rem.s64" || i.op == "rem.u64")
}

// partner finds the remainder that belongs to a quotient, or the quotient to a remainder.
func partner(code []ins, first int, defs map[string]int) int {
	a := &code[first]
	for j := first + 1; j < len(code); j++ {
		b := &code[j]
		if b.label != "" || b.op == "bra" {
			return 0
		}
		if b.divides64() && b.op != a.op && b.op[3:] == a.op[3:] && b.text == a.text && b.guard == "" && defs[b.dst[0]] == 1 {
			return j
		}
		if slices.ContainsFunc(b.dst, func(r string) bool { return slices.Contains(a.src, r) }) {
			return 0
		}
	}
	return 0
}

// divide writes a division of 64 bits. q and r are the registers of what is wanted, or empty.
func (k *kctx) divide(i ins, q, r string) (out []ins) {
	x, y := i.src[0], i.src[1]
	add := func(op, dst string, args ...string) string {
		n := ins{op: op, dst: []string{dst}, text: strings.Join(args, ", "), pos: i.pos}
		for _, a := range args {
			n.src = append(n.src, regsIn(a)...)
		}
		out = append(out, n)
		return dst
	}
	jump := func(l, guard string) {
		out = append(out, ins{op: "bra", text: l, target: l, side: true, guard: guard, pos: i.pos})
	}
	new32, new64 := func() string { return k.reg(k32).r }, func() string { return k.reg(k64).r }
	slow, end := k.label(), k.label()

	high := add("shr.u64", new64(), add("or.b64", new64(), x, y), "32")
	jump(slow, add("setp.ne.u64", k.reg(kPred).r, high, "0"))
	a, b := add("cvt.u32.u64", new32(), x), add("cvt.u32.u64", new32(), y)
	if q == "" {
		add("cvt.u64.u32", r, add("rem.u32", new32(), a, b))
	} else {
		n := add("div.u32", new32(), a, b)
		if r != "" {
			add("cvt.u64.u32", r, add("sub.u32", new32(), a, add("mul.lo.u32", new32(), n, b)))
		}
		add("cvt.u64.u32", q, n)
	}
	jump(end, "")
	out = append(out, ins{label: slow})
	t := i.op[3:]
	if q == "" {
		add("rem"+t, r, x, y)
	} else {
		n := add("div"+t, new64(), x, y)
		if r != "" {
			add("sub.s64", r, x, add("mul.lo.s64", new64(), n, y))
		}
		add("mov.b64", q, n)
	}
	return append(out, ins{label: end})
}
