package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/flight"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/wait"
	"github.com/purecuda/purecuda/nvrtc"
)

// Outcome is what looking for CUDA has led to.
type Outcome string

const (
	// Available: at least one device can be used. If others have failed, [Runtime.Degraded] is why,
	// and the Err of each of [Runtime.Devices].
	Available Outcome = "available"
	// Absent: this machine has no usable CUDA, or the policy is off.
	Absent Outcome = "absent"
	// Fault: hardware or driver is there and broken, all devices were lost, or a sticky
	// error has ended the use of CUDA in this process. With PolicyRequired absence is a fault too.
	Fault Outcome = "fault"
)

// Runtime is the use of CUDA by one part of a program; most programs have one. It
// is safe for concurrent use.
type Runtime struct {
	cfg   config
	found atomic.Pointer[found]
	lost  atomic.Pointer[driver.Error] // the first sticky error

	workers *arena.Workers // that copy, for all devices
	peers   arena.Peers
	poller  wait.Poller

	closing      context.Context // ends when the runtime begins to close
	beginClosing context.CancelCauseFunc
	compiler     atomic.Pointer[nvrtc.Compiler] // once it is open
	openCompiler func() (*nvrtc.Compiler, error)
	openLinker   func() (*nvrtc.Linker, error)
	links        atomic.Pointer[map[link]struct{}] // replaced under mu

	life     lifeMutex     // one context is reset at a time, and none while they close
	gone     chan struct{} // closed when lost is set
	mu       locks.Mutex[locks.Runtime]
	closed   bool
	contexts map[int]*Context
	failures map[int]error // of the last try to open a context, where there is none
	backends map[string]*Backend
	opening  flight.Group[int, *Context] // by device

	quarantines []*quarantine   // in the order in which they began
	fallbacks   map[string]bool // the reasons of FallBack that were logged
}

// found is what the last look for CUDA has given.
type found struct {
	outcome Outcome
	err     error // the reason unless available
	api     driver.API
	version driver.Version
	devices []Device
}

// Open looks for the driver, initialises it and lists the devices. It opens no
// context. It takes tens of milliseconds where there is a driver and well under
// one where there is none.
//
// On a machine without usable CUDA it succeeds, and the Runtime is [Absent]; with
// PolicyRequired that is an error of kind driver.ErrRequired. A
// driver that is there and broken is an error as well, of the kind of its cause.
func Open(options ...Option) (*Runtime, error) {
	rt := newRuntime(options)
	f := rt.found.Load()
	if f.outcome == Fault {
		return nil, f.err
	}
	return rt, nil
}

// newRuntime returns a runtime in every case; a bad option makes it a fault.
func newRuntime(options []Option) *Runtime {
	cfg := config{score: Score, budget: Budget, onError: func(error) {}, moduleCache: defaultModuleCache}
	for _, o := range options {
		if o != nil {
			o(&cfg)
		}
	}
	if cfg.api == nil {
		cfg.nvml = openNVML
	}
	rt := &Runtime{
		cfg:       cfg,
		contexts:  map[int]*Context{},
		failures:  map[int]error{},
		backends:  map[string]*Backend{},
		fallbacks: map[string]bool{},
		workers:   arena.NewWorkers(0),
		life:      newLifeMutex(),
		gone:      make(chan struct{}),
	}
	rt.closing, rt.beginClosing = context.WithCancelCause(context.Background())
	rt.openCompiler = sync.OnceValues(rt.newCompiler)
	rt.openLinker = sync.OnceValues(rt.newLinker)
	policy := string(cfg.policy)
	if !cfg.hasPolicy {
		policy = os.Getenv(PolicyVariable)
	}
	var err error
	if rt.cfg.policy, err = ParsePolicy(policy); err != nil {
		rt.found.Store(&found{outcome: Fault, err: err})
	} else {
		rt.find()
	}
	return rt
}

// find finds the driver and its devices.
func (rt *Runtime) find() {
	f := rt.findDriver()
	if f.outcome == Absent && rt.cfg.policy == PolicyRequired {
		f.outcome, f.err = Fault, required(f.err)
	}
	rt.log(slog.LevelDebug, "looked for CUDA", "outcome", f.outcome, "reason", f.err, "devices", len(f.devices))
	rt.found.Store(&f)
}

func (rt *Runtime) findDriver() found {
	if rt.cfg.policy == PolicyOff {
		return found{outcome: Absent, err: driver.Errorf(driver.ErrDriverLibraryUnavailable, "the policy is off: the driver was not looked for")}
	}
	api := rt.cfg.api
	if api == nil {
		library, err := driver.Open()
		if err != nil {
			return unusable(err)
		}
		setVariables()
		api = library
	}
	if r := api.Init(0); r != driver.Success {
		err := machine(api).Fault("cuInit", r)
		if r.Absent() {
			err.Kind = driver.ErrDriverLibraryUnavailable
			err.Detail = "the driver library is there, and has no device to work with"
		}
		return unusable(err)
	}
	f := found{api: api}
	var r driver.Result
	if f.version, r = api.DriverGetVersion(); r != driver.Success {
		return unusable(machine(api).Fault("cuDriverGetVersion", r))
	}
	var err error
	if f.devices, err = listDevices(api, &rt.cfg); err != nil {
		return unusable(err)
	}
	if len(f.devices) == 0 {
		return unusable(driver.Errorf(driver.ErrDriverLibraryUnavailable, "the driver has no device that this process may see"))
	}
	f.outcome = Available
	if first := f.devices[0]; first.Err != nil {
		f.outcome = Fault
		f.err = &driver.Error{Kind: driver.ErrDriverCallFailed, Device: first.Ordinal,
			Detail: fmt.Sprintf("none of %d devices can be used", len(f.devices)), Err: first.Err}
	}
	return f
}

// machine makes the errors of calls that are about no device.
func machine(api driver.API) *driver.Binding {
	return &driver.Binding{API: api, Ordinal: driver.NoDevice}
}

// unusable sorts an error into absence and fault.
func unusable(err error) found {
	f := found{outcome: Fault, err: err}
	if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		f.outcome = Absent
	}
	return f
}

// Refresh looks for CUDA again where it was not available, for a driver that was
// installed or repaired since, and tries to revive each device that failed: see
// [Runtime.Revive]. For a Reset that is under way, and for calls that are still inside such a
// device, it waits a second at most. It calls nothing where all devices work, and cannot heal a
// process after a sticky error. It returns what Err does then; Degraded tells of the devices that
// still fail.
func (rt *Runtime) Refresh() error {
	if rt == nil || rt.life == nil {
		return errNothing("runtime")
	}
	if rt.lost.Load() == nil && rt.cfg.policy != "" && (rt.Err() != nil || rt.Degraded() != nil) {
		rt.findAgain()
	}
	if rt.isClosed() {
		return errClosed("runtime")
	}
	return rt.Err()
}

// refreshWait is how long Refresh waits for others.
const refreshWait = time.Second

// findAgain is Refresh where there is something to do.
func (rt *Runtime) findAgain() {
	late := driver.Errorf(driver.ErrTimeout, "Refresh waits for others for %v at most", refreshWait)
	ctx, cancel := context.WithTimeoutCause(context.Background(), refreshWait, late)
	defer cancel()
	if rt.life.lock(ctx) != nil {
		return
	}
	defer rt.life.unlock()
	switch {
	case rt.isClosed():
	case rt.found.Load().outcome != Available:
		rt.find()
	default:
		rt.reviveAll(ctx)
	}
}

func (rt *Runtime) isClosed() bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.closed
}

// Outcome reports whether CUDA can be used. It stays Available as long as one device can be: the
// others that failed show in Degraded and Devices. It is Fault when all are lost.
func (rt *Runtime) Outcome() Outcome {
	if rt == nil || rt.life == nil {
		return Absent
	}
	if rt.lost.Load() != nil || rt.devicesLost() != nil {
		return Fault
	}
	return rt.found.Load().outcome
}

// Err is the reason why CUDA cannot be used, or nil.
func (rt *Runtime) Err() error {
	if rt == nil || rt.life == nil {
		return errNothing("runtime")
	}
	if err := rt.lostError(); err != nil {
		return err
	}
	if err := rt.devicesLost(); err != nil {
		return err
	}
	return rt.found.Load().err
}

// Degraded is why some of the devices cannot be used, or are in quarantine, while CUDA can be used: the
// errors of those, joined, or nil. It is nil where Err is not.
func (rt *Runtime) Degraded() error {
	if rt.Err() != nil {
		return nil
	}
	var errs []error
	for _, d := range rt.Devices() {
		switch {
		case d.Err != nil:
			errs = append(errs, fmt.Errorf("device %d: %w", d.Ordinal, d.Err))
		case d.Quarantine != nil:
			errs = append(errs, fmt.Errorf("device %d is in quarantine: %w", d.Ordinal, d.Quarantine))
		}
	}
	return errors.Join(errs...)
}

// Version is the newest CUDA version that the driver supports, or 0.
func (rt *Runtime) Version() driver.Version {
	if rt == nil || rt.life == nil {
		return 0
	}
	return rt.found.Load().version
}

// Driver is the driver that the runtime uses, or nil. Objects made through it are
// the caller's to destroy.
func (rt *Runtime) Driver() driver.API {
	if rt == nil || rt.life == nil {
		return nil
	}
	return rt.found.Load().api
}

// Devices lists the devices, best score first, those whose queries failed last. A device that
// fails later keeps its place; its Err says why.
func (rt *Runtime) Devices() []Device {
	if rt == nil || rt.life == nil {
		return nil
	}
	devices := append([]Device(nil), rt.found.Load().devices...)
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for i := range devices {
		rt.refresh(&devices[i])
	}
	return devices
}

// refresh sets what changes of a device. rt.mu is held.
func (rt *Runtime) refresh(d *Device) {
	c := rt.contexts[d.Ordinal]
	if c != nil {
		d.FreeBytes = c.device.FreeBytes
	}
	switch {
	case d.Err != nil:
	case rt.lost.Load() != nil:
		d.Err = rt.lostError()
	case c != nil:
		d.Err = c.lostError()
	default:
		d.Err = rt.failures[d.Ordinal]
	}
	d.Quarantine = rt.quarantined(d.Ordinal)
}

// Device returns the device of an ordinal. One that is not there, or was left out
// by WithDevices, is an error of kind driver.ErrInvalidArgument.
func (rt *Runtime) Device(ordinal int) (Device, error) {
	if rt == nil || rt.life == nil {
		return Device{}, errNothing("runtime")
	}
	devices := rt.found.Load().devices
	for _, d := range devices {
		if d.Ordinal == ordinal {
			rt.mu.Lock()
			rt.refresh(&d)
			rt.mu.Unlock()
			return d, nil
		}
	}
	if err := rt.Err(); err != nil {
		return Device{}, err
	}
	return Device{}, driver.Errorf(driver.ErrInvalidArgument, "no device %d: this runtime has %d", ordinal, len(devices))
}

// Budget is the memory in bytes that one job may plan with on a device: what [Budget] or that of
// [WithBudget] says of the device. Where its context is open, FreeBytes is the memory that is
// free at this moment, with what the context has cached; that makes a call of the driver.
func (rt *Runtime) Budget(ordinal int) (uint64, error) {
	d, err := rt.Device(ordinal)
	if err != nil {
		return 0, err
	}
	if free, known := rt.freeBytes(ordinal); known {
		d.FreeBytes = max(free, 1) // 0 would say that it is unknown
	}
	var bytes uint64
	err = contain.Do(func() error { bytes = rt.cfg.budget(d); return nil })
	return bytes, err
}

// freeBytes is the memory that new allocations on a device can use now. It is unknown where no context
// is open, or the driver does not say.
func (rt *Runtime) freeBytes(ordinal int) (free uint64, known bool) {
	rt.mu.Lock()
	c := rt.contexts[ordinal]
	rt.mu.Unlock()
	if c == nil {
		return 0, false
	}
	free, total, err := c.MemInfo()
	if err != nil {
		return 0, false
	}
	return min(free+c.memory.Load().arena.Stats().Cached, total), true
}

// Context returns the context of a device, which is opened when it is first asked
// for and shared by all callers. Opening takes about 125 ms. Where it fails the next call tries
// again. That of a device that is lost is an error of kind driver.ErrDeviceLost.
func (rt *Runtime) Context(ordinal int) (*Context, error) {
	if rt == nil || rt.life == nil {
		return nil, errNothing("runtime")
	}
	c, _, err := rt.contextOf(ordinal)
	return c, err
}

// contextOf is Context. shared says that another caller had begun to open it.
func (rt *Runtime) contextOf(ordinal int) (c *Context, shared bool, err error) {
	d, err := rt.query(ordinal)
	if err != nil {
		return nil, false, err
	}
	if c, err := rt.known(ordinal); c != nil || err != nil {
		return c, false, err
	}
	// One caller opens, the others wait for it; other devices are not held up.
	return rt.opening.Do(context.Background(), ordinal, func(context.Context) (*Context, error) { return rt.open(ordinal, d) })
}

// known is the context of a device if it is open, or why it cannot be used or opened. Else it is nil.
func (rt *Runtime) known(ordinal int) (*Context, error) {
	rt.mu.Lock()
	c, closed := rt.contexts[ordinal], rt.closed
	rt.mu.Unlock()
	if closed {
		return nil, errClosed("runtime")
	}
	err := rt.lostError()
	if err == nil && c != nil {
		err = c.lostError()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// open opens the context of a device. It runs once at a time for each.
func (rt *Runtime) open(ordinal int, d Device) (*Context, error) {
	if c, err := rt.known(ordinal); c != nil || err != nil {
		return c, err
	}
	c, err := openContext(rt, rt.Driver(), d)
	if err != nil {
		rt.mu.Lock()
		rt.failures[ordinal] = err
		rt.mu.Unlock()
		return nil, err
	}
	// What follows calls the driver and hooks, which must not happen under the lock.
	rt.mu.Lock()
	closed := rt.closed
	if !closed {
		rt.contexts[ordinal] = c
		delete(rt.failures, ordinal)
	}
	rt.mu.Unlock()
	if closed {
		return nil, errors.Join(errClosed("runtime"), c.close())
	}
	if first := rt.lost.Load(); first != nil { // meanwhile, and it was not told
		c.loseMemory(first)
		return nil, rt.lostError()
	}
	return c, nil
}

// query returns what the queries of a device gave, or their error.
func (rt *Runtime) query(ordinal int) (Device, error) {
	devices := rt.found.Load().devices
	if i := slices.IndexFunc(devices, func(d Device) bool { return d.Ordinal == ordinal }); i >= 0 {
		return devices[i], devices[i].Err
	}
	return rt.Device(ordinal) // says what is wrong
}

// Contexts returns the contexts that are open, lost ones included, in the order of their
// devices. It opens none.
func (rt *Runtime) Contexts() []*Context {
	if rt == nil || rt.life == nil {
		return nil
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var contexts []*Context
	for _, ordinal := range slices.Sorted(maps.Keys(rt.contexts)) {
		contexts = append(contexts, rt.contexts[ordinal])
	}
	return contexts
}

// Close waits for calls that are under way and for all work of the devices, gives
// back everything that is left, and releases the contexts. Other users of CUDA in
// the process are not disturbed. After a sticky error it frees nothing: the
// driver answers nothing but that error any more.
func (rt *Runtime) Close() error {
	if rt == nil || rt.life == nil {
		return nil
	}
	rt.mu.Lock()
	if rt.closed {
		rt.mu.Unlock()
		return nil
	}
	rt.closed = true
	rt.mu.Unlock()
	rt.beginClosing(errClosed("runtime"))
	_ = rt.life.lock(context.Background()) // a Reset ends first
	defer rt.life.unlock()
	err := rt.closeContexts(rt.Contexts())
	if rt.lost.Load() == nil {
		rt.workers.Close()
	} else {
		go rt.workers.Close() // a worker may wait for the device, and nothing depends on it
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.contexts, rt.failures = map[int]*Context{}, map[int]error{}
	rt.backends = map[string]*Backend{}
	return err
}

// report hands an error that no caller waits for to the hook.
func (rt *Runtime) report(err error) {
	if err != nil {
		if rt.cfg.logger != nil {
			rt.log(slog.LevelWarn, "CUDA cleanup failed", "error", err)
		}
		if err := contain.Hook(func() { rt.cfg.onError(err) }); err != nil {
			rt.log(slog.LevelError, "the error hook failed", "error", err)
		}
	}
}

func errClosed(what string) *driver.Error {
	return driver.Errorf(driver.ErrClosed, "the %s was closed before", what)
}
