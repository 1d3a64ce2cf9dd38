package pool

import (
	"context"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// Option changes what [Open] or a call does. Options of Open hold for all calls of the
// pool, and those of a call come after them.
type Option func(*config)

type config struct {
	setup        func(*Worker) error
	devices      []int
	weights      []float64
	throughput   bool
	minPerDevice int
	chunk        int
	itemBytes    int
	retries      int
	sizeGate     int
	fallback     func(ctx context.Context, lo, hi int) error
	mapFallback  any // func(context.Context, []In, []Out) error
}

// minPerDevice is the default of [WithMinPerDevice].
const minPerDevice = 64

// WithSetup sets a function that prepares each device before its first tile: it loads
// modules, allocates what is kept, and leaves it in [Worker.State]. It runs on the
// goroutine of the device. If it fails, so does the tile, and the next call tries again.
// It is an option of Open only.
func WithSetup(setup func(*Worker) error) Option { return func(c *config) { c.setup = setup } }

// WithDevices keeps the devices with the given ordinals; without it all that work are
// used. In a call it picks from those of the pool.
func WithDevices(ordinals ...int) Option {
	return func(c *config) { c.devices = slices.Clone(ordinals) }
}

// WithWeights says how much of the work each device gets at first, in proportion, one
// weight for each device of the call in the order of [Pool.Devices]. Without it the
// weights are the devices' scores. A device with weight 0 has no tile; it may still be
// asked to repeat one that failed (see [WithRetry]).
func WithWeights(weights ...float64) Option {
	return func(c *config) { c.weights, c.throughput = slices.Clone(weights), false }
}

// WithThroughput weighs the devices by how fast they were in earlier calls of the pool,
// and by their scores before there were any.
func WithThroughput() Option { return func(c *config) { c.weights, c.throughput = nil, true } }

// WithMinPerDevice sets how many items a device must have on average for all of them to
// take part; with fewer, the device with the largest weight does it alone. It is also
// the least that a tile is cut into. The default is 64.
func WithMinPerDevice(items int) Option { return func(c *config) { c.minPerDevice = items } }

// WithChunk makes f be called for pieces of the given number of items, except for the
// last ones. Without it a tile is done in pieces that get smaller, so that other devices
// can help with the rest. With a chunk that is not shorter than any tile, each device
// does its own tile in one piece, unless its memory budget is smaller.
func WithChunk(items int) Option { return func(c *config) { c.chunk = items } }

// WithItemBytes says how much device memory one item needs, so that no piece is larger
// than the budget of its device ([runtime.Runtime.Budget]). Without it [Map] counts the
// elements of input and output, and [Scatter] has no such limit.
func WithItemBytes(bytes int) Option { return func(c *config) { c.itemBytes = bytes } }

// WithRetry lets other devices repeat a piece that failed, at most the given number of
// times. The device on which it failed takes no further part in the call. Without it,
// the first failure ends the call. Part of a piece may so be done twice: the function must give
// the same result then.
func WithRetry(times int) Option { return func(c *config) { c.retries = times } }

// WithSizeGate leaves work with fewer items to the fallback, without a call of the
// driver. It has no effect without a fallback.
func WithSizeGate(items int) Option { return func(c *config) { c.sizeGate = items } }

// WithFallback sets the function that does the work of [Scatter] on the CPU, where CUDA
// cannot be used or a tile has failed for good. It is called as [CPU] calls its function:
// on all cores, for ranges that together are [0, n). It does not run after the context of
// the call has ended.
func WithFallback(f func(ctx context.Context, lo, hi int) error) Option {
	return func(c *config) { c.fallback = f }
}

// WithMapFallback is [WithFallback] for [Map]: f computes the elements of out from those
// of in. Its types must be those of the call.
func WithMapFallback[In, Out any](f func(ctx context.Context, in []In, out []Out) error) Option {
	return func(c *config) {
		c.mapFallback = nil
		if f != nil {
			c.mapFallback = f
		}
	}
}

// apply applies the options and checks the numbers.
func (c *config) apply(options []Option) error {
	for _, o := range options {
		if o != nil {
			o(c)
		}
	}
	for _, number := range []struct {
		option string
		value  int
	}{
		{"WithMinPerDevice", c.minPerDevice}, {"WithChunk", c.chunk}, {"WithItemBytes", c.itemBytes},
		{"WithRetry", c.retries}, {"WithSizeGate", c.sizeGate},
	} {
		if number.value < 0 {
			return driver.Errorf(driver.ErrInvalidArgument, "%s(%d): want a number that is not negative", number.option, number.value)
		}
	}
	return nil
}
