package gpu

import (
	"reflect"
	"unsafe"
)

// Word is a number that a warp function compares or adds.
type Word interface {
	~int32 | ~uint32 | ~float32 | ~int64 | ~uint64 | ~float64 | ~int | ~uint
}

// All lanes of the warp that have not returned have to call a warp function together. A lane whose thread has
// returned, or that a block of fewer threads does not have, is no source of a value: Run says so.

// posted is what a lane brings to a warp function: the number of its call says whether it is of this one.
type posted struct {
	call  int
	op    string
	value uint64
	words *[6]uint32 // of a function of tensor cores
}

// toBits are the bits of a value of at most 8 bytes.
func toBits[T any](v T) (b uint64) {
	switch p := unsafe.Pointer(&v); unsafe.Sizeof(v) {
	case 4:
		b = uint64(*(*uint32)(p))
	case 8:
		*(*[8]byte)(unsafe.Pointer(&b)) = *(*[8]byte)(p)
	default:
		copy((*[8]byte)(unsafe.Pointer(&b))[:], unsafe.Slice((*byte)(p), unsafe.Sizeof(v)))
	}
	return b
}

func fromBits[T any](b uint64) (v T) {
	switch p := unsafe.Pointer(&v); unsafe.Sizeof(v) {
	case 4:
		*(*uint32)(p) = uint32(b)
	case 8:
		*(*[8]byte)(p) = *(*[8]byte)(unsafe.Pointer(&b))
	default:
		copy(unsafe.Slice((*byte)(p), unsafe.Sizeof(v)), (*[8]byte)(unsafe.Pointer(&b))[:])
	}
	return v
}

// exchange posts a value, waits for the warp, and gives what its lanes have posted. The next call but one
// uses the same memory again; by then all lanes have read it.
func (t *Thread) exchange(op string, v uint64) []posted { return t.post(posted{op: op, value: v}) }

func (t *Thread) post(p posted) []posted {
	t.calls++
	p.call = t.calls
	all := t.b.slots[t.calls&1]
	first := t.rank - t.Lane()
	slots := all[first:min(first+warpSize, len(all))]
	slots[t.Lane()] = p
	t.wait(t, atWarp)
	return slots
}

// takesPart reports whether the lane of a slot is at the same call. It is not where its thread has returned.
func (t *Thread) takesPart(p posted, op string, lane int) bool {
	if p.call == t.calls && p.op != op {
		fault("gpu.%s: lane %d is here while lane %d is at gpu.%s", op, t.Lane(), lane, p.op)
	}
	return p.call == t.calls
}

// from reads the value of a lane.
func from(t *Thread, slots []posted, op string, lane int) uint64 {
	if lane >= len(slots) {
		fault("gpu.%s: lane %d asks for the value of lane %d, which the block does not have", op, t.Lane(), lane)
	}
	if !t.takesPart(slots[lane], op, lane) {
		fault("gpu.%s: lane %d asks for the value of lane %d, which has returned", op, t.Lane(), lane)
	}
	return slots[lane].value
}

// shuffle is the v of a lane, 8 bytes at a time.
func shuffle[T any](t *Thread, op string, v T, lane int) (out T) {
	switch kind := reflect.TypeFor[T]().Kind(); {
	case kind == reflect.Struct || kind == reflect.Array:
		plain(reflect.TypeFor[T]())
	case kind > reflect.Float64:
		fault("gpu.%s: a lane gives numbers and bools, and structs and arrays of them, not %v", op, reflect.TypeFor[T]())
	}
	if unsafe.Sizeof(v) <= 8 {
		return fromBits[T](from(t, t.exchange(op, toBits(v)), op, lane))
	}
	give, take := unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)), unsafe.Slice((*byte)(unsafe.Pointer(&out)), unsafe.Sizeof(v))
	for i := 0; i < len(give); i += 8 {
		var word, got [8]byte
		copy(word[:], give[i:])
		got = fromBits[[8]byte](from(t, t.exchange(op, toBits(word)), op, lane))
		copy(take[i:], got[:])
	}
	return out
}

// Shuffle returns the v of a lane; the lane's number counts modulo 32. T is a number or a bool, or a struct or an array of them.
func Shuffle[T any](t *Thread, v T, lane int) T { return shuffle(t, "Shuffle", v, lane&(warpSize-1)) }

// ShuffleUp returns the v of the lane that is delta below, and the lane's own v where there is none. delta is 0 to 31.
func ShuffleUp[T any](t *Thread, v T, delta int) T {
	lane := t.Lane() - delta&(warpSize-1)
	if lane < 0 {
		lane = t.Lane()
	}
	return shuffle(t, "ShuffleUp", v, lane)
}

// ShuffleDown returns the v of the lane that is delta above, and the lane's own v where there is none. delta is 0 to 31.
func ShuffleDown[T any](t *Thread, v T, delta int) T {
	lane := t.Lane() + delta&(warpSize-1)
	if lane >= warpSize {
		lane = t.Lane()
	}
	return shuffle(t, "ShuffleDown", v, lane)
}

// ShuffleXor returns the v of the lane whose number is this one's exclusive-or with mask. mask is 0 to 31.
func ShuffleXor[T any](t *Thread, v T, mask int) T {
	return shuffle(t, "ShuffleXor", v, t.Lane()^mask&(warpSize-1))
}

// together calls f with the value of each lane that takes part.
func together(t *Thread, op string, v uint64, f func(lane int, v uint64)) {
	for lane, p := range t.exchange(op, v) {
		if t.takesPart(p, op, lane) {
			f(lane, p.value)
		}
	}
}

// Ballot has a bit for each lane: whether its p holds.
func Ballot(t *Thread, p bool) (mask uint32) {
	together(t, "Ballot", word(p), func(lane int, v uint64) { mask |= uint32(v) << lane })
	return mask
}

// All reports whether p holds in all lanes.
func All(t *Thread, p bool) bool {
	all := true
	together(t, "All", word(p), func(_ int, v uint64) { all = all && v != 0 })
	return all
}

// Any reports whether p holds in any lane.
func Any(t *Thread, p bool) (any bool) {
	together(t, "Any", word(p), func(_ int, v uint64) { any = any || v != 0 })
	return any
}

func word(p bool) uint64 {
	if p {
		return 1
	}
	return 0
}

// MatchAny has a bit for each lane whose v has the same bits as this lane's.
func MatchAny[T Word](t *Thread, v T) (mask uint32) {
	own := toBits(v)
	together(t, "MatchAny", own, func(lane int, v uint64) {
		if v == own {
			mask |= 1 << lane
		}
	})
	return mask
}

// WarpBarrier waits until all lanes of the warp are here: __syncwarp of CUDA C.
func WarpBarrier(t *Thread) { together(t, "WarpBarrier", 0, func(int, uint64) {}) }

// ReduceAdd is the sum of v over the warp, the same in all lanes. The order of additions is fixed: lanes 16 apart
// first, then 8, 4, 2 and 1. All 32 lanes have to take part.
func ReduceAdd[T Word](t *Thread, v T) T {
	for d := warpSize / 2; d > 0; d /= 2 {
		v += ShuffleXor(t, v, d)
	}
	return v
}

// ReduceMin is the least v of the warp. All 32 lanes have to take part.
func ReduceMin[T Word](t *Thread, v T) T {
	for d := warpSize / 2; d > 0; d /= 2 {
		v = min(v, ShuffleXor(t, v, d))
	}
	return v
}

// ReduceMax is the greatest v of the warp. All 32 lanes have to take part.
func ReduceMax[T Word](t *Thread, v T) T {
	for d := warpSize / 2; d > 0; d /= 2 {
		v = max(v, ShuffleXor(t, v, d))
	}
	return v
}

// LaneMaskBelow has the bits of the lanes below this one: popcount(Ballot(t, p) & LaneMaskBelow(t)) is the
// number of lanes below for which p holds.
func LaneMaskBelow(t *Thread) uint32 { return 1<<(t.Lane()&31) - 1 }
