package arena

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// poisonPattern is what returned memory is filled with in debug mode.
const poisonPattern = 0xDB

var poisonPage = bytes.Repeat([]byte{poisonPattern}, pinnedPage)

func (b *pinnedBlock) memory() []byte { return unsafe.Slice((*byte)(b.ptr), b.bytes) }

func (b *pinnedBlock) poison() {
	for memory := b.memory(); len(memory) > 0; memory = memory[pinnedPage:] {
		copy(memory, poisonPage)
	}
	b.poisoned = true
}

// checkPoison looks whether a block that was free holds the pattern. The caller has taken
// it.
func (p *Pinned) checkPoison(b *pinnedBlock) {
	if !b.poisoned {
		return
	}
	b.poisoned = false
	memory := b.memory()
	for at := 0; at < len(memory); at += pinnedPage {
		page := memory[at : at+pinnedPage]
		if bytes.Equal(page, poisonPage) {
			continue
		}
		first := slices.IndexFunc(page, func(v byte) bool { return v != poisonPattern })
		p.mu.Lock()
		p.stats.Findings++
		p.mu.Unlock()
		p.binding.Cleanup(p.errorf(driver.ErrInvalidArgument,
			"page-locked block of %d bytes was written to at byte %d after it was returned; leased at %s, returned at %s",
			b.bytes, at+first, b.previous.text(""), b.returned.text("")))
		return
	}
}
