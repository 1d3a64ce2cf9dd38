package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

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
	k.knowsFunctions(x, pos)
	return x.p.al.funcs[x.p.off]
}

// knowsFunctions fails where it is not known which function of a variable an address is that of.
func (k *kctx) knowsFunctions(x val, pos token.Pos) {
	if x.p.al == nil || x.p.al.funcs == nil {
		k.fail(pos, "which variable has the function depends on where a pointer leads: take the function of the variable itself, or give it as an argument")
	}
	if x.p.al.index {
		var names []string
		for _, off := range slices.Sorted(maps.Keys(x.p.al.funcs)) {
			if name := nameOf(x.p.al.funcs[off].fn); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		k.fail(pos, "which function this is, %s, depends on an index: write a switch that calls each in its own case", strings.Join(names, " or "))
	}
}

// storeFunc sets one. All that comes after the block with the variable finds the last.
func (k *kctx) storeFunc(x, v val, pos token.Pos) {
	k.knowsFunctions(x, pos)
	if x.p.al.block != k.blockID {
		k.fail(pos, "which function is called depends on how often and whether this is done: set it where the variable is declared, or call each in its own branch")
	}
	x.p.al.funcs[x.p.off] = v
}

// functions notes that a variable has a function at an offset.
func (a *alloca) functions(k *kctx, off int64) {
	if a.funcs == nil {
		a.funcs, a.block = map[int64]val{}, k.blockID
	}
	a.funcs[off] = val{k: kFunc}
}

// holdsFunction reports whether an array or a struct has functions.
func holdsFunction(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Signature:
		return true
	case *types.Array:
		return holdsFunction(u.Elem())
	case *types.Struct:
		for f := range u.Fields() {
			if holdsFunction(f.Type()) {
				return true
			}
		}
	}
	return false
}

// A function that is not inlined gets what its closures have captured as parameters of its own, behind its arguments. So it knows the
// functions in the variables that it gets the addresses of.

// captured adds what the functions in variables have captured to the arguments.
func captured(leaves []val) []val {
	for i := 0; i < len(leaves); i++ {
		leaves[i].eachFunction(func(_ int64, f val) {
			for _, c := range flat(f, nil) {
				if leafOf(leaves, c) < 0 {
					leaves = append(leaves, c)
				}
			}
		})
	}
	return leaves
}

// eachFunction calls f for each function in the variable that a pointer leads to.
func (v val) eachFunction(f func(off int64, v val)) {
	if v.k == kPtr && v.p.al != nil && !v.p.al.index {
		for _, off := range slices.Sorted(maps.Keys(v.p.al.funcs)) {
			f(off-v.p.off, v.p.al.funcs[off])
		}
	}
}

// functionKey says which functions a pointer leads to, and what they have captured.
func (v val) functionKey(leaves []val) (key string) {
	v.eachFunction(func(off int64, f val) {
		key += fmt.Sprint(" ", off, functionsIn(f))
		for _, c := range flat(f, nil) {
			key += fmt.Sprint(" ", leafOf(leaves, c))
		}
	})
	return key
}

// passFunctions makes the functions known that pointers lead to, as values have them in place of leaves.
func passFunctions(leaves, values []val) {
	for i, l := range leaves {
		l.eachFunction(func(off int64, f val) {
			if values[i].p.al == nil {
				values[i].p.al = &alloca{funcs: map[int64]val{}, block: -1}
			}
			var own []val
			for _, c := range flat(f, nil) {
				own = append(own, values[leafOf(leaves, c)])
			}
			values[i].p.al.funcs[off] = rebuild(f, &own)
		})
	}
}

// leafOf finds a number or a pointer; -1 says that it is not there.
func leafOf(leaves []val, v val) int {
	return slices.IndexFunc(leaves, func(l val) bool {
		if l.k != kPtr || v.k != kPtr {
			return l.k == v.k && l.isC == v.isC && l.String() == v.String()
		}
		return l.p.sp == v.p.sp && l.p.base == v.p.base && l.p.off == v.p.off && (l.p.sp != spCell || l.p.al == v.p.al)
	})
}

// running is a function that is compiled now, with what it has captured.
type running struct {
	fn    *ssa.Function
	bound []val
}

// is reports whether a function with what it has captured is the same.
func (r running) is(fn *ssa.Function, bound []val) bool {
	a, b := flat(val{k: kAgg, e: r.bound}, nil), flat(val{k: kAgg, e: bound}, nil)
	return r.fn == fn && slices.EqualFunc(a, b, func(x, y val) bool { return leafOf([]val{x}, y) == 0 })
}

// endless fails at a function that never gets the functions that it had before.
func (k *kctx) endless(pos token.Pos, fn *ssa.Function) {
	k.fail(pos, "%s calls itself with other functions each time, and each of these calls would be compiled: write a loop, or give it the same functions", called(fn))
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
