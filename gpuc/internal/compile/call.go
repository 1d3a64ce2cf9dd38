package compile

import (
	"cmp"
	"fmt"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// instead says what to write in place of a package that a kernel cannot use, or of a function of it.
var instead = map[string]string{
	"fmt":     "use t.Printf",
	"log":     "use t.Printf",
	"time":    "a kernel counts time with t.Clock(), in cycles, or t.GlobalTimer(), in nanoseconds",
	"sync":    "threads of a block meet at t.Barrier()",
	"sort":    "use slices.Sort or slices.SortFunc",
	"strings": "a kernel has no strings: use a []byte",
	"strconv": "a kernel has no strings: convert on the CPU, and give it numbers",
	"errors":  "a kernel has no errors: return a bool or a number, or write one to a slice",

	"hash/crc32": "write its loop, crc = table[byte(crc)^b] ^ crc>>8, with an array of constants",
	"hash/crc64": "write its loop, crc = table[byte(crc)^b] ^ crc>>8, with an array of constants",

	"sort.Find": searchInstead, "sort.Search": searchInstead,
	"sort.SearchFloat64s": searchInstead, "sort.SearchInts": searchInstead,

	"time.Sleep": "a thread waits with t.Nanosleep",

	"sync/atomic":  "use gpu.AtomicAdd and its brothers",
	"math/rand":    "a kernel has no global state: compute a Philox or xorshift from the index",
	"math/rand/v2": "a kernel has no global state: compute a Philox or xorshift from the index",
}

const searchInstead = "use slices.BinarySearch or slices.BinarySearchFunc"

const gpuPackage = "github.com/purecuda/purecuda/gpu"

func (k *kctx) callInstr(f *frame, s *scope, in *ssa.Call) val {
	c := in.Common()
	if b, ok := c.Value.(*ssa.Builtin); ok {
		return k.builtin(s, in, b)
	}
	if c.IsInvoke() {
		k.fail(in.Pos(), "a kernel calls no method of an interface: call a function by its name, or make the function generic")
	}
	f0 := k.get(s, c.Value)
	if f0.fn == nil {
		k.fail(in.Pos(), "the function that is called here is nil")
	}
	fn := f0.fn
	o := fn
	if fn.Origin() != nil {
		o = fn.Origin()
	}
	path := ""
	if o.Pkg != nil {
		path = o.Pkg.Pkg.Path()
	}
	if hint := cmp.Or(instead[path+"."+o.Name()], instead[path]); hint != "" {
		k.fail(in.Pos(), "a kernel cannot call %s.%s: %s", path, o.Name(), hint)
	}
	if path == gpuPackage && o.Name() == "Printf" {
		return k.printf(s, in)
	}
	var args []val
	for _, a := range c.Args {
		args = append(args, k.get(s, a))
	}
	args = append(args, f0.e...)
	switch path {
	case gpuPackage:
		if v, ok := k.gpu(f, in, o, fn, args); ok {
			return v
		}
	case "math":
		if v, ok := k.math(o.Name(), args); ok {
			return v
		}
		// The assembly of a processor has a twin in Go; without assembly the have constants are false.
		if n, ok := strings.CutPrefix(o.Name(), "arch"); ok {
			if twin := o.Pkg.Func(strings.ToLower(n)); twin != nil {
				fn = twin
			}
		}
	case "math/bits":
		if v, ok := k.bits(o.Name(), args); ok {
			return v
		}
	}
	if len(k.p.blocks(fn)) == 0 {
		if path != "" && !callable(path) {
			k.fail(in.Pos(), "gpuc reads no functions of package %s, such as %s: write what it does in your own package", path, o.Name())
		}
		k.fail(in.Pos(), "%s has no source in Go that could become part of a kernel", folders.ReplaceAllString(fn.String(), ""))
	}
	if k.outlines(fn) {
		return k.callFunction(fn, args, f.fn, in)
	}
	return k.call(fn, args, fmt.Sprintf("%s/%s:%s", f.path, in.Name(), f.fn.Name()), f.fn, in.Pos())
}

// builtin is a call of what Go has built in.
func (k *kctx) builtin(s *scope, in *ssa.Call, b *ssa.Builtin) val {
	hints := map[string]string{
		"append": "a kernel allocates no memory: give it a slice that is long enough",
		"print":  instead["fmt"], "println": instead["fmt"],
		"recover": "a kernel has no recover: checks=report says what failed",
	}
	if hint, ok := hints[b.Name()]; ok {
		k.fail(in.Pos(), "a kernel cannot call %s: %s", b.Name(), hint)
	}
	var args []val
	for _, a := range in.Call.Args {
		args = append(args, k.get(s, a))
	}
	switch b.Name() {
	case "clear":
		k.clear(in, args[0])
		return val{}
	case "copy":
		return k.copy(in, args[0], args[1])
	case "len", "cap":
		if _, ok := in.Call.Args[0].Type().Underlying().(*types.Slice); ok && b.Name() == "cap" {
			k.fail(in.Pos(), "a slice of a kernel ends at its length, and has no capacity beyond it: write len")
		}
		if args[0].k == kAgg && len(args[0].e) == 2 && args[0].e[0].k == kPtr {
			return args[0].e[1]
		}
	case "Sizeof":
		return cst(k64, uint64(sizes.Sizeof(in.Call.Args[0].Type())))
	case "min", "max":
		v, t := args[0], in.Type().Underlying().(*types.Basic)
		for _, a := range args[1:] {
			v = k.minMax(b.Name(), t, v, a)
		}
		return v
	}
	k.fail(in.Pos(), "a kernel cannot call %s of %s", b.Name(), in.Call.Args[0].Type())
	return val{}
}

// minMax is min or max of two. In Go a NaN wins; in PTX it loses, but for float32 since sm_80.
func (k *kctx) minMax(op string, t *types.Basic, a, b val) val {
	if less, ok := fold(token.LSS, t, t, a, b); !isFloat(a.k) && a.isC && b.isC && ok {
		if (less.c != 0) == (op == "min") {
			return a
		}
		return b
	}
	if _, low := k.bound(a); low && b.isC && b.c == 0 && !isFloat(a.k) {
		return map[string]val{"min": b, "max": a}[op]
	}
	if !isFloat(a.k) {
		return k.pure(op+"."+num(t), a.k, a.String(), b.String())
	}
	if a.k == kF32 && k.o.Arch >= 80 {
		return k.pure(op+".NaN.f32", a.k, a.String(), b.String())
	}
	v := k.pure(op+"."+num(t), a.k, a.String(), b.String())
	nan := k.pure("setp.nan."+num(t), kPred, a.String(), b.String())
	sum := k.pure("add.rn."+num(t), a.k, a.String(), b.String())
	return k.pure("selp."+num(t), a.k, sum.r, v.r, nan.r)
}

// folders are those in the paths of packages.
var folders = regexp.MustCompile(`[\w.~-]+/`)

// called is how an error names a function.
func called(fn *ssa.Function) string {
	literal := ""
	for fn.Parent() != nil {
		fn, literal = fn.Parent(), "a function literal in "
	}
	return literal + folders.ReplaceAllString(fn.Name(), "") // which has the types of a generic one
}

// enter notes a call, and leave its end.
func (k *kctx) enter(caller *ssa.Function, pos token.Pos) {
	k.calls = append(k.calls, Call{k.p.fset.Position(pos), called(caller)})
	k.loops = append(k.loops, 0)
}

func (k *kctx) leave() {
	k.calls, k.loops = k.calls[:len(k.calls)-1], k.loops[:len(k.loops)-1]
}
