package cluster

import (
	"context"
	"slices"
	"sync"

	"github.com/purecuda/purecuda/driver"
)

// budget bounds the bytes of what references and the object store bring to a host. Who finds no room waits, in order.
type budget struct {
	mu        sync.Mutex
	max, used int64
	waiting   []*grant // oldest first
}

type grant struct {
	bytes int64
	given chan struct{} // closed under the lock
}

// take waits until there is room.
func (b *budget) take(ctx context.Context, bytes int64) error {
	b.mu.Lock()
	switch {
	case bytes > b.max:
		b.mu.Unlock()
		return driver.Errorf(driver.ErrInvalidArgument, "a piece with %d bytes of references, data and announced result: the host takes at most %d (WithMemory)", bytes, b.max)
	case len(b.waiting) == 0 && b.used+bytes <= b.max:
		b.used += bytes
		b.mu.Unlock()
		return nil
	}
	g := &grant{bytes, make(chan struct{})}
	b.waiting = append(b.waiting, g)
	b.mu.Unlock()
	select {
	case <-g.given:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-g.given: // at the same time
		b.used -= bytes
	default:
		b.waiting = slices.DeleteFunc(b.waiting, func(other *grant) bool { return other == g })
	}
	b.give()
	return context.Cause(ctx)
}

func (b *budget) giveBack(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= bytes
	b.give()
}

// give lets in who has room now. b.mu is held.
func (b *budget) give() {
	for len(b.waiting) > 0 && b.used+b.waiting[0].bytes <= b.max {
		g := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.used += g.bytes
		close(g.given)
	}
}
