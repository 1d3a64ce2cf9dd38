package refs

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
)

// Drain waits until no lease is held and nothing is allocated or freed. On a State that
// is shut down it then sets [Drained]: until Resume or Rebuild nobody uses the arena. A State
// that accepts work gets new leases meanwhile; there it waits for those that were held at
// the call. When ctx ends first it returns ctx's cause, and the State is shutting down as
// before.
func (s *State) Drain(ctx context.Context) error {
	switch {
	case s.Generation() == 0:
		return s.refusal(0)
	case ctx == nil:
		return s.errorf(driver.ErrInvalidArgument, "Drain takes a context that is not nil")
	}
	if err := s.awaitLeases(ctx); err != nil {
		return err
	}
	if _, status := s.change(from(ShuttingDown, Drained)); status == Accepting {
		return nil
	}
	// Once more, since it may have been resumed and shut down again meanwhile. Now there are
	// no new ones.
	err := s.awaitLeases(ctx)
	if err == nil {
		err = s.drains.await(ctx, func() bool { return s.busy.Load() == 0 })
	}
	if err != nil {
		s.change(from(Drained, ShuttingDown))
	}
	return err
}

// awaitLeases waits for the leases that are held now.
func (s *State) awaitLeases(ctx context.Context) error {
	leased := s.ledger.leased()
	return s.drains.await(ctx, func() bool {
		for len(leased) > 0 && !leased[len(leased)-1].leased() {
			leased = leased[:len(leased)-1]
		}
		return len(leased) == 0
	})
}

// from is a change from one status to another.
func from(before, after Status) func(uint64, Status) (uint64, Status) {
	return func(generation uint64, now Status) (uint64, Status) {
		if now == before {
			now = after
		}
		return generation, now
	}
}

// drains wakes those who wait for leases and calls to end. The zero value is ready.
type drains struct {
	waiting atomic.Int32
	mu      sync.Mutex
	next    chan struct{} // closed when something has ended; nil: nobody waits
}

// ended says that something has ended. It costs one load where nobody waits.
func (d *drains) ended() {
	if d.waiting.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next != nil {
		close(d.next)
		d.next = nil
	}
}

// await waits until something is so, or ctx ends.
func (d *drains) await(ctx context.Context, so func() bool) error {
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	for {
		d.mu.Lock()
		if d.next == nil {
			d.next = make(chan struct{})
		}
		next := d.next
		d.mu.Unlock()
		if so() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
