package arena

import (
	"context"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/wait"
	"github.com/purecuda/purecuda/internal/zero"
)

// copierConfig says how a [Copier] works. The zero value is useful: its values are those that
// docs/benchmarks.md measured. Tests have others.
type copierConfig struct {
	// ChunkBytes is the length of the page-locked buffers that large copies go through, and
	// Chunks how many there are at most. 0 means 2 MiB and 16.
	ChunkBytes uint64
	Chunks     int
	// SlotBytes is the length of the buffers for small copies, and Slots how many there
	// are at most. 0 means 256 KiB and 64: so many goroutines copy without waiting for each other.
	SlotBytes uint64
	Slots     int
	// Helpers is how many workers take part in one copy at most. 0 means 7.
	Helpers int
	// PieceBytes is the least that one of them does at a time. 0 means 64 KiB.
	PieceBytes uint64
	// AloneBytes is up to which size the caller copies alone, since workers take longer
	// to begin than it does to copy. 0 means 512 KiB.
	AloneBytes uint64
	// SmallUploadBytes is up to which size uploads are left to the driver, which has
	// buffers of its own: it reads the Go memory before its asynchronous copy returns. Where
	// many are put on a stream that makes no progress, its buffers run out after some
	// MiB, and the call waits within the driver. 0 means 256 KiB, and a negative number that
	// nothing is left to it.
	SmallUploadBytes int64
}

// The values of a zero copierConfig.
const (
	defaultChunkBytes = 2 << 20
	defaultSlotBytes  = 256 << 10
	defaultChunks     = 16
	defaultSlots      = 64
	defaultHelpers    = 7
	defaultPieceBytes = 64 << 10
	defaultAloneBytes = 512 << 10
	defaultSmallBytes = 256 << 10
)

// The largest values that count: page-locked memory is scarce long before.
const (
	mostChunkBytes = 1 << 40
	mostBuffers    = 1 << 16
)

func (c copierConfig) complete(w *Workers) copierConfig {
	orUint(&c.ChunkBytes, defaultChunkBytes)
	orUint(&c.SlotBytes, defaultSlotBytes)
	orUint(&c.PieceBytes, defaultPieceBytes)
	orUint(&c.AloneBytes, defaultAloneBytes)
	c.ChunkBytes = min(c.ChunkBytes, mostChunkBytes)
	c.PieceBytes = min(c.PieceBytes, c.ChunkBytes)
	c.SlotBytes = min(c.SlotBytes, c.ChunkBytes)
	if c.Slots <= 0 {
		c.Slots = defaultSlots
	}
	if c.Helpers <= 0 {
		c.Helpers = defaultHelpers
	}
	c.Helpers = min(c.Helpers, w.limit)
	if c.Chunks <= 0 {
		c.Chunks = defaultChunks
	}
	c.Slots, c.Chunks = min(c.Slots, mostBuffers), min(c.Chunks, mostBuffers)
	if c.SmallUploadBytes == 0 {
		c.SmallUploadBytes = defaultSmallBytes
	}
	return c
}

// leastBuffer is the smallest buffer by which a copy is faster than the driver's own.
const leastBuffer = 64 << 10

// within makes the buffers so small that four of the large ones fit in the limit of a pool, unless
// they would be of no use then.
func (c copierConfig) within(limit uint64) copierConfig {
	if limit/4 < leastBuffer {
		return c
	}
	c.ChunkBytes = min(c.ChunkBytes, limit/4)
	c.SlotBytes, c.PieceBytes = min(c.SlotBytes, c.ChunkBytes), min(c.PieceBytes, c.ChunkBytes)
	return c
}

func orUint(v *uint64, or uint64) {
	if *v == 0 {
		*v = or
	}
}

// Copier copies between Go memory and the memory of one device at the rate of page-locked
// memory. Several goroutines copy between the Go memory and page-locked buffers. Meanwhile the
// device copies from and to these buffers. No copy that outlives the call uses Go memory.
//
// All copies of the device are enqueued on the caller's stream. They come after the work on it at
// the call, and before work that is enqueued after the call has returned. The order with work that
// other goroutines enqueue meanwhile is undefined.
//
// Buffers and events are made when they are first needed and kept until [Copier.Trim] or
// [Copier.Close]. Where the limit of the
// [Pinned] is small, the buffers are smaller. If no page-locked memory can be allocated, the driver
// copies from pageable memory. That is slower, and the Copier then waits for the stream.
//
// A Copier is safe for concurrent use. Streams must be of its context, and not the legacy
// default stream.
type Copier struct {
	binding *driver.Binding
	workers *Workers
	config  copierConfig
	waits   *wait.Device
	given   *wait.Device // waits, unless they are the copier's own
	slots   ring         // for what fits into one
	chunks  ring         // for pieces of what does not

	calls gate.Gate // which Close waits for
	lost  atomic.Bool

	doubtful  doubtful
	stages    atomic.Int32  // what stagesUploads has found out
	transfers atomic.Uint64 // the last id
	small     atomic.Uint64
	direct    atomic.Uint64
	staged    atomic.Uint64
	pageable  atomic.Uint64
	refused   atomic.Pointer[noBuffer] // why the last of these was
}

// CopierStats are the figures of a [Copier] at one time. A copy that succeeded is in one of Small, Direct, Staged and Pageable.
type CopierStats struct {
	Small         uint64 // uploads that were left to the driver
	Direct        uint64 // copies through one buffer
	Staged        uint64 // copies in pieces
	Pageable      uint64 // copies for which there was no page-locked memory
	PageableCause error  // why there was none for the last of these, or nil
	Slots, Chunks int    // buffers that there are
	Doubtful      int    // buffers that a device may still use, kept until Close
}

// NewCopier makes a copier for the context of b. Its buffers are leased from p, which may
// belong to another context of the process. It makes no call of the driver.
// Package runtime gives it what waits for the device; where that is nil, the copier has its own.
// Where b has no driver, or w or p is nil, every copy is an error of kind driver.ErrInvalidArgument.
func NewCopier(b *driver.Binding, w *Workers, p *Pinned, waits *wait.Device) *Copier {
	return newCopier(b, w, p, waits, copierConfig{})
}

func newCopier(b *driver.Binding, w *Workers, p *Pinned, given *wait.Device, c copierConfig) *Copier {
	if noDriver(b) || w == nil || p == nil {
		return new(Copier)
	}
	c = c.complete(w).within(p.limit)
	copier := &Copier{binding: b, workers: w, config: c, waits: waits(b, given), given: given}
	copier.slots.init(b, copier.waits, p, c.SlotBytes, c.Slots, &copier.doubtful)
	copier.chunks.init(b, copier.waits, p, c.ChunkBytes, c.Chunks, &copier.doubtful)
	p.setUser(copier, true)
	return copier
}

// Upload copies src to the device, after the work on s. When it returns without an error,
// src is free to reuse, and work that is put on s later finds the data; the device need
// not have it yet. Of work on the device that fails after the return, the next wait for s
// tells.
//
// It blocks while src is copied away: where src is larger than the buffers, or they are
// still in use, as long as the device takes. When ctx ends first it stops between two pieces
// and returns ctx's cause; the content of dst is undefined then, as after every error. What is
// copied through one buffer does not allocate.
//
// Errors: ErrCaptureFailed while s captures, ErrInvalidArgument for the legacy default stream,
// ErrClosed, ErrDriverCallFailed, ErrDeviceLost.
func (c *Copier) Upload(ctx context.Context, s driver.Stream, dst driver.DevicePtr, src []byte) error {
	return c.copy(ctx, transferShape{up: true, stream: s, device: dst, width: uint64(len(src)), height: 1}, src)
}

// Download copies from the device to dst, after the work on s. It blocks until dst is filled.
// Errors and ctx are as in [Copier.Upload]; after an error the content of dst is undefined.
func (c *Copier) Download(ctx context.Context, s driver.Stream, dst []byte, src driver.DevicePtr) error {
	return c.copy(ctx, transferShape{stream: s, device: src, width: uint64(len(dst)), height: 1}, dst)
}

// copy is every copy between the host and the device.
func (c *Copier) copy(ctx context.Context, shape transferShape, host []byte) error {
	if err := c.made(); err != nil || shape.bytes() == 0 {
		return err
	}
	if ctx == nil {
		return bindingError(c.binding, driver.ErrInvalidArgument, "a copy takes a context that is not nil")
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.calls.Leave()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := c.binding.Push(); err != nil {
		return err
	}
	defer c.binding.Pop()
	if err := c.checkStream(shape.stream); err != nil {
		return err
	}
	var err error
	if shape.up && shape.height == 1 && c.config.SmallUploadBytes >= 0 && shape.width <= uint64(c.config.SmallUploadBytes) && c.stagesUploads() {
		err = c.uploadSmall(&shape, host)
	} else if shape.bytes() <= c.config.SlotBytes && (shape.height == 1 || shape.devicePitch <= maxPitch) {
		err = c.copyDirect(ctx, &shape, host)
	} else {
		err = c.copyStaged(ctx, shape, host, &c.config)
		if _, ok := err.(*noBuffer); ok && c.config.SlotBytes < c.config.ChunkBytes {
			small := c.config
			small.ChunkBytes, small.PieceBytes = small.SlotBytes, min(small.PieceBytes, small.SlotBytes)
			err = c.copyStaged(ctx, shape, host, &small)
		}
	}
	if refused, ok := err.(*noBuffer); ok {
		c.refused.Store(refused)
		return c.copyPageable(&shape, host)
	}
	return err
}

// enter lets a call in, until it leaves c.calls, or returns why there are no more copies.
func (c *Copier) enter() error {
	entered := c.calls.Enter()
	switch lost := c.lost.Load(); {
	case entered && !lost:
		return nil
	case entered:
		c.calls.Leave()
	case !lost:
		return bindingError(c.binding, driver.ErrClosed, "the copies of this device were closed")
	}
	return c.abandoned()
}

func (c *Copier) abandoned() error {
	return bindingError(c.binding, driver.ErrDeviceLost, "the copies of this device were abandoned")
}

// checkStream refuses streams that a staged copy cannot go to: a graph would replay a copy
// from a buffer that holds something else by then.
func (c *Copier) checkStream(s driver.Stream) error {
	const legacy = 2 // handles up to this one are the default streams
	if s <= legacy {
		return bindingError(c.binding, driver.ErrInvalidArgument, "copy on the default stream: make a stream")
	}
	status, r := c.binding.API.StreamIsCapturing(s)
	switch {
	case r == driver.ResultSymbolMissing:
		return nil // such a driver has no graphs
	case r != driver.Success:
		return c.binding.Fault("cuStreamIsCapturing", r)
	case status != driver.CaptureNone:
		return bindingError(c.binding, driver.ErrCaptureFailed,
			"copy from or to Go memory on a stream that captures: the graph would outlive the buffers; copy from page-locked memory")
	}
	return nil
}

// Trim returns the buffers that are not in use to the pool that they were leased from.
func (c *Copier) Trim() {
	if c.made() != nil || c.enter() != nil {
		return
	}
	defer c.calls.Leave()
	c.slots.trim()
	c.chunks.trim()
}

// Stats returns the figures of this moment.
func (c *Copier) Stats() CopierStats {
	c = zero.Or(c)
	var cause error
	if refused := c.refused.Load(); refused != nil {
		cause = refused.cause
	}
	return CopierStats{
		Small: c.small.Load(), Direct: c.direct.Load(), Staged: c.staged.Load(), Pageable: c.pageable.Load(), PageableCause: cause,
		Slots: c.slots.count(), Chunks: c.chunks.count(), Doubtful: c.doubtful.count(),
	}
}

// Lose says that CUDA is lost: no call of the driver is made any more by new copies, and
// the buffers stay where they are. It does not wait for copies that are under way; those fail.
func (c *Copier) Lose() {
	if c.made() == nil {
		c.lost.Store(true)
		c.waits.Lose(c.abandoned())
	}
}

// Close waits for copies that are under way and for the device's use of the buffers, and gives
// these back. Of a buffer whose use cannot be proven to have ended the memory is leaked, which
// is an error. A second call does nothing.
func (c *Copier) Close() error {
	if c.made() != nil {
		return nil
	}
	if !c.calls.Close(nil) {
		return nil
	}
	c.slots.pinned.setUser(c, false)
	lost := c.lost.Load()
	err := joinErrors(c.slots.close(lost), c.chunks.close(lost), c.doubtful.close(c.binding, lost))
	return joinErrors(err, endWaits(c.waits, c.given, lost))
}

// waits are those that are given, or new ones that ask the driver, with a poller of their own.
func waits(b *driver.Binding, given *wait.Device) *wait.Device {
	if given == nil {
		given, _ = new(wait.Poller).Open(b, wait.Config{NoWrites: true})
	}
	return given
}

// endWaits ends the waits unless they were given: the driver is asked nothing any more.
func endWaits(own, given *wait.Device, lost bool) error {
	if given != nil {
		return nil
	}
	own.Close(nil)
	if lost {
		return nil
	}
	return own.Free()
}
