package driver

import (
	goruntime "runtime"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ffi"
)

// ThreadExchangeStreamCaptureMode implements [API].
func (l *Library) ThreadExchangeStreamCaptureMode(mode CaptureMode) (CaptureMode, Result) {
	r := l.threadExchangeStreamCaptureMode(&mode)
	r = within(l, fnThreadExchangeStreamCaptureMode, r, "mode", &mode, CaptureGlobal, CaptureRelaxed)
	return mode, r
}

// GraphGetNodes implements [API]. A graph that grows meanwhile may have more nodes.
func (l *Library) GraphGetNodes(graph Graph) ([]GraphNode, Result) {
	var count uint64
	r := l.graphGetNodes(graph, nil, &count)
	r = within(l, fnGraphGetNodes, r, "count", &count, 0, maxNodes)
	if r != Success || count == 0 {
		return nil, r
	}
	room := count
	nodes := make([]GraphNode, room)
	r = l.graphGetNodes(graph, unsafe.SliceData(nodes), &count)
	r = within(l, fnGraphGetNodes, r, "count", &count, 0, room)
	for _, n := range nodes[:count] {
		r = notZero(l, fnGraphGetNodes, r, "node", n)
	}
	if r != Success {
		return nil, r
	}
	return nodes[:count], r
}

// GraphAddConditionalNode implements [API].
func (l *Library) GraphAddConditionalNode(graph Graph, dependencies []GraphNode, handle GraphConditionalHandle, kind GraphConditionalType, context Context) (node GraphNode, body Graph, r Result) {
	params := &graphNodeParams{kind: GraphNodeConditional, handle: handle, conditional: kind, size: 1, context: context}
	r = l.graphAddNode(&node, graph, unsafe.SliceData(dependencies), nil, uint64(len(dependencies)), params)
	if r == Success && params.bodies == nil {
		return 0, 0, notZero(l, fnGraphAddNode, r, "bodies", Graph(0))
	}
	if r == Success {
		body = *params.bodies // the array is the driver's, and lives as long as the graph
		r = notZero(l, fnGraphAddNode, notZero(l, fnGraphAddNode, r, "body", body), "node", node)
	}
	if r != Success {
		return 0, 0, r
	}
	return node, body, r
}

// GraphExecKernelNodeSetParams implements [API].
func (l *Library) GraphExecKernelNodeSetParams(exec GraphExec, node GraphNode, function Function, grid, block Dim3, sharedBytes uint32, params []unsafe.Pointer) Result {
	return l.graphExecKernelNodeSetParams(exec, node, &kernelNodeParams{function: function, grid: grid, block: block,
		sharedBytes: sharedBytes, params: unsafe.SliceData(params)})
}

// DevSmResourceSplitByCount implements [API].
func (l *Library) DevSmResourceSplitByCount(input DevResource, minCount uint32, flags uint32) ([]DevResource, DevResource, Result) {
	var count uint32
	var rest DevResource
	r := l.devSmResourceSplitByCount(nil, &count, &input, nil, flags, minCount)
	r = within(l, fnDevSmResourceSplitByCount, r, "count", &count, 0, maxThreads)
	if r != Success || count == 0 {
		return nil, input, r
	}
	room := count
	groups := make([]DevResource, room)
	r = l.devSmResourceSplitByCount(unsafe.SliceData(groups), &count, &input, &rest, flags, minCount)
	r = within(l, fnDevSmResourceSplitByCount, r, "count", &count, 0, room)
	if r != Success {
		return nil, rest, r
	}
	return groups[:count], rest, r
}

// TensorMapEncodeTiled implements [API]. The driver wants the map at a multiple of 64 bytes.
func (l *Library) TensorMapEncodeTiled(tiles TensorTiles) (tensor TensorMap, r Result) {
	rank := len(tiles.Dims)
	if rank == 0 || len(tiles.Strides) != rank-1 || len(tiles.Box) != rank || len(tiles.ElementStrides) != rank {
		return tensor, ResultInvalidValue
	}
	const align = 64
	room := new([2*align/8 + len(tensor)]uint64)
	skip := (align - uintptr(unsafe.Pointer(room))%align) % align
	at := (*TensorMap)(unsafe.Add(unsafe.Pointer(room), skip))
	r = l.tensorMapEncodeTiled(at, tiles.Type, uint32(rank), tiles.Base, unsafe.SliceData(tiles.Dims), unsafe.SliceData(tiles.Strides),
		unsafe.SliceData(tiles.Box), unsafe.SliceData(tiles.ElementStrides), tiles.Interleave, tiles.Swizzle, tiles.L2Promotion, tiles.Fill)
	return *at, r
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
		return ResultInvalidValue
	}
	if !ffi.CanCallBack || l.fn[fnLaunchHostFunc] == 0 {
		return ResultSymbolMissing
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
