package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/purecuda/purecuda/gpu"
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
// and why. Where CUDA is there and broken, or ctx has ended, it runs nowhere, and the error says why. So it is where CUDA is
// absent and the policy is required. rt nil is the shared runtime. The end of ctx does not stop a kernel that runs.
//
// The call has a stream of its own. What it has loaded, and some streams, are kept for later calls until the context ends.
//
// The slices that the kernel writes change only if the call succeeds. That takes as much memory again, for the time of
// the call. onGPU copies the results to slices of its own first, and saves are those that a failing onCPU gets back.
func (m *Module) Auto(ctx context.Context, rt *runtime.Runtime, kernel string, onGPU func(k *Kernels, c *Copies) error, onCPU func() error, saves ...func() (restore func())) (Place, error) {
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
		if failed := rt.FallBack("XAuto: no device", err); failed != nil {
			return Place{}, failed
		}
		return Place{Reason: err}, orRestore(onCPU, saves)
	}
	if err != nil {
		return Place{}, err
	}
	w, s, err := m.warm.take(m, b.Context)
	if err != nil {
		return Place{}, err
	}
	c := &Copies{Stream: s, ctx: ctx}
	err = errors.Join(onGPU(w.kernels, c), c.close())
	return Place{GPU: true, Device: b.Device().Name}, errors.Join(err, m.warm.give(w, s, err == nil))
}

// Save is for Auto: a slice gets back what it holds now if the kernel fails on the CPU.
func Save[T any](s []T) func() (restore func()) {
	return func() func() {
		before := slices.Clone(s)
		return func() { copy(s, before) }
	}
}

func orRestore(f func() error, saves []func() func()) error {
	var restores []func()
	for _, save := range saves {
		restores = append(restores, save())
	}
	err := f()
	if err != nil {
		for _, restore := range restores {
			restore()
		}
	}
	return err
}

// Copies are the slices of one launch on the device.
type Copies struct {
	Stream *runtime.Stream

	ctx   context.Context
	err   error
	back  []func() (commit func(), err error)
	refs  []interface{ Close() error }
	spans []Span
}

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
		c.back = append(c.back, func() (func(), error) {
			result := make([]T, len(host))
			err := runtime.Download(c.ctx, c.Stream, result, ref)
			return func() { copy(host, result) }, err
		})
	}
	return ref
}

// CopyTiles is [Copy] for a matrix of which the kernel copies tiles.
func CopyTiles[T gpu.Half](c *Copies, name string, host gpu.Tiles[T], written bool) *runtime.Tiles {
	ref := Copy(c, name, host.Data, written)
	if c.err != nil {
		return nil
	}
	tiles, err := runtime.NewTiles(c.Stream.Context(), ref, runtime.TilesShape{Rows: host.Rows, Cols: host.Cols, Pitch: host.Pitch, Box: host.Box})
	c.err = err
	return tiles
}

// Finish calls launch, and copies back the slices that the kernel has written: all, or none if it fails.
func (c *Copies) Finish(launch func() error) error {
	if c.err != nil {
		return c.err
	}
	if err := launch(); err != nil {
		return err
	}
	if len(c.back) == 0 { // a download waits, and tells of failed checks as well
		return c.Stream.Synchronize(c.ctx)
	}
	var commits []func()
	for _, download := range c.back {
		commit, err := download()
		if err != nil {
			return err
		}
		commits = append(commits, commit)
	}
	for _, commit := range commits {
		commit()
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
