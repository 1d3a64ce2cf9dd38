package drivertest_test

import (
	"fmt"
	goruntime "runtime"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

func Example() {
	gpu := drivertest.New(drivertest.Config{})
	const image = `.version 6.4
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 n) {
	.reg .u32 %i; .reg .u64 %r<4>; .reg .f32 %f; .reg .pred %p;
	mov.u32 %i, %tid.x;
	cvt.u64.u32 %r0, %i;
	ld.param.u64 %r1, [n];
	setp.ge.u64 %p, %r0, %r1;
	@%p ret;
	ld.param.u64 %r2, [x];
	mad.lo.u64 %r3, %r0, 4, %r2;
	ld.global.f32 %f, [%r3];
	add.f32 %f, %f, %f;
	st.global.f32 [%r3], %f;
	ret;
}`

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
	grid, block := driver.Dim3{X: 1, Y: 1, Z: 1}, driver.Dim3{X: 32, Y: 1, Z: 1}
	gpu.LaunchKernel(scale, grid, block, 0, stream, []unsafe.Pointer{unsafe.Pointer(&x), unsafe.Pointer(&n)})
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
