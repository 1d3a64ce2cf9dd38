package drivertest_test

import (
	"fmt"
	goruntime "runtime"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

func Example() {
	gpu := drivertest.New(drivertest.Config{
		Kernels: map[string]drivertest.KernelFunc{
			"scale": func(k *drivertest.Launch) error {
				x, err := drivertest.Slice[float32](k, k.Ptr(0), k.Uint64(1))
				for i := range x {
					x[i] *= 2
				}
				return err
			},
		},
	})
	const image = `.version 6.4
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 n) { ret; }`

	goruntime.LockOSThread() // the current context belongs to the thread
	defer goruntime.UnlockOSThread()
	gpu.Init(0)
	ctx, _ := gpu.DevicePrimaryCtxRetain(0)
	gpu.CtxPushCurrent(ctx)
	stream, _ := gpu.StreamCreate(driver.StreamNonBlocking)
	module, _, _ := gpu.ModuleLoadData([]byte(image), driver.JIT{})
	scale, _ := gpu.ModuleGetFunction(module, "scale")

	host, n := []float32{1, 2, 3}, uint64(3)
	x, _ := gpu.MemAlloc(12)
	gpu.MemcpyHtoD(x, unsafe.Pointer(&host[0]), 12)
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	gpu.LaunchKernel(scale, one, one, 0, stream, []unsafe.Pointer{unsafe.Pointer(&x), unsafe.Pointer(&n)})
	gpu.StreamSynchronize(stream)
	gpu.MemcpyDtoH(unsafe.Pointer(&host[0]), x, 12)
	fmt.Println(host)

	gpu.MemcpyHtoD(x, unsafe.Pointer(&host[0]), 16) // too much
	fmt.Println(gpu.Findings()[0].Detail[len("16 bytes at 0x10000000000100: "):])
	gpu.MemFree(x)
	fmt.Println(len(gpu.Leaks()), "leaks")
	// Output:
	// [2 4 6]
	// 4 bytes beyond the end of the allocation
	// 3 leaks
}
