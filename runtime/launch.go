package runtime

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/refs"
)

// Dim3 is the size of a grid in blocks or of a block in threads. A Y or Z of 0
// counts as 1.
type Dim3 = driver.Dim3

// Shape is the shape of a launch. A grid with an X of 0 is empty: launching it puts nothing
// on the stream and is no error.
type Shape struct {
	Grid, Block Dim3
	// SharedBytes is dynamic shared memory for each block. What is more than a
	// block has by default is asked for.
	SharedBytes uint32
	// Cooperative makes all blocks resident at once, so that they may wait for
	// each other.
	Cooperative bool
	// Cluster is how many blocks stand together on neighbouring multiprocessors and see
	// each other's shared memory. It must divide the grid, and needs compute capability
	// 9.0. The zero value is no cluster; more than 8 blocks are not possible everywhere.
	Cluster Dim3
	// wrong is why there is no such shape. Its grid is empty.
	wrong string
}

// Shape1D is the shape for n items in one dimension, one thread each, in blocks of the given
// number of threads. The last block may be larger than what is left, so the kernel has to
// look whether its item exists. For 0 items the grid is empty. A negative n and less than one
// thread make a launch fail with driver.ErrInvalidArgument.
func Shape1D(n, threads int) Shape {
	switch {
	case n > 0 && threads > 0 && uint64(threads) <= math.MaxUint32: // in place, since launches call it each time
		return Shape{Grid: Dim3{X: blocksFor(n, uint32(threads)), Y: 1, Z: 1}, Block: Dim3{X: uint32(threads), Y: 1, Z: 1}}
	case threads < 1:
		return Shape{Block: Dim3{X: 1}, wrong: fmt.Sprintf("a block of %d threads: want at least one", threads)}
	}
	return Shape3D(n, 1, 1, Dim3{X: uint32(min(uint64(threads), math.MaxUint32))})
}

// Shape2D is the shape for width by height items, one thread each, in blocks of the given
// size: the kernel has to look whether its item exists in both directions. Where either is 0
// the grid is empty; negative ones and a block with an X of 0 fail as those of [Shape1D] do.
func Shape2D(width, height int, block Dim3) Shape { return Shape3D(width, height, 1, block) }

// Shape3D is Shape2D in three dimensions.
func Shape3D(width, height, depth int, block Dim3) Shape {
	shape := Shape{Block: Dim3{X: block.X, Y: max(block.Y, 1), Z: max(block.Z, 1)}}
	switch least := min(width, height, depth); {
	case least < 0:
		shape.wrong = fmt.Sprintf("a grid for %d items: want 0 or more", least)
	case least > 0 && block.X > 0:
		shape.Grid = Dim3{X: blocksFor(width, shape.Block.X), Y: blocksFor(height, shape.Block.Y), Z: blocksFor(depth, shape.Block.Z)}
	}
	return shape
}

// blocksFor is how many blocks of so many threads n items need. More than a grid can have stay
// too many.
func blocksFor(n int, threads uint32) uint32 {
	return uint32(min((uint64(n)-1)/uint64(threads)+1, math.MaxUint32))
}

// Arg is an argument of a launch, or what a Submit uses. Make it with Value, Int, Struct, In, InOut, Tiles.In, Tiles.InOut,
// HostBuffer.Arg or LibraryHandle.Arg.
type Arg struct {
	bits uint64         // of a scalar, or the address of page-locked memory
	of   unsafe.Pointer // see kind; one word for all, since every launch makes and reads Args
	size uint32
	typ  argType
	kind argKind
}

// argKind is what an argument is, and what its pointer is.
type argKind uint8

const (
	scalar       argKind = iota // no pointer
	structure                   // the structure
	wrong                       // the *driver.Error that says why there is no such argument
	objectArg                   // the *object of page-locked memory, or of the module of a variable
	reportArg                   // the *Checks; the last argument
	reading                     // the *refs.Core of memory that the kernel reads
	writing                     // of memory that it writes, or may
	readingTiles                // the *Tiles that the kernel reads
	writingTiles
)

// ref is the memory of the device, or nil.
func (a *Arg) ref() *refs.Core {
	switch {
	case a.kind < reading:
		return nil
	case a.kind >= readingTiles:
		return (*Tiles)(a.of).core
	}
	return (*refs.Core)(a.of)
}

// writes reports whether the kernel writes the memory, or may.
func (a *Arg) writes() bool { return a.kind == writing || a.kind == writingTiles }

// object is the page-locked memory or the module, or nil.
func (a *Arg) object() *object {
	if a.kind != objectArg {
		return nil
	}
	return (*object)(a.of)
}

// argOf is an argument that stands for no parameter: work uses the object.
func argOf(o *object) Arg { return Arg{of: unsafe.Pointer(o), kind: objectArg} }

func wrongArg(err *driver.Error) Arg { return Arg{kind: wrong, of: unsafe.Pointer(err)} }

// Scalar is a type that a kernel takes by value.
type Scalar interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~float32 | ~float64
}

// Value is a scalar argument. Mind the width: an int is 64 bits, an int of CUDA C
// is int32; see [Int]. A float is no integer: the launch fails where PTX says that the parameter is one.
func Value[T Scalar](v T) Arg {
	a := Arg{size: uint32(unsafe.Sizeof(v)), typ: argTypeOf[T]()}
	*(*T)(unsafe.Pointer(&a.bits)) = v
	return a
}

// Int is an integer of the width that the parameter has, 32 or 64 bits: an int or a long of CUDA C. A launch
// fails if a parameter of 32 bits cannot hold v as an int32.
func Int(v int) Arg {
	return Arg{bits: uint64(v), size: 8, typ: signedArg | anyWidth}
}

// narrows tells whether an argument by Int goes with a parameter of 4 bytes, which may have to take less.
func (a *Arg) narrows(p *param) bool {
	return a.typ&anyWidth != 0 && p.size == 4 && a.typ&p.refused == 0
}

func (a *Arg) fitsInt32() bool { return int64(a.bits) == int64(int32(a.bits)) }

// Struct is a structure that the kernel takes by value, in the layout of C. It is
// copied by the launch. It fits every parameter of its size.
func Struct[T any](v *T) Arg {
	if v == nil {
		return wrongArg(driver.Errorf(driver.ErrInvalidArgument, "the structure of an argument is nil"))
	}
	if unsafe.Sizeof(*v) == 0 {
		return Value(uint8(0)) // a parameter has a byte at least
	}
	return Arg{of: unsafe.Pointer(v), size: uint32(min(unsafe.Sizeof(*v), math.MaxUint32)), kind: structure}
}

// InOut is memory that the kernel writes, or reads and writes: its address as an argument.
// The launch waits for the work of other streams with it, and what uses it later waits for
// the kernel. It may be closed as soon as the launch has returned.
//
// Launching with memory that must not be used is an error, because the kernel's access would
// end the use of CUDA in this process. So is memory of another device, unless
// [Context.EnablePeer] has said that the devices reach each other.
func InOut[T any](r *Ref[T]) Arg {
	return memoryArg(r.Core(), writing)
}

// In is memory that the kernel only reads, as InOut: kernels on several streams may read it at
// the same time. Of a kernel that writes it nevertheless nobody is told.
func In[T any](r *Ref[T]) Arg {
	return memoryArg(r.Core(), reading)
}

func memoryArg(c *refs.Core, kind argKind) Arg {
	return Arg{of: unsafe.Pointer(c), size: 8, typ: addressArg, kind: kind}
}

// Launch enqueues the kernel on s, and returns. It does not allocate. s must be a stream of the
// context that the kernel was loaded into. The arguments are copied. Their number, their sizes and,
// for PTX, their types are checked against the kernel, and the shape against the device. An error of
// kind driver.ErrInvalidArgument names what does not fit and the limit. An error while the kernel
// runs is returned by the next wait.
func (k *Kernel) Launch(s *Stream, shape Shape, args ...Arg) error {
	if k == nil || k.ctx == nil {
		return errNothing("kernel")
	}
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if s.ctx != k.ctx || s.entry.generation != k.generation {
		return k.elsewhere(s)
	}
	if err := k.checkShape(&shape); err != nil {
		return err
	}
	if s.tracing.Load() != nil {
		return k.launchTraced(s, &shape, args)
	}
	if !k.slot.EnterAlone() {
		return k.launchBeside(s, &shape, args)
	}
	err := k.launch(k.frame, s, &shape, args)
	k.slot.Leave() // nothing above panics, and a defer costs more
	return err
}

// launchBeside is a launch that may come at the same time as another one of the same kernel.
func (k *Kernel) launchBeside(s *Stream, shape *Shape, args []Arg) error {
	if err := k.module.hold(); err != nil {
		return err
	}
	defer k.module.leave()
	f := k.frames.Get().(*frame)
	defer k.frames.Put(f)
	return k.launch(f, s, shape, args)
}

// launch is called with the kernel kept from being unloaded, and with a frame of its own.
func (k *Kernel) launch(f *frame, s *Stream, shape *Shape, args []Arg) error {
	leases, ok := k.fill(f, args)
	if !ok {
		return k.argsError(args)
	}
	if shape.SharedBytes > k.shared.Load() {
		if err := k.grantShared(shape.SharedBytes); err != nil {
			return err
		}
	}
	if err := s.work(); err != nil {
		return err
	}
	if shape.Grid.X == 0 {
		err := k.launchNothing(shape, args)
		s.endWork()
		return err
	}
	last := len(args) - 1
	reports := last >= 0 && args[last].kind == reportArg
	if reports {
		at, err := s.reportAt((*Checks)(args[last].of))
		if err != nil {
			s.endWork()
			return err
		}
		*(*driver.DevicePtr)(f.pointers[last]) = at
	}
	if captured := s.capture.Load(); leases || captured != nil {
		err := s.lease(args)
		if err == nil && captured != nil {
			if err = captured.record("a launch of "+k.name, append([]Arg{argOf(&k.module.object)}, args...)...); err != nil {
				s.release(args)
			}
		}
		if err != nil {
			s.endWork()
			return err
		}
	}
	s.stats.launches.Add(1)
	var r driver.Result
	op := "cuLaunchKernel"
	switch api := s.ctx.api; {
	case shape.Cluster != Dim3{}:
		op = "cuLaunchKernelEx"
		r = api.LaunchKernelEx(k.function, shape.Grid, shape.Block, shape.SharedBytes, s.handle, f.attributesOf(shape), f.pointers)
	case shape.Cooperative:
		op = "cuLaunchCooperativeKernel"
		r = api.LaunchCooperativeKernel(k.function, shape.Grid, shape.Block, shape.SharedBytes, s.handle, f.pointers)
	default:
		r = api.LaunchKernel(k.function, shape.Grid, shape.Block, shape.SharedBytes, s.handle, f.pointers)
	}
	if leases {
		s.release(args)
	}
	var err error
	if r != driver.Success {
		err = k.launchError(s, op, r, *shape)
	}
	if reports && !s.checks.dirty.Load() {
		s.checks.dirty.Store(true)
	}
	s.endWork()
	return err
}

// launchNothing ends a launch of an empty grid, which only memory that must not be used makes fail.
func (k *Kernel) launchNothing(shape *Shape, args []Arg) error {
	if shape.wrong != "" {
		return k.invalid("%s", shape.wrong)
	}
	for i := range args {
		if err := args[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kernel) launchError(s *Stream, op string, r driver.Result, shape Shape) error {
	e := s.ctx.bind.Fault(op, r)
	e.Stream, e.Kernel = s.id, k.name
	e.Detail = "grid " + shape.Grid.String() + ", block " + shape.Block.String()
	if shape.Cluster != (Dim3{}) {
		e.Detail += ", cluster " + shape.Cluster.String()
	}
	return e
}

// elsewhere is why the kernel is not launched on a stream of another context or generation.
func (k *Kernel) elsewhere(s *Stream) error {
	if s.ctx == k.ctx {
		return k.stale(s)
	}
	return k.invalid("launch on a stream of device %d, and the kernel is loaded on device %d%s",
		s.ctx.device.Ordinal, k.ctx.device.Ordinal, apart(s.ctx, k.ctx))
}

// checkShape fills in what was left out of a shape, and compares it with the limits.
func (k *Kernel) checkShape(shape *Shape) error {
	grid, block := &shape.Grid, &shape.Block
	grid.Y, grid.Z, block.Y, block.Z = max(grid.Y, 1), max(grid.Z, 1), max(block.Y, 1), max(block.Z, 1)
	threads := uint64(block.X) * uint64(block.Y) * uint64(block.Z)
	switch {
	case block.X == 0:
		return k.invalid("block %v: want at least one thread", *block)
	case exceeds(grid, &k.maxGrid):
		return k.invalid("grid %v: the device takes at most %dx%dx%d blocks", *grid, k.maxGrid[0], k.maxGrid[1], k.maxGrid[2])
	case exceeds(block, &k.maxBlock):
		return k.invalid("block %v: the device takes at most %dx%dx%d threads", *block, k.maxBlock[0], k.maxBlock[1], k.maxBlock[2])
	case threads > uint64(k.maxThreads):
		return k.invalid("block %v is %d threads: this kernel takes at most %d on the device", *block, threads, k.maxThreads)
	case shape.Cooperative && !k.ctx.device.CooperativeLaunch:
		return k.unsupported("the device has no cooperative launch")
	case shape.Cluster != Dim3{}:
		return k.checkCluster(shape)
	}
	return nil
}

func exceeds(v *Dim3, limit *[3]uint32) bool {
	return v.X > limit[0] || v.Y > limit[1] || v.Z > limit[2]
}

// limits turns the limits of a device into the type that they are compared in.
func limits(limit [3]int) (l [3]uint32) {
	for i, n := range limit {
		l[i] = uint32(min(uint64(max(n, 0)), math.MaxUint32))
	}
	return l
}
