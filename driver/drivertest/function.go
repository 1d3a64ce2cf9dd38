package drivertest

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ptx/exec"
)

// function is a kernel of a module.
type function struct {
	handle   driver.Function
	module   *module
	entry    *entry
	code     *exec.Kernel
	settings *settings
	loaded   bool
}

// settings are what a program can set for a kernel on a device.
type settings struct {
	dynamicShared int32 // bytes at most
	carveout      int32
}

func newSettings(e *entry, dev *device) *settings {
	return &settings{dynamicShared: int32(max(dev.config.model.sharedPerBlock-e.staticBytes, 0)), carveout: -1}
}

// function returns the kernel of a module by name, or nil.
func (c call) function(m *module, name string) *function {
	if f := m.functions[name]; f != nil {
		return f
	}
	for _, e := range m.image.entries {
		if e.name == name {
			f := &function{handle: driver.Function(c.d.newHandle()), module: m, entry: e, code: m.linked.Entry(name),
				settings: newSettings(e, m.ctx.dev)}
			m.functions[name] = f
			c.d.functions.live[f.handle] = f
			return f
		}
	}
	return nil
}

func (e *entry) param(index uint64) (offset, bytes uint64, r driver.Result) {
	if index >= uint64(len(e.params)) {
		return 0, 0, driver.ResultInvalidValue
	}
	return e.params[index].offset, e.params[index].bytes, driver.Success
}

func attributeOf(a driver.FunctionAttribute, e *entry, img *image, s *settings, dev *device) (int32, driver.Result) {
	value, ok := map[driver.FunctionAttribute]int32{
		driver.FunctionAttributeMaxThreadsPerBlock:                int32(e.maxThreads),
		driver.FunctionAttributeSharedSizeBytes:                   int32(e.staticBytes),
		driver.FunctionAttributeConstSizeBytes:                    int32(e.constBytes),
		driver.FunctionAttributeLocalSizeBytes:                    int32(e.localBytes),
		driver.FunctionAttributeNumRegs:                           int32(e.registers),
		driver.FunctionAttributePTXVersion:                        int32(img.target),
		driver.FunctionAttributeBinaryVersion:                     int32(10*dev.config.Major + dev.config.Minor),
		driver.FunctionAttributeCacheModeCa:                       0,
		driver.FunctionAttributeMaxDynamicSharedSizeBytes:         s.dynamicShared,
		driver.FunctionAttributePreferredSharedMemoryCarveout:     s.carveout,
		driver.FunctionAttributeClusterSizeMustBeSet:              0,
		driver.FunctionAttributeRequiredClusterWidth:              0,
		driver.FunctionAttributeRequiredClusterHeight:             0,
		driver.FunctionAttributeRequiredClusterDepth:              0,
		driver.FunctionAttributeNonPortableClusterSizeAllowed:     0,
		driver.FunctionAttributeClusterSchedulingPolicyPreference: 0,
	}[a]
	if !ok {
		return 0, driver.ResultInvalidValue
	}
	return value, driver.Success
}

func (s *settings) set(a driver.FunctionAttribute, value int32, e *entry, dev *device) driver.Result {
	switch a {
	case driver.FunctionAttributeMaxDynamicSharedSizeBytes:
		if value < 0 || int(value) > dev.config.model.sharedPerBlockOptin-e.staticBytes {
			return driver.ResultInvalidValue
		}
		s.dynamicShared = value
	case driver.FunctionAttributePreferredSharedMemoryCarveout:
		if value < -1 || value > 100 {
			return driver.ResultInvalidValue
		}
		s.carveout = value
	case driver.FunctionAttributeRequiredClusterWidth, driver.FunctionAttributeRequiredClusterHeight,
		driver.FunctionAttributeRequiredClusterDepth, driver.FunctionAttributeNonPortableClusterSizeAllowed,
		driver.FunctionAttributeClusterSchedulingPolicyPreference:
		return driver.ResultNotSupported
	default:
		return driver.ResultInvalidValue
	}
	return driver.Success
}

func (c call) findFunction(h driver.Function) (*function, driver.Result) {
	return find(c, &c.d.functions, h)
}

func (d *simulated) FuncGetAttribute(attribute driver.FunctionAttribute, h driver.Function) (int32, driver.Result) {
	return getOf(d, call.findFunction, "cuFuncGetAttribute", h, func(_ call, f *function) (int32, driver.Result) {
		return attributeOf(attribute, f.entry, f.module.image, f.settings, f.module.ctx.dev)
	})
}

func (d *simulated) FuncSetAttribute(h driver.Function, attribute driver.FunctionAttribute, value int32) driver.Result {
	return on(d, call.findFunction, "cuFuncSetAttribute", h, func(_ call, f *function) driver.Result {
		return f.settings.set(attribute, value, f.entry, f.module.ctx.dev)
	})
}

// FuncSetCacheConfig implements [driver.API]. It changes nothing here.
func (d *simulated) FuncSetCacheConfig(h driver.Function, config driver.CacheConfig) driver.Result {
	return on(d, call.findFunction, "cuFuncSetCacheConfig", h, func(_ call, _ *function) driver.Result {
		if config < driver.CachePreferNone || config > driver.CachePreferEqual {
			return driver.ResultInvalidValue
		}
		return driver.Success
	})
}

func (d *simulated) FuncGetModule(h driver.Function) (driver.Module, driver.Result) {
	return getOf(d, call.findFunction, "cuFuncGetModule", h, func(_ call, f *function) (driver.Module, driver.Result) {
		return f.module.handle, driver.Success
	})
}

func (d *simulated) FuncGetName(h driver.Function) (string, driver.Result) {
	return getOf(d, call.findFunction, "cuFuncGetName", h, func(_ call, f *function) (string, driver.Result) { return f.entry.name, driver.Success })
}

func (d *simulated) FuncGetParamInfo(h driver.Function, index uint64) (offset, bytes uint64, r driver.Result) {
	_, f, r := enterOn(d, call.findFunction, "cuFuncGetParamInfo", h)
	if r != driver.Success {
		return 0, 0, r
	}
	defer d.mu.Unlock()
	return f.entry.param(index)
}

func (d *simulated) FuncLoad(h driver.Function) driver.Result {
	return on(d, call.findFunction, "cuFuncLoad", h, func(_ call, f *function) driver.Result {
		f.loaded = true
		return driver.Success
	})
}

func (d *simulated) FuncIsLoaded(h driver.Function) (driver.LoadingState, driver.Result) {
	return getOf(d, call.findFunction, "cuFuncIsLoaded", h, func(_ call, f *function) (driver.LoadingState, driver.Result) {
		if f.loaded {
			return driver.StateLoaded, driver.Success
		}
		return driver.StateUnloaded, driver.Success
	})
}
