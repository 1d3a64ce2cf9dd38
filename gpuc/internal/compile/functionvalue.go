package compile

import (
	"go/token"

	"golang.org/x/tools/go/ssa"
)

// A function can be a value where the compiler knows which it is: as an argument, in a variable, as a closure. The call
// is inlined as any other, and what a closure has captured are pointers to variables.

// bind sets the parameters of a function, and what it has captured, which comes after the arguments.
func bind(s *scope, fn *ssa.Function, args []val) {
	for i, p := range fn.Params {
		s.m[p] = args[i]
	}
	for i, v := range fn.FreeVars {
		s.m[v] = args[len(fn.Params)+i]
	}
}

// homeFunc is the function that comes to a place by several ways.
func (k *kctx) homeFunc(key string) val { return val{k: kFunc, r: key, fn: k.met[key].fn} }

// meetFunc rejects a second function where another has come before.
func (k *kctx) meetFunc(dst, src val) {
	if len(src.e) > 0 {
		k.fail(token.NoPos, "which closure is called here depends on a condition: call each in its own branch")
	}
	m := k.met[dst.r]
	switch {
	case !m.set:
		m.set, m.fn = true, src.fn
		k.met[dst.r] = m
		panic(restart{})
	case m.fn != src.fn:
		k.fail(token.NoPos, "which function is called here depends on a condition, %s or %s: call each in its own branch", nameOf(m.fn), nameOf(src.fn))
	}
}

// loadFunc is a function in a variable of a struct or an array.
func (k *kctx) loadFunc(x val, pos token.Pos) val {
	if x.p.sp == spCell {
		if v, ok := x.p.al.funcs[x.p.off]; ok {
			return v
		}
		k.demote(x.p.al)
	}
	k.fail(pos, "a kernel loads no functions: they stay in variables")
	return val{}
}

// storeFunc sets one. All that comes after the block with the variable finds the last.
func (k *kctx) storeFunc(x, v val, pos token.Pos) {
	if x.p.sp != spCell {
		k.fail(pos, "a kernel stores no functions: they stay in variables")
	}
	if _, ok := x.p.al.funcs[x.p.off]; !ok {
		k.demote(x.p.al)
	}
	if x.p.al.block != k.blockID {
		k.fail(pos, "which function is called depends on how often and whether this is done: set it where the variable is declared, or call each in its own branch")
	}
	x.p.al.funcs[x.p.off] = v
}

func nameOf(fn *ssa.Function) string {
	if fn == nil {
		return "nil"
	}
	return called(fn)
}

// functionsIn names the functions in a value, for a function that is compiled for them.
func functionsIn(v val) (key string) {
	if v.k == kFunc && v.fn != nil {
		key = " " + v.fn.String()
	}
	if v.k == kAgg || v.k == kFunc {
		for _, e := range v.e {
			key += functionsIn(e)
		}
	}
	return key
}
