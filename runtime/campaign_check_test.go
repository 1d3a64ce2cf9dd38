package runtime_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// silent are the failures that the runtime lives with: what it only asks for its
// information, or tries out.
var silent = map[string][]string{
	"Open": {"cuDeviceGetUuid", "cuDeviceGetPCIBusId", "cuDeviceGetAttribute", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem", "cuDeviceCanAccessPeer"},
	// Whether calls on a stream need a context is tried out.
	"Context": {"cuCtxGetCurrent", "cuCtxPopCurrent", "cuCtxPushCurrent", "cuStreamQuery"},
	"Probe":   {"cuCtxGetCurrent", "cuCtxPopCurrent", "cuCtxPushCurrent", "cuStreamQuery"},
	// When memory is short what is cached goes back, and the driver is asked again.
	"Alloc": {"cuMemAlloc", "cuMemAllocFromPoolAsync", "cuMemFreeAsync"},
	// Where one stream cannot wait for the others that use the memory, another one can.
	"Close of *refs.Ref[uint32]": {"cuStreamWaitEvent", "cuStreamQuery", "cuEventRecord", "cuEventCreate", "cuCtxPushCurrent"},
	// So is memory for a lease, and the mark behind its last work is a ticket.
	"LeaseHost":                            {"cuMemHostAlloc", "cuMemFreeHost"},
	"Close of *runtime.HostBuffer[uint32]": {"cuMemHostAlloc", "cuMemHostGetDevicePointer"},
	// Where a stream cannot write a ticket, or there is no memory for one, the wait records an event.
	"Stream.Synchronize": {"cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuCtxPushCurrent"},
	// Without a direct link copies go through the host.
	"Copy": {"cuCtxEnablePeerAccess"},
	// Without page-locked memory the driver copies the memory of Go itself.
	"Upload":   {"cuMemHostAlloc", "cuEventCreate", "cuCtxPushCurrent", "cuCtxGetDevice", "cuDeviceGetAttribute"},
	"Download": {"cuMemHostAlloc", "cuEventCreate", "cuCtxPushCurrent"},
}

// check compares an error with what has struck.
func (c *campaign) check(name string, err error, struck []drivertest.Injection) error {
	if c.cause != driver.Success {
		return c.checkLost(err)
	}
	told := false
	c.gone = c.gone || slices.ContainsFunc(struck, func(i drivertest.Injection) bool { return i.Vanished })
	for _, i := range struck {
		switch {
		case i.Vanished:
		case i.Late: // shows at this call or at a later one
		case asked(i): // the wait goes on, or was over; a loss shows at this call or at a later one
		case i.Op == "cuCtxGetCurrent" && c.struck("cuCtxPopCurrent"): // whether the context is on the thread
		case slices.Contains(silent[name], i.Op) && !i.Result.Sticky():
		case i.Op == "cuThreadExchangeStreamCaptureMode" && !i.Result.Sticky(): // of no use without captures
		case asksForDevice(i) && len(struck) > 1: // whether the device is gone
		case c.gone && i.Result == driver.ResultUnknown: // a device that is gone is waited for no more
		case c.heardOf(i): // the call had to clean up, and went on
		case err == nil || i.Op == "cuCtxPopCurrent":
			return fmt.Errorf("%v was swallowed", i)
		case errors.Is(err, i.Result) || i.Result == driver.ResultNotFound && errors.Is(err, driver.ErrInvalidArgument):
			told = true
		default:
			// Another failure of the same call may be the one that is told.
		}
		if err != nil && (i.Late || i.Vanished) {
			told = true
		}
	}
	if err == nil {
		return nil
	}
	if name == "Close" { // blocks that were leaked before are told of again
		struck = c.gpu.Injected()
	}
	for _, e := range parts(err) {
		if e.Code == driver.Success {
			continue
		}
		if wrong := c.checkPart(e, struck); wrong != nil {
			return wrong
		}
		told = true
		if e.Code.Sticky() {
			c.cause = e.Code
		}
	}
	if !told {
		return errors.New("an error that nothing explains")
	}
	return c.checkKind(name, err)
}

// asked tells of a failure of a call that waits make on a goroutine of their own, and not the program.
func asked(i drivertest.Injection) bool { return !strings.Contains(i.Where, "_test.go") }

// asksForDevice tells of a failure of the calls by which the runtime asks whether a device is gone.
func asksForDevice(i drivertest.Injection) bool {
	return (i.Op == "cuMemGetInfo" || i.Op == "cuCtxPushCurrent") && i.Result == driver.ResultUnknown
}

// makesCurrent reports whether a failure is of a copy or a fill that had to make the context current.
func makesCurrent(i drivertest.Injection, e *driver.Error) bool {
	return i.Op == "cuCtxPushCurrent" && (strings.HasPrefix(e.Op, "cuMemcpy") || strings.HasPrefix(e.Op, "cuMemset"))
}

// checkPart checks one error of a call of the driver.
func (c *campaign) checkPart(e *driver.Error, struck []drivertest.Injection) error {
	explained := e.Code == c.gpu.Sticky() ||
		c.gone && e.Code == driver.ResultUnknown ||
		e.Code == driver.ResultOutOfMemory && e.Bytes+e.Bytes/8+512 > e.Free && c.memory < 1<<20 // in blocks
	for _, i := range c.gpu.Injected() { // a wait may tell of what was asked before it was called
		explained = explained || asked(i) && i.Result == e.Code && i.Op == e.Op
	}
	for _, i := range struck {
		explained = explained || i.Result == e.Code && (i.Op == e.Op || makesCurrent(i, e))
	}
	if !explained {
		return fmt.Errorf("nothing explains %v", e)
	}
	want := driver.Failed(e.Op, e.Code).Kind
	if c.gone && e.Kind == driver.ErrDeviceLost {
		return nil
	}
	if e.Op == "cuInit" && e.Code.Absent() {
		want = driver.ErrDriverLibraryUnavailable
	}
	if e.Kind != want {
		return fmt.Errorf("%v is of kind %v, not %v", e, e.Kind, want)
	}
	return nil
}

// checkKind checks the kind that a caller sees first.
func (c *campaign) checkKind(name string, err error) error {
	all := parts(err)
	if len(all) == 0 {
		return errors.New("an error without a kind")
	}
	top := all[0]
	if !errors.Is(err, top.Kind) || !strings.Contains(err.Error(), string(top.Kind)) {
		return errors.New("the text does not name the kind")
	}
	if c.cause != driver.Success {
		return c.checkLost(err)
	}
	switch {
	case c.gone && top.Kind == driver.ErrDeviceLost:
	case name == "LoadModule" && top.Code == driver.Success:
		if top.Kind != driver.ErrModuleLoadFailed || all[1].Op != "cuModuleLoadDataEx" {
			return fmt.Errorf("loading failed for another reason, and the kind is %v", top.Kind)
		}
	case name == "Open" && top.Code == driver.Success:
		if top.Kind != driver.ErrDriverCallFailed {
			return fmt.Errorf("the kind is %v", top.Kind)
		}
	}
	return nil
}

// checkLost checks an answer after a sticky error.
func (c *campaign) checkLost(err error) error {
	if !errors.Is(err, driver.ErrDeviceLost) {
		return fmt.Errorf("CUDA is lost by %v, and this does not say so", c.cause)
	}
	if c.gone && errors.Is(err, driver.ResultUnknown) {
		return nil // of a device that was lost alone before
	}
	if !errors.Is(err, c.cause) || c.gpu.Sticky() != c.cause {
		return fmt.Errorf("the first cause is %v, and that of the process %v", c.cause, c.gpu.Sticky())
	}
	return nil
}

// heardOf reports whether the hook has heard of a failure.
func (c *campaign) heardOf(i drivertest.Injection) bool {
	c.hearing.Lock()
	defer c.hearing.Unlock()
	return slices.ContainsFunc(c.heard, func(err error) bool {
		return errors.Is(err, i.Result) && strings.Contains(err.Error(), i.Op)
	})
}

// parts are the errors of package driver within an error, the outer ones first.
func parts(err error) (all []*driver.Error) {
	switch e := err.(type) {
	case nil:
		return nil
	case *driver.Error:
		all = append(all, e)
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		all = append(all, parts(e.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, parts(one)...)
		}
	}
	return all
}

// account compares what leaked with what the driver has refused to take back.
func (c *campaign) account(held runtime.Stats, struck []drivertest.Injection, closing error) error {
	refused := map[string]uint64{}
	kinds := map[string]string{"cuStreamDestroy": "stream", "cuEventDestroy": "event", "cuModuleUnload": "module",
		"cuMemFree": "device memory", "cuMemFreeHost": "host memory", "cuMemPoolDestroy": "memory pool", "cuDevicePrimaryCtxRelease": "primary context"}
	for _, i := range c.gpu.Injected() {
		if kind, ok := kinds[i.Op]; ok && !i.Late && !i.Vanished {
			refused[kind]++
		}
	}
	leaked := map[string]uint64{}
	for _, line := range c.gpu.Leaks() {
		found := ""
		for _, kind := range kinds {
			if text, _, _ := strings.Cut(line, " from "); strings.Contains(text, kind) {
				found = kind
			}
		}
		times := uint64(1)
		if _, rest, ok := strings.Cut(line, " retained "); ok {
			_, err := fmt.Sscan(rest, &times)
			if err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
		}
		leaked[found] += times
	}
	const block, buffers = 512, 100 // the smallest block; what copies go through, and events of the arena
	free := held.Memory.Cached / block
	if m := held.Memory; m.Hits+m.Shared == 0 { // blocks have the size that was asked for, and are not used again
		free = max(free, m.Frees-m.DriverFrees)
	}
	memory := held.Leaked + held.Refs + free
	most := map[string]uint64{"stream": c.halfOpen, "device memory": held.Leaked, "host memory": c.doubtful, "event": c.doubtful}
	if c.unproven {
		most["device memory"] = memory
	}
	if c.gone || blocked(struck) {
		most = map[string]uint64{"stream": held.Streams + held.SpareStreams + c.halfOpen, "event": held.Events + buffers, "module": held.Modules,
			"device memory": memory + uint64(c.gpu.Calls("cuMemFreeAsync")), "host memory": held.HostBuffers + buffers + c.doubtful,
			"memory pool": held.Contexts}
	}
	for _, kind := range kinds {
		least := refused[kind]
		if leaked[kind] < least && !c.gone || leaked[kind] > least+most[kind] {
			return fmt.Errorf("leaked %d of kind %q, and the driver has refused %d (%d may be left for other reasons): %v\nclosing: %v",
				leaked[kind], kind, least, most[kind], c.gpu.Leaks(), closing)
		}
	}
	return nil
}

// blocked tells that closing could not make sure that the devices are idle, or make a
// context current.
func blocked(struck []drivertest.Injection) bool {
	return slices.ContainsFunc(struck, func(i drivertest.Injection) bool {
		return i.Op == "cuCtxPushCurrent" || i.Op == "cuCtxSynchronize" || i.Op == "cuStreamSynchronize" || i.Op == "cuEventSynchronize" || i.Op == "cuEventQuery"
	})
}
