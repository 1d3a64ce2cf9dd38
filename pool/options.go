package pool

import (
	"context"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/runtime"
)

// Options are those of a pool. The zero value is right for most. Each call has a structure of its own, whose zero
// value is right as well: give a call none or one.
type Options struct {
	// Setup is what the functions find ready with each [Worker]: the [State] of each device, and that of each stream.
	Setup []Setup
	// Devices are the ordinals of the devices. The default is all.
	Devices []int
	// Suits chooses from them by what a device is, once for each. It must not call the pool. Open fails with driver.ErrUnsupported if
	// there are devices and none suits.
	Suits func(runtime.Device) bool
	// Streams is how many streams each device has, and so how many requests it runs at the same time. Streams
	// are made on demand. The default is 16. With one stream, each device runs one request after the other.
	Streams int
	// Queue is how many calls may wait for a device or for the CPU, see [ErrQueueFull]. The default is 1024. With a
	// negative number a call runs at once or fails.
	Queue int
	// Quotas limit the bytes of each device that requests with a label reserve at the same time, see
	// DoOptions.Reserve.
	Quotas map[string]uint64
	// Health makes the pool use what NVML knows of its devices.
	//
	//   - A device is quarantined until the pool is closed after an Xid that asks for a reset, since results
	//     may be wrong and no probe can tell. See [nvml.Xid.NeedsReset].
	//   - So is one with a memory error that asks for a reset, see [nvml.Status.Fault], at Open or later, unless
	//     no other device is in service.
	//   - DoOptions.Reserve knows how much memory other programs have taken before a device's context is open.
	//
	// One goroutine listens while the pool is open, and [Pool.Close] takes up to 250 ms longer. NVML must not
	// be closed before the pool. Where it tells of no events, [Stats].HealthErr says why, and the pool works as
	// without it.
	Health nvml.API
	// Remote is for functions that have their work done by other processes: the pool opens no context, a
	// [Worker] has no Context and no Stream, and no setup runs. Remote returns why a device cannot do work now, or
	// nil. It is asked at the beginning of each call, on several goroutines at the same time. begins is false where
	// somebody only asks for the state, as in Stats. Do asks on the goroutine of its caller.
	//
	// The answer [ErrNotReady] lets a request of Do wait until [Pool.Changed]. With DoOptions.Retry a device is
	// tried again where there is no other one, since another process does the work then. All devices count as equally
	// fast but for their scores, unless requests have a Cost. Package isolate makes such pools.
	Remote func(ordinal int, begins bool) error
}

// DoOptions are those of a call of [Pool.Do].
type DoOptions struct {
	// Fallback does the request on the CPU, on the caller's goroutine, if no device can, or after the last try. It
	// runs neither after the end of the caller's context nor if the queue is full.
	//
	// As many calls of a pool have their fallback at the same time as there are cores (GOMAXPROCS). The others wait
	// in the queue of the pool. A call that a fallback makes with its context does not wait there.
	//
	// The first fallback for each [Reason] is logged, see [runtime.WithLogger], and [Stats] counts all. Under
	// runtime.PolicyRequired no fallback runs, and the error wraps driver.ErrRequired. Only BreakEven still sends
	// work to it: it is the caller's word on what is faster.
	Fallback func(ctx context.Context) error
	// Retry is how often other devices may repeat what has failed. The device on which it failed takes no further
	// part in the call. A function may run twice for the same work, and must give the same result.
	Retry int
	// Wait lets the call wait until its context ends if the queue is full, instead of failing with [ErrQueueFull].
	Wait bool
	// Devices are the ordinals of the devices that may do the work. The default is all of the pool.
	Devices []int
	// Suits chooses from them by what a device is, such as its Capability or ClusterLaunch. The others are not offered the work, and
	// Report.Skipped names them. If none suits, the error is of kind driver.ErrUnsupported, or the fallback does the work.
	Suits func(runtime.Device) bool
	// Cost is about how long the function takes on a device. Set it if requests differ much.
	Cost time.Duration
	// Priority puts the request in the queue before those of lower priority, which may then wait for ever. Among
	// requests of equal priority, the one whose context ends first goes first.
	Priority int
	// Reserve reserves bytes of device memory while the function runs. All reservations of a device stay below
	// nine tenths of its free memory. Free memory here includes the cache of this program and the memory of
	// requests that have reserved. A request that fits on no device waits in the queue, after earlier ones that
	// reserve. A request that can never fit fails at once with a [*ReserveError].
	//
	// A reservation is not a limit: the function may allocate more, and other code need not reserve. The free
	// memory is known only if the context of the device is open.
	Reserve uint64
	// Label says who reserves, see Options.Quotas.
	Label string
	// BreakEven sends the request to Fallback if the CPU is faster for so many Items, by its measurements. That
	// makes no call of the driver. It has no effect without Fallback, or while BreakEven has no measurements. The
	// call adds its own time to them.
	BreakEven *BreakEven
	// Items is for BreakEven. The default is 1.
	Items int

	ofBatcher bool // the call is that of a Batcher
}

// ScatterOptions are those of a call of [Pool.Scatter].
type ScatterOptions struct {
	// Fallback does the items on the CPU if CUDA cannot be used or a tile has failed for good. It runs as with
	// [Parallel]: on all cores, for ranges that together are [0, n). Otherwise it is as DoOptions.Fallback.
	Fallback func(ctx context.Context, lo, hi int) error
	// Retry, Wait, Devices, Suits and Priority are as in [DoOptions]. Retry counts for each piece.
	Retry    int
	Wait     bool
	Devices  []int
	Suits    func(runtime.Device) bool
	Priority int
	// Cost is about how long an item takes on a device. Set it if items are few and long, or many and short: each
	// device that takes part gets at least 100 microseconds of work.
	Cost time.Duration
	// Chunk is the number of items of a piece, except for the last pieces. By default the pieces of a tile get
	// smaller, so that other devices can take some. With a chunk that is as long as the longest tile, each device
	// does its tile in one piece, unless its memory budget is smaller.
	Chunk int
	// Grain makes all pieces begin and end at multiples of a number of items, except for the end of the last one.
	// It is for functions that do a block of items at a time, and pay for a whole one. For kernels with one item a
	// thread give it the threads of a block, also for a fallback that gpuc has written. Chunk is rounded down to it,
	// but is at least one. If less than that fits into the memory budget, the device fails.
	Grain int
	// ItemBytes is how much device memory one item needs. No piece is larger than the budget of its device
	// ([runtime.Runtime.Budget]). By default there is no such limit.
	ItemBytes int
	// MinPerDevice is how many items a device must have to take part. If there are too few items for all devices,
	// those with the largest scores take part. It is also the least size of a piece, if items are left. The default
	// depends on Cost, or else on ItemBytes: the items of 1 MiB, at most 64.
	MinPerDevice int
	// BreakEven is as in [DoOptions].
	BreakEven *BreakEven
}

// MapOptions are those of a call of [Map]. What is not explained here is as in [ScatterOptions].
type MapOptions[In, Out any] struct {
	// Fallback computes the elements of out from those of in on the CPU.
	Fallback func(ctx context.Context, in []In, out []Out) error
	Retry    int
	Wait     bool
	Devices  []int
	Suits    func(runtime.Device) bool
	Priority int
	Cost     time.Duration
	Chunk    int
	Grain    int
	// ItemBytes is for one element of in and one of out. The default is their size.
	ItemBytes    int
	MinPerDevice int
	BreakEven    *BreakEven
}

// ReduceOptions are those of a call of [Reduce]. What is not explained here is as in [ScatterOptions], with blocks
// as items.
type ReduceOptions[R any] struct {
	// Fallback computes the results of the blocks of a range of items on the CPU.
	Fallback     func(ctx context.Context, lo, hi int, out []R) error
	Retry        int
	Wait         bool
	Devices      []int
	Suits        func(runtime.Device) bool
	Priority     int
	Cost         time.Duration
	Chunk        int
	ItemBytes    int
	MinPerDevice int
	BreakEven    *BreakEven
}

// ParallelOptions are those of a call of [Parallel]: see [ScatterOptions].
type ParallelOptions struct {
	Chunk, Grain int
}

// The defaults of MinPerDevice, Streams and Queue.
const (
	minPerDevice     = 64
	streamsOfADevice = 16
	queueLength      = 1024
)

// The least work for which a device takes part in a call, if the cost or the bytes of an item are known. A piece is no less either, where the
// speed is.
const (
	costOfAPart  = 100 * time.Microsecond
	bytesOfAPart = 1 << 20
)

// one returns the options of a call, of which there is none or one.
func one[O any](options []O) (o O, err error) {
	switch len(options) {
	case 0:
		return o, nil
	case 1:
		return options[0], nil
	}
	return o, driver.Errorf(driver.ErrInvalidArgument, "%d structures %T: give one", len(options), o)
}

// number is an option that must not be negative.
type number struct {
	name  string
	value int64 // a Cost has more bits than an int may have
}

func notNegative(numbers ...number) error {
	for _, n := range numbers {
		if n.value < 0 {
			return driver.Errorf(driver.ErrInvalidArgument, "%s is %d: want a number that is not negative", n.name, n.value)
		}
	}
	return nil
}

func (o *Options) check() error {
	for i, s := range o.Setup {
		if s == nil || !s.usable() {
			return driver.Errorf(driver.ErrInvalidArgument, "Setup[%d] has no function: make it with PerDevice or PerStream", i)
		}
	}
	return notNegative(number{"Streams", int64(o.Streams)})
}

func (o *DoOptions) check() error {
	if o.Retry|o.Items >= 0 && o.Cost >= 0 { // the way of most calls
		return nil
	}
	return notNegative(number{"Retry", int64(o.Retry)}, number{"Items", int64(o.Items)}, number{"Cost", int64(o.Cost)})
}

func (o *ScatterOptions) check() error {
	return notNegative(number{"Retry", int64(o.Retry)}, number{"Cost", int64(o.Cost)}, number{"Chunk", int64(o.Chunk)}, number{"Grain", int64(o.Grain)},
		number{"ItemBytes", int64(o.ItemBytes)}, number{"MinPerDevice", int64(o.MinPerDevice)})
}

// check returns the error of the arguments of a call that do not depend on the machine.
func (p *Pool) check(ctx context.Context, hasFunction bool) error {
	switch {
	case ctx == nil || p == nil || p.rt == nil || !hasFunction:
		return driver.Errorf(driver.ErrInvalidArgument, "a context, a pool and a function are needed")
	case ctx.Value(within{p}) != nil:
		return errNested()
	}
	return nil
}
