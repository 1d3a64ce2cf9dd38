package arena

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
)

// Block is device memory that was allocated and not freed yet. It is a small value that
// can be compared and copied; copies mean the same memory, and freeing one frees it.
// The zero Block is no memory.
//
// A Block knows its version: after it was freed all copies of it are stale, also when the
// memory has been handed out again. Freeing a stale block is an error, and its address
// is 0. Reading a block allocates nothing and may happen on any goroutine.
type Block struct {
	block   *block
	version uint64
}

// Ptr is the address on the device, a multiple of 256, or 0 if the block is stale.
func (b Block) Ptr() driver.DevicePtr {
	if !b.Valid() {
		return 0
	}
	return b.block.ptr
}

// Bytes is the size that was asked for, or 0 if the block is stale.
func (b Block) Bytes() uint64 {
	if b.block == nil {
		return 0
	}
	requested := b.block.requested.Load()
	if !b.Valid() { // requested may belong to a later version
		return 0
	}
	return requested
}

// Size is the size of the block's class or a little more, which may be used as well, or 0 if the block
// is stale.
func (b Block) Size() uint64 {
	if !b.Valid() {
		return 0
	}
	return b.block.size
}

// Valid reports whether the block is in use. One that another goroutine frees may be
// stale when Valid returns.
func (b Block) Valid() bool { return b.block != nil && b.block.version.Load() == b.version }

// block is memory of the driver, from its allocation until it is freed in the driver. Whoever
// holds it, a list or the caller who has it in use, has it alone.
type block struct {
	dev   *Device
	ptr   driver.DevicePtr
	size  uint64
	class int
	// segment is what the block is a part of; nil if it is all that the driver gave.
	segment *segment

	// version is odd while the block is in use. Every allocation and every free adds one, so that a
	// Block that was freed never becomes valid again.
	version   atomic.Uint64
	requested atomic.Uint64 // bytes; of the latest version

	// freedAt is the device's clock when the block was freed.
	freedAt uint64
	// The neighbours in the list of the class and in the list of all of the stripe; the
	// latest freed is first in both.
	inClass, inAll links

	callSites callSites

	_ [8]byte // blocks of other processors share no cache line
}

type links struct{ newer, older *block }

// begin starts a use of the block.
func (b *block) begin(bytes uint64) Block {
	b.requested.Store(bytes)
	return Block{b, b.version.Add(1)}
}

// end ends the use. It reports whether the Block was the one in use: only one of
// several callers gets true.
func (b Block) end() bool { return b.block.version.CompareAndSwap(b.version, b.version+1) }

// inUse reports whether a caller has the block.
func (b *block) inUse() bool { return b.version.Load()&1 == 1 }
