package compile

import (
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// orderNames and scopeNames are the orders and scopes of package gpu, by number.
var (
	orderNames = []string{"relaxed", "acquire", "release", "acq_rel", "sc"}
	scopeNames = []string{"cta", "gpu", "sys"}
)

// ordersOf are the orders that a function has.
var ordersOf = map[string][]string{"AtomicLoad": {"relaxed", "acquire"}, "AtomicStore": {"relaxed", "release"}, "Fence": {"acq_rel", "sc"}}

// access is the begin of a load or a store: ld.relaxed.gpu.global, st.global.cs.
func (k *kctx) access(op string, sp space) string {
	hint := k.hint
	if sp != spGlobal {
		hint = "" // other memory has no cache
	}
	return op + k.strength + spaceName[sp] + hint
}

// emitLoad emits a load. One with an order stays where it is, and is none of memory that is only read.
func (k *kctx) emitLoad(rest string, dst []string, p *ptr) {
	i := k.emit(k.access("ld", p.sp)+rest, dst, k.memOperand(p))
	if i.side = k.strength != ""; !i.side && k.hint == "" {
		i.root, i.early = p.root, p.early
	}
}

// ofMemory is a load or a store with an order or a hint, or a fence.
func (k *kctx) ofMemory(in *ssa.Call, name string, fn *ssa.Function, a []val) (val, bool) {
	n := len(a)
	constant := func(i int, names []string) string {
		if !a[i].isC || a[i].c >= uint64(len(names)) {
			k.fail(in.Pos(), "the order and the scope of gpu.%s are constants, such as gpu.Relaxed and gpu.DeviceScope", name)
		}
		return names[a[i].c]
	}
	switch name {
	case "LoadStreaming", "StoreStreaming":
		k.hint = ".cs"
	case "AtomicLoadPair", "AtomicStorePair":
		k.strength = ".relaxed." + constant(n-1, scopeNames)
	case "AtomicLoad", "AtomicStore", "Fence":
		o := constant(n-2, orderNames)
		if !slices.Contains(ordersOf[name], o) {
			k.fail(in.Pos(), "gpu.%s has not this order: a load has gpu.Relaxed and gpu.Acquire, a store gpu.Relaxed and gpu.Release, a fence gpu.AcquireRelease and gpu.SeqCst", name)
		}
		k.strength = "." + o + "." + constant(n-1, scopeNames)
	default:
		return val{}, false
	}
	defer func() { k.strength, k.hint = "", "" }()
	if name == "Fence" {
		k.emit("fence"+k.strength, nil).side = true
		return val{}, true
	}
	t := elem(fn.Signature.Params().At(0).Type())
	x := k.notNil(a[0], in.Pos())
	if k.strength != "" {
		k.seenByOthers(in, x, "gpu."+name)
		if strings.HasSuffix(name, "Pair") && !x.p.aligned(16) {
			k.fail(in.Pos(), "gpu.%s works on an element of a slice of gpu.Uint64x2", name)
		}
	}
	if strings.Contains(name, "Load") {
		return k.load(x, t, in.Pos()), true
	}
	k.store(x, a[1], t, in.Pos())
	return val{}, true
}

// seenByOthers rejects an address that other threads do not see.
func (k *kctx) seenByOthers(in *ssa.Call, x val, what string) {
	if x.p.sp == spCell {
		k.demote(x.p.al)
	}
	if x.p.sp != spGlobal && x.p.sp != spShared {
		k.fail(in.Pos(), "%s works on slices and on shared memory: nobody else sees a variable of the thread", what)
	}
}
