package arena

import (
	"context"
	"math"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// transfer is a copy in chunks. The goroutine of the caller alone calls the driver, which has one lock for all. The workers
// help it to move pieces of chunks between the memory of the caller and page-locked buffers.
type transfer struct {
	transferShape
	id     uint64 // of the transfer
	copier *Copier
	ctx    context.Context
	host   []byte
	plan   plan

	stages [mostStages]stage // chunk i has stage i % mostStages
	// opened counts the chunks whose pieces may be moved. The caller alone writes it, after the stage.
	opened atomic.Uint64
	next   atomic.Uint64 // the next piece to move, counted over all chunks; beyond all of them once the transfer ends
	moving bool          // the device is at these copies
	wanted int           // workers that are of use

	helpers sync.WaitGroup // workers that may touch the memory
	helping int            // how many these are; the lock of Workers guards it
}

// mostStages is how many chunks are on their way at most.
const mostStages = 16

// stage is a chunk on its way.
type stage struct {
	at     tile
	ring   *ring // of the buffer
	buffer *buffer
	left   atomic.Int32 // pieces that were not moved yet
}

// copyStaged copies in chunks.
func (c *Copier) copyStaged(ctx context.Context, shape transferShape, host []byte, config *copierConfig) error {
	t := &transfer{transferShape: shape, id: c.transfers.Add(1), copier: c, ctx: ctx, host: host}
	t.plan.make(&t.transferShape, config)
	if shape.bytes() > c.config.AloneBytes {
		// More would take the memory's bandwidth away from the device, and few pieces have no use for many.
		t.wanted = min(c.config.Helpers, int(min(t.plan.chunks*t.plan.pieces/4, mostPieces)))
		if shape.up && shape.bytes() <= manyBytes {
			t.wanted = min(t.wanted, pastHelpers)
		}
	}
	c.workers.offer(t)
	var err error
	if shape.up {
		err = t.upload()
	} else {
		err = t.download()
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

// ringFor is the ring with the smaller buffers that a chunk fits into.
func (c *Copier) ringFor(at tile) *ring {
	if at.bytes() <= c.config.SlotBytes {
		return &c.slots
	}
	return &c.chunks
}

func (t *transfer) stage(chunk uint64) *stage { return &t.stages[chunk%mostStages] }

// take gives the stage of a chunk a buffer, and reports whether there was one. It waits for one where wait is set: who has
// buffers must not wait for another one, since all might.
func (t *transfer) take(chunk uint64, wait bool) (ok bool, err error) {
	s := t.stage(chunk)
	s.at = t.plan.tile(chunk)
	s.ring = t.copier.ringFor(s.at)
	s.buffer, err = s.ring.take(t.ctx, t, wait)
	return s.buffer != nil, err
}

// open lets the pieces of the next chunk be moved.
func (t *transfer) open() {
	chunk := t.opened.Load()
	t.stage(chunk).left.Store(int32(t.plan.pieces))
	t.opened.Store(chunk + 1)
	t.copier.workers.show(t)
}

// movable reports whether there is a piece to move.
func (t *transfer) movable() bool { return t.next.Load() < t.opened.Load()*t.plan.pieces }

// move moves one piece, unless there is none to move now.
func (t *transfer) move() bool {
	for {
		i := t.next.Load()
		if i >= t.opened.Load()*t.plan.pieces {
			return false
		}
		if !t.next.CompareAndSwap(i, i+1) {
			continue
		}
		s := t.stage(i / t.plan.pieces)
		part, offset := s.at.piece(i%t.plan.pieces, t.plan.pieces)
		if t.up {
			gather(&t.transferShape, t.host, s.buffer.memory[offset:], part)
		} else {
			scatter(&t.transferShape, t.host, s.buffer.memory[offset:], part)
		}
		s.left.Add(-1)
		return true
	}
}

// end returns when no worker touches the memory any more, and puts the buffers of the chunks from one to another back.
func (t *transfer) end(from, to uint64) {
	t.next.Store(math.MaxUint64)
	t.copier.workers.withdraw(t)
	t.helpers.Wait()
	for ; from < to; from++ {
		if s := t.stage(from); s.buffer != nil {
			s.ring.put(s.buffer)
		}
	}
}

// upload moves the pieces of a chunk to a buffer and then lets the device copy the chunk.
func (t *transfer) upload() (err error) {
	sent := uint64(0)
	defer func() { t.end(sent, t.opened.Load()) }()
	for sent < t.plan.chunks {
		if err := context.Cause(t.ctx); err != nil {
			return err
		}
		for opened := t.opened.Load(); opened < min(t.plan.chunks, sent+mostStages); opened++ {
			ok, err := t.take(opened, opened == sent)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			t.open()
		}
		s := t.stage(sent)
		switch {
		case s.left.Load() == 0:
			sent++ // also after an error the buffer is not ours any more
			if err := t.copier.send(s.ring, s.buffer, &t.transferShape, s.at, t); err != nil {
				return err
			}
		case !t.move():
			goruntime.Gosched() // workers are at the last pieces
		}
	}
	return nil
}

// download lets the device copy chunks to buffers and moves the pieces of those that have arrived.
func (t *transfer) download() (err error) {
	fetched, done := uint64(0), uint64(0)
	defer func() { t.end(done, fetched) }()
	for done < t.plan.chunks {
		if err := context.Cause(t.ctx); err != nil {
			return err
		}
		for fetched < min(t.plan.chunks, done+mostStages) {
			ok, err := t.take(fetched, fetched == done)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			s := t.stage(fetched)
			if err := t.copier.fetch(s.ring, s.buffer, &t.transferShape, s.at, t); err != nil {
				return err
			}
			fetched++
		}
		arrived := t.opened.Load()
		for s := t.stage(arrived); arrived < fetched; s = t.stage(arrived) {
			ok, err := s.ring.poll(s.buffer, t)
			if err == nil && !ok && !t.movable() && arrived == done {
				ok, err = true, s.ring.await(t.ctx, s.buffer, t) // there is nothing else to do
			}
			if err != nil {
				s.ring.putUnknown(t.ctx, s.buffer)
				s.buffer = nil
				return err
			}
			if !ok {
				break
			}
			t.open()
			arrived++
		}
		for ; done < arrived && t.stage(done).left.Load() == 0; done++ {
			t.stage(done).ring.put(t.stage(done).buffer)
		}
		if !t.move() {
			goruntime.Gosched() // workers are at the last pieces, or the device is
		}
	}
	return nil
}

// send puts the copy of a buffer to a tile of the device's side on the stream, and the buffer back.
func (c *Copier) send(r *ring, buffer *buffer, shape *transferShape, at tile, t *transfer) error {
	op, result := c.copyTile(shape, at, buffer.pointer(), at.width)
	err := c.mark(r, buffer, shape.stream, op, result, t, false)
	if err == nil {
		r.put(buffer)
	}
	return err
}

// fetch puts the copy of a tile of the device's side to a buffer on the stream. A copy that is no piece of t
// gets a ticket after it, and a write of it unless the wait will spin, which makes the wait short. Between the pieces of a large
// copy a write takes up to a fifth of the rate away.
func (c *Copier) fetch(r *ring, buffer *buffer, shape *transferShape, at tile, t *transfer) error {
	op, result := c.copyTile(shape, at, buffer.pointer(), at.width)
	return c.mark(r, buffer, shape.stream, op, result, t, t == nil)
}

// mark records the event after the copy of a buffer, of which op is the function and result what
// it returned. The caller waits for the copy next if waited is set. After an error the buffer is put back or kept away, as is safe.
func (c *Copier) mark(r *ring, buffer *buffer, s driver.Stream, op string, result driver.Result, t *transfer, waited bool) error {
	recorded := c.binding.API.EventRecord(buffer.event, s)
	if recorded == driver.Success {
		buffer.pending, buffer.ticketed, buffer.owner = true, waited, t.number()
		switch {
		case waited && buffer.waits.Spins():
			buffer.ticket = buffer.waits.Mark()
		case waited:
			buffer.ticket = buffer.waits.Write(s)
		}
		if result == driver.Success {
			return nil
		}
		r.put(buffer)
		return c.binding.Fault(op, result)
	}
	// Without the event only the stream can tell when the buffer is free.
	if waited := c.binding.API.StreamSynchronize(s); waited == driver.Success {
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

// manyBytes is from which length a copy drives its own data out of the caches.
const manyBytes = 32 << 20

// pastHelpers is how many workers store past the caches beside the caller: more take the memory's bandwidth away from the device.
const pastHelpers = 3

// gather copies a tile of the host's side to a buffer, without the gaps between its rows. It stores past the caches, since the
// device reads at half of its rate what a processor has in its cache. Such stores are slower than others, so that a long copy
// has no use for them.
func gather(s *transferShape, host, to []byte, at tile) {
	for row := range at.rows {
		start := (at.y+row)*s.hostPitch + at.x
		if from := host[start : start+at.width]; s.bytes() <= manyBytes {
			copyPast(to[row*at.width:], from)
		} else {
			copy(to[row*at.width:], from)
		}
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
		gather(shape, host, buffer.memory, all)
		err = c.send(&c.slots, buffer, shape, all, nil)
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
		device, r := c.binding.API.CtxGetDevice()
		if r != driver.Success {
			return c.binding.Fault("cuCtxGetDevice", r)
		}
		direct, r := c.binding.API.DeviceGetAttribute(driver.DeviceAttributePageableMemoryAccessUsesHostPageTables, device)
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
// stream, also after an error: the memory is in the Go heap.
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
	waited := c.binding.API.StreamSynchronize(shape.stream)
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
