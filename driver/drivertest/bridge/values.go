//go:build linux && (amd64 || arm64)

package bridge

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

func cMemPoolSetAccess(pool driver.MemPool, access *driver.MemAccess, count uint64) driver.Result {
	return target().MemPoolSetAccess(pool, unsafe.Slice(access, count))
}

func cThreadExchangeStreamCaptureMode(mode *driver.CaptureMode) driver.Result {
	old, r := target().ThreadExchangeStreamCaptureMode(*mode)
	if r == driver.Success {
		*mode = old
	}
	return r
}

// cGraphGetNodes gives the number of nodes, and not the nodes.
func cGraphGetNodes(graph driver.Graph, nodes *uintptr, count *uint64) (r driver.Result) {
	if nodes != nil {
		return driver.ErrorNotSupported
	}
	*count, r = target().GraphGetNodeCount(graph)
	return r
}

// handle is CUipcMemHandle and CUipcEventHandle: C passes it by value, and the
// conventions for that differ from processor to processor.
type handle struct{ bytes [64]byte }

func cIpcOpenMemHandle(ptr *driver.DevicePtr, h handle, flags uint32) (r driver.Result) {
	*ptr, r = target().IpcOpenMemHandle(h.bytes, flags)
	return r
}

func cIpcOpenEventHandle(event *driver.Event, h handle) (r driver.Result) {
	*event, r = target().IpcOpenEventHandle(h.bytes)
	return r
}
