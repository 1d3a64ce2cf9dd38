// Package launch has what the functions that gpuc writes return: a [Place] says where SaxpyAuto has run, and a [CheckError] which
// check of a kernel has failed.
//
// Everything else here is what the body of those functions calls: it loads kernels written in Go, launches them, and runs them on the
// CPU. A program does not call it, and it changes with gpuc.
package launch

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/runtime"
)

// Module says what gpuc has made of a package. It must not be copied, and is safe for concurrent use.
type Module struct {
	Images  []runtime.Image // PTX, one for each target
	Kernels []string        // their names
	Needs   []string        // the target that a kernel needs, as sm_90a; none where all images have all kernels
	Sites   []string        // what the numbers in a report mean, from 1; none where no kernel has a check
	Stack   uint64          // bytes of stack that a thread needs for recursion, about
	Layouts []Layout        // of types that the Go compiler cannot compare
	warm    warm            // for Auto
}

// Layout is a type as gpuc has compiled kernels for it.
type Layout struct {
	of reflect.Type
	is string
}

// LayoutOf is the layout of a type.
func LayoutOf[T any](is string) Layout { return Layout{reflect.TypeFor[T](), is} }

// layout is a type without the names of types.
func layout(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		text := "struct{"
		for f := range t.Fields() {
			text += f.Name + " " + layout(f.Type) + ";"
		}
		return text + "}"
	case reflect.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), layout(t.Elem()))
	}
	return t.Kind().String()
}

// Kernels are the kernels of a package in a context.
type Kernels struct {
	of     *Module
	module *runtime.Module
	list   []*runtime.Kernel // nil where the image of the device lacks it
	checks *runtime.Checks
}

// Load loads the kernels into a context. Several calls share one load. Close unloads them.
func (m *Module) Load(c *runtime.Context) (_ *Kernels, err error) {
	if c == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "launch: the context is nil")
	}
	for _, l := range m.Layouts {
		if l.of == nil {
			continue
		}
		if is := layout(l.of); is != l.is {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "launch: %v is %s, and gpuc has compiled kernels for %s: run go generate", l.of, is, l.is)
		}
	}
	k := &Kernels{of: m}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.Close())
		}
	}()
	if k.module, err = c.CachedModule(m.Images...); err != nil {
		return nil, m.unfit(err, c.Device())
	}
	for i, name := range m.Kernels {
		if m.Needs != nil && m.Needs[i] != "" && !bytes.Contains(k.module.Image().Code, []byte(".entry "+name+"(")) {
			k.list = append(k.list, nil)
			continue
		}
		f, err := k.module.Kernel(name)
		if err != nil {
			return nil, err
		}
		k.list = append(k.list, f)
	}
	if m.Stack > 0 {
		if err := c.EnsureStackSize(m.Stack); err != nil {
			return nil, err
		}
	}
	k.checks, err = c.NewChecks(func(words [runtime.CheckWords]uint64) error { return newCheckError(words, m.Sites) })
	return k, err
}

// unfit is the error of a load. Where no image is for the device, it says so as a launch does of one kernel.
func (m *Module) unfit(err error, d runtime.Device) error {
	e, ok := err.(*driver.Error)
	if !ok || e.Kind != driver.ErrModuleLoadFailed || e.Err != nil {
		return err
	}
	no := driver.Errorf(driver.ErrUnsupported, "gpuc has compiled the kernels for no device of compute capability %v: give it -arch sm_%d too", d.Capability, d.Capability.Arch())
	if len(m.Needs) > 0 && !slices.Contains(m.Needs, "") {
		no = m.needs(0, d)
	}
	no.Device, no.Err = d.Ordinal, err
	return no
}

// needs is the error of a kernel that the device cannot run.
func (m *Module) needs(i int, d runtime.Device) *driver.Error {
	return driver.Errorf(driver.ErrUnsupported, "kernel %s needs %s, and the device has compute capability %v: take another device", m.Kernels[i], m.Needs[i], d.Capability)
}

// Close unloads the kernels. It does not wait for their work. If a check has failed that no wait has told so far, the
// error is a [CheckError].
func (k *Kernels) Close() error {
	if k == nil {
		return nil
	}
	var errs []error
	if k.module != nil {
		errs = append(errs, k.module.Close())
	}
	errs = append(errs, k.checks.Close()) // no launch is under way any more
	return errors.Join(errs...)
}

// Launch launches the kernel with a number. It adds [Kernels.Report] where the kernel needs it and args are without.
func (k *Kernels) Launch(i int, s *runtime.Stream, shape runtime.Shape, args ...runtime.Arg) error {
	switch {
	case k == nil:
		return driver.Errorf(driver.ErrInvalidArgument, "launch: the kernels are nil: load them")
	case i < 0 || i >= len(k.list):
		return driver.Errorf(driver.ErrInvalidArgument, "launch: there is no kernel number %d; there are %d", i, len(k.list))
	case s == nil:
		return driver.Errorf(driver.ErrInvalidArgument, "launch: the stream of kernel %s is nil", k.of.Kernels[i])
	}
	if k.list[i] == nil {
		return k.of.needs(i, k.module.Context().Device())
	}
	if k.list[i].Params() == len(args)+1 {
		args = append(args[:len(args):len(args)], k.Report())
	}
	return k.list[i].Launch(s, shape, args...)
}

// Has reports whether the image of the device has the kernel with a number.
func (k *Kernels) Has(i int) bool { return k != nil && i >= 0 && i < len(k.list) && k.list[i] != nil }

// Context is the context of the kernels; nil of nothing.
func (k *Kernels) Context() *runtime.Context {
	if k == nil || k.module == nil {
		return nil
	}
	return k.module.Context()
}

// Multiprocessors is how many the device has; 0 of nothing.
func (k *Kernels) Multiprocessors() int {
	if k == nil || k.module == nil {
		return 0
	}
	return k.module.Context().Device().Multiprocessors
}

// Report returns the last argument of a kernel that reports failed checks, which each stream has its own memory for.
func (k *Kernels) Report() runtime.Arg {
	if k == nil {
		return runtime.Arg{}
	}
	return k.checks.Arg()
}

// CheckError is a check that failed in a kernel on a GPU. It is the error of waits for the stream that the kernel was
// launched on: [runtime.Checks] says which. Only the thread that failed has ended, and the context is still good.
type CheckError struct {
	Block, Thread gpu.Dim3
	Text          string // the place and what is wrong, as "saxpy.go:12: index out of range [5] with length 5"
}

// Error says what is wrong, where, and in which thread.
func (e *CheckError) Error() string {
	e = zero.Or(e) // it may be a nil pointer
	return fmt.Sprintf("gpu: %s in block %v, thread %v", e.Text, e.Block, e.Thread)
}

func newCheckError(w [runtime.CheckWords]uint64, sites []string) *CheckError {
	dim := func(i int) gpu.Dim3 { return gpu.Dim3{X: int(w[i]), Y: int(w[i+1]), Z: int(w[i+2])} }
	e := &CheckError{Block: dim(3), Thread: dim(6), Text: "an unknown check"}
	if w[0]-1 >= uint64(len(sites)) {
		return e
	}
	e.Text = sites[w[0]-1]
	if slices.Contains([]byte(e.Text), '%') {
		e.Text = fmt.Sprintf(e.Text, int64(w[1]), int64(w[2]))
	}
	return e
}

// Block sets the block that a kernel is compiled for in a shape without a block. Another block is an error.
func Block(kernel string, shape runtime.Shape, x, y, z uint32) (runtime.Shape, error) {
	one := func(d runtime.Dim3) runtime.Dim3 { return runtime.Dim3{X: d.X, Y: max(1, d.Y), Z: max(1, d.Z)} }
	want := runtime.Dim3{X: x, Y: y, Z: z}
	switch {
	case shape.Block == runtime.Dim3{}:
		shape.Block = want
	case one(shape.Block) != want:
		return shape, driver.Errorf(driver.ErrInvalidArgument, "%s: the block is %v; the kernel is compiled for %v", kernel, one(shape.Block), want)
	}
	return shape, nil
}

// Equal compares the lengths of slices that a kernel takes as equal.
func Equal(kernel, names string, lengths ...int) error {
	for _, n := range lengths {
		if n != lengths[0] {
			return driver.Errorf(driver.ErrInvalidArgument, "%s: the lengths of %s are %v; the kernel is compiled for equal ones", kernel, names, lengths)
		}
	}
	return nil
}

// CPU runs a kernel on the CPU: as loops over the threads of a block, if gpuc has written them.
func CPU(shape runtime.Shape, kernel func(t *gpu.Thread), block func(b *gpu.Block)) error {
	dim := func(d runtime.Dim3) gpu.Dim3 { return gpu.Dim3{X: int(d.X), Y: int(d.Y), Z: int(d.Z)} }
	return gpu.RunBlocks(gpu.Shape{Grid: dim(shape.Grid), Block: dim(shape.Block), SharedBytes: int(shape.SharedBytes)}, kernel, block)
}

// Bool is an argument that is a bool.
func Bool(v bool) runtime.Arg {
	if v {
		return runtime.Value(uint8(1))
	}
	return runtime.Value(uint8(0))
}
