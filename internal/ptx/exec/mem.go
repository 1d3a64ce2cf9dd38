package exec

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/internal/race"
)

// Loads and stores (PTX ISA, "ld", "st"). The host is little endian, as the device is:
// purecuda has no big-endian platform; Compile checks it.
//
// With the race detector all accesses of kernels to global memory are atomic. Kernels may read what
// others write, and good ones do: the loop around atomicCAS of CUDA's own guide begins with a plain
// load. The race detector, which knows Go's rules and not PTX's, would report them. It still reports a
// kernel and a copy that nothing has ordered.

// runLoad32 is the commonest load by far: one 32-bit element of global memory.
func runLoad32(w *warp, in *inst, mask uint32) {
	if w.b.late != nil {
		runLoad(w, in, mask)
		return
	}
	d, a := w.reg(in.d), w.lane(in.a)
	g := w.g
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		addr := a[i] + in.imm
		off := addr - g.base
		if off < g.size && g.size-off >= 4 && addr&3 == 0 {
			d[i] = uint64(*(*uint32)(unsafe.Add(g.p, off)))
			w.moved[memLoad] += 4
			continue
		}
		q, _ := w.ptr(in, i, in.space, addr, 4, 4)
		if q == nil {
			return
		}
		d[i] = uint64(*(*uint32)(q))
		g = w.g
	}
}

// runLoadShared32 is one 32-bit element of shared memory.
func runLoadShared32(w *warp, in *inst, mask uint32) {
	d, a := w.reg(in.d), w.lane(in.a)
	size, p := uint64(len(w.b.shared)), unsafe.Pointer(unsafe.SliceData(w.b.shared))
	cut := ^uint64(0)
	if in.flags&flagAddr32 != 0 {
		cut >>= 32
	}
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		addr := (a[i] + in.imm) & cut
		if addr < size && size-addr >= 4 && addr&3 == 0 {
			d[i] = uint64(*(*uint32)(unsafe.Add(p, addr)))
			continue
		}
		w.ptr(in, i, spShared, addr, 4, 4) // records the fault
		return
	}
}

func runLoad(w *warp, in *inst, mask uint32) {
	if in.flags&flagAtomic != 0 {
		w.spins++
	}
	w.order(in)
	a := w.lane(in.a)
	esz := uint64(in.esz)
	total := esz * uint64(in.n)
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		addr := a[i] + in.imm
		if in.flags&flagAddr32 != 0 {
			addr = uint64(uint32(addr))
		}
		p, global := w.ptr(in, i, in.space, addr, total, total)
		if p == nil {
			return
		}
		shared := global && (race.Enabled || in.flags&flagAtomic != 0)
		old := global && w.b.late != nil && in.flags&flagAtomic == 0
		if in.n == 1 {
			w.reg(in.d)[i] = w.loadElem(in, p, shared, old)
			continue
		}
		for k, s := range in.vd {
			w.reg(s)[i] = w.loadElem(in, unsafe.Add(p, uint64(k)*esz), shared, old)
		}
	}
}

// loadElem loads an element. shared says that others may write it meanwhile, and old that a launch by chance may give what was
// there before.
func (w *warp) loadElem(in *inst, p unsafe.Pointer, shared, old bool) uint64 {
	var v uint64
	switch {
	case old:
		v = w.b.late.load(w.b, p, in.esz)
	case shared:
		v = atomicLoad(p, in.esz)
	case in.esz == 4:
		v = uint64(*(*uint32)(p))
	case in.esz == 8:
		return *(*uint64)(p)
	case in.esz == 1:
		v = uint64(*(*uint8)(p))
	default:
		v = uint64(*(*uint16)(p))
	}
	if in.flags&flagSigned != 0 {
		s := 64 - 8*uint(in.esz)
		v = uint64(int64(v<<s)>>s) & in.mask
	}
	return v
}

func runStore(w *warp, in *inst, mask uint32) {
	a := w.lane(in.a)
	esz := uint64(in.esz)
	total := esz * uint64(in.n)
	w.order(in)
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m) & 31
		addr := a[i] + in.imm
		if in.flags&flagAddr32 != 0 {
			addr = uint64(uint32(addr))
		}
		p, global := w.ptr(in, i, in.space, addr, total, total)
		if p == nil {
			return
		}
		shared := global && (race.Enabled || in.flags&flagAtomic != 0)
		if in.n == 1 {
			w.storeElem(in, p, w.lane(in.b)[i], global, shared)
			continue
		}
		for k, s := range in.vs {
			w.storeElem(in, unsafe.Add(p, uint64(k)*esz), w.lane(s)[i], global, shared)
		}
	}
}

func (w *warp) storeElem(in *inst, p unsafe.Pointer, v uint64, global, shared bool) {
	if global && w.b.late != nil {
		w.b.late.store(w.b, p, in.esz, v)
		return
	}
	storeElem(in.esz, p, v, shared)
}

func storeElem(esz uint8, p unsafe.Pointer, v uint64, shared bool) {
	switch {
	case shared:
		atomicStore(p, esz, v)
	case esz == 4:
		*(*uint32)(p) = uint32(v)
	case esz == 8:
		*(*uint64)(p) = v
	case esz == 1:
		*(*uint8)(p) = uint8(v)
	default:
		*(*uint16)(p) = uint16(v)
	}
}

// runLoadParam reads a kernel parameter at a fixed offset: one value for all lanes.
func runLoadParam(w *warp, in *inst, mask uint32) {
	p, _ := w.ptr(in, bits.TrailingZeros32(mask)&31, spParam, in.imm, uint64(in.esz)*uint64(in.n), uint64(in.esz))
	if p == nil {
		return
	}
	one := func(s int32, k int) {
		v := w.loadElem(in, unsafe.Add(p, k*int(in.esz)), false, false)
		d := w.reg(s)
		for m := mask; m != 0; m &= m - 1 {
			d[bits.TrailingZeros32(m)&31] = v
		}
	}
	if in.n == 1 {
		one(in.d, 0)
		return
	}
	for k, s := range in.vd {
		one(s, k)
	}
}

// word returns the aligned 32-bit word that holds a byte or a half word, and the shift to it.
func word(p unsafe.Pointer) (*uint32, uint) {
	odd := uintptr(p) & 3
	return (*uint32)(unsafe.Add(p, -int(odd))), uint(odd) * 8
}

func atomicLoad(p unsafe.Pointer, esz uint8) uint64 {
	switch esz {
	case 4:
		return uint64(atomic.LoadUint32((*uint32)(p)))
	case 8:
		return atomic.LoadUint64((*uint64)(p))
	}
	q, s := word(p)
	return uint64(atomic.LoadUint32(q)>>s) & (1<<(8*uint(esz)) - 1)
}

func atomicStore(p unsafe.Pointer, esz uint8, v uint64) {
	switch esz {
	case 4:
		atomic.StoreUint32((*uint32)(p), uint32(v))
		return
	case 8:
		atomic.StoreUint64((*uint64)(p), v)
		return
	}
	q, s := word(p)
	m := uint32(1<<(8*uint(esz))-1) << s
	for {
		old := atomic.LoadUint32(q)
		if atomic.CompareAndSwapUint32(q, old, old&^m|uint32(v)<<s&m) {
			return
		}
	}
}
