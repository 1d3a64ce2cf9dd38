package runtime

import (
	"errors"
	goruntime "runtime"
	"strings"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/wait"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/refs"
)

// Ref is a reference to device memory that holds elements of type T. It knows the context that the
// memory was allocated in: after a Reset, a loss or its Close, every use is an error that says so. It
// must not be copied, and is safe for concurrent use. Ref is [refs]'s, with these methods:
//
//   - Len() int: number of elements.
//   - Bytes() uint64: size.
//   - Slice(i, j int) *Ref[T]: view of the elements [i, j), closed with r.
//   - Retain() *Ref[T]: another reference, which has its own Close.
//   - Close() error: the last one frees the memory after its work.
//   - String() string: what it is, and whether it may be used.
//   - Access() (driver.DevicePtr, error): address, if it may be used at this moment.
//   - Acquire() (driver.DevicePtr, error): address, which stays valid until Release.
//   - Release(): ends an Acquire.
//   - Core() *refs.Core: what orders work that runtime does not see.
type Ref[T any] = refs.Ref[T]

// Alloc allocates room for n elements in the memory of the stream's device. n must not be
// negative, and T must be free of pointers. A Ref of no elements is as any other: copies and
// fills of it do nothing. What the memory holds is undefined. Work on s may use it at once;
// copies and launches on other streams wait by themselves for the work that they depend on.
//
// The memory comes from the arena of the device, as a rule what was closed before on the
// same stream, and takes some hundred nanoseconds. When memory is short, Alloc frees all that
// the device has cached, which waits for the work on all of its streams, and tries once more.
// Only if that fails as well, the error is of kind driver.ErrOutOfMemory and says what was free.
//
// Close frees the memory after the work that uses it. On a stream that is captured Alloc fails
// with driver.ErrCaptureFailed.
func Alloc[T any](s *Stream, n int) (*Ref[T], error) {
	if s == nil || s.ctx == nil {
		return nil, errNothing("stream")
	}
	if err := s.call(); err != nil {
		return nil, err
	}
	defer s.end()
	if err := s.refuse("Alloc", "allocate before the capture or on another stream"); err != nil {
		return nil, err
	}
	return refs.New[T](s.ctx.state, s.memory, n)
}

// memory is what one generation of a context has for data.
type memory struct {
	arena  *arena.Device
	pinned *arena.Pinned
	copier *arena.Copier
	waits  *wait.Device
	checks *checkTable
}

// cachedPart is the part of a device's memory that is cached by default: enough for what services allocate again and again,
// and little for other processes to miss. CuPy and PyTorch cache all that they ever had.
const cachedPart = 32

func (c *Context) openMemory() error {
	config := c.rt.cfg.memory
	if config.CacheBytes == 0 {
		config.CacheBytes = max(arena.DefaultCacheBytes, c.device.TotalBytes/cachedPart)
		if checker, ok := c.api.(driver.Checker); ok && checker.ChecksMemory() {
			config.Exact = true
		}
	}
	if config.Most == 0 && !borrowsFromHost(c.api) {
		config.Most = c.device.TotalBytes
	}
	waits, err := c.openWaits()
	if err != nil {
		return err
	}
	config.Waits = waits
	device, err := arena.NewDevice(&c.bind, config)
	if err != nil {
		waits.Close(err)
		return err
	}
	pinned := arena.NewPinned(&c.bind, c.rt.cfg.pinned)
	copier := arena.NewCopier(&c.bind, c.rt.workers, pinned, waits)
	checks := &checkTable{waits: waits, report: c.rt.report, live: map[*report]struct{}{}}
	c.memory.Store(&memory{device, pinned, copier, waits, checks})
	return nil
}

// borrowsFromHost reports whether the driver may give more memory than a device has: that of Windows takes the rest from the
// host, also for programs in WSL.
func borrowsFromHost(api driver.API) bool {
	library, ok := api.(interface{ Path() string })
	return goruntime.GOOS == "windows" || ok && strings.Contains(library.Path(), "/wsl/")
}

// loseMemory tells everything that memory hangs on that CUDA is lost. It makes no call of
// the driver and waits for nothing.
func (c *Context) loseMemory(cause *driver.Error) {
	c.state.Lose(cause)
	c.abandonMemory(cause)
}

// isLost reports whether there is no context any more, nor will be.
func (c *Context) isLost() bool { return c.state.Lost() != nil }

// abandonMemory keeps the memory from calling the driver.
func (c *Context) abandonMemory(cause error) {
	if m := c.memory.Load(); m != nil {
		m.abandon(cause)
	}
}

func (m *memory) abandon(cause error) {
	m.waits.Lose(cause)
	m.arena.Lose(cause)
	m.copier.Lose()
	m.pinned.Lose()
}

// closeMemory frees all memory, or leaves it to the driver if work of other devices may
// use it. The state must keep Refs from using it.
func (c *Context) closeMemory(idle bool) error {
	m := c.memory.Load()
	if m == nil {
		return nil // it was never opened
	}
	if !idle {
		m.waits.Close(errClosed("context"))
		m.abandon(nil)
		return nil
	}
	err := errors.Join(append(c.endLeases(), m.checks.collect(), m.copier.Close())...)
	err = errors.Join(err, m.pinned.Close(), m.arena.Close())
	m.waits.Close(nil)
	if !c.isLost() {
		err = errors.Join(err, m.waits.Free())
	}
	return err
}

// State reports whether the memory of the context may be used, and what has ended that.
func (c *Context) State() *refs.State { return zero.Or(c).state }

// Leaks lists the device memory that is in use, by address: of Refs which are open or were
// forgotten, and what calls and graphs retain. With the option Sites of [WithMemory] it names the lines
// that allocated. Once the runtime is closed it lists what was in use then. A Reset begins a new list.
func (c *Context) Leaks() []arena.Leak {
	if m := zero.Or(c).memory.Load(); m != nil {
		return m.arena.Leaks()
	}
	return nil
}

// Trim gives back all that the context keeps for later: what OnTrim knows, TrimMemory, TrimPinned and TrimModules with 0, and the streams of
// closed ones. For less, call them. It waits for the work that used the memory.
func (c *Context) Trim() error {
	if err := c.check(); err != nil {
		return err
	}
	var errs []error
	for _, f := range c.ledger.trimHooks() {
		errs = append(errs, contain.Do(f))
	}
	return errors.Join(append(errs, c.TrimModules(0), c.TrimMemory(0), c.TrimPinned(0), c.call(c.trimStreams))...)
}

// OnTrim has Trim call f first, which gives back what its caller keeps for later in the context, and returns what went wrong. The functions XAuto
// keep their kernels and streams so. f may be called at any time until forget, by several goroutines, and must not call Trim. A panic is
// an error of Trim. forget may be called twice.
func (c *Context) OnTrim(f func() error) (forget func()) {
	if c == nil || f == nil {
		return func() {}
	}
	return c.ledger.addTrimHook(&f)
}

// Trim is [Context.Trim] of all open contexts, one after the other.
func (rt *Runtime) Trim() error {
	if rt == nil || rt.life == nil {
		return errNothing("runtime")
	}
	var errs []error
	for _, c := range rt.Contexts() {
		errs = append(errs, c.Trim())
	}
	return errors.Join(errs...)
}

// TrimMemory frees memory that is cached for later allocations, until at most keep bytes are
// cached: for other processes, and for libraries that allocate by themselves. It waits for the
// work that used the memory, and a kernel that never ends keeps it waiting. Memory of streams
// that are captured stays. Alloc needs no TrimMemory before it: it does the same when memory
// is short.
func (c *Context) TrimMemory(keep uint64) error {
	if err := c.hold(); err != nil {
		return err
	}
	defer c.gate.Leave()
	return c.memory.Load().arena.Trim(keep)
}

// TrimPinned frees the page-locked memory of [LeaseHost] and of the copies of Go slices that is not in
// use, until at most keep bytes are cached. The next leases and copies make new memory, which takes
// a millisecond each. A program that is idle for long may call it now and then.
func (c *Context) TrimPinned(keep uint64) error {
	if err := c.hold(); err != nil {
		return err
	}
	defer c.gate.Leave()
	m := c.memory.Load()
	m.copier.Trim()
	m.pinned.Trim(keep)
	return nil
}
