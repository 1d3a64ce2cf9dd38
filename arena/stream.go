package arena

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/zero"
)

// Stream is a stream as the arena knows it: the order in which memory is used, freed and
// used again. It is safe for concurrent use; the order of calls from several goroutines is
// theirs to decide. Make one with [Device.NewStream].
type Stream struct {
	dev    *Device
	handle driver.Stream
	id     uint64

	// state is a streamState. The end of the stream, and a loss, are written with Device.mu and the locks of all stripes
	// held, so that they hold under any of them. Of a capture that holds inside the gate only: a block that was taken or
	// freed beside its beginning or its end came before it.
	state atomic.Int32
	freed atomic.Bool // memory was freed in a capture, perhaps more than the cache is to hold
	first *stripe
	// more are all stripes, if there is more than the first.
	more   atomic.Pointer[[]*stripe]
	adding locks.Mutex[locks.Stripe] // held to make more

	// done: what was freed here before the clock showed this is not used by the device
	// any more.
	done atomic.Uint64
	// freeing: the driver frees memory when the stream gets there, and nobody has waited for that.
	freeing atomic.Bool
	// gate has those inside who call the driver about the handle or the guard. Those who end the time of such
	// calls suspend it, one at a time. Nobody is inside for long, and nobody who is enters another stream's.
	gate gate.Gate
	turn gate.Turn // of who suspends it
	// guard marks the end of the work of a closed stream; nil if the work is done, or if it
	// is not known when, for which unproven is the reason. Both are guarded by the gate.
	guard    *guard
	unproven error
	// before marks the end of the work before a capture, as the clock showed then; nil if
	// that could not be had, or nothing is captured. The gate guards it.
	before      *guard
	beforeClock uint64
	beforeErr   error
	// standsFor is set on stand-in streams only (see standIn): the guards that must pass before the
	// blocks here are free. It never changes.
	standsFor []*guard
	// seen has for other streams up to which time of the clock this one has waited for
	// their work. It is guarded by Device.mu.
	seen map[*Stream]uint64
	// gone: the device does not know the stream any more. It is guarded by Device.mu.
	gone bool
}

type streamState uint8

const (
	streamOpen streamState = iota
	streamCapturing
	streamClosed
	streamLost // CUDA is lost
)

const never = 1<<64 - 1

// Handle is the stream as package driver takes it.
func (s *Stream) Handle() driver.Stream { return zero.Or(s).handle }

// Device is the arena that the stream is of.
func (s *Stream) Device() *Device { return zero.Or(s).dev }

// ID is a number that no other stream of the device ever has, from 1.
func (s *Stream) ID() uint64 { return zero.Or(s).id }

// Alloc returns a block of at least bytes bytes that work on the stream may use at once;
// others must wait for the stream first. What it holds is undefined, unless DeviceConfig
// says otherwise.
//
// Alloc first takes a block that was freed on the stream. That takes less than 100 nanoseconds, no
// call of the driver and no Go memory. Next it takes a block that was freed on another stream of
// the device, and the stream then waits for that stream's work. Next it asks the driver. If the
// driver has no memory, Alloc waits until the work on all streams is done, and returns the whole cache
// to the driver. If that does not help, the error is of kind driver.ErrOutOfMemory and says what was
// asked, what is free, and what the arena holds.
//
// Keep calls of Alloc out while the device is closed: a block of one that goes on at the same
// time may look valid although its memory was freed.
//
// A stream that captures gives driver.ErrCaptureFailed: allocate before the capture. 0 bytes,
// and more than a device can address, give driver.ErrInvalidArgument.
func (s *Stream) Alloc(bytes uint64) (Block, error) {
	if s == nil || s.dev == nil {
		return Block{}, s.made()
	}
	if bytes-1 >= maxBytes {
		return Block{}, s.dev.checkBytes(bytes)
	}
	class := classOf(bytes)
	t := s.lock()
	if s.current() == streamOpen && s.dev.plain {
		if b := t.newest(class); b != nil {
			t.allocate(b, bytes)
			t.sums.hits++
			t.mu.Unlock()
			return b.begin(bytes), nil
		}
	}
	t.mu.Unlock()
	return s.allocate(class, bytes)
}

// Free frees a block, after the work that is on the stream: later work on it may
// use the memory again. The block may have been allocated on another stream of the device.
// If work of other streams still uses the block, make this one wait for them first
// ([Stream.Wait]); the arena cannot know.
//
// Free does not block, except on devices without pools when the cache is full: what is
// freed in the driver must be out of use then. While the stream captures, Free does
// not call the driver. A block that is not in use gives driver.ErrInvalidArgument. Once
// CUDA is lost Free succeeds and does nothing.
func (s *Stream) Free(b Block) error {
	if s == nil || b.block == nil || b.block.dev != s.dev {
		return s.foreign(b)
	}
	if !s.dev.plain {
		return s.freeSlow(b)
	}
	t := s.lock()
	if s.current() != streamOpen || t.room < int64(b.block.size) {
		t.mu.Unlock()
		return s.freeSlow(b)
	}
	if !b.end() {
		t.mu.Unlock()
		return b.stale("free")
	}
	b.block.freedAt = s.dev.clock.Load()
	t.free(b.block)
	t.sums.frees++
	t.mu.Unlock()
	return nil
}

// foreign is the error for a block that is not one of the device.
func (s *Stream) foreign(b Block) error {
	if err := s.made(); err != nil {
		return err
	}
	if b.block == nil {
		return s.errorf(driver.ErrInvalidArgument, "free the zero Block: it is no memory")
	}
	return s.errorf(driver.ErrInvalidArgument, "free a block of device %d in the arena of device %d",
		b.block.dev.binding.Ordinal, s.dev.binding.Ordinal)
}

func (s *Stream) errorf(kind driver.Kind, format string, args ...any) *driver.Error {
	e := s.dev.errorf(kind, format, args...)
	e.Stream = s.id
	return e
}

// lock locks a stripe: the first one until goroutines meet there, and the one of the
// processor from then on.
func (s *Stream) lock() *stripe {
	if s.more.Load() == nil && s.first.mu.TryLock() {
		return s.first
	}
	return s.lockOwn()
}

// lockTries is how often a stripe is tried: for longer than a lock is held as a rule.
const lockTries = 16

func (s *Stream) lockOwn() *stripe {
	more := s.more.Load()
	if more == nil {
		more = s.addStripes()
	}
	// A pool has one value for every processor, which is what is wanted here. A processor
	// that meets another one takes the next stripe from then on, until all have their own.
	slot := s.dev.slots.Get().(*uint32)
	var t *stripe
	for range *more {
		t = (*more)[*slot%uint32(len(*more))]
		for range lockTries { // whoever looks through all stripes is gone soon
			if t.mu.TryLock() {
				s.dev.slots.Put(slot)
				return t
			}
		}
		*slot++
	}
	s.dev.slots.Put(slot)
	t.mu.Lock()
	return t
}

// addStripes makes more stripes.
func (s *Stream) addStripes() *[]*stripe {
	s.adding.Lock()
	defer s.adding.Unlock()
	if more := s.more.Load(); more != nil {
		return more
	}
	more := []*stripe{s.first}
	for len(more) < stripes() {
		more = append(more, new(stripe))
	}
	s.more.Store(&more)
	return &more
}

// stripes are all of them.
func (s *Stream) stripes() []*stripe {
	if more := s.more.Load(); more != nil {
		return *more
	}
	return []*stripe{s.first}
}

// lockAll locks all stripes.
func (s *Stream) lockAll() {
	s.adding.Lock()
	for _, t := range s.stripes() {
		t.mu.Lock()
	}
}

func (s *Stream) unlockAll() {
	for _, t := range s.stripes() {
		t.mu.Unlock()
	}
	s.adding.Unlock()
}

// current is the state, and holds only with a lock or in the gate: Close and Capture suspend the gate.
func (s *Stream) current() streamState { return streamState(s.state.Load()) }

// enter begins calls about the handle, and leave ends them. The time between must be
// short: the closing of the stream waits for it.
func (s *Stream) enter() error {
	s.gate.EnterWaiting()
	if err := s.usable(s.current()); err != nil {
		s.gate.Leave()
		return err
	}
	return nil
}

// keepOut waits for the calls inside the gate and keeps others out, until letIn.
func (s *Stream) keepOut() {
	s.turn.Take(nil)
	s.gate.Suspend(0, nil)
}

func (s *Stream) letIn() {
	s.gate.Resume()
	s.turn.Give()
}

func (s *Stream) leave() { s.gate.Leave() }

// usable is why the driver is not to be called about a stream in a state, or nil.
func (s *Stream) usable(state streamState) error {
	switch state {
	case streamOpen:
		return nil
	case streamCapturing:
		return s.capturing()
	case streamClosed:
		return s.errorf(driver.ErrClosed, "the stream is closed for the arena")
	}
	return s.dev.lost()
}

func (s *Stream) capturing() error {
	return s.errorf(driver.ErrCaptureFailed, "the stream is captured: do this before the capture or on another stream")
}

// completed reports whether the device has completed the work with what was freed at a time.
func (s *Stream) completed(freedAt uint64) bool { return freedAt < s.done.Load() }

// advanceDone moves done on.
func (s *Stream) advanceDone(clock uint64) {
	for {
		old := s.done.Load()
		if old >= clock || s.done.CompareAndSwap(old, clock) {
			return
		}
	}
}
