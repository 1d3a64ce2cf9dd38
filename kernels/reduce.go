package kernels

import (
	"cmp"
	"context"
	"errors"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// Reducer computes sums, histograms and X'WX over all devices of a machine, or on all cores if there
// are none. It keeps the devices and their kernels ready, and is safe for concurrent use.
//
// The input is cut into blocks whose size depends on the arguments alone. A device or a core computes
// the result of each block in a fixed order. The results are added as a binary tree (see
// [pool.Reduce]). So the same arguments give the same result bit for bit, on any number of devices
// and on the CPU.
//
// Every method returns the report of the pool, which says what ran where. Report.Err is set if the
// CPU did the work: CUDA is absent, or the devices failed.
type Reducer struct {
	pool    *pool.Pool
	options ReducerOptions
	// The sizes of blocks; tests make them small.
	sumBlock, histogramBlock, gramRows int
}

// ReducerOptions are those of [OpenReducer]. The zero value is right for most.
type ReducerOptions struct {
	// Pool are those of the pool. The Reducer replaces its Setup.
	Pool pool.Options
	// Retry, MinPerDevice and BreakEven are those of every call, see pool.ReduceOptions. MinPerDevice and the sizes
	// of BreakEven are in blocks, usually of 4 MiB.
	Retry, MinPerDevice int
	BreakEven           *pool.BreakEven
}

// Per device, less than this many blocks are not worth a second one.
const reducerMinBlocks = 4

// OpenReducer makes a Reducer on the devices of a runtime. The caller closes rt, after the Reducer.
func OpenReducer(rt *runtime.Runtime, options ...ReducerOptions) (*Reducer, error) {
	var o ReducerOptions
	switch len(options) {
	case 0:
	case 1:
		o = options[0]
	default:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "%d structures kernels.ReducerOptions: give one", len(options))
	}
	o.Pool.Setup = []pool.Setup{ofReducer}
	p, err := pool.Open(rt, o.Pool)
	if err != nil {
		return nil, err
	}
	o.MinPerDevice = cmp.Or(o.MinPerDevice, reducerMinBlocks)
	return &Reducer{pool: p, options: o, sumBlock: sumBlock, histogramBlock: histogramBlock, gramRows: gramBlockRows}, nil
}

// Close waits for what is under way and unloads the kernels. It may be called twice.
func (r *Reducer) Close() error { return zero.Or(r).pool.Close() }

// reducerKernels are those of a stream. Each is loaded when it is first used.
type reducerKernels struct {
	sum       Sum
	histogram Histogram256
	gram      Gram
}

var ofReducer = pool.PerStream(func(*pool.Worker) (*reducerKernels, error) { return &reducerKernels{}, nil })

// Close is called by the pool.
func (k *reducerKernels) Close() error {
	var errs []error
	for _, one := range []kernel{k.sum.kernel, k.histogram.kernel, k.gram.kernel} {
		if one.k != nil {
			errs = append(errs, one.Close())
		}
	}
	return errors.Join(errs...)
}

// temporary is device memory for the time of a call.
type temporary struct {
	stream *runtime.Stream
	ctx    context.Context
	close  []func() error
}

// onDevice runs f with memory that is freed afterwards, after the work that uses it. What goes wrong
// with that changes no result, and must not make the pool do the work once more.
func onDevice(w *pool.Worker, f func(k *reducerKernels, t *temporary) error) error {
	t := &temporary{stream: w.Stream(), ctx: w.CallContext()}
	defer func() {
		for _, c := range t.close {
			_ = c()
		}
	}()
	return f(ofReducer.Of(w), t)
}

// room allocates n elements.
func room[T any](t *temporary, n int) (*runtime.Ref[T], error) {
	x, err := runtime.Alloc[T](t.stream, n)
	if err == nil {
		t.close = append(t.close, x.Close)
	}
	return x, err
}

// sent is room with a copy of data.
func sent[T any](t *temporary, data []T) (*runtime.Ref[T], error) {
	x, err := room[T](t, len(data))
	if err != nil {
		return nil, err
	}
	return x, runtime.Upload(t.ctx, t.stream, x, data)
}

// blockOf is block i of a range of n items.
func blockOf(i, block, n int) (lo, hi int) { return i * block, min((i+1)*block, n) }
