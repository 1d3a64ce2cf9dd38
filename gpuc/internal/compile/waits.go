package compile

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// Fset has the positions of the source.
func (p *Program) Fset() *token.FileSet { return p.fset }

// Waits reports whether a function that takes the thread may wait for other threads, or has shared memory.
func (p *Program) Waits(f *types.Func) bool {
	return p.waits(p.pkg.Prog.FuncValue(f), map[*ssa.Function]bool{})
}

func (p *Program) waits(fn *ssa.Function, seen map[*ssa.Function]bool) bool {
	if fn == nil {
		return true
	}
	if seen[fn] {
		return false
	}
	seen[fn] = true
	blocks := p.blocks(fn)
	if len(blocks) == 0 {
		return true
	}
	for _, b := range blocks {
		for _, in := range b.Instrs {
			c, ok := in.(ssa.CallInstruction)
			if !ok || !takesThread(c.Common()) {
				continue
			}
			callee := c.Common().StaticCallee()
			if callee != nil && callee.Origin() != nil {
				callee = callee.Origin()
			}
			switch {
			case callee == nil:
				return true
			case callee.Pkg != nil && callee.Pkg.Pkg.Path() == gpuPackage:
				recv := callee.Signature.Recv()
				method := recv != nil && isThread(recv.Type()) && callee.Name() != "Barrier" && callee.Name() != "Nanosleep"
				if !method && callee.Name() != "DynamicShared" && callee.Name() != "LaneMaskBelow" {
					return true
				}
			case p.waits(callee, seen):
				return true
			}
		}
	}
	return false
}

// takesThread reports whether an argument is a thread.
func takesThread(c *ssa.CallCommon) bool {
	for _, a := range c.Args {
		if isThread(a.Type()) {
			return true
		}
	}
	return false
}
