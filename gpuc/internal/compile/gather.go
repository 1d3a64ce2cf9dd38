package compile

import (
	"fmt"
	"slices"
	"strings"
)

// gather makes one branch of checks that follow one another. Loads and stores between them come after all of them, so
// that the GPU does them at once. What a thread has stored just before a check that fails may be missing. Where one
// fails, they are asked again in their order, so that the report is the same.
func (k *kctx) gather(code []ins) []ins {
	if !slices.ContainsFunc(code, func(i ins) bool { return i.check() }) {
		return code
	}
	defs := defsOf(code)
	jumps, single := map[string]int{}, map[string]*ins{}
	for j := range code {
		i := &code[j]
		jumps[i.target]++
		if len(i.dst) == 1 && defs[i.dst[0]] == 1 {
			single[i.dst[0]] = i
		}
	}
	var slow []ins
	out := make([]ins, 0, len(code))
	for i := 0; i < len(code); {
		if !code[i].check() {
			out = append(out, code[i])
			i++
			continue
		}
		g := gathered{late: map[string]bool{}}
		i = g.from(code, i, defs, jumps)
		kept, small := k.outermost(&g, single)
		sunk := g.sink(kept, small)
		p := ""
		out = append(out, g.before...)
		ask := func(guard string) {
			if p != "" {
				one := k.reg(kPred).r
				out = append(out, ins{op: "or.pred", dst: []string{one}, src: []string{p, guard}, text: p + ", " + guard})
				guard = one
			}
			p = guard
		}
		for _, n := range small {
			one := k.reg(kPred).r
			out = append(out, ins{op: "setp.ge.u64", dst: []string{one}, src: []string{n.reg}, text: fmt.Sprint(n.reg, ", ", n.below)})
			ask(one)
		}
		for _, c := range kept {
			ask(c.guard)
		}
		branch := g.checks[0]
		if len(small) > 0 || len(g.checks) > 1 && k.o.Checks == ChecksReport { // others trap, all in one place
			l := k.label()
			branch = ins{op: "bra", text: l, target: l, side: true, note: cold}
			slow = append(slow, ins{label: l})
			if len(small) == 0 { // then one fails
				g.checks[len(g.checks)-1].guard = ""
			}
			slow = append(slow, again(append(slices.Clone(out), sunk...), g.checks, defs)...)
			if len(small) > 0 {
				back := k.label()
				slow = append(slow, ins{op: "bra", text: back, target: back, side: true})
				sunk = append([]ins{{label: back, note: cold}}, sunk...)
			}
		}
		branch.guard = p
		out = append(append(append(out, branch), sunk...), g.after...)
	}
	return append(out, slow...)
}

// sink takes from before the branch what no check needs that is asked: what comes after it is in registers for a shorter time.
// What all checks need stays as well, if it is not computed again.
func (g *gathered) sink(kept []ins, small []small) (sunk []ins) {
	need, once := map[string]bool{}, map[string]bool{}
	for _, c := range kept {
		need[c.guard] = true
	}
	for _, n := range small {
		need[n.reg] = true
	}
	for _, c := range g.checks {
		for _, r := range append(c.src, c.guard) {
			once[r] = true
		}
	}
	var before []ins
	for _, i := range slices.Backward(g.before) {
		in := func(set map[string]bool) bool {
			return slices.ContainsFunc(i.dst, func(r string) bool { return set[r] })
		}
		list, set := &sunk, once
		switch {
		case in(need) || in(once) && !i.again():
			list, set = &before, need
		case !in(once):
			set = map[string]bool{}
		}
		*list = append(*list, i)
		for _, r := range append(slices.Clone(i.src), i.guard) {
			set[r] = true
		}
	}
	slices.Reverse(before)
	slices.Reverse(sunk)
	g.before = before
	return sunk
}

// cold notes a branch to where the checks are asked one by one, and where it comes back.
const cold = "one of the checks below"

// again is checks, and before each what computes its condition and what it reports, a second time: else all of it would stay in
// registers up to the one branch. Divisions stay.
func again(code, checks []ins, defs map[string]int) (list []ins) {
	need := map[string]bool{}
	for _, c := range checks {
		for _, r := range append(c.src, c.guard) {
			need[r] = true
		}
	}
	by := map[string]*ins{}
	for j := len(code) - 1; j >= 0; j-- {
		i := &code[j]
		if i.note == "" && (i.label != "" || i.op == "bra") || slices.ContainsFunc(i.dst, func(r string) bool { return defs[r] > 1 }) {
			break
		}
		if !i.again() || !need[i.dst[0]] {
			continue
		}
		for _, r := range i.src {
			need[r] = true
		}
		by[i.dst[0]] = i
	}
	var compute func(r string)
	compute = func(r string) {
		i := by[r]
		delete(by, r)
		if i != nil {
			for _, s := range i.src {
				compute(s)
			}
			list = append(list, *i)
		}
	}
	for _, c := range checks {
		compute(c.guard)
		for _, r := range c.src {
			compute(r)
		}
		list = append(list, c)
	}
	return list
}

// again reports whether an instruction is computed again before checks that are asked one by one.
func (i *ins) again() bool {
	return !i.side && i.guard == "" && len(i.dst) == 1 && !strings.HasPrefix(i.op, "ld.") && !strings.HasPrefix(i.op, "div.") && !strings.HasPrefix(i.op, "rem.")
}

// check reports whether an instruction goes where a failed check goes.
func (i *ins) check() bool { return i.op == "bra" && i.note != "" && i.guard != "" && !i.guardNot }

// memory reports whether an instruction loads or stores.
func (i *ins) memory() bool {
	return strings.HasPrefix(i.op, "ld.") && (!strings.HasPrefix(i.op, "ld.param") || len(i.src) > 0) || strings.HasPrefix(i.op, "st.")
}

// gathered is what follows a check, up to the last check that can be asked with it.
type gathered struct {
	checks        []ins
	before, after []ins // the one branch for all of them

	late   map[string]bool // registers that are set after the branch
	stored bool            // to memory that a load may read

	// Since the last check: what can be before the branch, loads, and what comes after the loads.
	early, loads, others []ins
	rest                 []ins // others before the last check
}

// from collects from a check on, and gives what comes next.
func (g *gathered) from(code []ins, first int, defs, jumps map[string]int) (next int) {
	g.checks, next = []ins{code[first]}, first+1
	for j := next; j < len(code); {
		list, step := guarded(code[j:], jumps)
		for _, i := range list {
			if !g.take(i, defs) {
				g.after = append(g.after, g.rest...)
				return next
			}
		}
		if j += step; code[j-1].check() {
			next = j
		}
	}
	g.after = append(g.after, g.rest...)
	return next
}

// take takes an instruction, if it does not end what can be gathered.
func (g *gathered) take(i ins, defs map[string]int) bool {
	isLate := func(r string) bool { return g.late[r] }
	needsLate := g.late[i.guard] || slices.ContainsFunc(i.src, isLate)
	switch {
	case i.check() && !needsLate:
		if !slices.ContainsFunc(g.checks, func(c ins) bool { return c.guard == i.guard }) { // else the first of them fails
			g.checks = append(g.checks, i)
		}
		g.before, g.after, g.rest = append(g.before, g.early...), append(g.after, g.loads...), append(g.rest, g.others...)
		g.early, g.loads, g.others = nil, nil, nil
		return true
	case i.label != "" || i.op == "bra" || i.side && !i.memory() || slices.ContainsFunc(i.dst, func(r string) bool { return defs[r] > 1 }):
		return false
	case (!i.memory() || i.early && strings.HasPrefix(i.op, "ld.global") && i.guard == "" && !g.stored) && !needsLate:
		g.early = append(g.early, i)
		return true
	case strings.HasPrefix(i.op, "ld.global") && !needsLate && !g.stored:
		g.loads = append(g.loads, i)
	default:
		g.others = append(g.others, i)
		g.stored = g.stored || strings.HasPrefix(i.op, "st.") && !strings.HasPrefix(i.op, "st.shared")
	}
	for _, r := range i.dst {
		g.late[r] = true
	}
	return true
}

// maxGuarded is how many instructions a condition may guard each for itself, in place of a branch around them.
const maxGuarded = 6

// guarded returns the next instruction, or loads and stores that a branch goes around, each with its condition; and how
// many instructions that were.
func guarded(code []ins, jumps map[string]int) (list []ins, n int) {
	b := code[0]
	n = 1
	for n < len(code) && n <= maxGuarded && code[n].memory() && code[n].guard == "" {
		n++
	}
	if b.op != "bra" || b.guard == "" || b.check() || n == len(code) || code[n].label != b.target || jumps[b.target] > 1 {
		return code[:1], 1
	}
	for _, i := range code[1:n] {
		i.guard, i.guardNot = b.guard, !b.guardNot
		list = append(list, i)
	}
	return list, n + 1
}
