package compile

import (
	"fmt"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// tensorTypes are the elements of tensor cores, with the name in PTX and the oldest target that multiplies them.
var tensorTypes = map[string]struct {
	name, sum string
	arch      int
}{
	"Float16": {"f16", "float32", 75}, "int8": {"s8", "int32", 75}, "uint8": {"u8", "int32", 75},
	"BFloat16": {"bf16", "float32", 80}, "TF32": {"tf32", "float32", 80}, "float64": {"f64", "float64", 80},
	"Float8E4M3": {"e4m3", "float32", 89}, "Float8E5M2": {"e5m2", "float32", 89},
}

// tensorName is the name of a type argument, without its package.
func tensorName(fn *ssa.Function, i int) string {
	name := fn.TypeArgs()[i].String()
	return name[strings.LastIndexByte(name, '.')+1:]
}

// needs rejects a target that lacks something.
func (k *kctx) needs(in *ssa.Call, arch int, what string) {
	if k.o.Arch < arch {
		k.fail(in.Pos(), "%s needs sm_%d, and this is compiled for sm_%d: give gpuc -arch sm_%d", what, arch, k.o.Arch, arch)
	}
}

// in is a pointer to memory of a space.
func (k *kctx) in(in *ssa.Call, name string, v val, sp space) *ptr {
	if v = k.notNil(v, in.Pos()); v.p == nil || v.p.sp != sp {
		k.fail(in.Pos(), "gpu.%s takes a pointer to %s memory here", name, map[space]string{spShared: "shared", spGlobal: "a slice's"}[sp])
	}
	if !v.p.aligned(16) {
		k.fail(in.Pos(), "gpu.%s takes a pointer to 16 bytes that are aligned: an element of a slice or an array of gpu.Uint4", name)
	}
	return v.p
}

// tensor is a function of tensor cores, or of copies that go on while the thread does. All others are compiled from source.
func (k *kctx) tensor(in *ssa.Call, name string, fn *ssa.Function, a []val) (val, bool) {
	if v, ok := k.hopper(in, name, fn, a); ok {
		return v, true
	}
	switch name {
	case "MMA":
		k.mma(in, fn, a)
		return val{}, true
	case "LoadMatrixA", "LoadMatrixB", "LoadTransposedA", "LoadTransposedB":
		if tensorName(fn, 0) == "float64" {
			k.fail(in.Pos(), "gpu.%s: the elements of float64 are wider than a word; take gpu.LoadA and gpu.LoadB", name)
		}
		trans := ""
		if strings.Contains(name, "Transposed") {
			trans = ".trans"
		}
		d := make([]val, 4)
		for i := range d {
			d[i] = k.reg(k32)
		}
		k.emit("ldmatrix.sync.aligned.m8n8.x4"+trans+".shared.b16", registers(d), k.memOperand(k.in(in, name, a[1], spShared))).side = true
		words := func(v ...val) val { return val{k: kAgg, e: []val{{k: kAgg, e: v}}} }
		if strings.HasSuffix(name, "A") {
			return words(d...), true
		}
		return val{k: kAgg, e: []val{words(d[:2]...), words(d[2:]...)}}, true
	case "CopyAsync", "CopyAsyncPart":
		k.needs(in, 80, "gpu."+name)
		args := []string{k.memOperand(k.in(in, name, a[1], spShared)), k.memOperand(k.in(in, name, a[2], spGlobal)), "16"}
		if name == "CopyAsyncPart" {
			args = append(args, k.low32(a[3], 31))
		}
		k.emit("cp.async.cg.shared.global", nil, args...).side = true
		return val{}, true
	case "CopyCommit":
		k.needs(in, 80, "gpu."+name)
		k.emit("cp.async.commit_group", nil).side = true
		return val{}, true
	case "CopyWait":
		k.needs(in, 80, "gpu."+name)
		if !a[1].isC || int64(a[1].c) < 0 {
			k.fail(in.Pos(), "the number that gpu.CopyWait takes is a constant, 0 or more")
		}
		k.emit("cp.async.wait_group", nil, fmt.Sprint(a[1].c)).side = true
		return val{}, true
	case "PackHalves":
		if k.o.Arch < 80 {
			return val{}, false
		}
		return k.pure("cvt.rn."+halfType[tensorName(fn, 0)]+"x2.f32", k32, k.register(a[1]).r, k.register(a[0]).r), true
	case "ToFloat8E4M3", "ToFloat8E5M2":
		if k.o.Arch < 89 {
			return val{}, false
		}
		k.funcs.version = max(k.funcs.version, "8.1")
		two := k.pure("cvt.rn.satfinite."+strings.ToLower(name[len("ToFloat8"):])+"x2.f32", kHalf, "0f00000000", k.register(a[0]).r)
		return val{k: kAgg, e: []val{k.pure("cvt.u32.u16", k32, two.r)}}, true
	case "Float32", "ToFloat":
		of := tensorName(fn, 0)
		switch {
		case of == "float32":
			return a[0], true
		case name == "ToFloat":
			name = "To" + of
		}
		return k.half(of, name, a)
	case "ofBFloat16":
		return cst(kPred, b2u(tensorName(fn, 0) == "BFloat16")), true
	case "elementSize":
		return cst(k64, uint64(sizes.Sizeof(fn.TypeArgs()[0]))), true
	case "elementBits":
		return k.elementBits(fn.TypeArgs()[0], a[0]), true
	case "elementFrom":
		return k.elementFrom(fn.TypeArgs()[0], a[0]), true
	}
	return val{}, false
}

// elementBits are the bits of an element in 64.
func (k *kctx) elementBits(t types.Type, v val) val {
	if v.k == kAgg {
		v = v.e[0]
	}
	switch {
	case v.k == kF64:
		return k.pure("mov.b64", k64, k.register(v).r)
	case v.isC:
		return cst(k64, v.c&(1<<(8*sizes.Sizeof(t))-1))
	}
	if b, ok := t.Underlying().(*types.Basic); ok && b.Kind() == types.Int8 {
		v = k.pure("and.b32", k32, v.r, "255")
	}
	return k.pure("cvt.u64.u32", k64, v.r)
}

// elementFrom is the element of bits.
func (k *kctx) elementFrom(t types.Type, v val) val {
	b, ok := t.Underlying().(*types.Basic)
	if !ok {
		b = t.Underlying().(*types.Struct).Field(0).Type().Underlying().(*types.Basic)
		return val{k: kAgg, e: []val{k.convert(types.Typ[types.Uint64], b, v)}}
	}
	if b.Kind() == types.Float64 {
		return k.pure("mov.b64", kF64, k.register(v).r)
	}
	return k.convert(types.Typ[types.Uint64], b, v)
}

// mma is gpu.MMA. A target that has the instruction for fewer rows or a smaller depth alone gets several.
func (k *kctx) mma(in *ssa.Call, fn *ssa.Function, args []val) {
	of, sum := tensorName(fn, 0), tensorName(fn, 1)
	t := tensorTypes[of]
	if t.sum != sum {
		k.fail(in.Pos(), "gpu.MMA: the sums of %s are %s, not %s", of, t.sum, sum)
	}
	k.needs(in, t.arch, "gpu.MMA of "+of)
	if strings.HasPrefix(of, "Float8") {
		k.funcs.version = "8.4"
	}
	fragment := elem(in.Call.Args[1].Type())
	c, cells := k.cellsAt(args[1].p, 4, sizes.Sizeof(fn.TypeArgs()[1]))
	if !cells {
		c = flat(k.load(k.notNil(args[1], in.Pos()), fragment, in.Pos()), nil)
	}
	a, b := flat(args[2], nil), flat(args[3], nil)
	one := func(shape string, c, a, b []val) []val {
		d := c
		if !cells {
			d = make([]val, len(c))
			for i := range d {
				d[i] = k.reg(c[i].k)
			}
		}
		to := map[string]string{"int32": "s32", "float32": "f32", "float64": "f64"}[sum]
		op := fmt.Sprintf("mma.sync.aligned.%s.row.col.%s.%s.%s.%s", shape, to, t.name, t.name, to)
		k.emit(op, registers(d), k.braces(a), k.braces(b), k.braces(c)).side = true
		return d
	}
	integer := sum == "int32"
	if of == "float64" { // two words each
		double := func(w []val) val { return k.pure("mov.b64", kF64, k.braces(w)) }
		a, b = []val{double(a[:2]), double(a[2:])}, []val{double(b)}
	}
	switch {
	case of == "float64" && k.o.Arch < 90:
		c = append(one("m8n8k4", c[:2], a[:1], b), one("m8n8k4", c[2:], a[1:], b)...)
	case k.o.Arch >= 80:
		depth := map[int64]string{1: "m16n8k32", 2: "m16n8k16", 4: "m16n8k8", 8: "m16n8k4"}[sizes.Sizeof(fn.TypeArgs()[0])]
		c = one(depth, c, a, b)
	case integer:
		c = append(one("m8n8k16", c[:2], a[:1], b[:1]), one("m8n8k16", c[2:], a[1:2], b[:1])...)
		c = append(one("m8n8k16", c[:2], a[2:3], b[1:]), one("m8n8k16", c[2:], a[3:], b[1:])...)
	default:
		c = one("m16n8k8", one("m16n8k8", c, a[:2], b[:1]), a[2:], b[1:])
	}
	if !cells {
		k.store(args[1], val{k: kAgg, e: c}, fragment, in.Pos())
	}
}

// cellsAt are n registers of a variable that are changed in place, or false where they lie in memory.
func (k *kctx) cellsAt(p *ptr, n, size int64) (list []val, ok bool) {
	if p == nil || p.sp != spCell || p.al.value != nil {
		return nil, false
	}
	for i := range n {
		r, ok := p.al.cells[p.off+i*size]
		if !ok {
			return nil, false
		}
		list = append(list, val{k: p.al.kinds[p.off+i*size], r: r})
	}
	for _, v := range list {
		delete(k.cells, v.r)
	}
	return list, true
}

// registers are the registers of values, and braces is a list of them as an operand.
func registers(list []val) (out []string) {
	for _, v := range list {
		out = append(out, v.r)
	}
	return out
}

func (k *kctx) braces(list []val) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = k.register(v).r
	}
	return "{" + strings.Join(out, ", ") + "}"
}
