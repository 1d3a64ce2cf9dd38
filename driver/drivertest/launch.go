package drivertest

import (
	"fmt"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

func (d *simulated) LaunchKernel(function driver.Function, grid, block driver.Dim3, sharedBytes uint32, stream driver.Stream, params []unsafe.Pointer) driver.Result {
	return d.launch("cuLaunchKernel", function, stream, params,
		Launch{Grid: grid, Block: block, SharedBytes: sharedBytes})
}

func (d *simulated) LaunchCooperativeKernel(function driver.Function, grid, block driver.Dim3, sharedBytes uint32, stream driver.Stream, params []unsafe.Pointer) driver.Result {
	return d.launch("cuLaunchCooperativeKernel", function, stream, params,
		Launch{Grid: grid, Block: block, SharedBytes: sharedBytes, Cooperative: true})
}

// LaunchKernelEx implements [driver.API]. Clusters are not supported.
func (d *simulated) LaunchKernelEx(function driver.Function, grid, block driver.Dim3, sharedBytes uint32, stream driver.Stream, attributes []driver.LaunchAttribute, params []unsafe.Pointer) driver.Result {
	return d.launch("cuLaunchKernelEx", function, stream, params,
		Launch{Grid: grid, Block: block, SharedBytes: sharedBytes}, attributes...)
}

func (d *simulated) launch(op string, h driver.Function, stream driver.Stream, params []unsafe.Pointer, k Launch, attributes ...driver.LaunchAttribute) driver.Result {
	c, s, r := enterOn(d, call.stream, op, stream)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	w, r := c.kernelWork(h, s.ctx, params, k, attributes...)
	if r != driver.Success {
		return r
	}
	return c.submit(s, w)
}

// kernelWork is what a launch puts on a stream.
func (c call) kernelWork(h driver.Function, ctx *context, params []unsafe.Pointer, k Launch, attributes ...driver.LaunchAttribute) (w work, r driver.Result) {
	f, r := c.launchable(h, ctx)
	if r != driver.Success {
		return w, r
	}
	for _, a := range attributes {
		if r := k.apply(a); r != driver.Success {
			return w, r
		}
	}
	if r := c.checkSize(&k, f, ctx.dev); r != driver.Success {
		return w, r
	}
	var block []byte
	if k.params, block, r = c.copyParams(f.entry, params); r != driver.Success {
		return w, r
	}
	f.loaded = true
	k.Kernel, k.Device, k.ctx, k.d = f.entry.name, ctx.dev.ordinal, ctx, c.d
	run := k.call
	if c.d.config.Kernels[k.Kernel] == nil {
		run = c.interpret(f, &k, block)
	}
	return work{kind: nodeKernel, function: f, run: func() error {
		if f.isUnloaded() {
			return &fault{result: driver.ResultLaunchFailed, detail: fmt.Sprintf("the module of the kernel %s was unloaded before it ran", k.Kernel)}
		}
		return run()
	}}, driver.Success
}

// call runs the Go function that is bound to the kernel.
func (k *Launch) call() error {
	launch := *k // a graph runs it again
	if err := k.d.config.Kernels[k.Kernel](&launch); err != nil {
		return fmt.Errorf("kernel %s: %w", k.Kernel, err)
	}
	return nil
}

func (f *function) isUnloaded() bool {
	f.module.ctx.dev.d.mu.Lock()
	defer f.module.ctx.dev.d.mu.Unlock()
	return f.module.unloaded
}

// launchable finds a function of the context, or what a kernel of a library is in
// the context: the driver takes both handles.
func (c call) launchable(h driver.Function, ctx *context) (*function, driver.Result) {
	if k := c.d.kernels.live[driver.Kernel(h)]; k != nil {
		return c.functionOf(k, ctx)
	}
	f, r := find(c, &c.d.functions, h)
	if r == driver.Success && f.module.ctx != ctx {
		c.found(driver.ResultInvalidHandle, "the function and the stream belong to different contexts")
		r = driver.ResultInvalidHandle
	}
	return f, r
}

func (k *Launch) apply(a driver.LaunchAttribute) driver.Result {
	switch a.ID {
	case driver.LaunchAttributeCooperative:
		k.Cooperative = a.Cluster().X != 0 // the value is the first word
	case driver.LaunchAttributeClusterDimension:
		if size := a.Cluster(); size != (driver.Dim3{X: 1, Y: 1, Z: 1}) {
			return driver.ResultNotSupported
		}
	case driver.LaunchAttributePriority, driver.LaunchAttributeProgrammaticStreamSerialization:
	default:
		return driver.ResultInvalidValue
	}
	return driver.Success
}

// checkSize checks a launch against the limits of the kernel and the device.
func (c call) checkSize(k *Launch, f *function, dev *device) driver.Result {
	refuse := func(r driver.Result, format string, args ...any) driver.Result {
		c.found(r, "kernel %s: "+format, append([]any{f.entry.name}, args...)...)
		return r
	}
	g, b := k.Grid, k.Block
	threads := uint64(b.X) * uint64(b.Y) * uint64(b.Z)
	switch {
	case g.X == 0 || g.Y == 0 || g.Z == 0 || b.X == 0 || b.Y == 0 || b.Z == 0:
		return refuse(driver.ResultInvalidValue, "grid %v and block %v: a size is 0", g, b)
	case g.X > maxGridX || g.Y > maxGridYZ || g.Z > maxGridYZ:
		return refuse(driver.ResultInvalidValue, "grid %v is larger than %dx%dx%d", g, maxGridX, maxGridYZ, maxGridYZ)
	case b.X > maxBlockX || b.Y > maxBlockY || b.Z > maxBlockZ || threads > maxThreadsPerBlock:
		return refuse(driver.ResultInvalidValue, "block %v is larger than %dx%dx%d or %d threads", b, maxBlockX, maxBlockY, maxBlockZ, maxThreadsPerBlock)
	case threads > uint64(f.entry.bound):
		return refuse(driver.ResultInvalidValue, "block %v is larger than the %d threads that the kernel is compiled for", b, f.entry.bound)
	case threads > uint64(threadsWith(f.entry.registers)):
		return refuse(driver.ResultLaunchOutOfResources, "block %v needs %d registers, and there are %d: bound the block in the kernel (__launch_bounds__)",
			b, roundedRegisters(f.entry.registers)*wholeWarps(int(threads)), maxRegisters)
	case f.entry.reqBlock != [3]int{} && f.entry.reqBlock != [3]int{int(b.X), int(b.Y), int(b.Z)}:
		return refuse(driver.ResultInvalidValue, "block %v is not the one that the kernel requires, %v", b, f.entry.reqBlock)
	case uint64(k.SharedBytes) > uint64(f.settings.dynamicShared):
		return refuse(driver.ResultInvalidValue, "%d bytes of dynamic shared memory are more than the %d that are set", k.SharedBytes, f.settings.dynamicShared)
	}
	if bytes := threads * uint64(f.entry.localBytes); bytes > maxBlockLocal {
		return refuse(driver.ResultLaunchOutOfResources, "block %v needs %d bytes of local memory, and the simulated driver has %d", b, bytes, maxBlockLocal)
	}
	if k.Cooperative {
		resident := uint64(f.resident(int(threads), uint64(k.SharedBytes))) * uint64(dev.config.SMs)
		if uint64(g.X)*uint64(g.Y)*uint64(g.Z) > resident {
			return refuse(driver.ResultCooperativeLaunchTooLarge, "%v blocks are more than the %d that the device holds at once", g, resident)
		}
	}
	return driver.Success
}

// copyParams copies the values of the parameters by the sizes in the image.
func (c call) copyParams(e *entry, params []unsafe.Pointer) (values [][]byte, block []byte, r driver.Result) {
	if len(params) != len(e.params) {
		c.found(driver.ResultInvalidValue, "the kernel %s has %d parameters, and the launch passes %d", e.name, len(e.params), len(params))
		return nil, nil, driver.ResultInvalidValue
	}
	block = make([]byte, e.paramBytes)
	values = make([][]byte, len(params))
	for i, p := range e.params {
		if params[i] == nil {
			c.found(driver.ResultInvalidValue, "parameter %d of the kernel %s is nil", i, e.name)
			return nil, nil, driver.ResultInvalidValue
		}
		values[i] = block[p.offset : p.offset+p.bytes : p.offset+p.bytes]
		copy(values[i], unsafe.Slice((*byte)(params[i]), p.bytes))
	}
	return values, block, driver.Success
}
