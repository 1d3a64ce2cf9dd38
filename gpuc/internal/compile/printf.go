package compile

import (
	"fmt"
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// t.Printf is vprintf of the CUDA runtime: a format of C, and the arguments in memory, 8 bytes each.

// maxPrinted is how many arguments vprintf takes.
const maxPrinted = 32

// printfSlot is the array of arguments that an address leads to.
func printfSlot(v ssa.Value) *ssa.Alloc {
	switch v := v.(type) {
	case *ssa.IndexAddr:
		return printfSlot(v.X)
	case *ssa.Alloc:
		a, ok := elem(v.Type()).Underlying().(*types.Array)
		if !ok || !types.IsInterface(a.Elem()) {
			return nil
		}
		for _, r := range *v.Referrers() {
			if s, ok := r.(*ssa.Slice); ok {
				for _, r := range *s.Referrers() {
					if c, ok := r.(*ssa.Call); !ok || !isPrintf(c) {
						return nil
					}
				}
			} else if _, ok := r.(*ssa.IndexAddr); !ok {
				return nil
			}
		}
		return v
	}
	return nil
}

func isPrintf(c *ssa.Call) bool {
	fn := c.Call.StaticCallee()
	return fn != nil && fn.Name() == "Printf" && fn.Pkg != nil && fn.Pkg.Pkg.Path() == gpuPackage
}

// ofPrintf reports whether an instruction does no more than to collect arguments.
func ofPrintf(in ssa.Instruction) bool {
	switch in := in.(type) {
	case *ssa.Alloc:
		return printfSlot(in) != nil
	case *ssa.IndexAddr:
		return printfSlot(in) != nil
	case *ssa.Slice:
		return printfSlot(in.X) != nil
	case *ssa.Store:
		return printfSlot(in.Addr) != nil
	}
	return false
}

// printf is a call of t.Printf.
func (k *kctx) printf(s *scope, in *ssa.Call) val {
	c, ok := in.Call.Args[1].(*ssa.Const)
	if !ok {
		k.fail(in.Pos(), "the format of t.Printf is a constant")
	}
	args := map[int64]ssa.Value{}
	switch v := in.Call.Args[2].(type) {
	case *ssa.Slice:
		for _, r := range *v.X.Referrers() {
			if a, ok := r.(*ssa.IndexAddr); ok {
				for _, r := range *a.Referrers() {
					if st, ok := r.(*ssa.Store); ok {
						args[a.Index.(*ssa.Const).Int64()] = st.Val
					}
				}
			}
		}
	case *ssa.Const:
	default:
		k.fail(in.Pos(), "write the arguments of t.Printf one by one, not as a slice")
	}
	var memory []string
	format := k.printfFormat(s, in, constant.StringVal(c.Value), args, &memory)
	base := "0"
	if len(memory) > 0 {
		buffer := "printf_" + k.name
		decl := fmt.Sprintf(".local .align 8 .b8 %s[%d];", buffer, 8*maxPrinted)
		if !slices.Contains(k.decls, decl) {
			k.decls = append(k.decls, decl)
		}
		for i, r := range memory {
			k.emit("st.local.b64", nil, fmt.Sprintf("[%s+%d]", buffer, 8*i), r).side = true
		}
		base = k.pure("cvta.local.u64", k64, k.pure("mov.u64", k64, buffer).r).r
	}
	k.declareOnce(".extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);")
	i := k.emit("call", []string{k.reg(k32).r}, k.text(format), base)
	i.side, i.call = true, &callee{name: "vprintf", params: []string{"b64", "b64"}, results: []scalar{{k: k32, size: 4}}, size: 4}
	return val{}
}

// declareOnce adds a declaration to the module.
func (k *kctx) declareOnce(text string) {
	find(&k.unit.decls, decl{head: text}, func(d decl) bool { return d.head == text })
}

// text puts a string into the module, and gives its address.
func (k *kctx) text(s string) string {
	data := strings.ReplaceAll(strings.Trim(fmt.Sprint(append([]byte(s), 0)), "[]"), " ", ", ")
	tail := fmt.Sprintf("[%d] = {%s};", len(s)+1, data)
	i := find(&k.unit.decls, decl{head: ".global .align 1 .b8 ", name: "text", tail: tail}, func(d decl) bool { return d.name == "text" && d.size == 0 && d.tail == tail })
	return k.pure("cvta.global.u64", k64, k.pure("mov.u64", k64, "text"+mark(markDecl, i)).r).r
}

// printfFormat makes C's format from Go's, and the registers for the arguments.
func (k *kctx) printfFormat(s *scope, in *ssa.Call, format string, args map[int64]ssa.Value, memory *[]string) string {
	var b strings.Builder
	next := int64(0)
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		begin := i
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.", format[i]) >= 0; i++ {
		}
		if i == len(format) {
			k.fail(in.Pos(), "the format of t.Printf ends within a verb: %q", format)
		}
		spec, verb := format[begin:i], format[i]
		if verb == '%' {
			b.WriteString("%%")
			continue
		}
		v, ok := args[next]
		if !ok {
			k.fail(in.Pos(), "t.Printf has %d arguments, and %q wants more", len(args), format)
		}
		next++
		b.WriteString(k.printfVerb(s, in, spec, verb, v, memory))
	}
	if int(next) != len(args) {
		k.fail(in.Pos(), "t.Printf has %d arguments, and %q wants %d", len(args), format, next)
	}
	if len(*memory) > maxPrinted {
		k.fail(in.Pos(), "t.Printf prints at most %d arguments: call it twice", maxPrinted)
	}
	return b.String()
}

// printfVerb is one verb.
func (k *kctx) printfVerb(s *scope, in *ssa.Call, spec string, verb byte, arg ssa.Value, memory *[]string) string {
	wrong := func(kind, verbs string) {
		k.fail(in.Pos(), "t.Printf cannot print %s with %s%c: use %s", kind, spec, verb, verbs)
	}
	made, ok := arg.(*ssa.MakeInterface)
	if !ok {
		k.fail(in.Pos(), "t.Printf prints numbers, bools and constant strings, not %s", arg.Type())
	}
	t := made.X.Type()
	if fromGPU(t, "Float16", "BFloat16") {
		v := k.get(s, made.X)
		f := k.call(k.p.gpuMethod(t, "Float32"), []val{v}, in.Name(), in.Parent(), in.Pos())
		return k.printfFloat(spec, verb, f, memory, wrong)
	}
	u, ok := t.Underlying().(*types.Basic)
	switch {
	case ok && u.Info()&types.IsString != 0:
		c, ok := made.X.(*ssa.Const)
		if !ok {
			k.fail(in.Pos(), "t.Printf prints constant strings alone: a kernel has no others")
		}
		if verb != 's' && verb != 'v' {
			wrong("a string", "%s or %v")
		}
		return strings.ReplaceAll(fmt.Sprintf(spec+"s", constant.StringVal(c.Value)), "%", "%%")
	case !ok || kindOf(t) == kNone:
		k.fail(in.Pos(), "t.Printf prints numbers, bools and constant strings, not %s", t)
	}
	v := k.get(s, made.X)
	switch {
	case v.k == kPred:
		if verb != 't' && verb != 'v' {
			wrong("a bool", "%t or %v")
		}
		yes, no := k.text("true"), k.text("false")
		*memory = append(*memory, k.pure("selp.b64", k64, yes, no, k.register(v).r).r)
		return spec + "s"
	case isFloat(v.k):
		return k.printfFloat(spec, verb, v, memory, wrong)
	}
	letter := "d"
	switch {
	case (verb == 'd' || verb == 'v') && !strings.Contains(spec, "#"):
		if unsigned(u) {
			letter = "u"
		}
	case strings.IndexByte("xXo", verb) >= 0 && unsigned(u):
		letter = string(verb)
	case unsigned(u):
		wrong("an unsigned integer", "%d, %x, %X, %o or %v")
	default:
		wrong("a signed integer", "%d or %v, or convert it to an unsigned one")
	}
	*memory = append(*memory, k.convert(u, types.Typ[types.Int64], v).String())
	return spec + "ll" + letter
}

// printfFloat is a verb for a float.
func (k *kctx) printfFloat(spec string, verb byte, v val, memory *[]string, wrong func(kind, verbs string)) string {
	switch verb {
	case 'v':
		verb = 'g'
	case 'e', 'E', 'f', 'F', 'g', 'G':
	default:
		wrong("a float", "%e, %f, %g or %v")
	}
	w := v
	if v.k == kF32 {
		w = k.convert(types.Typ[types.Float32], types.Typ[types.Float64], v)
	}
	*memory = append(*memory, k.pure("mov.b64", k64, w.String()).r)
	return spec + string(verb) // without a precision, 6 digits
}

// gpuMethod is a method of a type of package gpu.
func (p *Program) gpuMethod(t types.Type, name string) *ssa.Function {
	m := types.NewMethodSet(t).Lookup(nil, name)
	return p.pkg.Prog.MethodValue(m)
}
