package driver

import (
	"strings"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ffi"
)

// Methods whose C function writes or returns a string.

// DeviceGetName implements [API].
func (l *Library) DeviceGetName(device Device) (string, Result) {
	buffer := make([]byte, 256)
	r := l.deviceGetName(unsafe.SliceData(buffer), int32(len(buffer)), device)
	return textOf(buffer), r
}

// DeviceGetPCIBusID implements [API].
func (l *Library) DeviceGetPCIBusID(device Device) (string, Result) {
	buffer := make([]byte, 32)
	r := l.deviceGetPCIBusId(unsafe.SliceData(buffer), int32(len(buffer)), device)
	return textOf(buffer), r
}

// KernelGetName implements [API].
func (l *Library) KernelGetName(kernel Kernel) (string, Result) {
	var name *byte
	r := l.kernelGetName(&name, kernel)
	return ffi.GoString(name), r
}

// FuncGetName implements [API].
func (l *Library) FuncGetName(function Function) (string, Result) {
	var name *byte
	r := l.funcGetName(&name, function)
	return ffi.GoString(name), r
}

// GetErrorName implements [API].
func (l *Library) GetErrorName(result Result) (string, Result) {
	var name *byte
	r := l.getErrorName(result, &name)
	return ffi.GoString(name), r
}

// GetErrorString implements [API].
func (l *Library) GetErrorString(result Result) (string, Result) {
	var text *byte
	r := l.getErrorString(result, &text)
	return ffi.GoString(text), r
}

// textOf returns the text in a buffer that C has written to.
func textOf(buffer []byte) string {
	text, _, _ := strings.Cut(string(buffer), "\x00")
	return text
}
