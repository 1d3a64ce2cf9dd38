package runtime

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ptx"
)

// Kernel is a function of a module that runs on the device. It lives as long as
// its module and is safe for concurrent use.
type Kernel struct {
	// What every launch reads stands together: after a call of the driver little else
	// is left in the processor's first cache.
	module     *Module
	function   driver.Function
	params     []param
	maxThreads uint64    // in a block, on this device
	maxGrid    [3]uint32 // of the device
	maxBlock   [3]uint32
	shared     atomic.Uint32 // dynamic shared bytes that the driver has granted
	spare      atomic.Pointer[frame]

	name         string
	bytes        uint64     // of all parameters
	staticShared int        // bytes that the kernel always uses
	granting     sync.Mutex // so that a smaller grant does not follow a larger one
	frames       sync.Pool  // of *frame, for launches at the same time
}

// param is where a parameter lies in the argument block.
type param struct{ offset, size uint64 }

// Kernel finds a kernel by its name in the image (for CUDA C, declare it extern
// "C"). A name that is not there is an error of kind driver.ErrInvalidArgument.
func (m *Module) Kernel(name string) (*Kernel, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.leave()
	d := &m.ctx.device
	k := &Kernel{module: m, name: name, maxGrid: limits(d.MaxGrid), maxBlock: limits(d.MaxBlock)}
	k.frames.New = k.newFrame
	err := m.ctx.do(k.query)
	if err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Kernel) query() error {
	c := k.module.ctx
	var r driver.Result
	if k.function, r = c.api.ModuleGetFunction(k.module.handle, k.name); r == driver.ErrorNotFound {
		return k.unknown()
	} else if r != driver.Success {
		return c.failed("cuModuleGetFunction", r)
	}
	var maxThreads int
	attributes := map[driver.FunctionAttribute]*int{
		driver.FunctionAttributeMaxThreadsPerBlock: &maxThreads,
		driver.FunctionAttributeSharedSizeBytes:    &k.staticShared,
	}
	for attribute, value := range attributes {
		v, r := c.api.FuncGetAttribute(attribute, k.function)
		if r != driver.Success {
			return c.failed("cuFuncGetAttribute", r)
		}
		*value = int(v)
	}
	k.maxThreads = uint64(max(maxThreads, 0))
	if granted := c.device.SharedPerBlock - k.staticShared; granted > 0 {
		k.shared.Store(uint32(granted))
	}
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
		k.bytes = max(k.bytes, p.offset+p.size)
	}
	return err
}

func (k *Kernel) paramsFromPTX() error {
	image := k.module.image
	if !image.isPTX() {
		return errors.ErrUnsupported
	}
	parsed, err := ptx.Parse(image.Code)
	if err != nil {
		return err
	}
	entry := parsed.Entry(k.name)
	if entry == nil {
		return k.unknown()
	}
	for _, p := range entry.Params {
		k.params = append(k.params, param{p.Offset, p.Size})
	}
	return nil
}

// paramsFromDriver asks until there are no more. compute-sanitizer reports the
// last question as an error of the API, which is why PTX is read instead.
func (k *Kernel) paramsFromDriver() error {
	c := k.module.ctx
	for i := uint64(0); ; i++ {
		offset, size, r := c.api.FuncGetParamInfo(k.function, i)
		switch r {
		case driver.Success:
			k.params = append(k.params, param{offset, size})
		case driver.ErrorInvalidValue:
			return nil
		case driver.ErrorSymbolMissing:
			return driver.Errorf(driver.ErrUnsupported,
				"the parameters of kernel %s are unknown: driver %v cannot tell those of machine code (12.4 can); load PTX",
				k.name, c.rt.Version())
		default:
			return c.failed("cuFuncGetParamInfo", r)
		}
	}
}

func (k *Kernel) unknown() error {
	e := driver.Errorf(driver.ErrInvalidArgument,
		"the module has no kernel %q; a kernel in CUDA C needs extern \"C\" to keep its name", k.name)
	e.Kernel = k.name
	return e
}

// Name is the name in the image.
func (k *Kernel) Name() string { return k.name }

// Module is the module that the kernel lives in; closing it unloads the kernel.
func (k *Kernel) Module() *Module { return k.module }

// Params is the number of parameters.
func (k *Kernel) Params() int { return len(k.params) }

// MaxThreads is the largest number of threads that a block of this kernel may have
// on its device.
func (k *Kernel) MaxThreads() int { return int(k.maxThreads) }

// Handle is the kernel as package driver takes it.
func (k *Kernel) Handle() driver.Function { return k.function }

// BlockSize suggests the number of threads in a block that keeps the device
// fullest, and the number of blocks that fill it, for a kernel that uses so many
// bytes of dynamic shared memory.
func (k *Kernel) BlockSize(sharedBytes int) (threads, blocks int, err error) {
	if err := k.module.enter(); err != nil {
		return 0, 0, err
	}
	defer k.module.leave()
	c := k.module.ctx
	err = c.do(func() error {
		grid, block, r := c.api.OccupancyMaxPotentialBlockSize(k.function, uint64(sharedBytes), 0)
		threads, blocks = int(block), int(grid)
		return c.failed("cuOccupancyMaxPotentialBlockSize", r)
	})
	return threads, blocks, err
}

// ResidentBlocks is how many blocks of so many threads one multiprocessor holds at
// once. Times the number of multiprocessors it limits a cooperative launch.
func (k *Kernel) ResidentBlocks(threads, sharedBytes int) (blocks int, err error) {
	if err := k.module.enter(); err != nil {
		return 0, err
	}
	defer k.module.leave()
	c := k.module.ctx
	err = c.do(func() error {
		n, r := c.api.OccupancyMaxActiveBlocksPerMultiprocessor(k.function, int32(threads), uint64(sharedBytes))
		blocks = int(n)
		return c.failed("cuOccupancyMaxActiveBlocksPerMultiprocessor", r)
	})
	return blocks, err
}

// grantShared asks the driver for more dynamic shared memory than a block has
// without asking.
func (k *Kernel) grantShared(bytes uint32) error {
	c := k.module.ctx
	limit := max(c.device.SharedPerBlockOptin, c.device.SharedPerBlock) - k.staticShared
	if int64(bytes) > int64(limit) {
		return k.invalid("%d bytes of dynamic shared memory: device %d has %d for a block of this kernel, which uses %d itself",
			bytes, c.device.Ordinal, limit, k.staticShared)
	}
	k.granting.Lock()
	defer k.granting.Unlock()
	if bytes <= k.shared.Load() {
		return nil
	}
	return c.do(func() error {
		r := c.api.FuncSetAttribute(k.function, driver.FunctionAttributeMaxDynamicSharedSizeBytes, int32(bytes))
		if r == driver.Success {
			k.shared.Store(bytes)
		}
		return c.failed("cuFuncSetAttribute", r)
	})
}

func (k *Kernel) invalid(format string, args ...any) *driver.Error {
	e := driver.Errorf(driver.ErrInvalidArgument, format, args...)
	e.Device, e.Kernel = k.module.ctx.device.Ordinal, k.name
	return e
}

// frame holds the argument values of one launch, and a pointer to each, on the
// heap: the driver is handed the addresses through an interface.
type frame struct {
	pointers []unsafe.Pointer
	data     []uint64 // aligned for every parameter
}

func (k *Kernel) newFrame() any { // any, for the pool
	if len(k.params) == 0 {
		return &frame{} // the driver is faster with no pointer than with one to nothing
	}
	f := &frame{pointers: make([]unsafe.Pointer, len(k.params)), data: make([]uint64, (k.bytes+7)/8+1)}
	for i, p := range k.params {
		f.pointers[i] = unsafe.Add(unsafe.Pointer(unsafe.SliceData(f.data)), p.offset)
	}
	return f
}

// take gives a frame to one launch, and put takes it back.
func (k *Kernel) take() *frame {
	if f := k.spare.Swap(nil); f != nil {
		return f
	}
	return k.frames.Get().(*frame)
}

func (k *Kernel) put(f *frame) {
	if !k.spare.CompareAndSwap(nil, f) {
		k.frames.Put(f)
	}
}

// fill copies the arguments into the frame.
func (f *frame) fill(params []param, args []Arg) {
	for i := range args {
		a := &args[i]
		source := a.ptr
		if source == nil {
			source = unsafe.Pointer(&a.bits)
		}
		size := int(params[i].size)
		copy(unsafe.Slice((*byte)(f.pointers[i]), size), unsafe.Slice((*byte)(source), size))
	}
}

// checkArgs compares the arguments with the parameters, and looks whether the memory
// behind them can be used.
func (k *Kernel) checkArgs(args []Arg) error {
	ok := len(args) == len(k.params)
	for i := 0; ok && i < len(args); i++ {
		a := &args[i]
		switch {
		case a.err != nil:
			return a.err
		case a.memory != nil && a.memory.gate.closed():
			return errClosed(a.memory.resource.kind.String())
		case a.memory != nil && a.memory.ctx != k.module.ctx:
			return k.invalid("argument %d is memory of device %d, and the kernel is loaded on device %d",
				i, a.memory.ctx.device.Ordinal, k.module.ctx.device.Ordinal)
		}
		ok = uint64(a.size) == k.params[i].size
	}
	if ok {
		return nil
	}
	want := make([]string, len(k.params))
	for i, p := range k.params {
		want[i] = fmt.Sprint(p.size)
	}
	got := make([]string, len(args))
	for i := range args {
		got[i] = fmt.Sprint(args[i].size)
	}
	return k.invalid("kernel %s takes %d arguments of (%s) bytes, got %d of (%s)",
		k.name, len(want), strings.Join(want, ", "), len(got), strings.Join(got, ", "))
}
