package random

import "fmt"

// guarded writes pointers that are nil for some threads, which follow them behind a condition.
func (w *writer) guarded() {
	t := pick(w.r, []string{"int8", "uint16", "int32", "uint64", "int64", "float32"})
	a, p, v := w.name("a"), w.name("p"), w.name("v")
	w.line("var %s %s", v, t)
	w.scoped(true, func() {
		w.line("{")
		defer w.line("}")
		kind := w.r.IntN(6)
		if !w.thread && kind > 3 {
			kind -= 3
		}
		switch kind {
		case 0, 1: // to an element or a field
			w.line("%s := [4]%s{%s, 2: %s}", a, t, w.expr(t, 1), w.expr(t, 1))
			w.line("var %s *%s", p, t)
			w.line("if %s { %s = &%s[%s] }", w.boolean(1), p, a, w.index(4))
			if w.r.IntN(3) == 0 {
				w.line("if %s { %s = nil }", w.boolean(1), p)
			}
			w.follow(p, t, v)
			w.line("%s += %s[%s]", v, a, w.index(4))
		case 2: // that a function returns, and that one takes
			w.line("%s := [5]%s{1, 2, 3, %s, 5}", a, t, w.expr(t, 1))
			w.line("%s := find(%s[:%d], %s)", p, a, w.r.IntN(6), w.expr(t, 1))
			w.follow(p, t, v)
			w.line("if addTo(%s, %s) { %s -= 2 }", p, w.expr(t, 1), v)
			w.line("%s += %s[%s]", v, a, w.index(5))
		case 3: // in a loop
			w.line("%s := [6]%s{%s}", a, t, w.expr(t, 1))
			w.line("for jj := range %s {", a)
			w.line("var %s *%s", p, t)
			w.line("if %s { %s = &%s[(jj+%d)%%6] }", w.boolean(1), p, a, w.r.IntN(6))
			w.line("if %s == nil { continue }", p)
			w.line("*%s += %s; %s = *%s", p, w.expr(t, 1), v, p)
			w.line("}")
		case 4: // to what the thread owns of global memory
			w.line("var %s *Rec", p)
			w.line("if %s { %s = &recs[i] }", w.boolean(1), p)
			w.line("if %s %s != nil %s { %s.E ^= %s; %s.C[%s & 1] -= %s }", pick(w.r, []string{"", w.boolean(1) + " &&", "i < len(in) &&"}), p,
				pick(w.r, []string{"", "&& " + w.boolean(1), "&& i < len(in) && in[i] > 3", fmt.Sprintf("&& %s.OK", p)}), p, w.expr("uint64", 1), p, w.expr("int", 1), w.expr("int32", 1))
			w.line("if %s == nil { recs[i].A++ } else if %s.A > 3 { %s.Turn(%s) }", p, p, p, w.expr("int32", 1))
		case 5: // beside an index that is in range where the condition holds
			w.line("var %s *uint64", p)
			w.line("if %s { %s = &own[%d] }", w.boolean(1), p, 5+w.r.IntN(3))
			w.line("if %s { *%s += uint64(%s) }", pick(w.r, []string{p + " != nil && i < len(in)", "i < len(in) && " + p + " != nil"}), p,
				pick(w.r, []string{"in[i]", "in[i] / (in[63-i] | 1)", "int64(len(in[i:]))", "fold(in[i:][:1], 3)", "int64([4]int16(h[i&^3:])[i&3])"}))
		}
	})
	w.know(t, v, true)
}

// follow follows a pointer behind a condition.
func (w *writer) follow(p, t, v string) {
	switch w.r.IntN(5) {
	case 0:
		w.line("if %s != nil { *%s += %s }", p, p, w.expr(t, 2))
	case 1:
		w.line("if %s != nil && %s { *%s = %s; %s++ }", p, w.boolean(1), p, w.expr(t, 1), v)
	case 2:
		w.line("if %s && %s != nil && *%s > %s { %s = *%s }", w.boolean(1), p, p, w.expr(t, 1), v, p)
	case 3:
		w.line("if %s == nil || *%s < 3 { %s = %s } else { *%s -= %s }", p, p, v, w.expr(t, 1), p, w.expr(t, 1))
	case 4:
		w.line("for %s != nil { *%s++; %s = *%s; break }", p, p, v, p)
	}
}

// mixed writes what Go authors build their programs of: methods that are promoted or hidden, generic types, operations that are types,
// functions in fields, method values, and functions that are not inlined or call themselves.
func (w *writer) mixed() {
	c, v, t := w.name("c"), w.name("v"), pick(w.r, ints)
	w.line("var %s int64", v)
	w.scoped(true, func() {
		w.line("{")
		defer w.line("}")
		switch w.r.IntN(9) {
		case 0:
			w.line("%s := Pair[%s]{%s, %s}", c, t, w.expr(t, 1), w.expr(t, 1))
			w.line("if %s { %s.Swap().First++ }", w.boolean(1), c)
			w.line("%s = int64(%s.Of(%s))*3 - int64(%s.Second)", v, c, w.boolean(1), c)
		case 1:
			w.line("%s := Derived{Base: Base{ID: %s}, Name: [3]uint8{1, uint8(%s)}}", c, w.expr("int32", 1), w.expr(t, 1))
			if w.r.IntN(2) == 0 {
				w.line("if %s { %s.Last = &%s }", w.boolean(1), c, v)
			}
			w.line("ww := %s.Move(%s)", c, w.expr("int32", 1))
			w.line("ww -= %s.Base.Move(%s)", c, w.expr("int32", 1))
			w.line("%s += int64(ww) + int64(%s.Name[%s]) + int64(%s.ID)", v, c, w.index(3+1)+"%3", c)
		case 2:
			w.line("%s := Mask(%s)", c, w.expr("uint32", 1))
			w.line("if !%s.Has(%s) { %s = int64(%s.Set(%s)) }", c, w.expr("int", 1), v, c, w.expr("int", 1))
			w.line("ff := %s.Set; %s += int64(ff(%s)) ^ int64(%s)", c, v, w.expr("int", 1), c)
		case 3:
			w.line("%s := [5]int64{%s, 3, %s}", c, w.expr("int64", 1), w.expr("int64", 1))
			w.line("%s = reduce(%s, %s[:%d])", v, pick(w.r, []string{"adding{}", "scaling{" + w.expr("int64", 1) + "}"}), c, w.r.IntN(6))
		case 4:
			w.line("xx := %s", w.expr("int64", 1))
			w.line("%s := Policy{F: func(y int64) int64 { xx ^= y; return xx*3 }, N: %s}", c, w.expr("int64", 1))
			w.line("%s = %s.run() + %s.F(%s)", v, c, c, w.expr("int64", 1))
			w.line("%s -= xx", v)
		case 5:
			w.line("%s := Counter{S: %s, N: %s & 7}", c, w.expr("uint64", 1), w.expr("uint64", 1))
			w.line("ww, ok := slow(%s, %s, &%s)", w.expr("int64", 1), w.expr("int64", 1), c)
			w.line("if ok || %s { ww2, _ := slow(ww, %s, %s); ww -= ww2 }", w.boolean(1), w.expr("int64", 1), pick(w.r, []string{"nil", "&" + c}))
			w.line("%s = ww + int64(%s.Sum())", v, c)
		case 6:
			w.line("%s := Counter{S: %s}", c, w.expr("uint64", 1))
			w.line("if isEven(int(%s & 15), &%s) { %s = 7 }", w.expr(t, 1), c, v)
			w.line("%s += int64(gcd(uint64(uint8(%s)), uint64(uint8(%s)))) + int64(%s.N)", v, w.expr(t, 1), w.expr(t, 1), c)
		case 7: // of package slices
			w.line("%s := [7]%s{%s, 3, %s, 5, %s}", c, t, w.expr(t, 1), w.expr(t, 1), w.expr(t, 1))
			w.line("slices.%s(%s[:%d])", pick(w.r, []string{"Sort", "Reverse"}), c, w.r.IntN(8))
			w.line("slices.SortFunc(%s[%d:], func(a, b %s) int { if a&7 != b&7 { return int(a&7) - int(b&7) }; return int(b>>3&63) - int(a>>3&63) })", c, w.r.IntN(7), t)
			w.line("%s = int64(slices.Index(%s[:], 3)) + int64(slices.Max(%s[:4]))", v, c, c)
			w.line("for jj, xx := range slices.Backward(%s[:]) { %s = %s*5 + int64(xx&15)*int64(jj) }", c, v, v)
		case 8: // closures of closures
			w.line("xx, yy := %s, %s", w.expr("int64", 1), w.expr("int64", 1))
			w.line("%s := func(a int64) int64 { yy -= a; return yy }", c)
			w.line("dd := func(a int64) int64 { xx += %s(a) + 1; return xx }", c)
			w.line("%s = xx + apply(func(a int64) int64 { return a*3 + 1 }, %s)", v, w.expr("int64", 1))
			w.line("%s += dd(%s); %s ^= apply(dd, 3) + yy", v, w.expr("int64", 1), v)
		}
	})
	w.know("int64", v, true)
}
