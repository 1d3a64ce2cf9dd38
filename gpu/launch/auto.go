package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

// Place says where a kernel has run. The zero value is nowhere.
type Place struct {
	GPU    bool
	Device string // the name of the device; empty on the CPU
	Reason error  // why it ran on the CPU
}

// String says it in a few words.
func (p Place) String() string {
	switch {
	case p.GPU:
		return "on " + p.Device
	case p.Reason == nil: // of a call that has failed
		return "nowhere"
	}
	return fmt.Sprintf("on the CPU: %v", p.Reason)
}

// Auto runs a kernel on the best device of rt that can run it, or on the CPU where CUDA is absent or the policy is off. Place says which,
// and why. Where CUDA is there and broken, or ctx has ended, it runs nowhere, and the error says why. So it is where CUDA is
// absent and the policy is required. rt nil is the shared runtime. The end of ctx stops neither a kernel that runs, nor the
// function on the CPU, nor the driver while it opens a device.
//
// The call has a stream of its own. What it has loaded, and some streams, are kept for later calls until the context ends, or its Trim.
//
// A device has copies of the slices, which are apart. So slices that overlap are an error, also on the CPU, if the kernel writes one.
//
// The slices that the kernel writes change only if the call succeeds. That takes as much memory again, for the time of
// the call. onGPU copies the results to slices of its own first. What onCPU has written is taken back if it fails.
func (m *Module) Auto(ctx context.Context, rt *runtime.Runtime, kernel string, onGPU func(k *Kernels, c *Copies) error, onCPU func() error, slices ...Span) (Place, error) {
	if err := Apart(kernel, slices...); err != nil {
		return Place{}, err
	}
	switch {
	case ctx == nil:
		return Place{}, driver.Errorf(driver.ErrInvalidArgument, "launch: the context of %sAuto is nil", kernel)
	case ctx.Err() != nil:
		return Place{}, context.Cause(ctx)
	case rt == nil:
		rt = runtime.Global()
	}
	b, err := rt.Probe(kernel)
	if rt.Outcome() == runtime.Absent {
		if failed := rt.FallBack(kernel+"Auto: no device", err); failed != nil {
			return Place{}, failed
		}
		return Place{Reason: err}, orRestore(onCPU, slices)
	}
	if err != nil {
		return Place{}, err
	}
	w, c, err := m.takeFit(rt, b.Context)
	if err != nil {
		return Place{}, err
	}
	c.ctx = ctx
	err = join(onGPU(w.kernels, c), c.close())
	return Place{GPU: true, Device: w.device}, join(err, m.warm.give(w, c, err == nil))
}

// join is errors.Join, which allocates also for no error.
func join(a, b error) error {
	if b == nil {
		return a
	}
	return errors.Join(a, b)
}

// takeFit takes the kernels and a stream on the best device, or on the next one if the kernels do not run there.
func (m *Module) takeFit(rt *runtime.Runtime, best *runtime.Context) (*place, *Copies, error) {
	w, copies, err := m.warm.take(m, best)
	if err == nil || !driver.UnfitDevice(err) {
		return w, copies, err
	}
	errs := []error{err}
	for _, d := range rt.Devices() {
		if d.Ordinal == best.Device().Ordinal || d.Err != nil || d.Quarantine != nil {
			continue
		}
		c, err := rt.Context(d.Ordinal)
		if err == nil {
			w, copies, err = m.warm.take(m, c)
		}
		if err == nil {
			return w, copies, nil
		}
		errs = append(errs, err)
	}
	return nil, nil, errors.Join(errs...)
}

// orRestore calls f. If it fails, the slices that it writes get back what they held.
func orRestore(f func() error, all []Span) error {
	var before [][]byte
	for _, s := range all {
		if s.written {
			before = append(before, bytes.Clone(s.bytes()))
		}
	}
	err := f()
	if err == nil {
		return nil
	}
	for _, s := range all {
		if s.written {
			copy(s.bytes(), before[0])
			before = before[1:]
		}
	}
	return err
}

// Copies are the slices of one launch on the device.
type Copies struct {
	Stream *runtime.Stream

	ctx  context.Context
	err  error
	back []result
	refs []interface{ Close() error }
	room []uint64 // for results, of which used are
	used int
}

// result is a slice that the kernel writes.
type result interface {
	download(c *Copies) error
	commit()
}

type written[T any] struct {
	host, from []T
	ref        *runtime.Ref[T]
}

func (w *written[T]) download(c *Copies) error {
	w.from = space[T](c, len(w.host))
	return runtime.Download(c.ctx, c.Stream, w.from, w.ref)
}

func (w *written[T]) commit() { copy(w.host, w.from) }

// maxRoom is how many bytes of results are kept room for with a stream.
const maxRoom = 64 << 10

// space returns a slice that has no pointers, as the memory of a device has none.
func space[T any](c *Copies, n int) []T {
	words := n * int(unsafe.Sizeof(*new(T))) / 8
	if words++; words > maxRoom/8-c.used {
		return make([]T, n)
	}
	if c.room == nil {
		c.room = make([]uint64, maxRoom/8)
	}
	at := unsafe.Pointer(&c.room[c.used])
	c.used += words
	return unsafe.Slice((*T)(at), n)
}

// Copy copies a slice to the device. Finish copies it back if the kernel writes it, and returns the error of Copy.
func Copy[T any](c *Copies, host []T, writes bool) *runtime.Ref[T] {
	if c.err != nil {
		return nil
	}
	ref, err := runtime.Alloc[T](c.Stream, max(1, len(host)))
	if err != nil {
		c.err = err
		return nil
	}
	c.refs = append(c.refs, ref)
	if len(host) == 0 {
		return ref.Slice(0, 0)
	}
	c.err = runtime.Upload(c.ctx, c.Stream, ref, host)
	if writes {
		c.back = append(c.back, &written[T]{host: host, ref: ref})
	}
	return ref
}

// CopyTiles is [Copy] for a matrix of which the kernel copies tiles.
func CopyTiles[T gpu.Element](c *Copies, host gpu.Tiles[T], written bool) *runtime.Tiles {
	ref := Copy(c, host.Data, written)
	if c.err != nil {
		return nil
	}
	tiles, err := runtime.NewTiles(c.Stream.Context(), ref, runtime.TilesShape{Rows: host.Rows, Cols: host.Cols, Pitch: host.Pitch, Box: host.Box, Matrices: host.Matrices, Stride: host.Stride})
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
	for _, w := range c.back {
		if err := w.download(c); err != nil {
			return err
		}
	}
	for _, w := range c.back {
		w.commit()
	}
	return nil
}

// close frees the copies after the work on the stream, and forgets the call.
func (c *Copies) close() (err error) {
	for _, r := range c.refs {
		err = join(err, r.Close())
	}
	clear(c.refs)
	clear(c.back)
	*c = Copies{Stream: c.Stream, refs: c.refs[:0], back: c.back[:0], room: c.room}
	return err
}
