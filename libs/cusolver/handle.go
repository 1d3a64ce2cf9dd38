package cusolver

import (
	"errors"
	"math"
	"sync"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cusolver/internal/layout"
	"github.com/purecuda/purecuda/runtime"
)

// Handle solves on a stream. It is safe for concurrent use; calls of one handle run in the order in which
// they come. What needs to run at the same time needs a handle each.
type Handle struct {
	api     API
	s       *runtime.Stream
	library *runtime.LibraryHandle
	raw     RawHandle
	kernels *layout.Kernels
	mu      sync.Mutex // held over each call

	// What calls use on the device. An info belongs to a Result until its Wait.
	workspaces kept[byte]
	float32s   kept[float32]
	float64s   kept[float64]
	infos      kept[int32]
	batchInfos kept[int32]
	addresses  kept[uint64]
}

// New makes a handle for a stream. It takes some milliseconds, the first one of a process up to a second.
//
// The handle keeps the device memory that its calls need beside their operands until Close: workspaces, copies that are turned
// around and results. It has as much of it as the largest of them need.
//
// It ends with the context: after Context.Reset its calls return driver.ErrRefStale, and a new one has to
// be made.
func New(api API, s *runtime.Stream) (*Handle, error) {
	switch {
	case api == nil:
		return nil, wrong("cusolver.New takes a library: see Open")
	case s == nil || s.Context() == nil:
		return nil, wrong("cusolver.New takes a stream that is not nil")
	}
	kernels, err := layout.Load(s.Context())
	if err != nil {
		return nil, err
	}
	h := &Handle{api: api, s: s, kernels: kernels}
	if err := h.open(); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *Handle) open() (err error) {
	api := h.api // what destroys must not refer to h
	h.library, err = h.s.Context().NewLibraryHandle("cusolverDnCreate", func() (func() error, error) {
		raw, status := api.Create()
		h.raw = raw
		if status != StatusSuccess {
			return nil, failed(api, "cusolverDnCreate", status)
		}
		return func() error { return failed(api, "cusolverDnDestroy", api.Destroy(raw)) }, nil
	})
	if err != nil {
		return err
	}
	h.api = in(api, h.library)
	return h.s.Submit("cusolverDnSetStream", func(s driver.Stream, _ []driver.DevicePtr) error {
		return failed(h.api, "cusolverDnSetStream", h.api.SetStream(h.raw, s))
	}, h.library.Arg())
}

// Close waits for the work of the handle and frees it. It may be called twice.
func (h *Handle) Close() error {
	if h == nil || h.kernels == nil {
		return nil
	}
	return errors.Join(h.library.Close(), h.kernels.Close(), h.workspaces.close(), h.float32s.close(), h.float64s.close(),
		h.infos.close(), h.batchInfos.close(), h.addresses.close())
}

// Stream is the stream that it solves on.
func (h *Handle) Stream() *runtime.Stream {
	if h == nil {
		return nil
	}
	return h.s
}

// use is memory of a call: where its address goes, and the bytes of its Ref before it.
type use struct {
	arg    runtime.Arg
	to     *driver.DevicePtr
	offset int
}

// run puts a call on the stream, with its workspaces, ordered with what it uses.
func (h *Handle) run(c *Call, uses ...use) (*Result, error) {
	if h == nil || h.s == nil {
		return nil, wrong("%v with no handle: see cusolver.New", c.Routine)
	}
	info, err := h.info()
	if err != nil {
		return nil, err
	}
	return h.runWith(c, &h.infos, info, 1, uses)
}

// runWith is run with the memory for the info of each of so many matrices.
func (h *Handle) runWith(c *Call, infos *kept[int32], info *runtime.Ref[int32], count int, uses []use) (*Result, error) {
	name := c.Routine.String()
	var device, host uint64
	var err error
	if c.Routine.works() {
		err = h.submit(name, c, uses, func() (s Status) {
			device, host, s = h.api.Workspace(h.raw, c)
			if s == StatusSuccess && max(device, host) > math.MaxInt64 {
				s = StatusImpossibleValue
			}
			return s
		})
	}
	captured := false
	if err == nil {
		captured, err = h.finish(name, c, device, host, append(uses, use{arg: runtime.InOut(info), to: &c.Info}))
	}
	if err != nil {
		return nil, errors.Join(err, infos.put(info))
	}
	return &Result{h: h, waits: []wait{{c.Routine, info, infos, count, captured}}}, nil
}

// finish makes the call, with workspaces of so many bytes. captured says that it was recorded.
func (h *Handle) finish(name string, c *Call, device, host uint64, uses []use) (captured bool, err error) {
	if device > 0 {
		memory, err := h.workspaces.take(h.s, int(device))
		if err != nil {
			return false, err
		}
		defer h.workspaces.put(memory)
		uses = append(uses, use{arg: runtime.InOut(memory), to: &c.Device})
	}
	if host > 0 {
		memory, err := runtime.LeaseHost[byte](h.s.Context(), int(host))
		if err != nil {
			return false, err
		}
		defer memory.Close()
		c.Host = unsafe.Pointer(unsafe.SliceData(memory.Data()))
		uses = append(uses, use{arg: memory.Arg(), to: new(driver.DevicePtr)})
	}
	c.DeviceBytes, c.HostBytes = device, host
	err = h.submit(name, c, uses, func() Status {
		status, r := h.s.Context().Runtime().Driver().StreamIsCapturing(h.s.Handle())
		captured = r == driver.Success && status != driver.CaptureNone
		return h.api.Run(h.raw, c)
	})
	return captured, err
}

// submit calls cuSOLVER with the addresses of what is used.
func (h *Handle) submit(name string, c *Call, uses []use, f func() Status) error {
	args := append(make([]runtime.Arg, 0, 8), h.library.Arg())
	for _, u := range uses {
		args = append(args, u.arg)
	}
	return h.s.Submit(name, func(_ driver.Stream, at []driver.DevicePtr) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		for i, u := range uses {
			*u.to = at[i+1] + driver.DevicePtr(u.offset) // the first is the handle
		}
		return failed(h.api, name, f())
	}, args...)
}
