package arena

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/internal/callsite"
)

// callSites are where a block was allocated and freed last, if that is recorded.
type callSites struct{ allocated, freed callSite }

// callSite is a line of the program that called this package or one above it. It is set and read
// on different goroutines: the report of a stale Block may come when the next use begins.
type callSite struct{ stack atomic.Pointer[[40]uintptr] }

// record records where the program is.
func (p *callSite) record() {
	var stack [40]uintptr
	callsite.Callers(2, stack[:])
	p.stack.Store(&stack)
}

// copyFrom takes another call site over.
func (p *callSite) copyFrom(from *callSite) {
	if stack := from.stack.Load(); stack != nil {
		p.stack.Store(stack)
	}
}

var ownFunctions = callsite.Package("arena")

// text is the call site after a word, or nothing where it was not recorded.
func (p *callSite) text(word string) string {
	stack := p.stack.Load()
	if stack == nil {
		return ""
	}
	return word + callsite.Outside(stack[:], ownFunctions)
}
