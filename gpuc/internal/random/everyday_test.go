package random

// everyday writes what Go authors write daily: copies, comparisons of whole arrays, slices to arrays, text, closures.
func (w *writer) everyday() {
	t, a, v := pick(w.r, ints), w.name("a"), w.name("v")
	w.line("var %s int64", v)
	w.scoped(true, func() {
		w.line("{")
		defer w.line("}")
		switch w.r.IntN(8) {
		case 0, 1: // parts of an array that overlap
			w.line("%s := [9]%s{2: %s, 5: %s, 8: 3}", a, t, w.expr(t, 2), w.expr(t, 1))
			w.line("copied := copy(%s[%s:], %s[%s:%d])", a, w.index(8), a, w.index(4), 4+w.r.IntN(5))
			if w.r.IntN(2) == 0 {
				w.line("clear(%s[%s:])", a, w.index(8))
			}
			w.line("for jj, xx := range %s { %s = %s*3 + int64(xx) + int64(jj*copied) }", a, v, v)
		case 2: // equality
			w.line("type pair struct { x %s; y [2]%s; ok bool }", t, t)
			w.line("%s, bb := pair{%s, [2]%s{%s, 1}, %s}, pair{ok: %s}", a, w.expr(t, 1), t, w.expr(t, 1), w.boolean(1), w.boolean(1))
			w.line("if %s { bb = %s }", w.boolean(1), a)
			w.line("if %s == bb { %s = 5 }", a, v)
			w.line("if %s.y != ([2]%s{1, 1}) && &%s.x != nil { %s -= 3 }", a, t, a, v)
		case 3: // slices to arrays
			if !w.thread {
				w.line("%s = int64(len(id([3]int8{})))", v)
				break
			}
			w.line("%s := [4]int64(in[%s&31:])", a, w.expr(t, 1))
			w.line("pp := (*[4]int16)(h[%s&31:])", w.expr(t, 1))
			w.line("%s = %s[%s]*3 + int64(pp[%s])", v, a, w.index(4), w.index(4))
		case 4:
			w.line("%s := [12]byte{1, 2, byte(%s), 4, byte(%s)}", a, w.expr(t, 2), w.expr(t, 1))
			w.line("putWord(%s[%s:], %s)", a, w.index(4), w.expr("uint64", 1))
			w.line("%s = int64(word(%s[%s:]))", v, a, w.index(8))
		case 5: // text
			w.line("for jj, cc := range text { if %s { %s += int64(cc)<<jj } }", w.boolean(1), v)
			w.line("%s ^= int64(text[%s]) + int64(len(text[%s:]))", v, w.index(8), w.index(4))
		case 6: // closures
			w.line("xx := %s", w.expr(t, 2))
			w.line("%s := func(yy %s) %s { xx += yy; return xx*2 }", a, t, t)
			w.line("%s = int64(%s(%s)) + int64(apply(%s, xx))", v, a, w.expr(t, 1), a)
		case 7:
			w.line("for xx := range below(%s & 15) { if xx == %d { break }; %s += int64(xx)*5 + 1 }", w.expr("int", 1), w.r.IntN(20), v)
		}
	})
	w.know("int64", v, true)
}

// group writes what groups of lanes do, where all threads are at one place.
func (w *writer) group() {
	t, g, x, n := pick(w.r, []string{"int32", "uint32", "int64", "uint64"}), w.name("g"), w.name("v"), 1<<w.r.IntN(6)
	w.line("%s := gpu.Tile(t, %d)", g, n)
	w.line("%s := gpu.GroupReduce(%s, %s, func(a, b %s) %s { return %s })", x, g, w.expr(t, 2), t, t, pick(w.r, []string{"a + b", "a ^ b", "min(a, b) + max(a, b)"}))
	if w.r.IntN(2) == 0 {
		w.line("%s += gpu.GroupShuffle(%s, %s, %s & %d)", x, g, w.expr(t, 1), w.expr("int", 1), n-1)
	}
	w.know(t, x, true)
	y := w.name("v")
	w.line("%s := %s.Ballot(%s) + uint32(%s.Rank()*%s.Size())", y, g, w.boolean(2), g, g)
	w.know("uint32", y, true)
	b := w.name("v")
	w.line("%s := %s.%s(%s)", b, g, pick(w.r, []string{"All", "Any"}), w.boolean(2))
	w.know("bool", b, true)
	w.line("%s.Barrier()", g)
}
