// Package bench measures what the GPUs of a machine do for a Go program. That is what a call, a
// launch, an allocation and a copy cost, and how work scales over devices and cores.
//
//	list := bench.List(machine, bench.Sizes{Largest: 1 << 30})
//	err := bench.Run(ctx, list, options, func(r bench.Result) { print(r) })
//
// A [Case] is one measurement. Cases that share memory or kernels form a suite, which is opened
// when the first of them is measured and closed after the last. Each case is warmed up, and then
// measured in rounds: a round repeats the operation until its time has passed and gives one value,
// the mean. What is put on a stream is timed in batches, and the stream is emptied outside of the
// timed part, so that its queue never fills. A copy, and everything else that a program waits for,
// is timed until it is done.
package bench
