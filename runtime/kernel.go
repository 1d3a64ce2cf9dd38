package runtime

import (
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/ptx"
	"github.com/purecuda/purecuda/internal/zero"
)

// Kernel is a function of a module that runs on the device. It lives as long as
// its module and is safe for concurrent use.
type Kernel struct {
	// What every launch reads stands together: after a call of the driver little else
	// is left in the processor's first cache.
	ctx        *Context
	function   driver.Function
	slot       gate.Gate // one launch at a time has frame; launches beside it go through the gate of the module
	frame      *frame
	params     []param
	maxThreads uint32    // in a block, on this device
	maxGrid    [3]uint32 // of the device
	maxBlock   [3]uint32
	shared     atomic.Uint32 // dynamic shared bytes that the driver has granted

	module       *Module
	generation   uint64 // of the context
	name         string
	declared     []ptx.Param // what PTX says of params; nil for machine code
	bytes        uint64      // of all parameters
	staticShared int         // bytes that the kernel always uses
	grant        *grant      // of dynamic shared memory, which the leases of a module share
	frames       sync.Pool   // of *frame, for launches at the same time
	cluster      clusterLimits
	threads      atomic.Int32 // that Shape has chosen
	_            [16]byte     // 256 bytes: what begins the structure begins a line of the processor's cache
}

// grant is the dynamic shared memory that the driver has granted to a function.
type grant struct {
	mu    locks.Mutex[locks.Object] // so that a smaller grant does not follow a larger one
	bytes uint32
}

// param is where a parameter lies in the argument block, and what it does not take.
type param struct {
	offset, size uint32
	refused      argType
}

// Kernel finds a kernel by its name in the image (for CUDA C, declare it extern
// "C"). A name that is not there is an error of kind driver.ErrInvalidArgument. Each name
// is looked up in the driver once: who asks again gets the same kernel.
//
// Of a module that was compiled, a name expression of the program finds its kernel too:
// "scale<float>".
func (m *Module) Kernel(name string) (*Kernel, error) {
	if m == nil || m.ctx == nil {
		return nil, errNothing("module")
	}
	if err := m.hold(); err != nil {
		return nil, err
	}
	defer m.leave()
	name = m.lowered(name)
	if k := m.kernels.find(name); k != nil {
		if err := m.ctx.check(); err != nil {
			return nil, err
		}
		return k, nil
	}
	if m.cached != nil {
		k, err := m.cached.loaded.Kernel(name)
		if err != nil {
			return nil, err
		}
		return m.kernels.add(k.leased(m)), nil
	}
	d := &m.ctx.device
	k := &Kernel{ctx: m.ctx, module: m, generation: m.entry.generation, name: name, maxGrid: limits(d.MaxGrid), maxBlock: limits(d.MaxBlock)}
	k.frames.New = func() any { return k.newFrame() }
	if err := m.ctx.call(k.query); err != nil {
		return nil, err
	}
	k.frame = k.newFrame()
	return m.kernels.add(k), nil
}

// leased is the same function as a kernel of a lease, which ends with the lease.
func (k *Kernel) leased(m *Module) *Kernel {
	own := &Kernel{ctx: k.ctx, function: k.function, generation: k.generation, params: k.params,
		maxThreads: k.maxThreads, maxGrid: k.maxGrid, maxBlock: k.maxBlock,
		module: m, name: k.name, declared: k.declared, bytes: k.bytes, staticShared: k.staticShared, grant: k.grant}
	own.shared.Store(k.shared.Load())
	own.frame, own.frames.New = own.newFrame(), func() any { return own.newFrame() }
	return own
}

func (k *Kernel) query() error {
	c := k.ctx
	var r driver.Result
	if k.function, r = c.api.ModuleGetFunction(k.module.handle, k.name); r == driver.ResultNotFound {
		return k.unknown()
	} else if r != driver.Success {
		return k.notGiven(r)
	}
	var maxThreads int
	attributes := map[driver.FunctionAttribute]*int{
		driver.FunctionAttributeMaxThreadsPerBlock: &maxThreads,
		driver.FunctionAttributeSharedSizeBytes:    &k.staticShared,
	}
	for attribute, value := range attributes {
		v, r := c.api.FuncGetAttribute(attribute, k.function)
		if r != driver.Success {
			return c.bind.Failed("cuFuncGetAttribute", r)
		}
		*value = int(v)
	}
	k.maxThreads = uint32(min(max(maxThreads, 0), math.MaxInt32))
	k.grant = &grant{bytes: uint32(max(c.device.SharedPerBlock-k.staticShared, 0))}
	k.shared.Store(k.grant.bytes)
	return k.queryParams()
}

// queryParams learns the sizes of the parameters: from the text of PTX, and for
// machine code from the driver, which can tell them from 12.4 on.
func (k *Kernel) queryParams() error {
	err := k.paramsFromPTX()
	if err != nil {
		err = k.paramsFromDriver()
	}
	for _, p := range k.params {
		k.bytes = max(k.bytes, uint64(p.offset)+uint64(p.size))
	}
	return err
}

func (k *Kernel) paramsFromPTX() error {
	declared, err := k.module.signatures()
	if err != nil {
		return err
	}
	of, ok := declared[k.name]
	if !ok {
		return k.unknown()
	}
	k.declared = of
	for i := range of {
		p := &of[i]
		k.params = append(k.params, param{uint32(p.Offset), uint32(p.Size), refusedBy(p)})
	}
	return nil
}

// signaturesOf returns a function that reads the parameters of the kernels in PTX, once. Of no text there are none.
func signaturesOf(text []byte) func() (map[string][]ptx.Param, error) {
	return sync.OnceValues(func() (map[string][]ptx.Param, error) {
		if text == nil {
			return nil, errors.ErrUnsupported
		}
		m, err := ptx.ParseSignatures(text)
		if err != nil {
			return nil, err
		}
		all := map[string][]ptx.Param{}
		for _, f := range m.Entries {
			all[f.Name] = f.Params
		}
		return all, nil
	})
}

// paramsFromDriver asks until there are no more. compute-sanitizer reports the
// last question as an error of the API, which is why PTX is read instead.
func (k *Kernel) paramsFromDriver() error {
	c := k.ctx
	for i := uint64(0); ; i++ {
		offset, size, r := c.api.FuncGetParamInfo(k.function, i)
		switch r {
		case driver.Success:
			k.params = append(k.params, param{offset: uint32(offset), size: uint32(size)})
		case driver.ResultInvalidValue:
			return nil
		case driver.ResultSymbolMissing:
			return driver.Errorf(driver.ErrUnsupported,
				"the parameters of kernel %s are unknown: driver %v cannot tell those of machine code (12.4 can); load PTX",
				k.name, c.rt.Version())
		default:
			return c.bind.Failed("cuFuncGetParamInfo", r)
		}
	}
}

// notGiven is why the driver does not give a kernel of the module, with what the log says
// of it.
func (k *Kernel) notGiven(r driver.Result) error {
	err := k.ctx.bind.Failed("cuModuleGetFunction", r)
	if e, ok := err.(*driver.Error); ok {
		e.Kernel = k.name
		for line := range strings.Lines(k.module.log.Error) {
			if strings.Contains(line, "'"+k.name+"'") {
				e.Detail = strings.TrimSpace(line)
				break
			}
		}
	}
	return err
}

func (k *Kernel) unknown() error {
	e := driver.Errorf(driver.ErrInvalidArgument,
		"the module has no kernel %q; a kernel in CUDA C needs extern \"C\" to keep its name", k.name)
	e.Kernel = k.name
	return e
}

// Name is the name in the image.
func (k *Kernel) Name() string { return zero.Or(k).name }

// Module is the module that the kernel lives in; closing it unloads the kernel.
func (k *Kernel) Module() *Module { return zero.Or(k).module }

// Params is the number of parameters.
func (k *Kernel) Params() int { return len(zero.Or(k).params) }

// MaxThreads is the largest number of threads that a block of this kernel may have
// on its device.
func (k *Kernel) MaxThreads() int { return int(zero.Or(k).maxThreads) }

// Handle is the kernel as package driver takes it.
func (k *Kernel) Handle() driver.Function { return zero.Or(k).function }

// MaxPotentialBlockSize returns the number of threads in a block with which the device has most threads at a
// time, and the number of blocks that fill it. sharedBytes is the dynamic shared memory of a block.
func (k *Kernel) MaxPotentialBlockSize(sharedBytes int) (threads, blocks int, err error) {
	if k == nil || k.ctx == nil {
		return 0, 0, errNothing("kernel")
	}
	if err := k.checkOccupancy(1, sharedBytes); err != nil {
		return 0, 0, err
	}
	c := k.ctx
	err = k.call(func() error {
		grid, block, r := c.api.OccupancyMaxPotentialBlockSize(k.function, uint64(sharedBytes), 0)
		threads, blocks = int(block), int(grid)
		return c.bind.Failed("cuOccupancyMaxPotentialBlockSize", r)
	})
	if err == nil && (threads == 0 || blocks == 0) {
		err = k.invalid("no block fits on the device with %d bytes of dynamic shared memory", sharedBytes)
	}
	return threads, blocks, err
}

// MaxActiveBlocks is how many blocks of so many threads one multiprocessor holds at
// once. Times the number of multiprocessors it limits a cooperative launch.
func (k *Kernel) MaxActiveBlocks(threads, sharedBytes int) (blocks int, err error) {
	if k == nil || k.ctx == nil {
		return 0, errNothing("kernel")
	}
	if err := k.checkOccupancy(threads, sharedBytes); err != nil {
		return 0, err
	}
	c := k.ctx
	err = k.call(func() error {
		n, r := c.api.OccupancyMaxActiveBlocksPerMultiprocessor(k.function, int32(threads), uint64(sharedBytes))
		blocks = int(n)
		return c.bind.Failed("cuOccupancyMaxActiveBlocksPerMultiprocessor", r)
	})
	return blocks, err
}

// checkOccupancy refuses what is no block. Of one that is too large the driver says so.
func (k *Kernel) checkOccupancy(threads, sharedBytes int) error {
	switch {
	case threads < 1 || threads > math.MaxInt32:
		return k.invalid("a block of %d threads: want 1 to %d", threads, k.maxThreads)
	case sharedBytes < 0:
		return k.invalid("%d bytes of dynamic shared memory: want 0 or more", sharedBytes)
	}
	return nil
}

// Shape is the shape for n items in one dimension, one thread each, like [Shape1D], with the
// block size that keeps the device fullest. That is asked for once and does not consider
// dynamic shared memory; see MaxPotentialBlockSize for that. A negative n is an error.
func (k *Kernel) Shape(n int) (Shape, error) {
	if k == nil || k.ctx == nil {
		return Shape{}, errNothing("kernel")
	}
	threads := int(k.threads.Load())
	if threads == 0 {
		var err error
		if threads, _, err = k.MaxPotentialBlockSize(0); err != nil {
			return Shape{}, err
		}
		k.threads.Store(int32(threads))
	}
	shape := Shape1D(n, threads)
	if shape.wrong != "" {
		return Shape{}, k.invalid("%s", shape.wrong)
	}
	return shape, nil
}

// call runs f with the context current and the kernel kept from being unloaded.
func (k *Kernel) call(f func() error) error {
	if err := k.module.hold(); err != nil {
		return err
	}
	defer k.module.leave()
	return k.ctx.call(f)
}

// grantShared asks the driver for more dynamic shared memory than a block has
// without asking.
func (k *Kernel) grantShared(bytes uint32) error {
	c := k.ctx
	limit := max(c.device.SharedPerBlockOptin, c.device.SharedPerBlock) - k.staticShared
	if int64(bytes) > int64(limit) {
		return k.invalid("%d bytes of dynamic shared memory: device %d has %d for a block of this kernel, which uses %d itself",
			bytes, c.device.Ordinal, limit, k.staticShared)
	}
	g := k.grant
	g.mu.Lock()
	defer g.mu.Unlock()
	if bytes <= g.bytes {
		k.shared.Store(g.bytes)
		return nil
	}
	return c.call(func() error {
		r := c.api.FuncSetAttribute(k.function, driver.FunctionAttributeMaxDynamicSharedSizeBytes, int32(bytes))
		if r == driver.Success {
			g.bytes = bytes
			k.shared.Store(bytes)
		}
		return c.bind.Failed("cuFuncSetAttribute", r)
	})
}

// stale is why a kernel and a stream of different generations of a context do not go
// together.
func (k *Kernel) stale(s *Stream) error {
	for _, generation := range [...]uint64{k.generation, s.entry.generation} {
		if err := k.ctx.state.Check(generation); err != nil {
			return err
		}
	}
	return k.invalid("the kernel and the stream are of different generations of the context")
}

func (k *Kernel) unsupported(format string, args ...any) *driver.Error {
	e := k.invalid(format, args...)
	e.Kind = driver.ErrUnsupported
	return e
}

func (k *Kernel) invalid(format string, args ...any) *driver.Error {
	e := driver.Errorf(driver.ErrInvalidArgument, format, args...)
	e.Device, e.Kernel = k.ctx.device.Ordinal, k.name
	return e
}
