package exec

import "sort"

// The order of basic blocks decides where parted lanes meet again (see warp.go). It is a weak
// topological order in the sense of Bourdoncle. A block comes after all blocks that lead to it
// except along back edges, and the blocks of a loop are contiguous. So lanes that have left a loop,
// or skipped a branch, wait at a higher address than those still in it.

type basicBlock struct {
	lo, hi int     // instructions of the function
	succ   []int32 // blocks, the fall-through first
	fall   int32   // block that follows without a jump, -1 for none
}

// endsBlock reports whether an instruction may jump; always whether it never falls through.
func endsBlock(in *inst) (ends, always bool) {
	switch in.kind {
	case kBra, kBrx:
		return true, in.guard == 0 && in.guardX == 0
	case kRet, kExit:
		un := in.guard == 0 && in.guardX == 0
		return un, un
	}
	return false, false
}

// blocks cuts the function's code. Branch targets are labels' numbers.
func (x *fnc) blocks() []basicBlock {
	leader := make([]bool, len(x.code)+1)
	leader[0] = true
	for i := range x.code {
		in := &x.code[i]
		if in.kind == kBra {
			leader[x.labelAt[in.target]] = true
		}
		for _, t := range in.table {
			leader[x.labelAt[t]] = true
		}
		if ends, _ := endsBlock(in); ends {
			leader[i+1] = true
		}
	}
	at := make([]int32, len(x.code)+1)
	var list []basicBlock
	for i := range x.code {
		if leader[i] {
			if n := len(list); n > 0 {
				list[n-1].hi = i
			}
			list = append(list, basicBlock{lo: i})
		}
		at[i] = int32(len(list) - 1)
	}
	list[len(list)-1].hi = len(x.code)
	for i := range list {
		b := &list[i]
		last := &x.code[b.hi-1]
		b.fall = -1
		if _, always := endsBlock(last); !always && b.hi < len(x.code) {
			b.fall = at[b.hi]
			b.succ = append(b.succ, b.fall)
		}
		if last.kind == kBra {
			b.succ = append(b.succ, at[x.labelAt[last.target]])
		}
		for _, t := range last.table {
			b.succ = append(b.succ, at[x.labelAt[t]])
		}
	}
	return list
}

// maxLoopDepth bounds the work on contrived graphs; deeper loops keep the order of
// the source.
const maxLoopDepth = 40

// sccFrame is a visit of Tarjan's algorithm, which is kept on a slice here: the graph
// may be as deep as the source is long.
type sccFrame struct {
	v    int32
	next int
}

// weakOrder returns the reachable blocks in weak topological order.
func weakOrder(list []basicBlock) []int32 {
	n := len(list)
	in := make([]int32, n) // the region that a block belongs to
	order := make([]int32, 0, n)
	index := make([]int32, n)
	low := make([]int32, n)
	onStack := make([]bool, n)
	region := int32(0)

	// components returns the strongly connected components that are reachable from the
	// roots within a region, in topological order.
	components := func(roots []int32, reg int32) [][]int32 {
		var out [][]int32
		var stack []int32
		var frames []sccFrame
		count := int32(0)
		visit := func(v int32) {
			count++
			index[v], low[v] = count, count
			stack = append(stack, v)
			onStack[v] = true
			frames = append(frames, sccFrame{v: v})
		}
		for _, r := range roots {
			if index[r] != 0 {
				continue
			}
			visit(r)
			for len(frames) > 0 {
				f := &frames[len(frames)-1]
				v := f.v
				// Later successors are visited first, so that the fall-through, which is the
				// first one, comes out nearest.
				if s := list[v].succ; f.next < len(s) {
					t := s[len(s)-1-f.next]
					f.next++
					if in[t] != reg {
						continue
					}
					if index[t] == 0 {
						visit(t)
					} else if onStack[t] {
						low[v] = min(low[v], index[t])
					}
					continue
				}
				frames = frames[:len(frames)-1]
				if len(frames) > 0 {
					p := frames[len(frames)-1].v
					low[p] = min(low[p], low[v])
				}
				if low[v] != index[v] {
					continue
				}
				var comp []int32
				for {
					t := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					onStack[t] = false
					comp = append(comp, t)
					if t == v {
						break
					}
				}
				out = append(out, comp)
			}
		}
		for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
		return out
	}

	var layout func(head int32, members []int32, depth int)
	layout = func(head int32, members []int32, depth int) {
		// The head of a loop is placed and taken out of the graph; what remains of the
		// loop falls into components again, reached from the head's successors.
		region++
		reg := region
		for _, v := range members {
			in[v] = reg
			index[v] = 0
		}
		order = append(order, head)
		in[head] = 0
		roots := make([]int32, 0, len(list[head].succ))
		for i := len(list[head].succ) - 1; i >= 0; i-- {
			if s := list[head].succ[i]; in[s] == reg {
				roots = append(roots, s)
			}
		}
		comps := components(roots, reg)
		for _, comp := range comps {
			v := comp[len(comp)-1] // where the component was entered
			if len(comp) == 1 {
				order = append(order, v)
				continue
			}
			if depth >= maxLoopDepth {
				sort.Slice(comp, func(i, j int) bool { return comp[i] < comp[j] })
				order = append(order, comp...)
				continue
			}
			layout(v, comp, depth+1)
		}
	}
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
		in[i] = -1
	}
	layout(0, all, 0)
	return order
}

// finish lays out the blocks, allocates registers and appends the function to the
// kernel's code.
func (x *fnc) finish() {
	list := x.blocks()
	order := weakOrder(list)
	place := make([]int32, len(list)) // position in order, or -1
	for i := range place {
		place[i] = -1
	}
	for i, b := range order {
		place[b] = int32(i)
	}
	code := make([]inst, 0, len(x.code)+8)
	start := make([]int32, len(list)) // of a block in code
	laid := make([]laidBlock, len(order))
	for i, b := range order {
		blk := &list[b]
		start[b] = int32(len(code))
		laid[i].lo = len(code)
		code = append(code, x.code[blk.lo:blk.hi]...)
		if blk.fall >= 0 && (i+1 == len(order) || order[i+1] != blk.fall) {
			j := blank(kBra)
			j.line = x.code[blk.hi-1].line
			j.target = -1 - blk.fall
			code = append(code, j)
		}
		laid[i].hi = len(code)
		for _, s := range blk.succ {
			laid[i].succ = append(laid[i].succ, place[s])
		}
	}
	blockAt := make(map[int32]int32, len(list))
	for i := range list {
		blockAt[int32(list[i].lo)] = int32(i)
	}
	base := int32(len(x.compiler.code))
	to := func(label int32) int32 { return base + start[blockAt[x.labelAt[label]]] }
	for i := range code {
		in := &code[i]
		if in.kind == kBra {
			if in.target < 0 {
				in.target = base + start[-1-in.target]
			} else {
				in.target = to(in.target)
			}
		}
		if in.table != nil {
			t := make([]int32, len(in.table))
			for j := range t {
				t[j] = to(in.table[j])
			}
			in.table = t
		}
	}
	x.allocate(code, laid)
	x.fn.entry = base
	x.fn.preds = x.np
	x.compiler.code = append(x.compiler.code, code...)
}

// laidBlock is a block in its final place.
type laidBlock struct {
	lo, hi int
	succ   []int32
}
