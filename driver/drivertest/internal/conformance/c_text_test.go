//go:build linux && (amd64 || arm64)

package conformance

import (
	"sync"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// text copies a string of C.
func text(p *byte) string {
	if p == nil {
		return ""
	}
	return string(unsafe.Slice(p, length(p)))
}

// length of a string of C.
func length(p *byte) int {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return n
}

// put writes a string of C into a buffer, cut off where it ends.
func put(buffer *byte, size int, s string) {
	if buffer == nil || size <= 0 {
		return
	}
	to := unsafe.Slice(buffer, size)
	to[copy(to[:size-1], s)] = 0
}

// texts are the strings of C that callers have the address of. They stay for ever, as
// those of the driver.
var texts sync.Map // of string to *byte

func keep(s string) *byte {
	if known, ok := texts.Load(s); ok {
		return known.(*byte)
	}
	made, _ := texts.LoadOrStore(s, unsafe.SliceData(append([]byte(s), 0)))
	return made.(*byte)
}

func cDeviceGetName(name *byte, size int32, device driver.Device) driver.Result {
	s, r := target().DeviceGetName(device)
	if r == driver.Success {
		put(name, int(size), s)
	}
	return r
}

func cDeviceGetPCIBusId(id *byte, size int32, device driver.Device) driver.Result {
	s, r := target().DeviceGetPCIBusID(device)
	if r == driver.Success {
		put(id, int(size), s)
	}
	return r
}

func cKernelGetName(name **byte, kernel driver.Kernel) driver.Result {
	s, r := target().KernelGetName(kernel)
	return give(name, s, r)
}

func cFuncGetName(name **byte, function driver.Function) driver.Result {
	s, r := target().FuncGetName(function)
	return give(name, s, r)
}

func cGetErrorName(result driver.Result, name **byte) driver.Result {
	s, r := target().GetErrorName(result)
	return give(name, s, r)
}

func cGetErrorString(result driver.Result, name **byte) driver.Result {
	s, r := target().GetErrorString(result)
	return give(name, s, r)
}

// give returns the address of a string to C.
func give(to **byte, s string, r driver.Result) driver.Result {
	if r == driver.Success {
		*to = keep(s)
	}
	return r
}
