package random

import "fmt"

// expr is an expression of a type of numbers.
func (w *writer) expr(t string, depth int) string {
	if depth == 0 || w.r.IntN(5) == 0 {
		return w.leaf(t)
	}
	x, y := w.expr(t, depth-1), w.expr(t, depth-1)
	if t[0] == 'f' {
		return w.float(t, x, y, depth)
	}
	if w.r.IntN(150) == 0 {
		if e := w.bump(t); e != "" {
			return fmt.Sprintf("(%s + %s)", pick(w.r, []string{x, "id(" + x + ")"}), e)
		}
	}
	switch w.r.IntN(16) {
	case 0, 1, 2:
		return fmt.Sprintf("(%s %s %s)", x, pick(w.r, []string{"+", "-", "*"}), y)
	case 3, 4:
		return fmt.Sprintf("(%s %s %s)", x, pick(w.r, []string{"&", "|", "^", "&^"}), y)
	case 5:
		return fmt.Sprintf("(%s %s (%s | 1))", x, pick(w.r, []string{"/", "%"}), y)
	case 6:
		return fmt.Sprintf("(%s %s %d)", x, pick(w.r, []string{"/", "%", "*", "<<", "-", "&", "^"}), 1+w.r.IntN(20))
	case 7:
		return fmt.Sprintf("(%s %s (%s & %d))", x, pick(w.r, []string{"<<", ">>"}), w.expr(pick(w.r, ints), depth-1), pick(w.r, []int{3, 31, 127}))
	case 8:
		return fmt.Sprintf("(%s %s %s)", x, pick(w.r, []string{"<<", ">>"}), w.expr(pick(w.r, ints[4:8]), depth-1))
	case 9:
		return fmt.Sprintf("(%s%s)", pick(w.r, []string{"-", "^"}), x)
	case 10, 11:
		return fmt.Sprintf("%s(%s)", t, w.expr(pick(w.r, ints), depth-1))
	case 12:
		return fmt.Sprintf("%s(within(%s))", t, w.expr(pick(w.r, floats), depth-1))
	case 13, 14:
		return w.bits(t, depth-1)
	}
	return fmt.Sprintf("%s(%s, %s)", pick(w.r, []string{"min", "max"}), x, y)
}

// bump is a call that changes a variable of a type; empty where there is none.
func (w *writer) bump(t string) string {
	if len(w.sets[t]) == 0 {
		return ""
	}
	return fmt.Sprintf("bump(&%s)", pick(w.r, w.sets[t]))
}

// bits is a function on bits.
func (w *writer) bits(t string, depth int) string {
	a := func(t string) string { return w.expr(t, depth) }
	u := func(f string, t string) string { return fmt.Sprintf("%s(%s)", f, a(t)) }
	width := pick(w.r, []string{"8", "16", "32", "64"})
	var e string
	switch w.r.IntN(9) {
	case 0:
		e = u("bits."+pick(w.r, []string{"LeadingZeros", "TrailingZeros", "OnesCount", "Len", "Reverse"})+width, "uint"+width)
	case 1:
		width = pick(w.r, []string{"16", "32", "64"})
		e = u("bits.ReverseBytes"+width, "uint"+width)
	case 2:
		e = fmt.Sprintf("bits.RotateLeft%s(%s, int(%s))", width, a("uint"+width), a("int8"))
	case 3:
		e = fmt.Sprintf("gpu.FunnelShift%s(%s, %s, %s)", pick(w.r, []string{"Left", "Right"}), a("uint32"), a("uint32"), a("int"))
	case 4:
		e = fmt.Sprintf("gpu.BytePermute(%s, %s, %s & 0x7777)", a("uint32"), a("uint32"), a("uint32"))
	case 5:
		e = fmt.Sprintf("gpu.MulHigh32(%s, %s)", a("uint32"), a("uint32"))
	case 6:
		e = fmt.Sprintf("tableOf%s[%s]", pick(w.r, []string{"Bytes", "Ints"}), w.index(16))
	case 7:
		e = u("bits32", "float32")
	case 8:
		e = u("bits64", "float64")
	}
	return fmt.Sprintf("%s(%s)", t, e)
}

// float is an expression of float32 or float64. What is the same in Go and in a kernel is exact.
func (w *writer) float(t, x, y string, depth int) string {
	switch w.r.IntN(13) {
	case 0, 1:
		return fmt.Sprintf("(%s + %s)", x, y)
	case 2:
		return fmt.Sprintf("(%s - %s)", x, y)
	case 3:
		return fmt.Sprintf("%s(%s * %s)", t, x, y)
	case 4:
		return fmt.Sprintf("(%s / %s)", x, y)
	case 5:
		return fmt.Sprintf("%s(%s, %s)", pick(w.r, []string{"min", "max"}), x, y)
	case 6, 7:
		return fmt.Sprintf("%s(%s)", t, w.expr(pick(w.r, numbers), depth-1))
	case 8, 9:
		f := pick(w.r, []string{"Sqrt", "Abs", "Floor", "Ceil", "Trunc", "RoundToEven"})
		if t == "float32" {
			return fmt.Sprintf("gpu.%s32(%s)", f, x)
		}
		return fmt.Sprintf("math.%s(%s)", f, x)
	case 10:
		if t == "float32" {
			return fmt.Sprintf("gpu.FMA32(%s, %s, %s)", x, y, w.expr(t, depth-1))
		}
		return fmt.Sprintf("math.FMA(%s, %s, %s)", x, y, w.expr(t, depth-1))
	case 11: // the sign of a NaN is nobody's
		if t == "float32" {
			return fmt.Sprintf("gpu.Copysign32(%s, number(%s))", x, y)
		}
		return fmt.Sprintf("math.Copysign(%s, number(%s))", x, y)
	}
	return fmt.Sprintf("(-%s)", x)
}

// leaf is a variable, an input or a constant. A constant is a variable of its own, so that Go does not compute with it.
func (w *writer) leaf(t string) string {
	if v := w.vars[t]; len(v) > 0 && w.r.IntN(4) > 0 {
		return pick(w.r, v)
	}
	if w.thread && w.r.IntN(3) > 0 {
		return fmt.Sprintf("%s(%s)", t, w.input(t[0] == 'f'))
	}
	if t[0] == 'f' {
		return fmt.Sprintf("id(%s(%d.25))", t, w.r.IntN(9))
	}
	return fmt.Sprintf("id(%s(%d))", t, w.r.IntN(120))
}

// input is something of the arguments, or where the thread is.
func (w *writer) input(float bool) string {
	if float {
		return fmt.Sprintf(pick(w.r, []string{"f[(i+%d)&63]", "f[%d]", "p.B[%[1]d%%3]", "tableOfFloats[(i+%d)&15]", "recs[i].D + float64(recs[i].F) + %d"}), w.r.IntN(Inputs))
	}
	if w.r.IntN(200) == 0 { // what somebody sets
		return fmt.Sprintf(pick(w.r, []string{"setInInit[(i+%d)&3]", "byMethod + %d", "byPointer - %d", "other.Scale * %d", "other.Filled(i + %d)", "variables(%d)"}), w.r.IntN(Inputs))
	}
	axis := pick(w.r, []string{"X", "Y", "Z"})
	return fmt.Sprintf(pick(w.r, []string{
		"in[(i+%d)&63]", "in[%d]", "h[(i*5+%d)&63]", "quads[(i+%d)&63].W", "quads[(i^%d)&63].Z", "in[uint8(i+%d)&63]", "other.At(i+%d)",
		"t.Thread" + axis + "() + %d", "t.Block" + axis + "() - %d", "t.Global" + axis + "() * %d", "t.BlockDim" + axis + "() + t.GridDim" + axis + "() + t.GlobalDim" + axis + "() * %d",
		"t.Lane() ^ %d", "t.Warp() + %d", "p.A + %d", "p.D - %d", "int(p.C) + %d", "recs[i].C[0] + %d", "recs[i].B + %d", "int(recs[i].A) * %d", "len(in) - %d",
	}), w.r.IntN(Inputs))
}

// boolean is a condition.
func (w *writer) boolean(depth int) string {
	if v := w.vars["bool"]; len(v) > 0 && w.r.IntN(4) == 0 {
		return pick(w.r, v)
	}
	if depth > 0 && w.r.IntN(3) == 0 {
		return fmt.Sprintf("(%s %s %s)", w.boolean(depth-1), pick(w.r, []string{"&&", "||", "==", "!="}), w.boolean(depth-1))
	}
	if w.r.IntN(8) == 0 {
		return "!" + w.boolean(0)
	}
	if w.thread && w.r.IntN(10) == 0 {
		return pick(w.r, []string{"p.On", "recs[i].OK", "(i > 40)"})
	}
	t := pick(w.r, numbers)
	return fmt.Sprintf("(%s %s %s)", w.expr(t, max(0, depth-1)), pick(w.r, []string{"<", "<=", ">", ">=", "==", "!="}), w.expr(t, max(0, depth-1)))
}
