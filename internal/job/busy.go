package job

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Busy adds up for how long something had work, from intervals that overlap and come in
// nearly any order. The zero value has seen none. It is safe for concurrent use.
type Busy struct {
	mu     sync.Mutex
	total  time.Duration // of what is no longer in recent
	recent []interval    // in order, with gaps between them
}

type interval struct{ from, to time.Duration }

// busyRecent is how many intervals are kept apart. What comes after so many later ones, which
// does not happen, would be counted twice.
const busyRecent = 256

// Add counts an interval. Times are from any epoch, the same for all.
func (b *Busy) Add(from, to time.Duration) {
	if to <= from {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// Those that touch the new one become one with it.
	first, _ := slices.BinarySearchFunc(b.recent, from, func(i interval, from time.Duration) int { return cmp.Compare(i.to, from) })
	end := first
	for end < len(b.recent) && b.recent[end].from <= to {
		from, to = min(from, b.recent[end].from), max(to, b.recent[end].to)
		end++
	}
	b.recent = slices.Replace(b.recent, first, end, interval{from, to})
	if len(b.recent) > busyRecent {
		half := b.recent[:busyRecent/2]
		b.total += sum(half)
		b.recent = slices.Delete(b.recent, 0, len(half))
	}
}

// Total is the time that the intervals cover together.
func (b *Busy) Total() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total + sum(b.recent)
}

func sum(all []interval) (total time.Duration) {
	for _, i := range all {
		total += i.to - i.from
	}
	return total
}
