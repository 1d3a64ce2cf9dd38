package isolate

import (
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// Buffer is memory that a program shares with its children. It belongs to a [Group], and is safe for concurrent
// use; its content is for whoever uses it to keep in order. After an error of [Group.Do] the content is what the
// function, or a child that died, has left there. Nobody writes to it any more then. Where a child was killed and has not ended, the
// error says so, and a buffer of its requests is an error of kind [ErrChildDied] until it has.
type Buffer struct {
	number uint64
	data   []byte
	group  *Group // in the parent
	file   int    // the descriptor, in the parent

	mu     sync.Mutex
	calls  int // that use it
	lost   int // those of a process that may still write to it
	closed bool
	// host is the registration in the child.
	host *runtime.HostBuffer[byte]
}

// Bytes is the memory. It must not be used after Close.
func (b *Buffer) Bytes() []byte {
	if b == nil {
		return nil
	}
	return b.data
}

// HostBuffer returns a buffer as page-locked memory, in the function that got it. The first call in a child
// registers the memory, which takes some milliseconds for each 16 MiB. T must divide the size of the buffer. The
// registration stays until the buffer closes: do not close what HostBuffer returns.
func HostBuffer[T any](w *pool.Worker, b *Buffer) (*runtime.HostBuffer[T], error) {
	if b == nil || b.group != nil || w == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "HostBuffer takes the worker and a buffer of a function that was called by Do")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.host == nil {
		host, err := runtime.RegisterHost(w.Context(), b.data)
		if err != nil {
			return nil, err
		}
		b.host = host
	}
	return runtime.CastHost[T](b.host)
}

// unregister ends the registration of a buffer of [NewRequest].
func (b *Buffer) unregister() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	host := b.host
	b.host = nil
	return host.Close()
}

// enter keeps the memory of a buffer of the parent from being unmapped.
func (b *Buffer) enter(g *Group) error {
	if b == nil || b.group != g {
		return driver.Errorf(driver.ErrInvalidArgument, "a buffer of the same group is needed: make it with NewBuffer")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return driver.Errorf(driver.ErrClosed, "the buffer was closed before")
	case b.lost > 0:
		return driver.Errorf(ErrChildDied, "a child that was killed and has not ended may still write to the buffer: use another one, and close this one")
	}
	b.calls++
	return nil
}

func (b *Buffer) lose(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost += n
}

func (b *Buffer) leave() {
	b.mu.Lock()
	b.calls--
	last := b.closed && b.calls == 0
	b.mu.Unlock()
	if last {
		b.end()
	}
}

// Close frees the memory once no request uses it. It may be called twice.
func (b *Buffer) Close() error {
	if b == nil || b.group == nil {
		return nil
	}
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	last := first && b.calls == 0
	b.mu.Unlock()
	if last {
		b.end()
	}
	return nil
}

// end frees the memory in the parent, and tells the children.
func (b *Buffer) end() {
	go b.group.forget(b) // a child that does not read would hold up who closes it
	unmap(b.data)
	closeDescriptor(b.file)
}
