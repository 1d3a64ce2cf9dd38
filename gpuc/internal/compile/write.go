package compile

import (
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// finish makes the text of the kernel.
func (k *kctx) finish() *Kernel {
	k.failures()
	k.funcs.aliases(k.written)
	k.readOnly(k.out)
	code := k.passes()
	kk := &Kernel{Source: k.src, Report: k.reports(), Grid: k.funcs.grid, version: k.funcs.version, written: k.written, unit: k.unit}
	var b strings.Builder
	fmt.Fprintf(&b, ".visible .entry %s(\n\t%s\n)\n", k.name, strings.Join(k.declare(), ",\n\t"))
	if bl := k.src.Block; bl[0] > 0 {
		fmt.Fprintf(&b, ".reqntid %d, %d, %d\n", bl[0], bl[1], bl[2])
	}
	if n := max(k.src.Blocks, k.funcs.blocks); n > 0 {
		fmt.Fprintf(&b, ".minnctapersm %d\n", n)
	}
	if n := k.src.Registers; n > 0 {
		fmt.Fprintf(&b, ".maxnreg %d\n", n)
	}
	kk.Instrs = k.body(&b, code)
	text := strings.ReplaceAll(b.String(), markLabel, "$L_"+k.name+"_")
	deepest := 0
	for _, c := range k.funcs.list {
		kk.Instrs += c.instrs
		if k.outlined.recursive[c.fn] {
			deepest = max(deepest, c.frame)
		}
	}
	if deepest > 0 {
		kk.Stack = k.src.depth()*deepest + frameBytes(code, k.decls)
		for _, c := range k.funcs.list {
			kk.Stack += c.frame
		}
	}
	for _, c := range k.funcs.list { // all heads first: they call each other
		kk.text += c.head() + ";\n"
	}
	for _, c := range k.funcs.list {
		kk.text += "\n" + c.text
	}
	if kk.text != "" {
		kk.text += "\n"
	}
	kk.text += text
	return kk
}

// passes improves the code.
func (k *kctx) passes() []ins {
	code := clean(k.out)
	if !k.o.Plain {
		code = k.divisions(k.optimize(code))
	}
	return code
}

// source returns the number of a file in the kernel, from 1, and the place in it.
func (k *kctx) source(pos token.Pos) (int, token.Position) {
	if !pos.IsValid() {
		return 0, token.Position{}
	}
	at := k.p.fset.Position(pos)
	name, ok := k.p.files[at.Filename]
	if !ok {
		return 0, at
	}
	return find(&k.unit.files, name, func(f string) bool { return f == name }) + 1, at
}

// body writes the body of a kernel or a function, and gives the number of instructions.
func (k *kctx) body(b *strings.Builder, code []ins) (n int) {
	b.WriteString("{\n")
	for _, kd := range []kind{kPred, k32, k64, kF32, kF64, kHalf, kPair} {
		if n := k.nreg[kd]; n > 0 {
			fmt.Fprintf(b, "\t.reg .%s %s<%d>;\n", suffix(kd), prefix[kd], n+1)
		}
	}
	for _, d := range k.decls {
		b.WriteString("\t" + d + "\n")
	}
	file, line := 0, 0
	for _, i := range code {
		if i.label == "" {
			n++
			if f, p := k.source(i.pos); f > 0 && (f != file || p.Line != line) {
				file, line = f, p.Line
				fmt.Fprintf(b, "\t.loc %s %d %d\n", mark(markFile, f-1), p.Line, p.Column)
			}
		}
		i.write(b)
	}
	b.WriteString("}\n")
	return n
}

// write writes an instruction, or a label.
func (i *ins) write(b *strings.Builder) {
	if i.label != "" {
		b.WriteString(i.label + ":\n")
		return
	}
	if i.call != nil {
		i.writeCall(b)
		return
	}
	if strings.Contains(i.op, ".carried.") {
		b.WriteString(i.carried())
		return
	}
	b.WriteByte('\t')
	if i.guard != "" {
		b.WriteByte('@')
		if i.guardNot {
			b.WriteByte('!')
		}
		b.WriteString(i.guard + " ")
	}
	b.WriteString(i.op)
	switch {
	case len(i.dst) > 1:
		b.WriteString(" {" + strings.Join(i.dst, ", ") + "}, ")
	case len(i.dst) == 1 && i.text == "":
		b.WriteString(" " + i.dst[0])
	case len(i.dst) == 1:
		b.WriteString(" " + i.dst[0] + ", ")
	case i.text != "":
		b.WriteByte(' ')
	}
	b.WriteString(i.text + ";")
	if i.note != "" {
		b.WriteString(" // " + i.note)
	}
	b.WriteByte('\n')
}

// ReportWords is how many uint64 a report has: the site, the index, the length, then the block and the thread along
// x, y and z.
const ReportWords = 9

// reports returns whether the kernel has a check that reports.
func (k *kctx) reports() bool {
	other := slices.ContainsFunc(k.o.Other.Kernels, func(o *Kernel) bool { return o.Source == k.src && o.Report })
	return k.o.Checks == ChecksReport && (len(k.fails) > 0 || len(k.funcs.list) > 0 || other)
}

// failures writes where failed checks go.
func (k *kctx) failures() {
	k.alone()
	k.converge()
	k.takeAddresses()
	if len(k.fails) == 0 {
		return
	}
	k.out = append(k.out, ins{op: "ret", side: true})
	if k.o.Checks != ChecksReport {
		for _, f := range k.fails {
			k.out = append(k.out, ins{label: f.label})
		}
		k.out = append(k.out, ins{op: "trap", side: true})
		return
	}
	site, idx, n := k.reg(k64), k.reg(k64), k.reg(k64)
	const end = markLabel + "report"
	for _, f := range k.fails {
		k.out = append(k.out, ins{label: f.label})
		k.emit("mov.b64", []string{site.r}, mark(markSite, f.site))
		k.emit("mov.b64", []string{idx.r}, f.idx)
		k.emit("mov.b64", []string{n.r}, f.n)
		k.out = append(k.out, ins{op: "bra", text: end, target: end, side: true})
	}
	k.out = append(k.out, ins{label: end})
	a, g, old, p := k.reg(k64), k.reg(k64), k.reg(k64), k.reg(kPred)
	k.emit("ld.param.u64", []string{a.r}, "["+k.name+"_report]")
	k.emit("cvta.to.global.u64", []string{g.r}, a.r)
	k.emit("atom.global.cas.b64", []string{old.r}, "["+g.r+"]", "0", "-1").side = true // the report is this thread's
	k.emit("setp.ne.u64", []string{p.r}, old.r, "0")
	k.out = append(k.out, ins{op: "exit", side: true, guard: p.r})
	k.emit("st.global.u64", nil, "["+g.r+"+8]", idx.r).side = true
	k.emit("st.global.u64", nil, "["+g.r+"+16]", n.r).side = true
	for i, s := range []string{"ctaid.x", "ctaid.y", "ctaid.z", "tid.x", "tid.y", "tid.z"} {
		r, w := k.reg(k32), k.reg(k64)
		k.emit("mov.u32", []string{r.r}, "%"+s)
		k.emit("cvt.u64.u32", []string{w.r}, r.r)
		k.emit("st.global.u64", nil, fmt.Sprintf("[%s+%d]", g.r, 24+8*i), w.r).side = true
	}
	k.out = append(k.out, ins{op: "membar.sys", side: true}) // the host reads the rest once it sees the site
	k.emit("atom.global.exch.b64", []string{old.r}, "["+g.r+"]", site.r).side = true
	k.out = append(k.out, ins{op: "exit", side: true})
}
