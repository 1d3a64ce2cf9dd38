package testlanguage

import "github.com/purecuda/purecuda/gpu"

// Block primitives as a library has them: generic over the type of the elements, and over the operation, which is a type
// with methods or a function.

// Operation combines elements. It has no fields.
type Operation[T any] interface {
	Zero() T
	Combine(a, b T) T
}

// Extent is an element of several words, and Widen an operation whose order matters.
type (
	Extent struct {
		Min, Max float64
		N        int32
		Odd      bool
	}
	Widen   struct{}
	Sum     struct{}
	Largest struct{ floor int32 } // an operation with a value
	Affine  struct{ A, B uint32 }
	Compose struct{}
)

func (Widen) Zero() Extent { return Extent{Min: 1e300, Max: -1e300} }
func (Widen) Combine(a, b Extent) Extent {
	return Extent{min(a.Min, b.Min), max(a.Max, b.Max), a.N + b.N, a.Odd != b.Odd}
}
func (Sum) Zero() int32                  { return 0 }
func (Sum) Combine(a, b int32) int32     { return a + b }
func (l Largest) Zero() int32            { return l.floor }
func (Largest) Combine(a, b int32) int32 { return max(a, b) }
func (Compose) Zero() Affine             { return Affine{A: 1} }
func (Compose) Combine(f, g Affine) Affine {
	return Affine{f.A * g.A, f.B*g.A + g.B}
}

const threads = 64

// exclusive is a scan over the block, with the total. It has shared memory of its own, one for each call.
func exclusive[T any, O Operation[T]](t *gpu.Thread, op O, v T) (before, total T) {
	part := gpu.Shared[[threads]T](t)
	i := t.Rank()
	part[i] = v
	t.Barrier()
	for d := 1; d < threads; d *= 2 {
		sum := part[i]
		if i >= d {
			sum = op.Combine(part[i-d], sum)
		}
		t.Barrier()
		part[i] = sum
		t.Barrier()
	}
	before = op.Zero()
	if i > 0 {
		before = part[i-1]
	}
	return before, part[threads-1]
}

// scanItems scans several elements of each thread, in place.
func scanItems[T any, O Operation[T]](t *gpu.Thread, items []T) (total T) {
	var op O
	sum := op.Zero()
	for i, v := range items {
		sum = op.Combine(sum, v)
		items[i] = sum
	}
	before, total := exclusive(t, op, sum)
	for i := range items {
		items[i] = op.Combine(before, items[i])
	}
	return total
}

// transform reduces what a function makes of each element, with another function.
func transform[T, U any](t *gpu.Thread, n int, zero U, load func(i int) T, convert func(T) U, combine func(a, b U) U) U {
	part := gpu.Shared[[threads]U](t)
	sum := zero
	for i := t.Rank(); i < n; i += threads {
		sum = combine(sum, convert(load(i)))
	}
	part[t.Rank()] = sum
	t.Barrier()
	for d := threads / 2; d > 0; d /= 2 {
		if t.Rank() < d {
			part[t.Rank()] = combine(part[t.Rank()], part[t.Rank()+d])
		}
		t.Barrier()
	}
	return part[0]
}

// sorted sorts the elements of a block by a comparison.
func sorted[T any](t *gpu.Thread, v T, less func(a, b T) bool) T {
	all := gpu.Shared[[threads]T](t)
	i := t.Rank()
	all[i] = v
	for size := 2; size <= threads; size *= 2 {
		for d := size / 2; d > 0; d /= 2 {
			t.Barrier()
			if j := i ^ d; j > i && less(all[j], all[i]) == (i&size == 0) {
				all[i], all[j] = all[j], all[i]
			}
		}
	}
	t.Barrier()
	return all[i]
}

// reducer has functions and an operation in its fields, as a policy of CUB.
type reducer[T any, O Operation[T]] struct {
	op   O
	keep func(T) bool
	warp *[threads / 32]T
}

func newReducer[T any, O Operation[T]](t *gpu.Thread, op O, keep func(T) bool) reducer[T, O] {
	return reducer[T, O]{op, keep, gpu.Shared[[threads / 32]T](t)}
}

func (r reducer[T, O]) reduce(t *gpu.Thread, v T, in *[threads]T) T {
	if !r.keep(v) {
		v = r.op.Zero()
	}
	in[t.Rank()] = v
	t.Barrier()
	if t.Lane() == 0 {
		sum := r.op.Zero()
		for j := range 32 {
			sum = r.op.Combine(sum, in[t.Rank()+j])
		}
		r.warp[t.Warp()] = sum
	}
	t.Barrier()
	sum := r.warp[0]
	for _, w := range r.warp[1:] {
		sum = r.op.Combine(sum, w)
	}
	return sum
}

// Blocks calls the library for types and operations of all kinds: after conditions, in loops, twice for one type.
//
//purecuda:kernel block=64
func Blocks(t *gpu.Thread, out []int32, extents []Extent, maps []Affine, x []int32, heads []bool) {
	i := t.GlobalX()
	if len(out) < 16*t.GlobalDimX() || len(x) < 4*t.GlobalDimX() || len(extents) < t.GlobalDimX() || len(maps) < 2*t.GlobalDimX() || len(heads) < t.GlobalDimX() {
		return
	}
	o := out[16*i : 16*i+16]
	var items [4]int32
	for j := range items {
		items[j] = x[4*i+j]
	}
	o[0] = scanItems[int32, Sum](t, items[:])
	o[1], o[2] = items[0], items[3]
	if x[0]&1 == 0 { // the whole block
		o[3], _ = exclusive(t, Largest{floor: -5}, x[4*i])
	} else {
		_, o[3] = exclusive(t, Sum{}, x[4*i])
	}
	for range 2 {
		before, total := exclusive(t, Widen{}, extents[i])
		extents[i] = Widen{}.Combine(before, extents[i])
		o[4] += total.N
		t.Barrier()
	}
	pair := [2]Affine{maps[2*i], maps[2*i+1]}
	all := scanItems[Affine, Compose](t, pair[:])
	maps[2*i], maps[2*i+1] = pair[0], pair[1]
	o[5] = int32(all.A ^ all.B)

	at := func(i int) int32 { return x[i] }
	o[6] = transform(t, len(x), 0, at, func(v int32) int32 { return v * v }, func(a, b int32) int32 { return a + b })
	o[7] = int32(transform(t, len(x), 0, func(i int) int { return i }, func(i int) uint8 { return uint8(x[i]) }, larger[uint8]))
	type entry struct {
		key   int32
		place int16
	}
	s := sorted(t, entry{x[4*i] & 15, int16(t.Rank())}, func(a, b entry) bool { return a.key < b.key || a.key == b.key && a.place < b.place })
	o[8], o[9] = s.key, int32(s.place)
	down := x[1]&1 == 0
	o[10] = int32(sorted(t, uint8(x[4*i+1]), func(a, b uint8) bool { return (a < b) != down }))

	keep := newReducer(t, Sum{}, func(v int32) bool { return v&1 == 0 })
	o[11] = keep.reduce(t, x[4*i+2], gpu.Shared[[threads]int32](t))
	high := newReducer(t, Largest{floor: 3}, isOdd)
	o[12] = high.reduce(t, x[4*i+3], gpu.Shared[[threads]int32](t))

	// Sums by key: the flag of an element says that it begins another.
	run, _ := exclusive(t, byKey[int32, Sum]{}, flagged[int32]{x[4*i], heads[i]})
	o[13] = run.value
}

// flagged is an element, and whether it begins a run. byKey combines the elements of a run.
type flagged[T any] struct {
	value T
	head  bool
}

type byKey[T any, O Operation[T]] struct{ op O }

func (k byKey[T, O]) Zero() flagged[T] { return flagged[T]{value: k.op.Zero()} }
func (k byKey[T, O]) Combine(a, b flagged[T]) flagged[T] {
	if b.head {
		return b
	}
	return flagged[T]{k.op.Combine(a.value, b.value), a.head}
}

func larger[T uint8 | int32](a, b T) T { return max(a, b) }

func isOdd(v int32) bool { return v&1 != 0 }
