package drivertest

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// KernelFunc is a kernel in Go that runs in place of PTX. It runs the whole grid. It is called on
// the goroutine of a stream, and at the same time on others. An error or a panic is a fault of the
// device, which poisons the process as on hardware. The code is the error's if that is (or
// wraps) a sticky [driver.Result], the code of [Launch.Memory] if it comes from there, and
// ResultLaunchFailed otherwise.
type KernelFunc func(k *Launch) error

// Launch is one launch of a kernel as its [KernelFunc] sees it. It is valid until
// the function returns.
type Launch struct {
	// Kernel is the name of the entry point.
	Kernel string
	// Device is the ordinal of the device.
	Device      int
	Grid, Block driver.Dim3
	// SharedBytes is the dynamic shared memory of a block.
	SharedBytes uint32
	// Cooperative says that all blocks are resident at once.
	Cooperative bool

	params [][]byte
	ctx    *context
	d      *simulated
}

// Param returns the value of parameter i. It panics if there is no such parameter, or if its size is not that of T, which makes the
// launch fail. T is a number, a [driver.DevicePtr], or a struct without pointers in the layout of the kernel.
func Param[T any](k *Launch, i int) T {
	var v T
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))
	if i < 0 || i >= len(k.params) {
		panic(&fault{result: driver.ResultLaunchFailed,
			detail: fmt.Sprintf("the kernel %s has %d parameters, and its Go function reads parameter %d", k.Kernel, len(k.params), i)})
	}
	if len(k.params[i]) != len(bytes) {
		panic(&fault{result: driver.ResultLaunchFailed,
			detail: fmt.Sprintf("parameter %d of the kernel %s has %d bytes, and its Go function reads %d", i, k.Kernel, len(k.params[i]), len(bytes))})
	}
	copy(bytes, k.params[i])
	return v
}

// Memory returns n bytes of device memory, or of page-locked host memory, at ptr.
// The slice is the memory itself. An address that the device may not access is an
// error, which the kernel should return.
func (k *Launch) Memory(ptr driver.DevicePtr, n uint64) ([]byte, error) {
	data, f := k.d.memory.bytes(ptr, n, view{ctx: k.ctx})
	if f != nil {
		if k.d.memory.contiguous(ptr, n) < n {
			f.detail += ": a kernel in Go reaches one mapping at a time"
		}
		return nil, f
	}
	return data, nil
}

// Slice returns n elements of device memory at ptr, like [Launch.Memory]. T must
// not contain pointers. An address that is no multiple of T's alignment gives
// ResultMisalignedAddress.
func Slice[T any](k *Launch, ptr driver.DevicePtr, n uint64) ([]T, error) {
	var element T
	size, align := uint64(unsafe.Sizeof(element)), uint64(unsafe.Alignof(element))
	if uint64(ptr)%align != 0 {
		return nil, &fault{result: driver.ResultMisalignedAddress, addr: ptr,
			detail: fmt.Sprintf("%#x is not a multiple of %d", uint64(ptr), align)}
	}
	if n == 0 || size == 0 {
		return nil, nil
	}
	if n > math.MaxInt64/size {
		n = math.MaxInt64 / size // too much in any case
	}
	data, err := k.Memory(ptr, n*size)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), n), nil
}
