package drivertest

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ptx/exec"
)

// module is an image in a context.
type module struct {
	handle    driver.Module
	ctx       *context
	image     *image
	library   *library // whose part in the context this is, or nil
	functions map[string]*function
	placed    []*allocation          // variables, as image.globals
	variables map[string]*allocation // the same by name
	linked    *exec.Linked
	made      origin
	unloaded  bool
}

// load puts an image into a context: its variables get memory there.
func (c call) load(ctx *context, img *image, l *library) (*module, driver.Result) {
	m := &module{handle: driver.Module(c.d.newHandle()), ctx: ctx, image: img, library: l, made: c.made,
		functions: map[string]*function{}, variables: map[string]*allocation{}}
	if r := c.link(m); r != driver.Success {
		c.unload(m, false)
		return nil, r
	}
	c.d.modules.live[m.handle] = m
	return m, driver.Success
}

// link gives the variables of a module memory and its kernels their addresses.
func (c call) link(m *module) driver.Result {
	img, ctx := m.image, m.ctx
	addrs := make([]uint64, len(img.globals))
	for i, g := range img.globals {
		a := &allocation{bytes: max(g.Size, 1), dev: ctx.dev, ctx: ctx, module: m, ready: true}
		if r := c.take(a); r != driver.Success {
			return r
		}
		m.placed = append(m.placed, a)
		m.variables[g.Name], addrs[i] = a, uint64(a.base)
	}
	for i, a := range m.placed {
		data, err := img.program.Initial(i, addrs)
		if err != nil {
			return driver.ResultInvalidPTX // readImage has tried it
		}
		if len(data) > 0 {
			copy(a.memory(), data)
		}
	}
	linked, err := img.program.Link(addrs)
	if err != nil {
		return driver.ResultInvalidPTX
	}
	m.linked = linked
	return driver.Success
}

// unload takes a module out of its context.
func (c call) unload(m *module, withContext bool) {
	drop, dropFunction := remove[driver.Module, *module], remove[driver.Function, *function]
	if withContext {
		drop, dropFunction = removeWith[driver.Module, *module], removeWith[driver.Function, *function]
	}
	m.unloaded = true
	for _, f := range m.functions {
		dropFunction(c, &c.d.functions, f.handle)
	}
	for _, a := range m.placed {
		c.release(a)
	}
	if m.library != nil {
		delete(m.ctx.parts, m.library)
	}
	drop(c, &c.d.modules, m.handle)
}

// read reads an image and writes the log of a compiler.
func (c call) read(data []byte, major, minor int) (*image, driver.JITLog, driver.Result) {
	img, err := readImage(data, c.d.config.Version, major, minor, c.d.config.Kernels)
	if err != nil {
		return nil, driver.JITLog{Error: err.log}, err.result
	}
	return img, driver.JITLog{Error: img.log}, driver.Success
}

// LoadsPTXOnly implements [driver.PTXLoader].
func (*Driver) LoadsPTXOnly() bool { return true }

// ModuleLoadData implements [driver.API]. It reads PTX only.
func (d *simulated) ModuleLoadData(data []byte, _ driver.JIT) (driver.Module, driver.JITLog, driver.Result) {
	c, r := d.enter("cuModuleLoadDataEx")
	if r != driver.Success {
		return 0, driver.JITLog{}, r
	}
	defer d.mu.Unlock()
	img, log, r := c.read(data, c.ctx.dev.config.Major, c.ctx.dev.config.Minor)
	if r != driver.Success {
		return 0, log, r
	}
	m, r := c.load(c.ctx, img, nil)
	if r != driver.Success {
		return 0, log, r
	}
	return m.handle, log, driver.Success
}

func (d *simulated) ModuleUnload(h driver.Module) driver.Result {
	return d.do("cuModuleUnload", func(c call) driver.Result {
		m, r := find(c, &d.modules, h)
		if r != driver.Success {
			return r
		}
		if m.library != nil {
			c.found(driver.ResultInvalidHandle, "the module belongs to a library")
			return driver.ResultInvalidHandle
		}
		c.unload(m, false)
		return driver.Success
	})
}

func (d *simulated) ModuleGetFunction(h driver.Module, name string) (driver.Function, driver.Result) {
	return get(d, "cuModuleGetFunction", func(c call) (driver.Function, driver.Result) {
		m, r := find(c, &d.modules, h)
		if r != driver.Success {
			return 0, r
		}
		f := c.function(m, name)
		if f == nil {
			return 0, m.image.without(name)
		}
		return f.handle, driver.Success
	})
}

func (d *simulated) ModuleGetGlobal(h driver.Module, name string) (driver.DevicePtr, uint64, driver.Result) {
	c, r := d.enter("cuModuleGetGlobal")
	if r != driver.Success {
		return 0, 0, r
	}
	defer d.mu.Unlock()
	m, r := find(c, &d.modules, h)
	if r != driver.Success {
		return 0, 0, r
	}
	return m.global(name)
}

func (m *module) global(name string) (driver.DevicePtr, uint64, driver.Result) {
	a := m.variables[name]
	if a == nil {
		return 0, 0, driver.ResultNotFound
	}
	return a.base, a.bytes, driver.Success
}

// lazy tells that kernels are loaded when they are first used, which is the default
// since CUDA 12.2.
func (d *simulated) lazy() bool { return d.config.Version >= 12020 }

func (d *simulated) ModuleGetLoadingMode() (driver.LoadingMode, driver.Result) {
	return get(d, "cuModuleGetLoadingMode", func(_ call) (driver.LoadingMode, driver.Result) {
		if !d.lazy() {
			return driver.LoadingEager, driver.Success
		}
		return driver.LoadingLazy, driver.Success
	})
}
