package gpu

import "fmt"

// stop is where a thread has stopped.
type stop uint8

const (
	running stop = iota
	atBarrier
	atWarp
	atGroup
	atTx   // until a TxBarrier changes
	paused // it lets others run, and waits for none
	returned
)

// The functions here run with the lock of a crowd that is hidden from the race detector; so they are too.

// block is one block while it runs.
type block struct {
	at    []stop // by rank
	slots [2][]posted
	vars  *vars

	groups []grouped // by rank
	late   late
	looked []int64 // by rank: the moves of TxBarriers that a thread has seen

	used bool // by a thread that waited, or that has shared memory: reset it before the next block
}

func newBlock(threads, sharedBytes int) *block {
	return &block{
		at:    make([]stop, threads),
		slots: [2][]posted{make([]posted, threads), make([]posted, threads)},
		vars:  &vars{bytes: sharedBytes},

		groups: make([]grouped, threads),
		looked: make([]int64, threads),
	}
}

// divergence is what is wrong where threads that have to be at one place are not. It is text only when somebody
// asks, because package fmt must not run while the detector is hidden.
type divergence struct {
	at            stop
	here, missing int
}

func (d divergence) Error() string {
	switch d.at {
	case atTx:
		return fmt.Sprintf("%d threads of the block wait for a TxBarrier, and nobody is left who could end its phase", d.here)
	case atGroup:
		return fmt.Sprintf("%d lanes of a warp wait for others of their group, and none of those is there", d.here)
	case atWarp:
		return fmt.Sprintf("%d lanes of a warp wait at a warp function, and %d elsewhere", d.here, d.missing)
	}
	return fmt.Sprintf("%d threads of the block wait at a barrier that %d have returned without reaching", d.here, d.missing)
}

// reset makes the block as new.
func (b *block) reset() {
	clear(b.at)
	clear(b.slots[0])
	clear(b.slots[1])
	b.vars.reset()
	b.late.reset()
	b.used = false
}

// warp is the part of the block with the warp of a rank.
//
//go:norace
func (b *block) warp(rank int) (first, end int) {
	first = rank - rank%warpSize
	return first, min(first+warpSize, len(b.at))
}

// count counts the threads from first to end by where they have stopped.
//
//go:norace
func (b *block) count(first, end int) (n [returned + 1]int) {
	for _, at := range b.at[first:end] {
		n[at]++
	}
	return n
}

// release lets threads run that wait for each other, of the warp of a rank or of the whole block. It gives the
// ranks from first to end that may run, none where a thread still runs that can come, or what is wrong.
//
//go:norace
func (b *block) release(rank int) (first, end int, err error) {
	first, end = b.warp(rank)
	n := b.count(first, end)
	met := n[atGroup] > 0 && b.meetGroups(first, end)
	switch {
	case n[running] > 0:
		return 0, 0, nil
	case n[paused] > 0:
		return b.free(first, end, paused)
	case n[atTx] > 0 && b.txMoved(first, end):
		return first, end, nil
	case n[atTx] > 0:
		return 0, 0, nil
	case met:
		return first, end, nil
	case n[atWarp] > 0 && n[atBarrier]+n[atGroup] > 0:
		return 0, 0, divergence{atWarp, n[atWarp], n[atBarrier] + n[atGroup]}
	case n[atGroup] > 0:
		return 0, 0, divergence{atGroup, n[atGroup], 0}
	case n[atWarp] > 0:
		return b.free(first, end, atWarp)
	}
	n = b.count(0, len(b.at))
	switch {
	case n[running] > 0 || n[paused] > 0 || n[atTx] > 0 || n[atWarp] > 0 || n[atGroup] > 0 || n[atBarrier] == 0:
		return 0, 0, nil
	case n[returned] > 0:
		return 0, 0, divergence{atBarrier, n[atBarrier], n[returned]}
	}
	return b.free(0, len(b.at), atBarrier)
}

// txMoved lets threads look at a TxBarrier again, if one has changed since they have.
//
//go:norace
func (b *block) txMoved(first, end int) (some bool) {
	moves := b.late.moves.Load()
	for i := first; i < end; i++ {
		if b.at[i] == atTx && b.looked[i] != moves {
			b.at[i], some = running, true
		}
	}
	return some
}

// stuck is what is wrong where all threads that have not returned wait for TxBarriers, or for threads that do.
//
//go:norace
func (b *block) stuck() error {
	n := b.count(0, len(b.at))
	if n[running]+n[paused] > 0 || n[atTx] == 0 || b.txMoved(0, len(b.at)) {
		return nil
	}
	return divergence{atTx, n[atTx], 0}
}

// free marks threads as running.
//
//go:norace
func (b *block) free(first, end int, at stop) (int, int, error) {
	for i := first; i < end; i++ {
		if b.at[i] == at {
			b.at[i] = running
		}
	}
	return first, end, nil
}

// waiting is the first rank that waits, which the error about a barrier is reported of.
//
//go:norace
func (b *block) waiting() int {
	for rank, at := range b.at {
		if at == atBarrier || at == atWarp || at == atGroup || at == atTx {
			return rank
		}
	}
	return 0
}
