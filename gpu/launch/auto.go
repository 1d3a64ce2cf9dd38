package launch

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/runtime"
)

// Place says where a kernel has run.
type Place struct {
	GPU    bool
	Device string // the name of the device; empty on the CPU
	Reason error  // why it ran on the CPU
}

// String says it in a few words.
func (p Place) String() string {
	if p.GPU {
		return "on " + p.Device
	}
	return fmt.Sprintf("on the CPU: %v", p.Reason)
}

// Auto runs a kernel on the best device of rt, or on the CPU where CUDA is absent or the policy is off; Place says which,
// and why. Where CUDA is there and broken, or ctx has ended, it runs nowhere, and the error says why. rt nil is the shared
// runtime. The end of ctx does not stop a kernel that runs.
func Auto(ctx context.Context, rt *runtime.Runtime, kernel string, onGPU func(c *Copies) error, onCPU func() error) (Place, error) {
	switch {
	case ctx == nil:
		return Place{}, fmt.Errorf("launch: the context of %sAuto is nil", kernel)
	case ctx.Err() != nil:
		return Place{}, context.Cause(ctx)
	case rt == nil:
		rt = runtime.Global()
	}
	b, err := rt.Probe(kernel)
	if rt.Outcome() == runtime.Absent {
		return Place{Reason: err}, onCPU()
	}
	if err != nil {
		return Place{}, err
	}
	c := &Copies{Stream: b.Stream, ctx: ctx}
	err = onGPU(c)
	return Place{GPU: true, Device: b.Device().Name}, errors.Join(err, c.close())
}

// Copies are the slices of one launch on the device.
type Copies struct {
	Stream *runtime.Stream

	ctx   context.Context
	err   error
	back  []func() error
	refs  []interface{ Close() error }
	spans []Span
}

// Context is the context of the device.
func (c *Copies) Context() *runtime.Context { return c.Stream.Context() }

// Copy copies a slice to the device. Finish copies it back if the kernel writes it, and returns the error of Copy.
func Copy[T any](c *Copies, name string, host []T, written bool) *runtime.Ref[T] {
	if c.err != nil {
		return nil
	}
	c.spans = append(c.spans, Host(name, host, written))
	if a, b, ok := overlap(c.spans); ok {
		c.err = fmt.Errorf("the slices %s and %s overlap, and the kernel writes: on a device they would be apart", a.name, b.name)
	}
	ref, err := runtime.Alloc[T](c.Stream, max(1, len(host)))
	if err != nil {
		c.err = errors.Join(c.err, err)
		return nil
	}
	c.refs = append(c.refs, ref)
	if len(host) == 0 {
		return ref.Slice(0, 0)
	}
	c.err = errors.Join(c.err, runtime.Upload(c.ctx, c.Stream, ref, host))
	if written {
		c.back = append(c.back, func() error { return runtime.Download(c.ctx, c.Stream, host, ref) })
	}
	return ref
}

// Finish calls launch, and copies back the slices that the kernel has written.
func (c *Copies) Finish(k *Kernels, launch func() error) error {
	if c.err != nil {
		return c.err
	}
	if err := launch(); err != nil {
		return err
	}
	if err := k.Failed(c.ctx, c.Stream); err != nil {
		return err
	}
	for _, f := range c.back {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// close frees the copies after the work on the stream.
func (c *Copies) close() error {
	var errs []error
	for _, r := range c.refs {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
