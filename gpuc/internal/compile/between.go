package compile

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A check is not asked where two others of the same length say that it holds: its index lies between theirs. Neighbours in an
// image are like that, with a row between. It takes numbers that are not negative, and so small that nothing overflows.
// Where that is not known it is asked; where it is not so, each check is asked by itself.

// asked is what a bounds check asks: whether an index is below a length.
type asked struct {
	index   poly
	n       string
	guarded bool // only where a condition holds
	facts   *table
}

// small is a register that has to be below a number, and not negative.
type small struct {
	reg   string
	below uint64
}

// between compares indices.
type between struct {
	k      *kctx
	facts  *table
	single map[string]*ins // that a register is set by, which is set once
	late   map[string]bool
	need   []small
}

// outermost returns the checks that are asked, and what has to be small for that.
func (k *kctx) outermost(g *gathered, single map[string]*ins) (kept []ins, need []small) {
	groups := map[string][]int{}
	for j, c := range g.checks {
		if c.asked != nil {
			groups[c.asked.n] = append(groups[c.asked.n], j)
		}
	}
	drop := map[int]bool{}
	for j, c := range g.checks {
		if c.asked == nil || groups[c.asked.n][0] != j {
			continue
		}
		for rest := groups[c.asked.n]; len(rest) > 2; {
			b := &between{k: k, facts: c.asked.facts, single: single, late: g.late, need: slices.Clone(need)}
			index := func(j int) poly { return g.checks[j].asked.index }
			free := slices.DeleteFunc(slices.Clone(rest), func(j int) bool { return g.checks[j].asked.guarded })
			if len(free) < 2 {
				break
			}
			low, high := free[0], free[0]
			for _, j := range free[1:] {
				if b.atMost(index(j), index(low)) {
					low = j
				}
				if b.atMost(index(high), index(j)) {
					high = j
				}
			}
			b.need = slices.Clone(need)
			var inside, others []int
			for _, j := range rest {
				switch mark := len(b.need); {
				case j == low || j == high:
				case b.atMost(index(low), index(j)) && b.atMost(index(j), index(high)):
					inside = append(inside, j)
				default:
					b.need = b.need[:mark]
					others = append(others, j)
				}
			}
			b.reduce()
			if len(inside) <= max(0, len(b.need)-len(need)) {
				break
			}
			need, rest = b.need, others
			for _, j := range inside {
				drop[j] = true
			}
		}
	}
	for j, c := range g.checks {
		if !drop[j] {
			kept = append(kept, c)
		}
	}
	return kept, need
}

// maxTimes and maxPlus bound the constants in what two indices are apart. With numbers below 2 to the maxBits, which two
// factors share, no sum of maxTerms products overflows.
const maxTimes, maxPlus, maxBits = 1 << 10, 1 << 30, 48

// atMost reports whether p is at most q, as integers: q-p is between 0 and 2 to the 62.
func (b *between) atMost(p, q poly) bool {
	var more, less poly
	for _, t := range q.plus(p, math.MaxUint64) {
		switch c := int64(t.c); {
		case t.regs == "" && c >= 0 && c < maxPlus:
		case t.regs != "" && c > 0 && c < maxTimes:
			more = append(more, t)
		case t.regs != "" && c < 0 && c > -maxTimes:
			less = append(less, t)
		default:
			return false
		}
	}
	mark := len(b.need)
	for _, l := range less {
		j := slices.IndexFunc(more, func(m term) bool { return m.c == -l.c && b.product(l.regs, m.regs) })
		if j < 0 {
			b.need = b.need[:mark]
			return false
		}
		more = slices.Delete(more, j, j+1)
	}
	for _, m := range more {
		if !b.small(strings.Split(m.regs, "*")...) {
			b.need = b.need[:mark]
			return false
		}
	}
	return true
}

// product reports whether a product is at most another one: they differ in one factor.
func (b *between) product(p, q string) bool {
	x, y := strings.Split(p, "*"), strings.Split(q, "*")
	n := len(x)
	for j := len(x) - 1; j >= 0; j-- {
		if at := slices.Index(y, x[j]); at >= 0 && len(x) > 1 {
			x, y = slices.Delete(x, j, j+1), slices.Delete(y, at, at+1)
		}
	}
	mark := len(b.need)
	if len(x) == 1 && len(y) == 1 && n == strings.Count(q, "*")+1 && b.ordered(x[0], y[0], 6) && b.small(strings.Split(p, "*")...) && b.small(strings.Split(q, "*")...) {
		return true
	}
	b.need = b.need[:mark]
	return false
}

// small asks that the factors of a product are small, where that is not known.
func (b *between) small(factors ...string) bool {
	below := uint64(1) << (maxBits / len(factors))
	for _, r := range factors {
		if b.single[r] == nil || b.late[r] {
			return false
		}
		if v, ok := b.facts.get("sum " + poly{{r, 1}}.key()); ok {
			keep := b.k.cur
			b.k.cur = b.facts
			hi, ok := b.k.bound(v)
			if b.k.cur = keep; ok && v.r == r && hi < below {
				continue
			}
		}
		if !slices.ContainsFunc(b.need, func(s small) bool { return s.reg == r && s.below <= below }) {
			b.need = append(b.need, small{r, below})
		}
	}
	return true
}

// ordered reports whether a register or constant is at most another one.
func (b *between) ordered(x, y string, depth int) bool {
	if x == y {
		return true
	}
	if depth == 0 {
		return false
	}
	rx, cx := b.linear(x)
	ry, cy := b.linear(y)
	if rx == ry {
		return cx <= cy && (rx == "" || b.small(rx))
	}
	two := func(r, op string) (is bool, args []string) {
		i := b.single[r]
		if i == nil || i.op != op || i.guard != "" {
			return false, nil
		}
		args = strings.Split(i.text, ", ")
		return len(args) == 2, args
	}
	try := func(x, y string) bool {
		mark := len(b.need)
		if b.ordered(x, y, depth-1) {
			return true
		}
		b.need = b.need[:mark]
		return false
	}
	if is, args := two(x, "max.s64"); is {
		return try(args[0], y) && try(args[1], y)
	}
	if is, args := two(y, "min.s64"); is {
		return try(x, args[0]) && try(x, args[1])
	}
	if is, args := two(x, "min.s64"); is && (try(args[0], y) || try(args[1], y)) {
		return true
	}
	if is, args := two(y, "max.s64"); is && (try(x, args[0]) || try(x, args[1])) {
		return true
	}
	return rx == "" && cx <= cy && b.small(ry)
}

// linear is a register and a constant; the register of a constant is empty.
func (b *between) linear(x string) (reg string, c int64) {
	for range 4 {
		if n, err := strconv.ParseInt(x, 10, 64); err == nil {
			if n > -maxPlus && n < maxPlus {
				return "", c + n
			}
			return x, 0
		}
		i := b.single[x]
		if i == nil || i.op != "add.s64" || i.guard != "" {
			break
		}
		r, by, _ := strings.Cut(i.text, ", ")
		n, err := strconv.ParseInt(by, 10, 64)
		if err != nil || n <= -maxPlus || n >= maxPlus {
			break
		}
		x, c = r, c+n
	}
	return x, c
}

// reduce drops what lies between two others.
func (b *between) reduce() {
	for j := 0; j < len(b.need); {
		n, all := b.need[j], b.need
		is := func(test func(o small) bool) bool {
			return slices.ContainsFunc(all, func(o small) bool {
				b.need = slices.Clone(all)
				return o.reg != n.reg && test(o) && len(b.need) == len(all)
			})
		}
		inside := is(func(o small) bool { return b.ordered(o.reg, n.reg, 6) }) && is(func(o small) bool { return o.below <= n.below && b.ordered(n.reg, o.reg, 6) })
		again := slices.ContainsFunc(all, func(o small) bool { return o.reg == n.reg && o.below < n.below })
		if b.need = all; inside || again {
			b.need = slices.Delete(slices.Clone(all), j, j+1)
			continue
		}
		j++
	}
}
