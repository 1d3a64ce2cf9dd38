package arena

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
)

// Leak is a block or a range in use.
type Leak struct {
	Ptr   driver.DevicePtr
	Bytes uint64 // asked for
	Size  uint64 // of its class, or of the memory of a range
	// Site is where it was allocated, "file.go:12", with DeviceConfig.Sites.
	Site string
}

func (l Leak) String() string {
	text := fmt.Sprintf("%d bytes at %#x", l.Bytes, uint64(l.Ptr))
	if l.Site != "" {
		text += ", allocated at " + l.Site
	}
	return text
}

// Leaks lists the blocks and ranges in use, by their addresses; after Close, those that were in use
// then. It stops no stream: blocks that are allocated or freed meanwhile may be missing.
func (d *Device) Leaks() []Leak {
	d = zero.Or(d)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return slices.Clone(d.leakedAtClose)
	}
	return d.leaks()
}

// leaks is Leaks. d.mu is held.
func (d *Device) leaks() (all []Leak) {
	for b := range d.blocks {
		if b.inUse() {
			all = append(all, Leak{Ptr: b.ptr, Bytes: b.requested.Load(), Size: b.size, Site: b.callSites.allocated.text("")})
		}
	}
	for r := range d.ranges {
		all = append(all, Leak{Ptr: r.ptr, Bytes: r.bytes, Size: r.mapped, Site: r.site.text("")})
	}
	slices.SortFunc(all, func(a, b Leak) int { return cmp.Compare(a.Ptr, b.Ptr) })
	return all
}

// stale is the error of an attempt to use a block that is not in use by this Block.
func (b Block) stale(what string) error {
	d := b.block.dev
	text := fmt.Sprintf("%s a block of %d bytes at %#x that was freed before", what, b.block.size, uint64(b.block.ptr))
	if b.block.version.Load() > b.version+1 {
		text += "; its memory has been in use again since"
	}
	text += b.block.callSites.allocated.text("; allocated at ") + b.block.callSites.freed.text(", freed at ")
	return d.errorf(driver.ErrInvalidArgument, "%s", text)
}
