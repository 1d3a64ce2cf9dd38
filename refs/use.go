package refs

import (
	"errors"
	"slices"
	"strconv"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
)

// use is what is known about the work of one stream with a block.
type use struct {
	stream *arena.Stream
	wrote  bool
	// after says that the stream has been made to wait for all work of others that writes,
	// so that it may read without waiting again.
	after bool
}

// manyUses is how many streams may read a block before their work is put in a row. So the list of
// streams that a writer has to wait for is bounded.
const manyUses = 16

// use orders work that is about to be put on s after the work of other streams that it depends on.
// Work that reads comes after work that writes, and work that writes after all.
//
// A wait covers what is on the other stream when it is told to wait. Somebody who holds a lease may
// be between this function and the call that puts its work there. The uses of others are therefore
// dropped only when nobody else holds a lease. As long as somebody does, they are kept, and waited
// for once more by whoever comes next.
func (m *memory) use(s *arena.Stream, write bool) error {
	if m.sole.Load() == s {
		return nil
	}
	return m.useShared(s, write)
}

// useShared is use where several streams use the memory.
func (m *memory) useShared(s *arena.Stream, write bool) error {
	if s.Device() == nil {
		return invalidStream(m.state)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// Before the leases are looked at: who takes one later comes here as well.
	m.sole.Store(nil)
	defer m.setSole()
	exclusive := m.leases() <= 1
	if err := m.wait(s, write); err != nil {
		return err
	}
	mine := m.useOf(s)
	switch {
	case write && exclusive:
		clear(m.uses)
		m.uses = append(m.uses[:0], use{stream: s, wrote: true})
	case write:
		for i := range m.uses {
			m.uses[i].after = false
		}
		m.uses[mine].wrote = true
	case exclusive:
		m.uses[mine].after = true
		m.foldReaders(s)
	}
	if write {
		m.writer.Store(s)
	}
	return nil
}

// setSole sets sole where there is only one stream. m.mu is held.
func (m *memory) setSole() {
	if len(m.uses) == 1 {
		m.sole.Store(m.uses[0].stream)
	}
}

// useOf is the place of a stream in the list, which it gets if it has none. m.mu is held.
func (m *memory) useOf(s *arena.Stream) int {
	i := slices.IndexFunc(m.uses, func(u use) bool { return u.stream == s })
	if i < 0 {
		i = len(m.uses)
		m.uses = append(m.uses, use{stream: s})
	}
	return i
}

// wait makes s wait for what work on it depends on. m.mu is held.
func (m *memory) wait(s *arena.Stream, write bool) error {
	for _, u := range m.uses {
		if u.stream == s && u.after && !write {
			return nil
		}
	}
	for _, u := range m.uses {
		if u.stream == s || !write && !u.wrote {
			continue
		}
		if err := s.Wait(u.stream); err != nil {
			return err
		}
	}
	return nil
}

// foldReaders makes s, which reads, wait for other readers where there are many, so that
// waiting for s is waiting for them. Nobody else holds a lease, and m.mu is held.
func (m *memory) foldReaders(s *arena.Stream) {
	if len(m.uses) <= manyUses {
		return
	}
	m.uses = slices.DeleteFunc(m.uses, func(u use) bool {
		return u.stream != s && !u.wrote && s.Wait(u.stream) == nil
	})
}

// freeAfterUses frees the block after all work with it. Nobody refers to the memory
// any more. The stream that used it last is tried first, since that is where the next
// allocation is likely to be. It may be closed meanwhile: then the arena takes the block,
// without making work of others wait, and else any other stream. Streams of other devices
// can use the memory, but not free it. Where all fail the block stays in use for the
// arena, so that it is never handed out again.
func (m *memory) freeAfterUses() (fate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	device := m.home.Device()
	var few [4]*arena.Stream // which are enough nearly always
	own := append(few[:0], m.home)
	for _, u := range m.uses {
		if u.stream.Device() == device {
			own = append(own, u.stream)
		}
	}
	last := len(own) - 1
	f, err := m.freeOn(own[last])
	switch {
	case f == freed:
		return f, err
	case errors.Is(err, driver.ErrDeviceLost):
		return f, m.leak(err)
	}
	// Also where the last stream is open: it cannot wait for others in a capture.
	err = device.FreeAfter(m.block, m.users()...)
	if !m.block.Valid() {
		return freed, err
	}
	for _, on := range slices.Backward(own[:last]) {
		if errors.Is(err, driver.ErrDeviceLost) {
			break
		}
		if f, onErr := m.freeOn(on); f == freed {
			return f, onErr
		}
	}
	return leaked, m.leak(err)
}

// users are the streams that may have work with the memory. m.mu is held.
func (m *memory) users() []*arena.Stream {
	users := make([]*arena.Stream, len(m.uses))
	for i, u := range m.uses {
		users[i] = u.stream
	}
	return users
}

// freeRange frees memory that grows, after all work with it.
func (m *memory) freeRange() (fate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.grows.FreeAfter(m.users()...); err != nil {
		return leaked, m.leak(err)
	}
	return freed, nil
}

// handOver makes home wait for all work with memory that others own.
func (m *memory) handOver() (fate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.wait(m.home, true); err != nil {
		return freed, m.state.errorf(driver.ErrDriverCallFailed,
			"the stream that the memory was wrapped on cannot wait for its work: synchronize the context before you free it: %w", err)
	}
	return freed, nil
}

// freeOn frees the block on a stream, after the work of all others. m.mu is held.
func (m *memory) freeOn(s *arena.Stream) (fate, error) {
	err := m.wait(s, true)
	if err == nil {
		if err = s.Free(m.block); !m.block.Valid() {
			return freed, err // an error is about filling it, say
		}
	}
	return leaked, err
}

// leak makes the error of memory that is leaked on purpose.
func (m *memory) leak(cause error) error {
	err := m.state.errorf(driver.ErrDriverCallFailed,
		"leaked on purpose: that the work with the memory ends could not be proven: %w", cause)
	var e *driver.Error
	if errors.As(cause, &e) {
		err.Kind, err.Sticky = e.Kind, e.Sticky
	}
	err.Bytes = m.bytes
	return err
}

func invalidStream(s *State) error {
	return s.errorf(driver.ErrInvalidArgument, "memory is used on a stream that was never made")
}

func streamName(s *arena.Stream) string {
	if s == nil {
		return "none"
	}
	return strconv.FormatUint(s.ID(), 10)
}
