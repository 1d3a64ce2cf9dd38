package compile

import (
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"math/bits"

	"golang.org/x/tools/go/ssa"
)

// unknown is what most says of an integer that may be negative.
const unknown = math.MaxUint64

// nonneg tells of an integer whether it can be seen to be in [0, 1<<63).
func nonneg(v ssa.Value, depth int) bool { return largest(v, depth) <= math.MaxInt64 }

// largest is the largest number that an integer can be, if it can be seen not to be negative.
func largest(v ssa.Value, depth int) uint64 {
	b, ok := v.Type().Underlying().(*types.Basic)
	if !ok || b.Info()&types.IsInteger == 0 {
		return unknown
	}
	if b.Info()&types.IsUntyped != 0 {
		b = types.Typ[types.Int]
	}
	limit, otherwise := uint64(math.MaxUint64)>>(64-8*sizes.Sizeof(b)), uint64(unknown)
	if unsigned(b) {
		otherwise = limit
	} else {
		limit >>= 1
	}
	if depth > 6 {
		return otherwise
	}
	if n := largestOf(v, unsigned(b), depth+1); n <= limit {
		return n
	}
	return otherwise
}

// largestOf is largest where the result may not fit the type.
func largestOf(v ssa.Value, unsigned bool, depth int) uint64 {
	switch v := v.(type) {
	case *ssa.Const:
		if v.Value != nil {
			if n, ok := constant.Uint64Val(constant.ToInt(v.Value)); ok {
				return n
			}
		}
	case *ssa.Call: // lengths and places in a grid
		fn := v.Call.StaticCallee()
		if b, ok := v.Call.Value.(*ssa.Builtin); ok && b.Name() == "len" || fn != nil && fn.Signature.Recv() != nil && isThread(fn.Signature.Recv().Type()) {
			return 1 << 48
		}
	case *ssa.Convert:
		return largest(v.X, depth)
	case *ssa.BinOp:
		x, y := largest(v.X, depth), largest(v.Y, depth)
		known := unsigned || x <= math.MaxInt64
		switch {
		case v.Op == token.AND:
			return min(x, y)
		case v.Op == token.ADD:
			return sum(x, y)
		case v.Op == token.REM && known && y > 0: // of 0 there is none
			return min(x, y-1)
		case v.Op == token.QUO && known && (unsigned || y <= math.MaxInt64):
			if c, ok := v.Y.(*ssa.Const); ok && y > 0 && c.Value != nil {
				x /= y
			}
			return x
		case v.Op == token.SHR && known:
			if _, ok := v.Y.(*ssa.Const); ok {
				x >>= y
			}
			return x
		}
	case *ssa.Phi:
		n, free := uint64(0), false
		for _, e := range v.Edges {
			b, ok := e.(*ssa.BinOp)
			if !ok || b.Op != token.ADD || b.X != v {
				n = max(n, largest(e, depth))
				continue
			}
			most := counted(v, b, depth)
			if most == unknown && sizes.Sizeof(v.Type()) == 8 && largest(b.Y, depth) <= 1<<10 {
				free = true
				continue
			}
			n = max(n, most)
		}
		if free && n > 1<<62 {
			return unknown
		}
		if free {
			return math.MaxInt64 // from where all else ends, steps so small take months to an overflow
		}
		return n
	}
	return unknown
}

// counted is the most that a counter has after one more step that a condition allows.
func counted(v *ssa.Phi, next *ssa.BinOp, depth int) uint64 {
	step := largest(next.Y, depth)
	for d := next.Block(); d.Idom() != nil; d = d.Idom() {
		if len(d.Preds) != 1 {
			continue
		}
		br, ok := last(d.Preds[0]).(*ssa.If)
		if !ok || br.Block().Succs[0] == br.Block().Succs[1] {
			continue
		}
		if c, ok := br.Cond.(*ssa.BinOp); ok && c.X == v && (br.Block().Succs[0] == d && c.Op == token.LSS || br.Block().Succs[1] == d && c.Op == token.GEQ) {
			if n := sum(largest(c.Y, depth), step); n <= math.MaxInt64 {
				return n
			}
		}
	}
	return unknown
}

// sum is unknown where a sum overflows.
func sum(x, y uint64) uint64 {
	n, carry := bits.Add64(x, y, 0)
	if carry != 0 {
		return unknown
	}
	return n
}
