package gpu

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// AtomicInteger are the integers that a GPU changes atomically. Those of 16 bits take more than one step, but for
// [AtomicCompareAndSwap].
type AtomicInteger interface {
	~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~int | ~uint
}

// AtomicNumber are the numbers that a GPU changes atomically.
type AtomicNumber interface {
	AtomicInteger | ~float32 | ~float64
}

// The atomics work on global and on shared memory. Each gives what was at p before. They are relaxed: they order
// no other access, and [Fence] does. On the CPU they order more than on a GPU, so a kernel that needs an order can pass there.

// locks are for atomics on the CPU that it has no instruction for, by address.
var locks [64]sync.Mutex

// locked calls f under the lock of an address.
func locked(p unsafe.Pointer, f func()) {
	l := &locks[uintptr(p)/16%uintptr(len(locks))]
	l.Lock()
	f()
	l.Unlock()
}

// update replaces *p by f(*p) in one step, and gives what was there.
func update[T AtomicNumber](p *T, f func(T) T) T {
	if unsafe.Sizeof(*p) == 2 { // a GPU runs this too
		for before := AtomicLoad(p, Relaxed, DeviceScope); ; {
			seen := AtomicCompareAndSwap(p, before, f(before))
			if seen == before {
				return before
			}
			before = seen
		}
	}
	if unsafe.Sizeof(*p) == 4 {
		w := (*uint32)(unsafe.Pointer(p))
		for {
			before := atomic.LoadUint32(w)
			after := f(fromBits[T](uint64(before)))
			if atomic.CompareAndSwapUint32(w, before, uint32(toBits(after))) {
				return fromBits[T](uint64(before))
			}
		}
	}
	w := (*uint64)(unsafe.Pointer(p))
	for {
		before := atomic.LoadUint64(w)
		after := f(fromBits[T](before))
		if atomic.CompareAndSwapUint64(w, before, toBits(after)) {
			return fromBits[T](before)
		}
	}
}

// AtomicAdd adds v to *p.
func AtomicAdd[T AtomicNumber](p *T, v T) T { return update(p, func(x T) T { return x + v }) }

// AtomicMin makes *p the lesser of *p and v.
func AtomicMin[T AtomicInteger](p *T, v T) T { return update(p, func(x T) T { return min(x, v) }) }

// AtomicMax makes *p the greater of *p and v.
func AtomicMax[T AtomicInteger](p *T, v T) T { return update(p, func(x T) T { return max(x, v) }) }

// AtomicAnd clears in *p the bits that v does not have.
func AtomicAnd[T AtomicInteger](p *T, v T) T { return update(p, func(x T) T { return x & v }) }

// AtomicOr sets in *p the bits of v.
func AtomicOr[T AtomicInteger](p *T, v T) T { return update(p, func(x T) T { return x | v }) }

// AtomicXor flips in *p the bits of v.
func AtomicXor[T AtomicInteger](p *T, v T) T { return update(p, func(x T) T { return x ^ v }) }

// AtomicExchange puts v at p.
func AtomicExchange[T AtomicNumber](p *T, v T) T { return update(p, func(T) T { return v }) }

// AtomicCompareAndSwap puts v at p where *p has the bits of old. The swap was made if the result has them.
func AtomicCompareAndSwap[T AtomicNumber](p *T, old, v T) T {
	if unsafe.Sizeof(*p) == 2 {
		var before T
		locked(unsafe.Pointer(p), func() {
			if before = *p; before == old {
				*p = v
			}
		})
		return before
	}
	return update(p, func(x T) T {
		if toBits(x) == toBits(old) {
			return v
		}
		return x
	})
}

// AtomicInc counts *p up to limit, and from there (or from above) to 0.
func AtomicInc(p *uint32, limit uint32) uint32 {
	return update(p, func(x uint32) uint32 {
		if x >= limit {
			return 0
		}
		return x + 1
	})
}

// AtomicDec counts *p down to 0, and from there (or from above limit) to limit.
func AtomicDec(p *uint32, limit uint32) uint32 {
	return update(p, func(x uint32) uint32 {
		if x == 0 || x > limit {
			return limit
		}
		return x - 1
	})
}

// AtomicAddHalf adds v to a float of 16 bits. A target before sm_90 has it for Float16 alone.
func AtomicAddHalf[T Half](p *T, v T) (before T) {
	locked(unsafe.Pointer(p), func() {
		before = *p
		*p = ToHalf[T](before.Float32() + v.Float32())
	})
	return before
}

// AtomicCompareAndSwapPair puts v at p, an element of a slice or an array in shared memory, where *p is old. It gives what was
// there, and is relaxed. The target is sm_90 or newer.
func AtomicCompareAndSwapPair(p *Uint64x2, old, v Uint64x2) (before Uint64x2) {
	locked(unsafe.Pointer(p), func() {
		before = AtomicLoadPair(p, DeviceScope)
		if before == old {
			storePair(p, v)
		}
	})
	return before
}
