package simulated

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// Settings are what a test has set: the version, and the faults of methods and functions. They are safe for concurrent use.
type Settings[S ~int32] struct {
	mu      sync.Mutex
	version [3]int
	faults  map[string]S
}

// SetVersion sets the version.
func (t *Settings[S]) SetVersion(v [3]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version = v
}

// Version is the version.
func (t *Settings[S]) Version() [3]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version
}

// Fail makes a method or a function return a status. 0 ends that.
func (t *Settings[S]) Fail(method string, s S) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.faults == nil {
		t.faults = map[string]S{}
	}
	t.faults[method] = s
}

// Fault is the status that a method or a function returns, or 0.
func (t *Settings[S]) Fault(method string) S {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.faults[method]
}

// Failures are the statuses of a library for what its simulation finds by itself.
type Failures[S ~int32] struct {
	NoContext S // no context is current, or the kernels cannot be loaded
	NoHandle  S // there is no such handle, or it is of another context
	NoLaunch  S // a kernel could not be launched
	Internal  S
}

// Table are the handles of a simulated library on a simulated driver. T is what a handle stands for, beside what all stand for.
// It is safe for concurrent use, as far as the handles are.
type Table[H comparable, T any, S ~int32] struct {
	Settings[S]
	gpu      driver.API
	image    string
	next     func(n int) H // the n-th handle, from 1 on
	failures Failures[S]

	handles map[H]*Handle[T]
	made    int
}

// Handle is what a handle stands for.
type Handle[T any] struct {
	Context driver.Context
	Stream  driver.Stream
	Own     T
	module  driver.Module
}

// NewTable makes a table without handles. image is from [Image].
func NewTable[H comparable, T any, S ~int32](gpu driver.API, version [3]int, image string, next func(n int) H, failures Failures[S]) *Table[H, T, S] {
	return &Table[H, T, S]{Settings: Settings[S]{version: version}, gpu: gpu, image: image, next: next, failures: failures, handles: map[H]*Handle[T]{}}
}

// Left is how many handles were not destroyed.
func (t *Table[H, T, S]) Left() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.handles)
}

// Made is how many handles were made.
func (t *Table[H, T, S]) Made() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made
}

// Create makes a handle of the current context, for a method of this name. start, which may be nil, makes what it owns on the device.
func (t *Table[H, T, S]) Create(method string, own T, start func(own *T) S) (none H, s S) {
	context, r := t.gpu.CtxGetCurrent()
	if r != driver.Success || context == 0 {
		return none, t.failures.NoContext
	}
	if s := t.Fault(method); s != 0 {
		return none, s
	}
	module, s := Load(t.gpu, t.image, t.failures.NoContext)
	if s != 0 {
		return none, s
	}
	h := &Handle[T]{Context: context, Own: own, module: module}
	if start != nil {
		if s := start(&h.Own); s != 0 {
			t.gpu.ModuleUnload(module)
			return none, s
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made++
	made := t.next(t.made)
	t.handles[made] = h
	return made, 0
}

// Of is what a handle stands for, if its context is current.
func (t *Table[H, T, S]) Of(h H) (*Handle[T], S) {
	current, r := t.gpu.CtxGetCurrent()
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.handles[h]
	if known == nil || r != driver.Success || known.Context != current {
		return nil, t.failures.NoHandle
	}
	return known, 0
}

// Destroy ends a handle. free, which may be nil, frees what it owns on the device.
func (t *Table[H, T, S]) Destroy(h H, free func(own *T) driver.Result) S {
	known, s := t.Of(h)
	if s != 0 {
		return s
	}
	t.mu.Lock()
	delete(t.handles, h)
	t.mu.Unlock()
	r := driver.Success
	if free != nil {
		r = free(&known.Own)
	}
	if max(r, t.gpu.ModuleUnload(known.module)) != driver.Success {
		return t.failures.Internal
	}
	return t.Fault("Destroy")
}

// Set changes what a handle stands for, in a method of this name.
func (t *Table[H, T, S]) Set(h H, method string, set func(h *Handle[T])) S {
	known, s := t.Of(h)
	if s != 0 {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.faults[method]; s != 0 {
		return s
	}
	set(known)
	return 0
}

// Launch puts a kernel, whose parameter is the call, on the stream of a handle. The kernel has a fault of its own.
func (t *Table[H, T, S]) Launch(h H, kernel string, call unsafe.Pointer) S {
	if s := t.Fault(kernel); s != 0 {
		return s
	}
	known, s := t.Of(h)
	if s != 0 {
		return s
	}
	t.mu.Lock()
	stream := known.Stream
	t.mu.Unlock()
	f, r := t.gpu.ModuleGetFunction(known.module, kernel)
	if r != driver.Success {
		return t.failures.Internal
	}
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	if t.gpu.LaunchKernel(f, one, one, 0, stream, []unsafe.Pointer{call}) != driver.Success {
		return t.failures.NoLaunch
	}
	return 0
}

// Image is a module with the signatures of kernels. Their parameter is the call, which has so many bytes.
func Image(kernels map[string]drivertest.KernelFunc, bytes func(kernel string) uintptr) string {
	var text strings.Builder
	text.WriteString(".version 6.4\n.target sm_75\n.address_size 64\n")
	for name := range kernels {
		fmt.Fprintf(&text, ".visible .entry %s(.param .align 8 .b8 call[%d]) %s\n", name, bytes(name), Body)
	}
	return text.String()
}
