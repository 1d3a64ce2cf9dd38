package drivertest

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ptx/exec"
)

// maxSteps is the default of Config.MaxSteps: a minute of work, and seconds of a loop.
const maxSteps = 1 << 30

// maxBlockLocal is the local memory of a block that the interpreter has.
const maxBlockLocal = 256 << 20

// maxStackBytes is the largest stack of a thread.
const maxStackBytes = 256 << 10

// interpret makes what runs the PTX of a kernel.
func (c call) interpret(f *function, k *Launch, block []byte) func() error {
	d, ctx := c.d, k.ctx
	launch := exec.Launch{
		Grid:        [3]uint32{k.Grid.X, k.Grid.Y, k.Grid.Z},
		Block:       [3]uint32{k.Block.X, k.Block.Y, k.Block.Z},
		SharedBytes: k.SharedBytes, Params: block, Cooperative: k.Cooperative,
		MaxSteps:   d.config.MaxSteps,
		StackBytes: uint32(min(ctx.limits[driver.LimitStackSize], maxStackBytes)),
		SMCount:    ctx.dev.config.SMs, GridID: d.newID(), Printf: d.printf, Conditional: d.setConditional, Traffic: d.moved,
	}
	if c := d.config.Chaos; c != nil && c.Kernels {
		launch.Chance = hash(f.entry.name, 0) ^ c.Seed | 1
	}
	return func() error {
		l := launch // a graph runs it again
		l.Memory = &deviceMemory{space: &d.memory, ctx: ctx}
		err := f.code.Launch(d.running, l)
		bad, ok := errors.AsType[*exec.Fault](err)
		switch {
		case err == nil:
			return nil
		case !ok:
			return &fault{result: driver.ResultLaunchFailed, detail: err.Error()}
		case bad.Kind == exec.LaunchTimeout && d.running.Err() != nil:
			c.cutOff(f)
			return nil
		}
		return d.explain(bad, f, ctx)
	}
}

// Traffic is how many bytes of global memory the threads of kernels in PTX have asked for. Copies and memsets do not count. There are no
// caches: what is read twice counts twice.
type Traffic struct {
	Read, Written uint64
	// Atomic is what atomics moved, and loads and stores that are volatile, relaxed, acquire or release. As a rule they stay in the L2
	// cache of a device. A loop that waits counts each time.
	Atomic uint64
}

// Traffic tells what the kernels of all devices have moved since the driver was made. A kernel counts when it has ended. A test compares
// it before and after, so that a change which moves more fails without a device.
func (of *Driver) Traffic() Traffic {
	d := of.simulated
	return Traffic{Read: d.read.Load(), Written: d.written.Load(), Atomic: d.atomics.Load()}
}

// moved counts what a launch has moved.
func (d *simulated) moved(read, written, atomics uint64) {
	d.read.Add(read)
	d.written.Add(written)
	d.atomics.Add(atomics)
}

// cutOff notes a kernel that the end of the driver has ended. In a poisoned process
// that is nobody's mistake.
func (c call) cutOff(f *function) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.d.poison() == driver.Success {
		c.found(driver.ResultDeinitialized, "the kernel %s still ran when the driver was closed", f.entry.name)
	}
}

// explain turns a fault of the interpreter into one of the device.
func (d *simulated) explain(bad *exec.Fault, f *function, ctx *context) *fault {
	out := &fault{result: driver.Result(bad.Kind), site: site{
		kernel: bad.Kernel, block: dim3(bad.Block), thread: dim3(bad.Thread), line: bad.Line}}
	if bad.Size == 0 {
		out.detail = bad.Kind.String()
	} else {
		out.addr, out.bytes = driver.DevicePtr(bad.Address), bad.Size
		out.detail, out.allocation = d.access(bad, ctx)
	}
	if bad.Msg != "" {
		out.detail += ": " + bad.Msg
	}
	out.detail = out.site.text(f.module.image) + ": " + out.detail
	return out
}

// access says what is wrong with an access to memory, and in or behind which
// allocation it lies.
func (d *simulated) access(bad *exec.Fault, ctx *context) (detail, allocation string) {
	verb := "read of "
	if bad.Write {
		verb = "write of "
	}
	place := fmt.Sprintf("%d bytes at %#x", bad.Size, bad.Address)
	global := bad.Space == "global" || bad.Space == "generic"
	if global {
		_, f := d.memory.bytes(driver.DevicePtr(bad.Address), bad.Size, view{ctx: ctx})
		if f == nil { // it is there, or has come meanwhile
			f = &fault{detail: place, allocation: d.memory.describe(driver.DevicePtr(bad.Address))}
		}
		place, allocation = f.detail, f.allocation
	} else {
		place += " of " + bad.Space + " memory"
	}
	switch {
	case bad.Kind == exec.MisalignedAddress:
		place += fmt.Sprintf("; the address is not a multiple of %d", bad.Size)
	case bad.Kind == exec.IllegalAddress && global && bad.Address>>40 == exec.SharedWindow>>40:
		place += ": the address is one of shared, local or parameter memory"
	case bad.Kind == exec.IllegalAddress && !global:
		place += ", which ends before"
	}
	return verb + place, allocation
}

func dim3(v [3]uint32) driver.Dim3 { return driver.Dim3{X: v[0], Y: v[1], Z: v[2]} }

// endOfKernels is how long kernels go on when the driver is closed. It lets work that
// nobody waited for end by itself, and its mistakes be found.
const endOfKernels = time.Second

// printer lets kernels of several streams print to one writer.
type printer struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *printer) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Write(text)
}
