package refs

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/zero"
)

// Status is what a [State] is in.
type Status uint8

// The statuses. Memory is allocated and used in Accepting only.
const (
	// Accepting: everything goes.
	Accepting Status = iota
	// Suspended: nothing new begins, leases that are held may finish, and memory is
	// still freed.
	Suspended
	// Drained: as Suspended, and no lease is held. Memory that is closed waits for
	// Resume, Rebuild or Close, so that the arena can be taken down meanwhile.
	Drained
	// Lost: an error has ended the use of the device, or of CUDA. Nothing is freed any
	// more. Only Revive leads out of it.
	Lost
	// Closed: closed, for good.
	Closed
)

func (s Status) String() string {
	names := [...]string{"accepting", "suspended", "drained", "lost", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// State is the state of the context of one device, which all Refs to its memory share. It says
// whether work is accepted, which generation of the context exists, and what has ended it. It
// belongs to whoever makes contexts, and outlives them. All methods are safe for concurrent use.
// Only Reclaim and Close call the driver.
type State struct {
	device int
	config StateConfig

	// word is the generation and the status in one, so that one load reports whether a Ref
	// may be used: it may if this is what it was stamped with.
	word atomic.Uint64
	_    [56]byte // what follows is written often; Access reads the word only

	// busy counts allocations and frees that are under way in the arena.
	busy    atomic.Int64
	changed gate.Cond                // busy or the leases of some memory are less
	mu      locks.Mutex[locks.State] // of changes
	lost    atomic.Pointer[lostCause]
	done    atomic.Pointer[chan struct{}] // closed by the loss; replaced under mu
	// pending are the changes that OnChange has yet to hear of, and notifying says that a
	// goroutine is calling it. mu guards both.
	pending   []Change
	notifying bool

	registry registry
}

type lostCause struct{ error }

// StateConfig is what a State can be told. The zero value is useful.
type StateConfig struct {
	// OnChange, if not nil, hears of every change, in order. One call is made at a time, after the
	// State has moved on. It may ask the State and change it. It must not wait for the State
	// (Drain, Close) or for anything that a caller of CUDA holds. Its panics go to OnCleanup.
	OnChange func(Change)
	// OnCleanup, if not nil, hears of memory that could not be freed where no
	// caller waits for the answer. It may be called on any goroutine.
	OnCleanup func(error)
}

// NewState makes the state of a device, which accepts work in generation 1.
func NewState(device int, c StateConfig) *State {
	s := &State{device: device, config: c}
	s.renew()
	s.word.Store(makeWord(1, Accepting))
	return s
}

const statusBits = 3

func makeWord(generation uint64, s Status) uint64 { return generation<<statusBits | uint64(s) }

// split takes a word apart. That of a State that was never made says that it is closed.
func split(word uint64) (generation uint64, s Status) {
	if word == 0 {
		return 0, Closed
	}
	return word >> statusBits, Status(word & (1<<statusBits - 1))
}

// Device is the ordinal of the device.
func (s *State) Device() int { return zero.Or(s).device }

// Generation is the number of the context: it grows with every rebuild, and when the
// device is lost. No two contexts of a State have the same.
func (s *State) Generation() uint64 {
	if s == nil {
		return 0
	}
	generation, _ := split(s.word.Load())
	return generation
}

// Status is what the State is in now.
func (s *State) Status() Status {
	if s == nil {
		return Closed
	}
	_, status := split(s.word.Load())
	return status
}

// Accepting reports whether memory can be allocated and used.
func (s *State) Accepting() bool { return s.Status() == Accepting }

// Lost is the first cause for which the device was lost, or nil.
func (s *State) Lost() error {
	if s == nil {
		return nil
	}
	if first := s.lost.Load(); first != nil {
		return first.error
	}
	return nil
}

// Done returns a channel that is closed when the device is lost. After a Revive there is another one.
func (s *State) Done() <-chan struct{} {
	if s == nil {
		return nil
	}
	if done := s.done.Load(); done != nil {
		return *done
	}
	return nil // a State that was never made
}

func (s *State) renew() {
	done := make(chan struct{})
	s.done.Store(&done)
}

// Suspend stops the intake until Resume: from now on uses are refused with "device shutting down".
// Leases that are held stay good; see [State.Drain]. It does nothing where the State does
// not accept work.
func (s *State) Suspend() {
	s.change(func(generation uint64, now Status) (uint64, Status) {
		if now == Accepting {
			return generation, Suspended
		}
		return generation, now
	})
}

// Resume takes a Suspend back: the same generation is accepted again. It reports whether
// the State accepts work now; after a loss or a close it does not.
func (s *State) Resume() bool {
	_, now := s.change(func(generation uint64, now Status) (uint64, Status) {
		if now == Suspended || now == Drained {
			return generation, Accepting
		}
		return generation, now
	})
	return now == Accepting
}

// Rebuild says that there is a new context: the generation moves on, Refs of the old one
// are stale ("context rebuilt") for ever, and the State accepts work. The memory that old
// Refs had is regarded as gone with its context and is never touched again. Suspend and
// drain before, else calls that are under way meet a context that is taken down.
//
// A State that is lost or closed stays so, which is an error; see [State.Revive].
func (s *State) Rebuild() error {
	var refused error
	s.change(func(generation uint64, now Status) (uint64, Status) {
		if now == Lost || now == Closed {
			refused = s.Check(0)
			return generation, now
		}
		return generation + 1, Accepting
	})
	s.Reclaim() // what waited belongs to the context before
	return refused
}

// Revive takes a loss back, for a device that works again: the State is Drained until Rebuild
// says that there is a new context. Refs of before stay stale. It reports whether the State was
// lost. A sticky error of the process cannot be taken back, which is the caller's to know.
func (s *State) Revive() bool {
	before, _ := s.change(func(generation uint64, now Status) (uint64, Status) {
		if now != Lost {
			return generation, now
		}
		s.lost.Store(nil)
		s.renew()
		return generation, Drained
	})
	return before == Lost
}

// Lose says that an error has ended the use of the device. Every Ref is stale at once, and its
// calls return driver.ErrDeviceLost with the first cause. That is the cause of the first Lose since
// the State was made or revived. Lose does not wait and makes no call of the driver, so that it can
// be called from a hook of the driver's errors.
func (s *State) Lose(cause error) {
	if cause == nil {
		cause = driver.Errorf(driver.ErrDeviceLost, "no cause was given")
	}
	s.change(func(generation uint64, now Status) (uint64, Status) {
		if now == Lost || now == Closed {
			return generation, now
		}
		s.lost.Store(&lostCause{cause}) // before anybody can see the status
		return generation + 1, Lost
	})
}

// Close frees what the garbage collector has found, and closes the State. Later uses fail with
// "device state closed". Memory that is still open counts as gone with its context. Close waits for
// allocations and frees that are under way, not for leases. Closing twice is harmless. It must not
// be called from a hook of the driver's errors.
func (s *State) Close() {
	s = zero.Or(s)
	s.Reclaim()
	s.change(func(generation uint64, _ Status) (uint64, Status) { return generation, Closed })
	s.changed.Wait(nil, s.idle)
	s.Reclaim()
}

// change moves the State on, and tells what it was and what it is.
func (s *State) change(next func(generation uint64, now Status) (uint64, Status)) (before, after Status) {
	s = zero.Or(s)
	s.mu.Lock()
	word := s.word.Load()
	generation, before := split(word)
	number, after := next(generation, before)
	changed := makeWord(number, after) != word
	if changed {
		s.word.Store(makeWord(number, after))
		if after == Lost { // who is woken sees it
			close(*s.done.Load())
		}
	}
	if changed && s.config.OnChange != nil {
		s.pending = append(s.pending, Change{Device: s.device, Generation: number, From: before, To: after, Lost: s.Lost()})
	}
	s.mu.Unlock()
	if changed {
		s.notify()
	}
	return before, after
}

// enter begins a call of the arena, which Drain waits for. It returns the word that holds
// meanwhile, unless a rebuild does not wait.
func (s *State) enter() (word uint64) {
	s.busy.Add(1)
	return s.word.Load()
}

func (s *State) leave() {
	s.busy.Add(-1)
	s.changed.Broadcast()
}

// idle reports whether no call of the arena is under way.
func (s *State) idle() bool { return s.busy.Load() == 0 }

// cleanup reports an error that no caller waits for.
func (s *State) cleanup(err error) {
	if err != nil && s.config.OnCleanup != nil {
		s.config.OnCleanup(err)
	}
}
