package runtime

import (
	"context"
	"errors"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/refs"
)

// AllocIPC allocates room for n elements that other processes can open on the same device, with [ExportIPC]
// here and [OpenIPC] there. Nothing is copied: all processes have the same bytes. n must not be negative,
// and T must be free of pointers. The elements are zero, for work on s and what comes after it.
//
// The memory is of its own, of cuMemAlloc and a multiple of 2 MiB, so that other processes see nothing else
// of this one. It takes as long as the driver needs. The limit of [WithMemory] does not count it, and
// [Context.Leaks] does not list it.
//
// Close waits for the work of the device and frees the memory in the driver, which no cache keeps. What
// becomes of it in other processes then is undefined in CUDA, so they close it first. The same
// holds for Reset and Runtime.Close.
//
// Where the driver does not share memory, the error has its result and says so. It cannot be
// called while s is captured.
func AllocIPC[T any](s *Stream, n int) (*Ref[T], error) {
	bytes, err := refs.SizeOf[T](n)
	if err != nil {
		return nil, err
	}
	return newIPC[T](s, "AllocIPC", n, func() (*ipcBlock, driver.DevicePtr, error) { return s.allocIPC(bytes) })
}

// ExportIPC returns what another process needs to open the memory of a Ref of [AllocIPC], or of a view of
// one. It makes s wait for the work that writes the memory, and waits for s. So the other process finds what
// was written before, and whoever writes later has to tell it when that is done. When ctx ends first
// ExportIPC returns ctx's cause.
//
// The handle opens the whole memory of AllocIPC for reading and writing, also if it is of a view. Every process
// of the machine that gets it and that the driver lets in can use it, so send it to no others. It is of no
// use once the memory is freed.
func ExportIPC[T any](ctx context.Context, s *Stream, r *Ref[T]) (IPCHandle, error) {
	if err := usable(ctx, s, "ExportIPC"); err != nil {
		return IPCHandle{}, err
	}
	var element T
	h, err := s.exportIPC(r.Core(), uint64(unsafe.Sizeof(element)))
	if err == nil {
		err = s.Synchronize(ctx)
	}
	if err != nil {
		return IPCHandle{}, err
	}
	return h, nil
}

// OpenIPC makes a Ref of the elements that a handle of [ExportIPC] names, which another process has on the
// device of s. Work on s may use them at once. Work of other processes is in no order with work of this
// one: each waits for its own ([Stream.Synchronize]) before it tells the other to go on. Of what is opened twice,
// the work of one Ref is in no order with the other's: use Retain where that matters.
//
// Close waits for the work of the device and unmaps the memory, which stays with its owner. The owner must not
// free it before. If the owner dies, CUDA leaves undefined what the memory holds and whether work with
// it fails. An error of such work may be sticky, which ends the use of CUDA in this process.
//
// A handle that is damaged, of another version, device or size of elements, or that names more than there is,
// is an error of kind driver.ErrInvalidArgument that says what differs. What only the driver finds out
// has its result: the owner has freed the memory or is gone, is this process, or is in another container.
// OpenIPC cannot be called while s is captured.
func OpenIPC[T any](s *Stream, h IPCHandle) (*Ref[T], error) {
	if s == nil || s.ctx == nil {
		return nil, errNothing("stream")
	}
	var element T
	p, err := h.parse(uint64(unsafe.Sizeof(element)), s.ctx.device.UUID)
	if err != nil {
		return nil, err
	}
	bytes, err := refs.SizeOf[T](int(p.Count))
	if err != nil {
		return nil, err
	}
	return newIPC[T](s, "OpenIPC", int(p.Count), func() (*ipcBlock, driver.DevicePtr, error) {
		return s.ctx.openIPC(p, bytes, uint64(unsafe.Alignof(element)))
	})
}

// ipcUnit is what the driver gives as a block of its own. Others are parts of blocks, which another process
// would get whole.
const ipcUnit = 2 << 20

// ipcBlock is memory of the device that processes share.
type ipcBlock struct {
	base   driver.DevicePtr
	bytes  uint64
	handle driver.IpcMemHandle
	opened bool // another process owns it
}

// free gives the memory back. No work uses it.
func (b *ipcBlock) free(api driver.API) (op string, r driver.Result) {
	if b.opened {
		return "cuIpcCloseMemHandle", api.IpcCloseMemHandle(b.base)
	}
	return "cuMemFree", api.MemFree(b.base)
}

// newIPC makes a Ref of n elements of memory that get returns. The context has the memory until the Ref is closed.
func newIPC[T any](s *Stream, what string, n int, get func() (b *ipcBlock, at driver.DevicePtr, err error)) (*Ref[T], error) {
	if s == nil || s.ctx == nil {
		return nil, errNothing("stream")
	}
	if err := s.work(); err != nil {
		return nil, err
	}
	defer s.endWork()
	if err := s.refuse(what, "do it before the capture or on another stream"); err != nil {
		return nil, err
	}
	c := s.ctx
	var o object
	var at driver.DevicePtr
	err := c.work(func() (err error) {
		var b *ipcBlock
		if b, at, err = get(); err == nil {
			o, _ = c.newObject(&entry{kind: ipcMemory, handle: c.handles.Add(1), bytes: b.bytes, details: &details{ipc: b}})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r, err := refs.Own[T](c.state, s.memory, at, n, o.Close)
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return r, nil
}

// allocIPC is called with the context current, as openIPC is.
func (s *Stream) allocIPC(bytes uint64) (b *ipcBlock, at driver.DevicePtr, err error) {
	c := s.ctx
	b = &ipcBlock{bytes: (max(bytes, 1) + ipcUnit - 1) / ipcUnit * ipcUnit}
	var r driver.Result
	b.base, r = c.api.MemAlloc(b.bytes)
	if r == driver.ResultOutOfMemory && c.memory.Load().arena.Trim(0) == nil {
		b.base, r = c.api.MemAlloc(b.bytes)
	}
	if r != driver.Success {
		err := c.bind.Fault("cuMemAlloc", r)
		err.Bytes = b.bytes
		return nil, 0, err
	}
	b.handle, r = c.api.IpcGetMemHandle(b.base)
	if err = c.ipcFailed("cuIpcGetMemHandle", r); err == nil {
		err = s.failed("cuMemsetD8Async", c.api.MemsetD8Async(b.base, 0, b.bytes, s.handle))
	}
	return b, b.base, c.orFree(b, err)
}

func (c *Context) openIPC(p ipcParts, bytes, alignment uint64) (b *ipcBlock, at driver.DevicePtr, err error) {
	base, r := c.api.IpcOpenMemHandle(p.Memory, driver.IpcLazyEnablePeerAccess)
	if err := c.ipcFailed("cuIpcOpenMemHandle", r); err != nil {
		return nil, 0, err
	}
	b = &ipcBlock{base: base, opened: true}
	begin, size, r := c.api.MemGetAddressRange(base)
	err = c.bind.Failed("cuMemGetAddressRange", r)
	if before := uint64(base - begin); before <= size {
		b.bytes = size - before
	}
	at = base + driver.DevicePtr(p.Offset)
	switch {
	case err != nil:
	case p.Offset > b.bytes || bytes > b.bytes-p.Offset:
		err = driver.Errorf(driver.ErrInvalidArgument, "open %d bytes at offset %d of IPC memory that has %d", bytes, p.Offset, b.bytes)
	case uint64(at)%alignment != 0:
		err = driver.Errorf(driver.ErrInvalidArgument, "open IPC memory at address %#x, which is no multiple of %d", uint64(at), alignment)
	}
	return b, at, c.orFree(b, err)
}

// orFree gives memory back after an error.
func (c *Context) orFree(b *ipcBlock, err error) error {
	if err == nil || c.lostError() != nil {
		return err
	}
	return errors.Join(err, c.bind.Failed(b.free(c.api)))
}

// ipcFailed is failed for calls that other processes have a part in.
func (c *Context) ipcFailed(op string, r driver.Result) error {
	err := c.bind.Failed(op, r)
	e, ok := err.(*driver.Error)
	switch {
	case !ok || e.Sticky || e.Kind == driver.ErrDeviceLost || e.Detail != "":
	case op == "cuIpcGetMemHandle":
		e.Detail = "this system does not share memory of the device: WSL, Tegra and some virtual GPUs and containers do not"
	case r == driver.ResultInvalidContext:
		e.Detail = "a process cannot open memory that it has exported itself: pass the Ref on"
	default:
		e.Detail = "its owner must be alive, must not have freed it, and must have the PID and IPC namespaces of this process"
	}
	return err
}

// exportIPC makes the handle of a Ref, and s wait for the work that writes it.
func (s *Stream) exportIPC(r *refs.Core, element uint64) (h IPCHandle, err error) {
	if err := s.work(); err != nil {
		return h, err
	}
	defer s.endWork() // so that a wait for s is one for those that Use makes it wait for
	if err := s.refuse("ExportIPC", "export before the capture or on another stream"); err != nil {
		return h, err
	}
	at, err := r.Acquire()
	if err != nil {
		return h, err
	}
	defer r.Release()
	if r.State() != s.ctx.state {
		return h, driver.Errorf(driver.ErrInvalidArgument, "export memory of device %d on a stream of device %d", r.State().Device(), s.ctx.device.Ordinal)
	}
	for _, e := range s.ctx.ledger.entries(ipcMemory) {
		offset := uint64(at - e.ipc.base)
		if at < e.ipc.base || offset > e.bytes || r.Bytes() > e.bytes-offset || e.ipc.opened {
			continue
		}
		h.set(ipcParts{Element: element, Count: uint64(r.Len()), Offset: offset, Device: s.ctx.device.UUID, Memory: e.ipc.handle})
		return h, r.Use(s.memory, false)
	}
	return h, driver.Errorf(driver.ErrInvalidArgument, "export %d bytes at address %#x, which are not of AllocIPC", r.Bytes(), uint64(at))
}
