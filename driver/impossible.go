package driver

import (
	"fmt"
	"math"
	"unsafe"
)

// A driver that is broken, or is none, may report success with values that cannot be true.
// They end here, as ResultImpossibleValue: what uses them counts on them. entries.txt has the
// bounds.

// The bounds that are no matter of the type.
const (
	maxDevices    = 1024
	maxBytes      = 1 << 56 // more than any address has
	maxKernels    = 1 << 20 // of an image
	maxParamBytes = 1 << 16 // of a kernel
	maxNodes      = 1 << 24 // of a graph
	maxThreads    = 1 << 16 // of a block, and multiprocessors of a device
	maxAddress    = 1 << 57 // on a device
)

// Page-locked memory does not lie in the page that nil points into, and suits every type.
const lowestHost, hostAlign = 4096, 16

// least is the smallest value of an attribute.
func (a DeviceAttribute) least() int32 {
	switch a {
	case DeviceAttributeMaxThreadsPerBlock, DeviceAttributeMaxThreadsPerMultiprocessor, DeviceAttributeMultiprocessorCount,
		DeviceAttributeWarpSize, DeviceAttributeComputeCapabilityMajor,
		DeviceAttributeMaxBlockDimX, DeviceAttributeMaxBlockDimY, DeviceAttributeMaxBlockDimZ,
		DeviceAttributeMaxGridDimX, DeviceAttributeMaxGridDimY, DeviceAttributeMaxGridDimZ:
		return 1
	case DeviceAttributeNUMAID, DeviceAttributeHostNUMAID:
		return -1 // there is none
	}
	return 0
}

// most is the largest value of an attribute: numbers of threads are multiplied.
func (a DeviceAttribute) most() int32 {
	switch a {
	case DeviceAttributeMaxThreadsPerBlock, DeviceAttributeMaxThreadsPerMultiprocessor, DeviceAttributeMultiprocessorCount,
		DeviceAttributeWarpSize, DeviceAttributeMaxBlockDimX, DeviceAttributeMaxBlockDimY, DeviceAttributeMaxBlockDimZ:
		return maxThreads
	case DeviceAttributeComputeCapabilityMajor, DeviceAttributeComputeCapabilityMinor:
		return 99
	}
	return math.MaxInt32
}

// least is the smallest value of an attribute.
func (a FunctionAttribute) least() int32 {
	switch a {
	case FunctionAttributeMaxThreadsPerBlock:
		return 1
	case FunctionAttributePreferredSharedMemoryCarveout:
		return -1 // the driver chooses
	}
	return 0
}

// within is the result of a function that has returned value: a success only if that is from
// low to high. Else value becomes 0.
func within[T ~int32 | ~uint32 | ~uint64 | ~float32](l *Library, index int, r Result, what string, value *T, low, high T) Result {
	if r != Success || *value >= low && *value <= high {
		return r
	}
	r = l.fails(index, "succeeded with %s %v: want %v to %v", what, *value, low, high)
	*value = 0
	return r
}

// notZero is within for handles and addresses.
func notZero[T ~uintptr | ~uint64](l *Library, index int, r Result, what string, value T) Result {
	if r != Success || value != 0 {
		return r
	}
	return l.fails(index, "succeeded with %s 0, which is none", what)
}

// hostMemory is within for the memory of programs, which Go reads and writes.
func hostMemory(l *Library, index int, r Result, what string, value *unsafe.Pointer, bytes uint64) Result {
	address, highest := uint64(uintptr(*value)), uint64(1)<<min(57, 8*unsafe.Sizeof(uintptr(0))-1)
	highest -= min(bytes, highest)
	if r != Success || bytes == 0 || address >= lowestHost && address <= highest && address%hostAlign == 0 {
		return r
	}
	*value = nil
	return l.fails(index, "succeeded with %s %#x: want a multiple of %d from %#x to %#x", what, address, hostAlign, lowestHost, highest)
}

// fails keeps what a function has returned for the error of the call, and is its result.
func (l *Library) fails(index int, format string, args ...any) Result {
	function := entries[index].Name
	l.impossible.Store(function, function+" "+fmt.Sprintf(format, args...))
	return ResultImpossibleValue
}

// explain says what a function has returned last that cannot be true.
func (l *Library) explain(function string) string {
	text, _ := l.impossible.Load(function)
	s, _ := text.(string)
	return s
}
