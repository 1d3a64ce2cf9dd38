package driver

import (
	goruntime "runtime"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ffi"
)

// MemPoolSetAccess implements [API].
func (l *Library) MemPoolSetAccess(pool MemPool, access []MemAccess) Result {
	return l.memPoolSetAccess(pool, unsafe.SliceData(access), uint64(len(access)))
}

// ThreadExchangeStreamCaptureMode implements [API].
func (l *Library) ThreadExchangeStreamCaptureMode(mode CaptureMode) (CaptureMode, Result) {
	r := l.threadExchangeStreamCaptureMode(&mode)
	r = within(l, fnThreadExchangeStreamCaptureMode, r, "mode", &mode, CaptureGlobal, CaptureRelaxed)
	return mode, r
}

// GraphGetNodeCount implements [API].
func (l *Library) GraphGetNodeCount(graph Graph) (count uint64, r Result) {
	r = l.graphGetNodes(graph, nil, &count)
	r = within(l, fnGraphGetNodes, r, "count", &count, 0, maxNodes)
	return count, r
}

// LibraryEnumerateKernels implements [API].
func (l *Library) LibraryEnumerateKernels(library KernelLibrary) ([]Kernel, Result) {
	count, r := l.LibraryGetKernelCount(library)
	if r != Success || count == 0 {
		return nil, r
	}
	kernels := make([]Kernel, count)
	if r := l.libraryEnumerateKernels(unsafe.SliceData(kernels), count, library); r != Success {
		return nil, r
	}
	for _, k := range kernels {
		if r := notZero(l, fnLibraryEnumerateKernels, Success, "kernel", k); r != Success {
			return nil, r
		}
	}
	return kernels, Success
}

// LaunchHostFunc implements [API]. A function that is captured into a graph runs at every launch of
// it. It is remembered for the life of the process, as is one that never runs because its context
// failed.
func (l *Library) LaunchHostFunc(stream Stream, f func()) Result {
	if f == nil {
		return ErrorInvalidValue
	}
	if !ffi.CanCallBack || l.fn[fnLaunchHostFunc] == 0 {
		return ErrorSymbolMissing
	}
	capture, _ := l.StreamIsCapturing(stream)
	fn, data := ffi.HostFunc(f, capture == CaptureActive)
	r := l.launchHostFunc(stream, fn, data)
	if r != Success {
		ffi.DropHostFunc(data)
	}
	return r
}

// byValueOnStack tells how C passes a structure of 64 bytes by value: System V
// on amd64 copies it to the stack, all other conventions here pass the address of
// a copy in place of the argument.
const byValueOnStack = goruntime.GOARCH == "amd64" && goruntime.GOOS != "windows"

// registers is the number of words before the stack begins in the System V
// convention.
const registers = 6

// IpcOpenMemHandle implements [API].
func (l *Library) IpcOpenMemHandle(handle IpcMemHandle, flags uint32) (ptr DevicePtr, r Result) {
	if byValueOnStack {
		var c struct {
			ffi.Frame
			ptr    *DevicePtr
			flags  uintptr
			_      [registers - 2]uintptr
			handle IpcMemHandle
		}
		c.ptr, c.handle, c.flags = &ptr, handle, uintptr(flags)
		r = l.call(fnIpcOpenMemHandle, &c.Frame, registers+len(handle)/8)
		return ptr, notZero(l, fnIpcOpenMemHandle, r, "ptr", ptr)
	}
	var c struct {
		ffi.Frame
		ptr    *DevicePtr
		handle *IpcMemHandle
		flags  uintptr
		_      [ffi.RegisterWords - 3]uintptr
	}
	c.ptr, c.handle, c.flags = &ptr, &handle, uintptr(flags)
	r = l.call(fnIpcOpenMemHandle, &c.Frame, 3)
	return ptr, notZero(l, fnIpcOpenMemHandle, r, "ptr", ptr)
}

// IpcOpenEventHandle implements [API].
func (l *Library) IpcOpenEventHandle(handle IpcEventHandle) (event Event, r Result) {
	if byValueOnStack {
		var c struct {
			ffi.Frame
			event  *Event
			_      [registers - 1]uintptr
			handle IpcEventHandle
		}
		c.event, c.handle = &event, handle
		r = l.call(fnIpcOpenEventHandle, &c.Frame, registers+len(handle)/8)
		return event, notZero(l, fnIpcOpenEventHandle, r, "event", event)
	}
	var c struct {
		ffi.Frame
		event  *Event
		handle *IpcEventHandle
		_      [ffi.RegisterWords - 2]uintptr
	}
	c.event, c.handle = &event, &handle
	r = l.call(fnIpcOpenEventHandle, &c.Frame, 2)
	return event, notZero(l, fnIpcOpenEventHandle, r, "event", event)
}
