package arena

import (
	"bytes"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
)

// PinnedLeak is a lease that was not returned.
type PinnedLeak struct {
	Bytes uint64 // asked for
	Site  string // "file.go:12" of the lease; empty without PinnedConfig.Debug
}

func (l PinnedLeak) String() string {
	if l.Site == "" {
		return fmt.Sprintf("%d bytes of page-locked memory", l.Bytes)
	}
	return fmt.Sprintf("%d bytes of page-locked memory, leased at %s", l.Bytes, l.Site)
}

// PinnedFinding is a block that was written to after its return, by the program or by a copy
// of a device that was still under way.
type PinnedFinding struct {
	Bytes    uint64 // of the block
	Offset   uint64 // of the first byte that was written
	Leased   string // "file.go:12" of the lease
	Returned string // and of its return
}

// maxFindings bounds what is kept.
const maxFindings = 1000

// Leaks lists the leases that are under way.
func (p *Pinned) Leaks() []PinnedLeak {
	p = zero.Or(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	var leaks []PinnedLeak
	for block := range p.blocks {
		if block.turn.n.Load()%2 == 1 {
			leaks = append(leaks, PinnedLeak{Bytes: block.asked, Site: block.leased.text("")})
		}
	}
	slices.SortFunc(leaks, func(a, b PinnedLeak) int {
		if a.Bytes != b.Bytes {
			return int(int64(b.Bytes - a.Bytes))
		}
		return strings.Compare(a.Site, b.Site)
	})
	return leaks
}

// Findings lists the uses after return that were seen so far, at most 1000 of them. They are seen
// when a block is leased again or freed; [Pinned.Trim] with 0 makes that now. Without
// PinnedConfig.Debug there are none.
func (p *Pinned) Findings() []PinnedFinding {
	p = zero.Or(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.found)
}

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
		f := PinnedFinding{Bytes: b.bytes, Offset: uint64(at + first), Leased: b.previous.text(""), Returned: b.returned.text("")}
		p.mu.Lock()
		if len(p.found) < maxFindings {
			p.found = append(p.found, f)
		}
		p.mu.Unlock()
		p.binding.Cleanup(p.errorf(driver.ErrInvalidArgument, "%s", f))
		return
	}
}

// site is the place of a call outside of this package.
type site struct {
	pc [8]uintptr
	n  int
}

// note takes down where the program is, if it is to.
func (s *site) note(debug bool) {
	if debug {
		s.n = goruntime.Callers(3, s.pc[:])
	}
}

// text is the place behind a word, or nothing where it was not taken down.
func (s *site) text(word string) string {
	if s.n == 0 {
		return ""
	}
	frames := goruntime.CallersFrames(s.pc[:s.n])
	for {
		frame, more := frames.Next()
		inside := strings.Contains(frame.Function, "purecuda/arena.") && !strings.HasSuffix(frame.File, "_test.go")
		if !inside || !more {
			return fmt.Sprintf("%s%s:%d", word, frame.File[strings.LastIndexByte(frame.File, '/')+1:], frame.Line)
		}
	}
}
