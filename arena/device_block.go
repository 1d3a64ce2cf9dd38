package arena

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
)

// Block is device memory that was allocated and not freed yet. It is a small value that
// can be compared and copied; copies mean the same memory, and freeing one frees it.
// The zero Block is no memory.
//
// A Block knows its turn: after it was freed all copies of it are stale, also when the
// memory has been handed out again. Freeing a stale block is an error, and its address
// is 0. Reading a block allocates nothing and may happen on any goroutine.
type Block struct {
	block *block
	turn  uint64
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
	asked := b.block.asked.Load()
	if !b.Valid() { // asked may be that of a later turn
		return 0
	}
	return asked
}

// Size is the size of the block's class, which may be used as well, or 0 if the block
// is stale.
func (b Block) Size() uint64 {
	if !b.Valid() {
		return 0
	}
	return b.block.size
}

// Valid tells whether the block is in use. One that another goroutine frees may be
// stale when Valid returns.
func (b Block) Valid() bool { return b.block != nil && b.block.turn.Load() == b.turn }

// block is memory of the driver, from its allocation until it is given back. Whoever
// holds it, a list or the caller who has it in use, has it alone.
type block struct {
	dev   *Device
	ptr   driver.DevicePtr
	size  uint64
	class int

	// turn is odd while the block is in use. Every allocation and every free is a turn,
	// so that a Block tells its own from all others.
	turn  atomic.Uint64
	asked atomic.Uint64 // bytes; of the latest turn

	// freedAt is the device's clock when the block was freed.
	freedAt uint64
	// The neighbours in the list of the class and in the list of all of the stripe; the
	// latest freed is first in both.
	inClass, inAll links

	sites sites

	_ [16]byte // blocks of other processors share no cache line
}

type links struct{ newer, older *block }

// begin hands the block out for a turn.
func (b *block) begin(bytes uint64) Block {
	b.asked.Store(bytes)
	return Block{b, b.turn.Add(1)}
}

// end takes the block back. It tells whether the Block was the one in use: only one of
// several callers gets true.
func (b Block) end() bool { return b.block.turn.CompareAndSwap(b.turn, b.turn+1) }

// inUse tells whether a caller has the block.
func (b *block) inUse() bool { return b.turn.Load()&1 == 1 }
