package pool

import (
	"context"
	"maps"
	"slices"
	"time"

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
	doFallback   func(ctx context.Context) error

	ofOpen      string // an option that a call must not have
	minSet      bool   // minPerDevice is the caller's
	deviceSetup func(*Worker) error
	streams     int
	queue       int
	queueWait   bool
	cost        time.Duration
	priority    int
	deadline    time.Time
	without     []int

	breakEven *BreakEven
	items     int
	label     string
	bytes     uint64
	refuse    bool
	quotas    map[string]uint64
}

// The defaults of [WithMinPerDevice], [WithStreams] and [WithQueue].
const (
	minPerDevice     = 64
	streamsOfADevice = 16
	queueLength      = 1024
)

// What is worth a device's part in a call, where the cost or the bytes of an item are known.
const (
	costOfAPart  = 100 * time.Microsecond
	bytesOfAPart = 1 << 20
)

// WithSetup sets a function that prepares each stream before its first function: it allocates what is
// kept, such as buffers, and leaves it in [Worker.State]. It runs on a goroutine of its own. If it fails, so
// does the try, and the next call tries again. What the streams of a device can share belongs into
// [WithDeviceSetup]. It is an option of Open only.
func WithSetup(setup func(*Worker) error) Option {
	return func(c *config) { c.setup, c.ofOpen = setup, "WithSetup" }
}

// WithDeviceSetup sets a function that prepares each device once, before WithSetup. It loads modules, or
// what else all streams of a device can use, and leaves that in [Worker.State]. All workers of
// the device get it from [State]. If it has a method Close() error, that is called when the pool closes.
// For the rest it is as [WithSetup].
func WithDeviceSetup(setup func(*Worker) error) Option {
	return func(c *config) { c.deviceSetup, c.ofOpen = setup, "WithDeviceSetup" }
}

// WithStreams sets how many streams each device has, and so how many requests it runs at the same
// time. They are made when they are needed. The default is 16; with one, each device runs one request after
// the other. It is an option of Open only.
func WithStreams(n int) Option {
	return func(c *config) { c.streams, c.ofOpen = n, "WithStreams" }
}

// WithQueue sets how many requests may wait for a device; see [ErrQueueFull]. The default is 1024. With 0 a
// request runs at once or not at all. It is an option of Open only.
func WithQueue(requests int) Option {
	return func(c *config) { c.queue, c.ofOpen = requests, "WithQueue" }
}

// WithQueueWait lets a request wait until its context ends where the queue is full, instead of
// [ErrQueueFull]. It bounds nothing: the goroutines that call are what is bounded then.
func WithQueueWait() Option { return func(c *config) { c.queueWait = true } }

// WithCost says how long the function of [Do], or one item of [Scatter] and its kin, takes on a device, about.
// Do needs it where requests differ much. The others need it for few items that take long, or many that take
// little: as many devices take part as get 100 microseconds of work each.
func WithCost(d time.Duration) Option { return func(c *config) { c.cost = d } }

// WithPriority puts a request in the queue before those of lower priority, which may wait for ever then.
// The default is 0.
func WithPriority(n int) Option { return func(c *config) { c.priority = n } }

// WithDeadline ends the context of the call at a time. In the queue, of requests with one priority the one whose
// context ends first goes first.
func WithDeadline(t time.Time) Option { return func(c *config) { c.deadline = t } }

// WithDevices keeps the devices with the given ordinals; without it all that work are
// used. In a call it picks from those of the pool.
func WithDevices(ordinals ...int) Option {
	return func(c *config) { c.devices = slices.Clone(ordinals) }
}

// WithoutDevices leaves out the devices with the given ordinals.
func WithoutDevices(ordinals ...int) Option {
	return func(c *config) { c.without = slices.Clone(ordinals) }
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

// WithMinPerDevice sets how many items a device must have to take part: with fewer for all, the devices with the
// largest weights do it. It is also the least that a tile is cut into. Without it that depends on
// [WithCost], or else on [WithItemBytes]: it is as many items as have 1 MiB, and no more than 64.
func WithMinPerDevice(items int) Option {
	return func(c *config) { c.minPerDevice, c.minSet = items, true }
}

// WithChunk makes f be called for pieces of the given number of items, except for the
// last ones. Without it a tile is done in pieces that get smaller, so that other devices
// can help with the rest. With a chunk that is not shorter than any tile, each device
// does its own tile in one piece, unless its memory budget is smaller.
func WithChunk(items int) Option { return func(c *config) { c.chunk = items } }

// WithItemBytes says how much device memory one item needs, so that no piece is larger
// than the budget of its device ([runtime.Runtime.Budget]). Without it [Map] counts the
// elements of input and output, and [Scatter] has no such limit.
func WithItemBytes(bytes int) Option { return func(c *config) { c.itemBytes = bytes } }

// WithRetry lets other devices repeat a piece of a call, or a request of [Do], that failed, at most the given
// number of times. The device on which it failed takes no further part in the call. Without it,
// the first failure ends the call. Part of the work may so be done twice: the function must give
// the same result then.
func WithRetry(times int) Option { return func(c *config) { c.retries = times } }

// WithSizeGate leaves work with fewer items to the fallback, without a call of the
// driver. It has no effect without a fallback. The right number depends on the machine:
// [WithBreakEven] measures it.
func WithSizeGate(items int) Option { return func(c *config) { c.sizeGate = items } }

// WithBreakEven leaves work to the fallback that the cores do faster, by what b has learned for this
// number of items, without a call of the driver. For [Reduce] an item is a block. It has no effect
// without a fallback, and as long as b has learned nothing. Calls tell b what they took.
func WithBreakEven(b *BreakEven) Option { return func(c *config) { c.breakEven = b } }

// WithReserve reserves memory of the device for a request of [Do], from before its function until after it. A
// device takes a request only if its reservations stay below nine tenths of the memory that is free, with
// what this program has cached and what those who have reserved memory hold. A request that fits on no
// device waits in the queue, after those of its kind that have come before, or fails with
// [WithoutQueue]. One that never fits fails at once with a [*ReserveError].
//
// It is a promise, and no limit: the function may allocate more, and others need not reserve. What is
// free is known where the context of the device is open. The label names who has reserved; see
// [WithQuota].
func WithReserve(label string, bytes uint64) Option {
	return func(c *config) { c.label, c.bytes = label, bytes }
}

// WithQuota limits the bytes of each device that requests with a label have reserved at the same
// time. It is an option of Open only, and may be given for several labels.
func WithQuota(label string, bytes uint64) Option {
	return func(c *config) {
		c.quotas, c.ofOpen = maps.Clone(c.quotas), "WithQuota"
		if c.quotas == nil {
			c.quotas = map[string]uint64{}
		}
		c.quotas[label] = bytes
	}
}

// WithoutQueue makes a request of [Do] fail where it would have to wait: with [ErrQueueFull] for a stream,
// and with a [*ReserveError] for memory.
func WithoutQueue() Option { return func(c *config) { c.refuse = true } }

// WithItems says how many items the request of [Do] is, for [WithBreakEven]. Without it it is one.
func WithItems(n int) Option { return func(c *config) { c.items = n } }

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

// WithDoFallback is [WithFallback] for [Do]: f does the request on the CPU, on the caller's goroutine. It does
// not run where the queue is full.
func WithDoFallback(f func(ctx context.Context) error) Option {
	return func(c *config) { c.doFallback = f }
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
		{"WithRetry", c.retries}, {"WithSizeGate", c.sizeGate}, {"WithStreams", c.streams}, {"WithQueue", c.queue},
		{"WithCost", int(c.cost)}, {"WithItems", c.items},
	} {
		if number.value < 0 {
			return driver.Errorf(driver.ErrInvalidArgument, "%s(%d): want a number that is not negative", number.option, number.value)
		}
	}
	return nil
}

// configure returns the options of a call, and checks what does not depend on the machine.
func (p *Pool) configure(ctx context.Context, hasFunction bool, options []Option) (*config, error) {
	switch {
	case ctx == nil || p == nil || p.rt == nil || !hasFunction:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a context, a pool and a function are needed")
	case ctx.Value(within{p}) != nil:
		return nil, errNested()
	case len(options) == 0:
		return &p.defaults, nil
	}
	c := p.defaults
	c.devices, c.without, c.ofOpen = nil, nil, ""
	if err := c.apply(options); err != nil {
		return nil, err
	}
	if c.ofOpen != "" {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "%s is an option of Open", c.ofOpen)
	}
	return &c, nil
}

// within marks the contexts of the calls of a pool.
type within struct{ pool *Pool }

func errNested() error {
	return driver.Errorf(driver.ErrInvalidArgument, "a call within a call of the same pool would wait for its own device: "+
		"do the work with the Worker of the outer call, or open another pool")
}
