package driver_test

import (
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// A program opens the driver of the machine, and does without where there is none.
func ExampleOpen() {
	lib, err := driver.Open()
	switch {
	case errors.Is(err, driver.ErrDriverLibraryUnavailable):
		fmt.Println("the work goes to the CPU:", err)
	case err != nil:
		fmt.Println("a driver is there and does not load:", err)
	default:
		fmt.Println(lib.DriverGetVersion())
	}
}

// What takes an API runs on the driver of the machine, which Open returns, and on the
// simulated one. Results are the driver's own; Failed makes errors of them.
func ExampleAPI() {
	devices := func(api driver.API) error {
		if r := api.Init(0); r != driver.Success {
			return driver.Failed("cuInit", r)
		}
		count, r := api.DeviceGetCount()
		if r != driver.Success {
			return driver.Failed("cuDeviceGetCount", r)
		}
		for i := range count {
			device, r := api.DeviceGet(i)
			if r != driver.Success {
				return driver.Failed("cuDeviceGet", r)
			}
			name, r := api.DeviceGetName(device)
			if r != driver.Success {
				return driver.Failed("cuDeviceGetName", r)
			}
			fmt.Println(name)
		}
		return nil
	}

	fmt.Println(devices(drivertest.New(drivertest.Config{Devices: drivertest.Devices(2, drivertest.T4())})))
	fmt.Println(devices(drivertest.New(drivertest.Config{InitResult: driver.ResultNoDevice})))
	// Output:
	// Tesla T4
	// Tesla T4
	// <nil>
	// DriverCallFailed: cuInit: CUDA_ERROR_NO_DEVICE (100): the machine has no CUDA device that the process may see
}

// Errors are matched by their kind and by the driver's result, and have what is known in
// fields.
func ExampleError() {
	failed := driver.Failed("cuMemAlloc", driver.ResultOutOfMemory)
	failed.Device, failed.Bytes = 1, 1<<30
	err := fmt.Errorf("loading the model: %w", failed)

	fmt.Println(errors.Is(err, driver.ErrOutOfMemory), errors.Is(err, driver.ResultOutOfMemory))
	if e, ok := errors.AsType[*driver.Error](err); ok {
		fmt.Println(e.Kind, e.Op, e.Code, e.Bytes)
	}
	fmt.Println(err)
	// Output:
	// true true
	// OutOfMemory cuMemAlloc CUDA_ERROR_OUT_OF_MEMORY (2): not enough memory 1073741824
	// loading the model: OutOfMemory: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): not enough memory [device 1, 1073741824 bytes]
}

// The current context belongs to the thread. Do locks the goroutine to its thread, makes
// the context current, and puts back what was current before.
func ExampleBinding_Do() {
	gpu := drivertest.New(drivertest.Config{})
	gpu.Init(0)
	context, r := gpu.DevicePrimaryCtxRetain(0)
	if r != driver.Success {
		fmt.Println(driver.Failed("cuDevicePrimaryCtxRetain", r))
		return
	}
	defer gpu.DevicePrimaryCtxRelease(0)

	binding := driver.Binding{API: gpu, Context: context}
	err := binding.Do(func() error {
		memory, r := binding.API.MemAlloc(1024)
		if r != driver.Success {
			return binding.Failed("cuMemAlloc", r)
		}
		return binding.Failed("cuMemFree", binding.API.MemFree(memory))
	})
	_, without := binding.API.MemAlloc(1024) // with no context current
	fmt.Println(err, without)
	// Output: <nil> CUDA_ERROR_INVALID_CONTEXT (201): no context is current, or the context is not valid
}
