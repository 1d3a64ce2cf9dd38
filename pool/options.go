package pool

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
)

// Option changes what [Open] or a call does. Options of Open hold for all calls of the pool that take them. The
// options of a call override them. Of an option that is given twice the last one counts. An option of another
// call is an error of kind driver.ErrInvalidArgument that names both.
type Option func(*config)

type config struct {
	setup        func(*Worker) error
	devices      []int
	weights      []float64
	minPerDevice int
	chunk        int
	grain        int
	itemBytes    int
	retries      int
	sizeGate     int
	fallback     func(ctx context.Context, lo, hi int) error
	mapFallback  any // func(context.Context, []In, []Out) error
	doFallback   func(ctx context.Context) error

	deviceSetup func(*Worker) error
	streams     int
	queue       int
	cost        time.Duration
	priority    int
	deadline    time.Time
	without     []int

	breakEven *BreakEven
	items     int
	label     string
	bytes     uint64
	quotas    map[string]uint64
	remote    func(ordinal int) error
	health    nvml.API

	given      optionSet
	throughput bool
	minSet     bool // minPerDevice is the caller's
	queueWait  bool
	refuse     bool
	ofBatcher  bool // the call is that of a Batcher
}

// The defaults of [WithMinPerDevice], [WithStreams] and [WithQueue].
const (
	minPerDevice     = 64
	streamsOfADevice = 16
	queueLength      = 1024
)

// The least work for which a device takes part in a call, if the cost or the bytes of an item are known.
const (
	costOfAPart  = 100 * time.Microsecond
	bytesOfAPart = 1 << 20
)

// WithSetup sets a function that prepares each stream before its first use. It allocates what the stream
// keeps, such as buffers, and stores it in [Worker.State]. It runs on a goroutine of its own. If it fails,
// other devices do the work, and the next request tries again. A device on which it has never succeeded
// is quarantined after three failures in a row. Use [WithDeviceSetup] for what the streams of a device can
// share. It is an option of Open only.
func WithSetup(setup func(*Worker) error) Option {
	return func(c *config) { c.given.add(optSetup); c.setup = setup }
}

// WithDeviceSetup sets a function that prepares each device once, before WithSetup. It loads what all
// streams of the device can use, such as modules, and stores it in [Worker.State]. All workers of the
// device get it from [State]. If it has a method Close() error, the pool calls that when it closes.
// Otherwise it is as [WithSetup].
func WithDeviceSetup(setup func(*Worker) error) Option {
	return func(c *config) { c.given.add(optDeviceSetup); c.deviceSetup = setup }
}

// WithStreams sets how many streams each device has, and so how many requests it runs at the same time.
// Streams are made on demand. The default is 16. With one stream, each device runs one request after the
// other. It is an option of Open only.
func WithStreams(n int) Option {
	return func(c *config) { c.given.add(optStreams); c.streams = n }
}

// WithQueue sets how many requests may wait for a device or for the CPU, see [ErrQueueFull]. The default is 1024. With 0
// a request runs at once or fails. It is an option of Open only.
func WithQueue(requests int) Option {
	return func(c *config) { c.given.add(optQueue); c.queue = requests }
}

// WithQueueWait lets a request wait until its context ends if the queue is full, instead of failing with
// [ErrQueueFull]. The queue is then bounded only by the number of goroutines that call.
func WithQueueWait() Option { return func(c *config) { c.given.add(optQueueWait); c.queueWait = true } }

// WithRemote is for functions that have their work done by other processes: the pool opens no context, a
// [Worker] has no Context and no Stream, and no setup runs. state is why a device cannot do work now, or
// nil. It is asked at the beginning of each call, on several goroutines at the same time.
// isolate.Group.Pool makes such a pool. It is an option of Open only.
func WithRemote(state func(ordinal int) error) Option {
	return func(c *config) { c.given.add(optRemote); c.remote = state }
}

// WithCost estimates how long the function of [Do], or one item of [Scatter], [Map] and [Reduce], takes on
// a device. Set it for Do if requests differ much. Set it for the others if items are few and long, or
// many and short: each device that takes part gets at least 100 microseconds of work.
func WithCost(d time.Duration) Option { return func(c *config) { c.given.add(optCost); c.cost = d } }

// WithPriority puts a request in the queue before those of lower priority, which may then wait for ever. The
// default is 0.
func WithPriority(n int) Option { return func(c *config) { c.given.add(optPriority); c.priority = n } }

// WithDeadline ends the context of the call at a time. Among requests of equal priority in the queue, the
// request whose context ends first goes first.
func WithDeadline(t time.Time) Option {
	return func(c *config) { c.given.add(optDeadline); c.deadline = t }
}

// WithDevices selects the devices with the given ordinals. Without it all working devices are used. In a
// call it selects among the devices of the pool.
func WithDevices(ordinals ...int) Option {
	return func(c *config) { c.given.add(optDevices); c.devices = slices.Clone(ordinals) }
}

// WithoutDevices excludes the devices with the given ordinals.
func WithoutDevices(ordinals ...int) Option {
	return func(c *config) { c.given.add(optWithoutDevices); c.without = slices.Clone(ordinals) }
}

// WithWeights sets the proportions of the first tiles: one weight for each device of the call, in the
// order of [Pool.Devices]. Without it the weights are the scores of the devices. A device with weight 0
// has no tile, but may repeat one that failed (see [WithRetry]).
func WithWeights(weights ...float64) Option {
	return func(c *config) { c.given.add(optWeights); c.weights, c.throughput = slices.Clone(weights), false }
}

// WithThroughput weighs the devices by their speed in earlier calls of the pool, or by their scores before
// the first call.
func WithThroughput() Option {
	return func(c *config) { c.given.add(optThroughput); c.weights, c.throughput = nil, true }
}

// WithMinPerDevice sets how many items a device must have to take part. If there are too few items for all
// devices, those with the largest weights take part. It is also the least size of a piece, if items are
// left. Without it the number depends on [WithCost], or else on [WithItemBytes]: the items of 1 MiB, at
// most 64.
func WithMinPerDevice(items int) Option {
	return func(c *config) { c.given.add(optMinPerDevice); c.minPerDevice, c.minSet = items, true }
}

// WithChunk sets the number of items of a piece, except for the last pieces. Without it the pieces of a
// tile get smaller, so that other devices can take some. With a chunk that is as long as the longest
// tile, each device does its tile in one piece, unless its memory budget is smaller.
func WithChunk(items int) Option { return func(c *config) { c.given.add(optChunk); c.chunk = items } }

// WithGrain makes all pieces begin and end at multiples of a number of items, except for the end of the last
// one. It is for functions that do a block of items at a time, and pay for a whole one: give it the
// threads of a block for kernels with one item a thread, also for a fallback that gpuc has written. A chunk
// is rounded down to it, but is at least one. If less than that fits into the memory budget, the device fails.
func WithGrain(items int) Option { return func(c *config) { c.given.add(optGrain); c.grain = items } }

// WithItemBytes sets how much device memory one item needs. No piece is larger than the budget of its
// device ([runtime.Runtime.Budget]). Without it [Map] counts the elements of input and output, and
// [Scatter] has no such limit.
func WithItemBytes(bytes int) Option {
	return func(c *config) { c.given.add(optItemBytes); c.itemBytes = bytes }
}

// WithRetry lets other devices repeat a piece of a call, or a request of [Do], that failed, at most the
// given number of times. The device on which it failed takes no further part in the call. Without it,
// the first failure ends the call. A function may run twice for the same items, and must give the same
// result.
func WithRetry(times int) Option { return func(c *config) { c.given.add(optRetry); c.retries = times } }

// WithSizeGate sends work with fewer items to the fallback, without a call of the driver. It has no effect
// without a fallback. The right number depends on the machine: [WithBreakEven] measures it.
func WithSizeGate(items int) Option {
	return func(c *config) { c.given.add(optSizeGate); c.sizeGate = items }
}

// WithBreakEven sends work to the fallback if the CPU is faster for this number of items, by the
// measurements of b. That makes no call of the driver. For [Reduce] an item is a block. It has no effect
// without a fallback, or while b has no measurements. Calls add their own times to b.
func WithBreakEven(b *BreakEven) Option {
	return func(c *config) { c.given.add(optBreakEven); c.breakEven = b }
}

// WithReserve reserves memory of the device for a request of [Do] while its function runs. All reservations
// of a device stay below nine tenths of its free memory. Free memory here includes the cache of this
// program and the memory of requests that have reserved. A request that fits on no device waits in the
// queue, after earlier requests with WithReserve, or fails with [WithoutQueue]. A request that can never
// fit fails at once with a [*ReserveError].
//
// A reservation is not a limit: the function may allocate more, and other code need not reserve. The free
// memory is known only if the context of the device is open. The label says who has reserved, see
// [WithQuota].
func WithReserve(label string, bytes uint64) Option {
	return func(c *config) { c.given.add(optReserve); c.label, c.bytes = label, bytes }
}

// WithQuota limits the bytes of each device that requests with a label reserve at the same time. Give it once
// for each label. It is an option of Open only.
func WithQuota(label string, bytes uint64) Option {
	return func(c *config) {
		c.given.add(optQuota)
		c.quotas = maps.Clone(c.quotas)
		if c.quotas == nil {
			c.quotas = map[string]uint64{}
		}
		c.quotas[label] = bytes
	}
}

// WithoutQueue makes a request of [Do] fail if it would have to wait: with [ErrQueueFull] for a stream, and
// with a [*ReserveError] for memory.
func WithoutQueue() Option { return func(c *config) { c.given.add(optWithoutQueue); c.refuse = true } }

// WithItems sets the number of items of a request of [Do] for [WithBreakEven]. The default is 1.
func WithItems(n int) Option { return func(c *config) { c.given.add(optItems); c.items = n } }

// WithFallback sets the function that does the work of [Scatter] on the CPU, if CUDA cannot be used or a
// tile has failed for good. It runs as with [CPU]: on all cores, for ranges that together are [0, n).
// It does not run after the context of the call has ended.
//
// As many calls of a pool have their fallback at the same time as there are cores (GOMAXPROCS). The others wait in the
// queue of [WithQueue]. A call that a fallback makes does not wait there.
//
// The first fallback for each [Reason] is logged, see [runtime.WithLogger], and [Stats] counts all. Under
// runtime.PolicyRequired no fallback runs, and the error wraps driver.ErrRequired. Only [WithSizeGate] and
// [WithBreakEven] still send work to it: they are the caller's word on what is faster.
func WithFallback(f func(ctx context.Context, lo, hi int) error) Option {
	return func(c *config) { c.given.add(optFallback); c.fallback = f }
}

// WithMapFallback is [WithFallback] for [Map]: f computes the elements of out from those of in. In and Out
// must be those of the call.
func WithMapFallback[In, Out any](f func(ctx context.Context, in []In, out []Out) error) Option {
	return func(c *config) {
		c.given.add(optMapFallback)
		c.mapFallback = nil
		if f != nil {
			c.mapFallback = f
		}
	}
}

// WithDoFallback is [WithFallback] for [Do]: f does the request on the CPU, on the caller's goroutine. It
// does not run if the queue is full.
func WithDoFallback(f func(ctx context.Context) error) Option {
	return func(c *config) { c.given.add(optDoFallback); c.doFallback = f }
}

// apply applies the options of a call, and checks that it takes them, and the numbers.
func (c *config) apply(of call, options []Option) error {
	for _, o := range options {
		if o != nil {
			o(c)
		}
	}
	if err := c.given.check(of); err != nil {
		return err
	}
	for _, number := range []struct {
		option string
		value  int
	}{
		{"WithMinPerDevice", c.minPerDevice}, {"WithChunk", c.chunk}, {"WithGrain", c.grain}, {"WithItemBytes", c.itemBytes},
		{"WithRetry", c.retries}, {"WithSizeGate", c.sizeGate}, {"WithStreams", c.streams}, {"WithQueue", c.queue},
		{"WithCost", int(c.cost)}, {"WithItems", c.items},
	} {
		if number.value < 0 {
			return driver.Errorf(driver.ErrInvalidArgument, "%s(%d): want a number that is not negative", number.option, number.value)
		}
	}
	return nil
}

// checkOptions returns the error of the options of a call.
func checkOptions(of call, options []Option) error { return new(config).apply(of, options) }

// configure returns the options of a call. It checks what does not depend on the machine.
func (p *Pool) configure(ctx context.Context, of call, hasFunction bool, options []Option) (*config, error) {
	switch {
	case ctx == nil || p == nil || p.rt == nil || !hasFunction:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a context, a pool and a function are needed")
	case ctx.Value(within{p}) != nil:
		return nil, errNested()
	case len(options) == 0:
		return &p.defaults, nil
	}
	c := p.defaults
	c.devices, c.without, c.given = nil, nil, 0
	if err := c.apply(of, options); err != nil {
		return nil, err
	}
	return &c, nil
}
