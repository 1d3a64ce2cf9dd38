// Package block has what the threads of a block do together: they combine, scan, exchange, rank and count. Kernels call it.
//
// All threads of the block call a function together, as a barrier, and a block has a multiple of 32 threads along x alone.
// A function has shared memory of its own for each place that calls it. It begins and ends so that a loop may call it
// again. T is a number or a bool, or a struct or an array of them.
//
// The items of a thread are a slice of an array of its own, as long in each thread. They are next to each other: item i of thread k is
// element k*len(items)+i of the block. An array that only constants index stays in registers. Take an odd number of items: then
// threads do not wait for each other's banks of shared memory.
package block

import "github.com/purecuda/purecuda/gpu"

// Op is an associative operation: Combine(Combine(a, b), c) is Combine(a, Combine(b, c)). The order of a and b counts. A scan also
// calls Combine where it does not use the result, so no two elements may make a check in it fail.
type Op[T any] interface {
	// Zero changes nothing: Combine(Zero(), v) is v, and so is Combine(v, Zero()).
	Zero() T
	Combine(a, b T) T
}

// Number are the types of [Add].
type Number interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~int | ~uint | ~float32 | ~float64
}

// Add adds.
type Add[T Number] struct{}

// Zero is 0.
func (Add[T]) Zero() (zero T) { return zero }

// Combine is a + b.
func (Add[T]) Combine(a, b T) T { return a + b }

// Fold adds the elements of in to total, one after the other, and sets out[i] to the sum up to and with in[i] where out is not nil. It is
// for the CPU, where a call for each element costs more than the addition. An operation of a program may have it too: ScanCPU of
// package kernels and its brothers call it.
func (Add[T]) Fold(total T, in, out []T) T {
	if out == nil {
		for _, v := range in {
			total += v
		}
		return total
	}
	out = out[:len(in)]
	for i, v := range in {
		total += v
		out[i] = total
	}
	return total
}

// WarpReduce combines v of the lanes of a warp in their order. Lane 0 gets the result, and the others nothing of use.
func WarpReduce[T any, O Op[T]](t *gpu.Thread, op O, v T) T {
	for d := 1; d < 32; d *= 2 {
		v = op.Combine(v, gpu.Select(t.Lane()+d < 32, gpu.ShuffleDown(t, v, d), op.Zero()))
	}
	return v
}

// WarpScan combines v of the lanes of a warp up to and with this one.
func WarpScan[T any, O Op[T]](t *gpu.Thread, op O, v T) T {
	for d := 1; d < 32; d *= 2 {
		v = gpu.Select(t.Lane() >= d, op.Combine(gpu.ShuffleUp(t, v, d), v), v) // one instruction where Combine is one
	}
	return v
}

// before gives what the warps before this one have, and what all have, of what each warp has.
func before[T any, O Op[T]](t *gpu.Thread, op O, warps *[32]T, own T) (below, total T) {
	if t.Lane() == 31 {
		warps[t.Warp()] = own
	}
	t.Barrier()
	below, total = op.Zero(), op.Zero()
	for w := range t.BlockDimX() / 32 {
		below = gpu.Select(w == t.Warp(), total, below)
		total = op.Combine(total, warps[w])
	}
	t.Barrier()
	return below, total
}

// Reduce combines v of all threads, in the order of their ranks. All get the result.
func Reduce[T any, O Op[T]](t *gpu.Thread, op O, v T) T {
	warps := gpu.Shared[[32]T](t)
	v = gpu.Shuffle(t, WarpReduce(t, op, v), 0)
	_, total := before(t, op, warps, v)
	return total
}

// InclusiveScan combines v of the threads up to and with this one, and of all.
func InclusiveScan[T any, O Op[T]](t *gpu.Thread, op O, v T) (upTo, total T) {
	warps := gpu.Shared[[32]T](t)
	v = WarpScan(t, op, v)
	below, total := before(t, op, warps, v)
	return op.Combine(below, v), total
}

// ExclusiveScan combines v of the threads before this one, and of all. The first thread has Zero.
func ExclusiveScan[T any, O Op[T]](t *gpu.Thread, op O, v T) (below, total T) {
	warps := gpu.Shared[[32]T](t)
	v = WarpScan(t, op, v)
	below, total = before(t, op, warps, v)
	up := gpu.ShuffleUp(t, v, 1)
	return op.Combine(below, gpu.Select(t.Lane() == 0, op.Zero(), up)), total
}
