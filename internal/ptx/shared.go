package ptx

// SharedLayout is where the shared variables of an entry lie.
type SharedLayout struct {
	Offset map[*Variable]uint64 // from the start of the block's shared memory
	Static uint64               // bytes; the dynamic part begins here, at its alignment
	Align  uint64               // the strictest alignment of a dynamic variable

	DynamicBase uint64 // offset of the dynamic variables
}

// deps are the functions and shared variables that one function names.
type deps struct {
	funcs []*Function
	vars  []*Variable
}

func (m *Module) dependencies(f *Function) *deps {
	d := &deps{}
	seenF := map[*Function]bool{}
	seenV := map[*Variable]bool{}
	addV := func(v *Variable) {
		if v != nil && v.Space == Shared && !seenV[v] {
			seenV[v] = true
			d.vars = append(d.vars, v)
		}
	}
	addF := func(g *Function) {
		if g != nil && !seenF[g] {
			seenF[g] = true
			d.funcs = append(d.funcs, g)
		}
	}
	for _, v := range f.Variables {
		addV(v)
	}
	var walk func(list []Operand)
	walk = func(list []Operand) {
		for i := range list {
			addV(list[i].Var)
			addF(list[i].Func)
			walk(list[i].Elems)
		}
	}
	for i := range f.Body {
		walk(f.Body[i].Operands)
	}
	for i := range f.Tables {
		walk(f.Tables[i].Targets)
	}
	return d
}

// reach lists the functions that f may call by name or whose address it takes, f first, each once. Functions whose addresses
// only module-scope variables hold are not among them. seen has for each function the one that it was last met from.
func (m *Module) reach(f *Function, cache map[*Function]*deps, seen map[*Function]*Function, list []*Function) []*Function {
	list = append(list, f)
	seen[f] = f
	for i := 0; i < len(list); i++ {
		d := cache[list[i]]
		if d == nil {
			d = m.dependencies(list[i])
			cache[list[i]] = d
		}
		for _, g := range d.funcs {
			if seen[g] != f {
				seen[g] = f
				list = append(list, g)
			}
		}
	}
	return list
}

// Shared lays out the shared memory of an entry: static variables in the order in which
// they are met, then the dynamic part.
func (m *Module) Shared(entry *Function) *SharedLayout {
	if m.deps[entry] != nil { // and so of all that it reaches
		return m.sharedLayout(m.reach(entry, m.deps, map[*Function]*Function{}, nil), m.deps)
	}
	cache := map[*Function]*deps{}
	return m.sharedLayout(m.reach(entry, cache, map[*Function]*Function{}, nil), cache)
}

func (m *Module) sharedLayout(reached []*Function, cache map[*Function]*deps) *SharedLayout {
	l := &SharedLayout{Offset: map[*Variable]uint64{}, Align: 1}
	var dynamic []*Variable
	for _, f := range reached {
		for _, v := range cache[f].vars {
			if _, ok := l.Offset[v]; ok {
				continue
			}
			a := max(v.Align, 1)
			if v.Dynamic() {
				l.Offset[v] = 0
				l.Align = max(l.Align, a)
				dynamic = append(dynamic, v)
				continue
			}
			l.Static = (l.Static + a - 1) &^ (a - 1)
			l.Offset[v] = l.Static
			l.Static += v.Size
			if l.Static > 1<<40 {
				l.Static = 1 << 40 // far beyond any device; stays out of overflow
			}
		}
	}
	l.DynamicBase = (l.Static + max(l.Align, 16) - 1) &^ (max(l.Align, 16) - 1)
	for _, v := range dynamic {
		l.Offset[v] = l.DynamicBase
	}
	return l
}

// countShared also bounds the work: of kernels that all reach the same functions there are as
// many walks as there are kernels.
func (m *Module) countShared(p *parser) {
	m.deps = map[*Function]*deps{}
	work, seen, list := 0, map[*Function]*Function{}, []*Function(nil)
	for _, e := range m.Entries {
		list = m.reach(e, m.deps, seen, list[:0])
		for _, f := range list {
			work += 1 + len(m.deps[f].funcs) + len(m.deps[f].vars)
		}
		if work > maxReached {
			p.failAt(e.Line, 1, e.Name, "the kernels reach too many functions and variables")
			return
		}
		e.SharedBytes = m.sharedLayout(list, m.deps).Static
	}
}
