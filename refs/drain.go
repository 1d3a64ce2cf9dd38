package refs

import (
	"context"

	"github.com/purecuda/purecuda/driver"
)

// Drain waits until no lease is held and nothing is allocated or freed. On a State that
// is suspended it then sets [Drained]: until Resume or Rebuild nobody uses the arena. A State
// that accepts work gets new leases meanwhile; there it waits for those that were held at
// the call. After a loss it waits only for what is being allocated or freed: leases of memory that is gone hold nothing
// up. When ctx ends first it returns ctx's cause, and the State is suspended as before.
func (s *State) Drain(ctx context.Context) error {
	switch {
	case s.Generation() == 0:
		return s.Check(0)
	case ctx == nil:
		return s.errorf(driver.ErrInvalidArgument, "Drain takes a context that is not nil")
	case s.Status() == Lost:
		return s.await(ctx, s.idle)
	}
	if err := s.awaitLeases(ctx); err != nil {
		return err
	}
	if _, status := s.change(from(Suspended, Drained)); status == Accepting {
		return nil
	}
	// Once more, since it may have been resumed and shut down again meanwhile. Now there are
	// no new ones.
	err := s.awaitLeases(ctx)
	if err == nil {
		err = s.await(ctx, s.idle)
	}
	if err != nil {
		s.change(from(Drained, Suspended))
	}
	return err
}

// awaitLeases waits for the leases that are held now.
func (s *State) awaitLeases(ctx context.Context) error {
	leased := s.registry.leased()
	return s.await(ctx, func() bool {
		for len(leased) > 0 && !leased[len(leased)-1].leased() {
			leased = leased[:len(leased)-1]
		}
		return len(leased) == 0
	})
}

// await waits until something is so. When ctx ends first it returns ctx's cause.
func (s *State) await(ctx context.Context, so func() bool) error {
	if !s.changed.Wait(ctx.Done(), so) {
		return context.Cause(ctx)
	}
	return nil
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
