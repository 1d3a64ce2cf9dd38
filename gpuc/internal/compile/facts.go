package compile

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// fits tells whether v can be seen to be below n: masks and remainders.
func fits(v ssa.Value, n int64, depth int) bool {
	if depth > 4 {
		return false
	}
	switch v := v.(type) {
	case *ssa.Convert:
		if b, ok := v.X.Type().Underlying().(*types.Basic); ok && b.Info()&types.IsInteger != 0 {
			if unsigned(b) && sizes.Sizeof(b) == 1 && n >= 256 {
				return true
			}
			room := sizes.Sizeof(b)*8 - 1
			if unsigned(b) {
				room++
			}
			return (room >= 63 || n <= 1<<room) && fits(v.X, n, depth+1)
		}
	case *ssa.BinOp:
		b, ok := v.Type().Underlying().(*types.Basic)
		c, isC := v.Y.(*ssa.Const)
		if !ok || !isC || b.Info()&types.IsInteger == 0 {
			return false
		}
		switch v.Op {
		case token.AND:
			return c.Int64() >= 0 && c.Int64() < n
		case token.REM:
			return c.Int64() <= n && c.Int64() > 0 && (unsigned(b) || nonneg(v.X, 0))
		case token.SHR:
			return unsigned(b) && c.Int64() <= sizes.Sizeof(b)*8 && sizes.Sizeof(b)*8-c.Int64() < 32 && int64(1)<<(sizes.Sizeof(b)*8-c.Int64()) <= n
		}
	}
	return false
}

// nonneg tells of an int whether it can be seen not to be negative.
func nonneg(v ssa.Value, depth int) bool {
	if depth > 6 {
		return false
	}
	switch v := v.(type) {
	case *ssa.Const:
		return v.Value != nil && v.Int64() >= 0 && v.Int64() < 1<<32
	case *ssa.Call:
		fn := v.Call.StaticCallee()
		if b, ok := v.Call.Value.(*ssa.Builtin); ok {
			return b.Name() == "len"
		}
		return fn != nil && fn.Signature.Recv() != nil && isThread(fn.Signature.Recv().Type())
	case *ssa.Convert:
		b, ok := v.X.Type().Underlying().(*types.Basic)
		return ok && unsigned(b) && sizes.Sizeof(b) < 8
	case *ssa.BinOp:
		switch v.Op {
		case token.ADD, token.QUO, token.REM, token.SHR: // the sums of places in a grid do not overflow
			return nonneg(v.X, depth+1) && nonneg(v.Y, depth+1)
		}
	case *ssa.Phi: // counts up from what is not negative, below a bound that is asked each time
		for _, e := range v.Edges {
			if b, ok := e.(*ssa.BinOp); ok && b.Op == token.ADD && b.X == v {
				if !nonneg(b.Y, depth+1) {
					return false
				}
			} else if e == ssa.Value(v) || !nonneg(e, depth+1) {
				return false
			}
		}
		return true
	}
	return false
}
