package arena

import (
	goruntime "runtime"
	"sync/atomic"

	"github.com/purecuda/purecuda/internal/callsite"
)

// sites are where a block was allocated and freed last, if that is taken down.
type sites struct{ allocated, freed place }

// place is a line of the program that called this package or one above it. It is set and read
// on different goroutines: that of a stale Block may come when the next turn begins.
type place struct{ stack atomic.Pointer[[24]uintptr] }

// note takes down where the program is.
func (p *place) note() {
	var stack [24]uintptr
	goruntime.Callers(3, stack[:])
	p.stack.Store(&stack)
}

// set takes a place over that was noted before.
func (p *place) set(from *place) {
	if stack := from.stack.Load(); stack != nil {
		p.stack.Store(stack)
	}
}

var ownFunctions = callsite.Package("arena")

// text is the place after a word, or nothing where it was not taken down.
func (p *place) text(word string) string {
	stack := p.stack.Load()
	if stack == nil {
		return ""
	}
	return word + callsite.Outside(stack[:], ownFunctions)
}
