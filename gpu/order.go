package gpu

import (
	"sync/atomic"
	"unsafe"
)

// Threads that run at the same time talk through words that they load and store in one step. Such a word is a flag, or a
// number with a flag in its upper bits. A relaxed word orders no other access. It is enough where all that is said fits
// the word. Else the one who writes stores with Release, or has a fence before the store. The one who reads loads with
// Acquire, or has a fence behind the load. Whoever has seen the word then sees all that was written before it.
//
// A thread may wait for a block that has begun before its own. Which those are, BlockX does not say: let each block take
// a number by AtomicAdd of a counter. A block that waits for a later one can wait for ever. Call [Thread.Nanosleep] in the
// loop that waits.

// Order is what a load, a store or a fence orders. It is a constant in a kernel.
type Order uint8

// The orders, with the names and meanings of C++ and CUDA.
const (
	Relaxed        Order = iota // the word alone
	Acquire                     // of a load: what the thread does after it comes after
	Release                     // of a store: what the thread did before it comes before
	AcquireRelease              // of a fence: both
	SeqCst                      // of a fence: all threads see one order of those fences
)

// Scope is who sees the order. It is a constant in a kernel.
type Scope uint8

// The scopes. A wider one costs more.
const (
	BlockScope  Scope = iota // the threads of the block
	DeviceScope              // all threads of the device
	SystemScope              // all devices, and the CPU
)

// AtomicLoad loads *p in one step. The order is Relaxed or Acquire.
func AtomicLoad[T AtomicNumber](p *T, o Order, s Scope) T {
	allowed("AtomicLoad", o, s, Relaxed, Acquire)
	if unsafe.Sizeof(*p) == 2 {
		var v T
		locked(unsafe.Pointer(p), func() { v = *p })
		return v
	}
	if unsafe.Sizeof(*p) == 4 {
		return fromBits[T](uint64(atomic.LoadUint32((*uint32)(unsafe.Pointer(p)))))
	}
	return fromBits[T](atomic.LoadUint64((*uint64)(unsafe.Pointer(p))))
}

// AtomicStore stores v at p in one step. The order is Relaxed or Release.
func AtomicStore[T AtomicNumber](p *T, v T, o Order, s Scope) {
	allowed("AtomicStore", o, s, Relaxed, Release)
	if unsafe.Sizeof(*p) == 2 {
		locked(unsafe.Pointer(p), func() { *p = v })
		return
	}
	if unsafe.Sizeof(*p) == 4 {
		atomic.StoreUint32((*uint32)(unsafe.Pointer(p)), uint32(toBits(v)))
		return
	}
	atomic.StoreUint64((*uint64)(unsafe.Pointer(p)), toBits(v))
}

// AtomicLoadPair loads two words by one instruction, relaxed, from an element of a slice. Each word is loaded in one step.
// That both are is true of devices of today, and not of the CPU: give each word a flag of its own.
func AtomicLoadPair(p *Uint64x2, s Scope) Uint64x2 {
	allowed("AtomicLoadPair", Relaxed, s, Relaxed)
	return Uint64x2{atomic.LoadUint64(&p.X), atomic.LoadUint64(&p.Y)}
}

// AtomicStorePair stores two words, as AtomicLoadPair loads them.
func AtomicStorePair(p *Uint64x2, v Uint64x2, s Scope) {
	allowed("AtomicStorePair", Relaxed, s, Relaxed)
	locked(unsafe.Pointer(p), func() { storePair(p, v) })
}

// storePair stores two words for who loads them meanwhile.
func storePair(p *Uint64x2, v Uint64x2) {
	atomic.StoreUint64(&p.X, v.X)
	atomic.StoreUint64(&p.Y, v.Y)
}

// Fence orders what the thread has read and written before it, and what it does after. The order is AcquireRelease, or
// SeqCst, which is __threadfence of CUDA C.
func Fence(o Order, s Scope) {
	allowed("Fence", o, s, AcquireRelease, SeqCst)
	fence.Add(1)
}

// fence is an atomic for what a fence orders: those of Go have one order for all threads.
var fence atomic.Uint32

// allowed panics where a function has no such order or scope.
func allowed(name string, o Order, s Scope, orders ...Order) {
	if s > SystemScope {
		fault("gpu.%s: there is no scope %d", name, s)
	}
	for _, a := range orders {
		if o == a {
			return
		}
	}
	fault("gpu.%s: it has no order %d", name, o)
}

// Nanosleep lets the thread wait about so many nanoseconds, at most twice as long and at most a millisecond. It is for
// loops that wait for another thread. On the CPU it lets other threads run.
func (t *Thread) Nanosleep(ns uint32) { t.wait(t, paused) }

// LoadStreaming loads what is read once: it is the first to leave the caches.
func LoadStreaming[T any](p *T) T { return *p }

// StoreStreaming stores what is not read soon: it is the first to leave the caches.
func StoreStreaming[T any](p *T, v T) { *p = v }
