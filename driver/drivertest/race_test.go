package drivertest_test

import (
	goruntime "runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// TestManyGoroutines does a bit of everything at the same time on two devices.
func TestManyGoroutines(t *testing.T) {
	before := goruntime.NumGoroutine()
	d := drivertest.New(drivertest.Config{Kernels: kernels(), Devices: drivertest.Devices(2, drivertest.H100())})
	assert.Equal(t, driver.Success, d.Init(0))
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for range 10 {
				churn(t, d, driver.Device(worker%2))
			}
		})
	}
	group.Wait()
	assert.Empty(t, d.Findings())
	assert.Empty(t, d.Leaks())
	assert.NoError(t, d.Close())
	poll(t, "no goroutine is left", func() bool { return goruntime.NumGoroutine() <= before })
}

func churn(t *testing.T, d *drivertest.Driver, dev driver.Device) {
	ok := func(r driver.Result) {
		if r != driver.Success {
			assert.Equal(t, driver.Success, r)
			goruntime.Goexit()
		}
	}
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	ctx, r := d.DevicePrimaryCtxRetain(dev)
	ok(r)
	ok(d.CtxPushCurrent(ctx))
	s, r := d.StreamCreate(driver.StreamNonBlocking)
	ok(r)
	e, r := d.EventCreate(0)
	ok(r)
	m, _, r := d.ModuleLoadData([]byte(ptx), driver.JIT{})
	ok(r)
	f, r := d.ModuleGetFunction(m, "add_one")
	ok(r)
	ptr, r := d.MemAlloc(4000)
	ok(r)
	temp, r := d.MemAllocAsync(4000, s)
	ok(r)
	host := make([]uint32, 1000)
	host[999] = 41
	n := uint32(1000)
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	ok(d.MemcpyHtoDAsync(temp, pointer(&host[0]), 4000, s))
	ok(d.LaunchKernel(f, one, one, 0, s, []unsafe.Pointer{pointer(&temp), pointer(&n)}))
	ok(d.MemcpyDtoDAsync(ptr, temp, 4000, s))
	ok(d.EventRecord(e, s))
	ok(d.MemFreeAsync(temp, s))
	ok(d.EventSynchronize(e))
	ok(d.MemcpyDtoH(pointer(&host[0]), ptr, 4000))
	assert.EqualValues(t, 42, host[999])
	ok(d.StreamSynchronize(s))
	ok(d.MemFree(ptr))
	ok(d.ModuleUnload(m))
	ok(d.EventDestroy(e))
	ok(d.StreamDestroy(s))
	_, r = d.CtxPopCurrent()
	ok(r)
	ok(d.DevicePrimaryCtxRelease(dev))
}
