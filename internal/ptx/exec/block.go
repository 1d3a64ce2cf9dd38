package exec

import (
	"bytes"
	"unsafe"
)

// block is a thread block in execution: its warps, its shared memory, its barriers. A
// worker runs its warps in turn on one goroutine, so that nothing in it needs a lock.
// Blocks are kept in a pool of the kernel and started again for the next coordinates.
type block struct {
	k       *Kernel
	l       *launchState
	ctaid   [3]uint32
	worker  int
	shared  []byte
	warps   []warp
	threads int
	check   bool  // a thread has ended: barriers may be complete
	noGrid  bool  // it has asked for the workspace of a launch that is not cooperative
	late    *late // of a launch by chance

	barriers [17]barrier

	tiles []tileCopy // that have begun
	begun uint64     // how many copies of tiles there were
}

// fit makes the block as large as the launch wants it, reusing what is there.
func (b *block) fit(l *launchState) {
	b.l = l
	b.k = l.k
	b.threads = int(l.Block[0] * l.Block[1] * l.Block[2])
	n := (b.threads + 31) / 32
	if cap(b.warps) < n {
		b.warps = make([]warp, n)
	}
	b.warps = b.warps[:n]
	size := int(l.sharedBytes)
	if cap(b.shared) < size {
		b.shared = alignedBytes(size)
	}
	b.shared = b.shared[:size]
	for i := range b.warps {
		w := &b.warps[i]
		w.b, w.id, w.stackSize = b, i, l.stackBytes
		w.code, w.k = l.k.code, l.k.consts
		w.g = region{}
		if slots := int(l.k.fn.slots); len(w.regs) < slots {
			w.regs = make([]lanes, slots)
		}
		if n := int(l.k.fn.preds); len(w.preds) < n {
			w.preds = make([]uint32, n)
		}
		if w.localSize != l.localBytes || w.local == nil {
			w.localSize = l.localBytes
			w.local = alignedBytes(int(32 * w.localSize))
		}
	}
}

// alignedBytes returns zeroed memory that begins on an 8-byte boundary.
func alignedBytes(n int) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// junk is what shared and local memory begin with, since a device does not clear them: NaN as a float, -1 as an integer.
var junk = bytes.Repeat([]byte{0xff}, 4096)

// spoil fills memory with junk.
func spoil(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, junk):]
	}
}

// release drops what a pooled block must not keep alive.
func (b *block) release() {
	b.l, b.late = nil, nil
	for i := range b.warps {
		b.warps[i].g = region{}
		b.warps[i].flt = nil
	}
}

// start begins the block with the linear number n.
func (b *block) start(n uint64) {
	g := b.l.Grid
	b.ctaid = [3]uint32{uint32(n % uint64(g[0])), uint32(n / uint64(g[0]) % uint64(g[1])), uint32(n / uint64(g[0]) / uint64(g[1]))}
	spoil(b.shared)
	b.check, b.noGrid = false, false
	b.barriers = [17]barrier{}
	b.tiles, b.begun = b.tiles[:0], 0
	for i := range b.warps {
		b.warps[i].start(b.threads)
	}
}

// quantum is how many instructions a warp runs before the next has its turn.
const quantum = 20000

// turn gives every warp so many instructions. It reports whether the block has ended.
func (b *block) turn(quantum uint64) (done bool, flt *Fault) {
	done = true
	progress := false
	var steps uint64
	for i := range b.warps {
		w := &b.warps[i]
		if w.done() {
			continue
		}
		before := w.clock
		w.run(quantum)
		steps += w.clock - before
		for what := range w.moved {
			if n := w.moved[what]; n > 0 {
				b.l.moved[what].Add(n)
				w.moved[what] = 0
			}
		}
		progress = progress || w.clock != before
		if w.flt != nil {
			return true, w.flt
		}
		done = done && w.done()
		if b.check {
			b.check = false
			b.completeBarriers()
		}
	}
	if !done && !progress {
		w, g := b.stuck()
		w.flt = nil
		w.fail(LaunchTimeout, &w.code[g.pc], firstLane(g.mask), "all threads of the block wait for each other")
		return true, w.flt
	}
	return done, b.l.spend(steps, b)
}

// stuck finds a group that waits.
func (b *block) stuck() (*warp, *group) {
	for i := range b.warps {
		if w := &b.warps[i]; w.ng > 0 && !w.done() {
			return w, &w.groups[0]
		}
	}
	return &b.warps[0], &b.warps[0].groups[0]
}
