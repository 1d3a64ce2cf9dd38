package arena

import (
	"context"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/locks"
)

// transfer is a copy in pieces, which may be made in any order and at the same time.
type transfer struct {
	transferShape
	id     uint64 // of the transfer
	copier *Copier
	ctx    context.Context
	host   []byte

	plan   plan
	pieces uint64

	next    atomic.Uint64 // the next piece, or more than there are
	moving  atomic.Bool   // the device is at these copies
	helpers sync.WaitGroup
	helping int // workers that are at it; the lock of Workers guards it

	mu  locks.Mutex[locks.Transfer]
	err error
}

// copyStaged copies in pieces.
func (c *Copier) copyStaged(ctx context.Context, shape transferShape, host []byte, config *CopierConfig) error {
	t := &transfer{transferShape: shape, id: c.transfers.Add(1), copier: c, ctx: ctx, host: host}
	t.plan.make(&t.transferShape, config)
	t.pieces = t.plan.pieces()
	var err error
	if shape.bytes() <= c.config.AloneBytes {
		err = runAlone(t)
	} else {
		err = c.workers.run(t)
	}
	if err == nil {
		c.staged.Add(1)
	}
	return err
}

// number is the id, and 0 of a copy that is no transfer.
func (t *transfer) number() uint64 {
	if t == nil {
		return 0
	}
	return t.id
}

// helpersWanted is how many workers the transfer has use for. More than the configured ones
// make it slower: they take the memory's bandwidth away from the device.
func (t *transfer) helpersWanted() int {
	return int(min(t.pieces-1, uint64(t.copier.config.Helpers)))
}

// claim returns a piece that nobody else makes, unless there is none left.
func (t *transfer) claim() (piece uint64, ok bool) {
	if t.claimed() {
		return 0, false
	}
	piece = t.next.Add(1) - 1
	return piece, piece < t.pieces
}

// claimed reports that there is no piece left to claim.
func (t *transfer) claimed() bool { return t.next.Load() >= t.pieces }

// fail keeps the first error and lets nobody begin with another piece.
func (t *transfer) fail(err error) {
	t.next.Store(t.pieces)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

func (t *transfer) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// ringFor is the ring with the smaller buffers that a piece fits into.
func (c *Copier) ringFor(at tile) *ring {
	if at.bytes() <= c.config.SlotBytes {
		return &c.slots
	}
	return &c.chunks
}

// runAlone makes all pieces on the goroutine of the caller.
func runAlone(t *transfer) error {
	h := pieceCopier{t: t}
	for piece, ok := t.claim(); ok; piece, ok = t.claim() {
		h.do(piece)
	}
	h.finish()
	return t.failure()
}

// pieceCopier is one goroutine at work on a transfer. Of a download it has one piece on its way
// to the host while it copies the one before to its place.
type pieceCopier struct {
	t      *transfer
	at     tile
	ring   *ring // of the buffer
	buffer *buffer
}

// do makes a piece of an upload, and begins with one of a download.
func (h *pieceCopier) do(piece uint64) {
	t := h.t
	if err := h.step(t.plan.tile(piece)); err != nil {
		t.fail(err)
	}
}

func (h *pieceCopier) step(at tile) error {
	t := h.t
	if err := context.Cause(t.ctx); err != nil {
		return err
	}
	b := t.copier.binding
	if err := b.Push(); err != nil {
		return err
	}
	defer b.Pop()
	// Who has a buffer must not wait for another one: all might.
	ring := t.copier.ringFor(at)
	buffer, err := ring.take(t.ctx, t, h.buffer == nil)
	if err == nil && buffer == nil {
		h.finish()
		buffer, err = ring.take(t.ctx, t, true)
	}
	if err != nil {
		return err
	}
	if t.up {
		return t.copier.send(ring, buffer, &t.transferShape, t.host, at, t)
	}
	if err := t.copier.fetch(ring, buffer, &t.transferShape, at, t); err != nil {
		return err
	}
	h.finish()
	h.at, h.ring, h.buffer = at, ring, buffer
	return nil
}

// finish waits for the piece that is on its way to the host and copies it to its place.
func (h *pieceCopier) finish() {
	buffer := h.buffer
	if buffer == nil {
		return
	}
	h.buffer = nil
	t := h.t
	if err := t.receive(h.ring, buffer, h.at); err != nil {
		t.fail(err)
	}
}

func (t *transfer) receive(r *ring, buffer *buffer, at tile) error {
	b := t.copier.binding
	if err := b.Push(); err != nil {
		r.put(buffer)
		return err
	}
	defer b.Pop()
	if err := r.await(t.ctx, buffer, t); err != nil {
		r.putUnknown(t.ctx, buffer)
		return err
	}
	scatter(&t.transferShape, t.host, buffer.memory, at)
	r.put(buffer)
	return nil
}

// send copies a tile of the host's side to a buffer, puts the copy to the device on the stream,
// and the buffer back.
func (c *Copier) send(r *ring, buffer *buffer, shape *transferShape, host []byte, at tile, t *transfer) error {
	gather(shape, host, buffer.memory, at)
	op, result := c.copyTile(shape, at, buffer.pointer(), at.width)
	err := c.mark(r, buffer, shape.stream, op, result, t, false)
	if err == nil {
		r.put(buffer)
	}
	return err
}

// fetch puts the copy of a tile of the device's side to a buffer on the stream. A copy that is no piece of t
// gets a write of a ticket after it, which makes the wait short. Between the pieces of a large copy a write takes up to a
// fifth of the rate away.
func (c *Copier) fetch(r *ring, buffer *buffer, shape *transferShape, at tile, t *transfer) error {
	op, result := c.copyTile(shape, at, buffer.pointer(), at.width)
	return c.mark(r, buffer, shape.stream, op, result, t, t == nil)
}

// mark records the event after the copy of a buffer, of which op is the function and result what
// it returned. After an error the buffer is put back or kept away, as is safe.
func (c *Copier) mark(r *ring, buffer *buffer, s driver.Stream, op string, result driver.Result, t *transfer, write bool) error {
	recorded := c.binding.EventRecord(buffer.event, s)
	if recorded == driver.Success {
		buffer.pending, buffer.written, buffer.owner = true, write, t.number()
		if write {
			buffer.ticket = buffer.waits.Write(s)
		}
		if result == driver.Success {
			return nil
		}
		r.put(buffer)
		return c.binding.Fault(op, result)
	}
	// Without the event only the stream can tell when the buffer is free.
	if waited := c.binding.StreamSynchronize(s); waited == driver.Success {
		r.put(buffer)
	} else {
		c.doubtful.add(r, buffer)
	}
	if result != driver.Success {
		return c.binding.Fault(op, result)
	}
	return c.binding.Fault("cuEventRecord", recorded)
}

// copyTile puts a copy of a tile on the stream, from or to host memory with rows at a
// distance of pitch.
func (c *Copier) copyTile(shape *transferShape, at tile, host unsafe.Pointer, pitch uint64) (op string, r driver.Result) {
	device := shape.device + driver.DevicePtr(at.y*shape.devicePitch+at.x)
	switch {
	case at.rows == 1 && shape.up:
		return "cuMemcpyHtoDAsync", c.binding.MemcpyHtoDAsync(device, host, at.width, shape.stream)
	case at.rows == 1:
		return "cuMemcpyDtoHAsync", c.binding.MemcpyDtoHAsync(host, device, at.width, shape.stream)
	}
	rect := driver.MemcpyRect{Bytes: at.width, Height: at.rows}
	if shape.up {
		rect.SrcType, rect.SrcHost, rect.SrcPitch = driver.MemoryHost, host, pitch
		rect.DstType, rect.DstDevice, rect.DstPitch = driver.MemoryDevice, device, shape.devicePitch
	} else {
		rect.SrcType, rect.SrcDevice, rect.SrcPitch = driver.MemoryDevice, device, shape.devicePitch
		rect.DstType, rect.DstHost, rect.DstPitch = driver.MemoryHost, host, pitch
	}
	return "cuMemcpy2DAsync", c.binding.Memcpy2DAsync(rect, shape.stream)
}

// gather copies a tile of the host's side to a buffer, without the gaps between its rows.
func gather(s *transferShape, host, to []byte, at tile) {
	for row := range at.rows {
		start := (at.y+row)*s.hostPitch + at.x
		copy(to[row*at.width:], host[start:start+at.width])
	}
}

// scatter copies a buffer to its place on the host.
func scatter(s *transferShape, host, from []byte, at tile) {
	for row := range at.rows {
		start := (at.y+row)*s.hostPitch + at.x
		copy(host[start:start+at.width], from[row*at.width:])
	}
}

// copyDirect copies what fits into one slot, without workers and without an allocation.
func (c *Copier) copyDirect(ctx context.Context, shape *transferShape, host []byte) error {
	buffer, err := c.slots.take(ctx, nil, true)
	if err != nil {
		return err
	}
	all := tile{width: shape.width, rows: shape.height}
	if shape.up {
		err = c.send(&c.slots, buffer, shape, host, all, nil)
	} else if err = c.fetch(&c.slots, buffer, shape, all, nil); err == nil {
		if err = c.slots.await(ctx, buffer, nil); err == nil {
			scatter(shape, host, buffer.memory, all)
			c.slots.put(buffer)
		} else {
			c.slots.putUnknown(ctx, buffer)
		}
	}
	if err == nil {
		c.direct.Add(1)
	}
	return err
}

// uploadSmall leaves an upload to the driver.
func (c *Copier) uploadSmall(shape *transferShape, host []byte) error {
	r := c.binding.MemcpyHtoDAsync(shape.device, unsafe.Pointer(unsafe.SliceData(host)), shape.width, shape.stream)
	goruntime.KeepAlive(host)
	if r != driver.Success {
		return c.binding.Fault("cuMemcpyHtoDAsync", r)
	}
	c.small.Add(1)
	return nil
}

// The values of Copier.stages.
const (
	stagesUnknown = iota
	stagesAlways
	stagesNot
)

// stagesUploads reports that the driver has read pageable memory when its asynchronous copy to the
// device returns. NVIDIA promises that of memory that must be staged. A device that uses the
// page tables of the host could read it later.
func (c *Copier) stagesUploads() bool {
	known := c.stages.Load()
	if known != stagesUnknown {
		return known == stagesAlways
	}
	known = stagesNot
	err := c.binding.Do(func() error {
		device, r := c.binding.CtxGetDevice()
		if r != driver.Success {
			return c.binding.Fault("cuCtxGetDevice", r)
		}
		direct, r := c.binding.DeviceGetAttribute(driver.DeviceAttributePageableMemoryAccessUsesHostPageTables, device)
		if r == driver.Success && direct == 0 {
			known = stagesAlways
		}
		return nil
	})
	if err != nil {
		return false // and ask again
	}
	c.stages.Store(known)
	return known == stagesAlways
}

// copyPageable lets the driver copy from or to the memory of the caller, and waits for the
// stream, also after an error: the memory is that of the Go heap.
func (c *Copier) copyPageable(shape *transferShape, host []byte) error {
	all := tile{width: shape.width, rows: shape.height}
	if max(shape.devicePitch, shape.hostPitch) > maxPitch {
		all.rows = 1
	}
	op, r := "", driver.Success
	for ; all.y < shape.height && r == driver.Success; all.y += all.rows {
		from := unsafe.Pointer(unsafe.SliceData(host[all.y*shape.hostPitch:]))
		op, r = c.copyTile(shape, all, from, shape.hostPitch)
	}
	waited := c.binding.StreamSynchronize(shape.stream)
	goruntime.KeepAlive(host)
	if r != driver.Success {
		return c.binding.Fault(op, r)
	}
	if waited != driver.Success {
		return c.binding.Fault("cuStreamSynchronize", waited)
	}
	c.pageable.Add(1)
	return nil
}
