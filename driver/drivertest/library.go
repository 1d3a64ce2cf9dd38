package drivertest

import "github.com/purecuda/purecuda/driver"

// library is an image for all contexts. It becomes a module of a context when it is
// first used there.
type library struct {
	handle  driver.KernelLibrary
	image   *image
	broken  driver.Result // why its kernels cannot be had, or Success
	kernels []*kernel     // in the order of the image
	made    origin
}

// kernel is an entry of a library. Its settings hold for a device each.
type kernel struct {
	handle   driver.Kernel
	library  *library
	entry    *entry
	settings map[*device]*settings
}

func (k *kernel) settingsOn(dev *device) *settings {
	s := k.settings[dev]
	if s == nil {
		s = newSettings(k.entry, dev)
		k.settings[dev] = s
	}
	return s
}

// LibraryLoadData implements [driver.API]. It reads PTX only. Where kernels are
// loaded lazily, a mistake in the PTX stands in the log, and what asks for kernels
// fails.
func (d *simulated) LibraryLoadData(data []byte, _ driver.JIT) (driver.KernelLibrary, driver.JITLog, driver.Result) {
	c, r := d.enter("cuLibraryLoadData")
	if r != driver.Success {
		return 0, driver.JITLog{}, r
	}
	defer d.mu.Unlock()
	if bad := checkFormat(data); bad != nil {
		return 0, driver.JITLog{Error: bad.log}, bad.result
	}
	// A library must fit at least one device.
	var img *image
	var log driver.JITLog
	for _, dev := range d.devices {
		if img, log, r = c.read(data, dev.config.Major, dev.config.Minor); r == driver.Success {
			break
		}
	}
	if r != driver.Success && !d.lazy() {
		return 0, log, r
	}
	l := &library{handle: driver.KernelLibrary(d.newHandle()), image: img, broken: r, made: c.made}
	d.libraries.live[l.handle] = l
	if r != driver.Success {
		return l.handle, log, driver.Success
	}
	for _, e := range img.entries {
		k := &kernel{handle: driver.Kernel(d.newHandle()), library: l, entry: e, settings: map[*device]*settings{}}
		l.kernels = append(l.kernels, k)
		d.kernels.live[k.handle] = k
	}
	return l.handle, log, driver.Success
}

func (c call) library(h driver.KernelLibrary) (*library, driver.Result) {
	l, r := find(c, &c.d.libraries, h)
	if r == driver.Success && c.op != "cuLibraryUnload" {
		r = l.broken
	}
	return l, r
}

func (d *simulated) LibraryUnload(h driver.KernelLibrary) driver.Result {
	return on(d, call.library, "cuLibraryUnload", h, func(c call, l *library) driver.Result {
		for _, ctx := range d.contexts.live {
			if m := ctx.parts[l]; m != nil {
				c.unload(m, false)
			}
		}
		for _, k := range l.kernels {
			remove(c, &d.kernels, k.handle)
		}
		remove(c, &d.libraries, h)
		return driver.Success
	})
}

// part returns the module that the library is in a context.
func (c call) part(l *library, ctx *context) (*module, driver.Result) {
	if m := ctx.parts[l]; m != nil {
		return m, driver.Success
	}
	m, r := c.load(ctx, l.image, l)
	if r == driver.Success {
		ctx.parts[l] = m
	}
	return m, r
}

func (d *simulated) LibraryGetKernel(h driver.KernelLibrary, name string) (driver.Kernel, driver.Result) {
	return getOf(d, call.library, "cuLibraryGetKernel", h, func(_ call, l *library) (driver.Kernel, driver.Result) {
		for _, k := range l.kernels {
			if k.entry.name == name {
				return k.handle, driver.Success
			}
		}
		return 0, l.image.without(name)
	})
}

func (d *simulated) LibraryGetModule(h driver.KernelLibrary) (driver.Module, driver.Result) {
	return getOf(d, call.library, "cuLibraryGetModule", h, func(c call, l *library) (driver.Module, driver.Result) {
		m, r := c.part(l, c.ctx)
		if r != driver.Success {
			return 0, r
		}
		return m.handle, driver.Success
	})
}

func (d *simulated) LibraryGetGlobal(h driver.KernelLibrary, name string) (driver.DevicePtr, uint64, driver.Result) {
	c, l, r := enterOn(d, call.library, "cuLibraryGetGlobal", h)
	if r != driver.Success {
		return 0, 0, r
	}
	defer d.mu.Unlock()
	m, r := c.part(l, c.ctx)
	if r != driver.Success {
		return 0, 0, r
	}
	return m.global(name)
}

func (d *simulated) LibraryGetKernelCount(h driver.KernelLibrary) (uint32, driver.Result) {
	return getOf(d, call.library, "cuLibraryGetKernelCount", h, func(_ call, l *library) (uint32, driver.Result) {
		return uint32(len(l.kernels)), driver.Success
	})
}

func (d *simulated) LibraryEnumerateKernels(h driver.KernelLibrary) ([]driver.Kernel, driver.Result) {
	return getOf(d, call.library, "cuLibraryEnumerateKernels", h, func(_ call, l *library) ([]driver.Kernel, driver.Result) {
		var handles []driver.Kernel
		for _, k := range l.kernels {
			handles = append(handles, k.handle)
		}
		return handles, driver.Success
	})
}

func (c call) kernel(h driver.Kernel) (*kernel, driver.Result) { return find(c, &c.d.kernels, h) }

func (d *simulated) KernelGetFunction(h driver.Kernel) (driver.Function, driver.Result) {
	return getOf(d, call.kernel, "cuKernelGetFunction", h, func(c call, k *kernel) (driver.Function, driver.Result) {
		f, r := c.functionOf(k, c.ctx)
		if r != driver.Success {
			return 0, r
		}
		return f.handle, driver.Success
	})
}

// functionOf returns what a kernel is in a context.
func (c call) functionOf(k *kernel, ctx *context) (*function, driver.Result) {
	m, r := c.part(k.library, ctx)
	if r != driver.Success {
		return nil, r
	}
	f := c.function(m, k.entry.name)
	f.settings = k.settingsOn(ctx.dev)
	return f, driver.Success
}

func (d *simulated) KernelGetName(h driver.Kernel) (string, driver.Result) {
	return getOf(d, call.kernel, "cuKernelGetName", h, func(_ call, k *kernel) (string, driver.Result) { return k.entry.name, driver.Success })
}

func (d *simulated) KernelGetAttribute(attribute driver.FunctionAttribute, h driver.Kernel, device driver.Device) (int32, driver.Result) {
	return getOf(d, call.kernel, "cuKernelGetAttribute", h, func(_ call, k *kernel) (int32, driver.Result) {
		dev, r := d.device(device)
		if r != driver.Success {
			return 0, r
		}
		return attributeOf(attribute, k.entry, k.library.image, k.settingsOn(dev), dev)
	})
}

func (d *simulated) KernelSetAttribute(attribute driver.FunctionAttribute, value int32, h driver.Kernel, device driver.Device) driver.Result {
	return on(d, call.kernel, "cuKernelSetAttribute", h, func(_ call, k *kernel) driver.Result {
		dev, r := d.device(device)
		if r != driver.Success {
			return r
		}
		return k.settingsOn(dev).set(attribute, value, k.entry, dev)
	})
}

func (d *simulated) KernelGetParamInfo(h driver.Kernel, index uint64) (offset, bytes uint64, r driver.Result) {
	_, k, r := enterOn(d, call.kernel, "cuKernelGetParamInfo", h)
	if r != driver.Success {
		return 0, 0, r
	}
	defer d.mu.Unlock()
	return k.entry.param(index)
}
