package compile

import (
	"fmt"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// A check that fails ends a thread. Others may wait for what it would have written, or take junk for it. In a kernel of a
// library, whose own code has no checks, they end too. Those of its block end at the next barrier, where not all are there. Those
// that wait for another block end when they see the report.

// ownChecks reports whether the checks are off in the code of the library alone. What a program gives it, such as an operation, is checked
// as the options say.
func (s *Source) ownChecks() bool { return s.Of != nil && s.Checks == ChecksOff }

// off reports whether what is compiled now has no checks.
func (k *kctx) off() bool {
	return k.o.Checks == ChecksOff || k.src.ownChecks() && ofLibrary(k.stack[len(k.stack)-1].fn)
}

// ofLibrary reports whether a function belongs to what a program instantiates, and not to the program.
func ofLibrary(fn *ssa.Function) bool {
	for fn.Parent() != nil {
		fn = fn.Parent()
	}
	if fn.Origin() != nil {
		fn = fn.Origin()
	}
	return fn.Object() != nil && IsLibrary(fn.Object().Pkg())
}

// IsLibrary reports whether a package is one of what a program instantiates, or takes types from. It may be nil.
func IsLibrary(pkg *types.Package) bool {
	if pkg == nil {
		return false
	}
	path, ok := strings.CutPrefix(pkg.Path(), module)
	first, _, _ := strings.Cut(path, "/")
	return ok && (first == "kernels" || first == "gpu")
}

// othersEnd reports whether threads end because others have.
func (k *kctx) othersEnd() bool { return k.src.ownChecks() && k.o.Checks == ChecksReport }

// barrier waits for the block. Where a thread of it has ended by a failed check, all end.
func (k *kctx) barrier() {
	b := k.src.Block
	if !k.othersEnd() || b[0] == 0 {
		k.emit("bar.sync", nil, "0").side = true
		return
	}
	all, n, p := k.pure("setp.eq.u32", kPred, "0", "0"), k.reg(k32), k.reg(kPred)
	k.emit("bar.red.popc.u32", []string{n.r}, "0", all.r).side = true
	k.out[len(k.out)-1].others = true
	k.emit("setp.ne.u32", []string{p.r}, n.r, fmt.Sprint(b[0]*b[1]*b[2]))
	k.out = append(k.out, ins{op: "exit", side: true, guard: p.r, others: true})
}

// endWithOthers ends the thread if a check has failed.
func (k *kctx) endWithOthers() {
	if !k.othersEnd() {
		return
	}
	report, p := k.reg(k64), k.reg(kPred)
	k.emit("ld.relaxed.sys.global.u64", []string{report.r}, "["+k.reportAddress()+"]").side = true
	k.out[len(k.out)-1].others = true
	k.emit("setp.ne.u64", []string{p.r}, report.r, "0")
	k.out = append(k.out, ins{op: "exit", side: true, guard: p.r, others: true})
}

// alone takes out what ends a thread with others, where no check can fail.
func (k *kctx) alone() {
	if len(k.fails) > 0 || len(k.funcs.list) > 0 || k.callee != nil {
		return
	}
	kept := k.out[:0]
	for _, i := range k.out {
		switch {
		case !i.others:
		case i.op == "bar.red.popc.u32":
			i = ins{op: "bar.sync", text: "0", side: true, pos: i.pos}
		default:
			continue
		}
		kept = append(kept, i)
	}
	k.out = kept
}
