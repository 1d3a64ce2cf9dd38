package exec

import "unsafe"

// Memory is the global memory of a device as a kernel sees it. Find gives the live allocation that
// holds addr; ok is false where there is none. Data must begin at base, and its first byte must be
// aligned to 8 bytes in host memory. The memory behind it must reach to the next multiple of 4
// bytes, and it must stay in place until the launch has ended. Find is called by several goroutines
// at once; results are cached for the time of a launch.
type Memory interface {
	Find(addr uint64) (base uint64, data []byte, ok bool)
}

// Generic addresses of the spaces that are not in global memory. They lie far above
// what a driver hands out; the low 32 bits are the address within the space.
const (
	SharedWindow uint64 = 0x7f00_0001_0000_0000
	LocalWindow  uint64 = 0x7f00_0002_0000_0000
	ParamWindow  uint64 = 0x7f00_0003_0000_0000
	CodeWindow   uint64 = 0x7f00_0004_0000_0000 // function addresses
)

// How an access finds its memory. spFrame is the frame of a function within local
// memory, where its .local and .param variables lie.
const (
	spGeneric uint8 = iota
	spGlobal
	spShared
	spLocal
	spParam
	spFrame
)

var spaceName = [...]string{"generic", "global", "shared", "local", "param", "local"}

// region is the allocation that was used last.
type region struct {
	base uint64
	size uint64
	p    unsafe.Pointer
}

// ptr returns the host address of size bytes (a power of two, or n elements of one) at a
// device address, or nil after it has recorded a fault. global tells that other blocks
// may see the memory.
func (w *warp) ptr(in *inst, lane int, space uint8, addr, size, align uint64) (p unsafe.Pointer, global bool) {
	if addr&(align-1) != 0 {
		w.memFault(MisalignedAddress, in, lane, space, addr, size)
		return nil, false
	}
	switch space {
	case spGeneric:
		if addr>>40 == SharedWindow>>40 {
			switch addr &^ 0xffffffff {
			case SharedWindow:
				return w.ptr(in, lane, spShared, addr-SharedWindow, size, align)
			case LocalWindow:
				return w.ptr(in, lane, spLocal, addr-LocalWindow, size, align)
			case ParamWindow:
				return w.ptr(in, lane, spParam, addr-ParamWindow, size, align)
			}
		}
		fallthrough
	case spGlobal:
		off := addr - w.g.base
		if off < w.g.size && w.g.size-off >= size {
			p = unsafe.Add(w.g.p, off)
		} else {
			p = w.find(addr, size)
		}
		if p != nil {
			w.moves(in, size)
			if w.b.late != nil {
				w.b.late.touches(p, size)
			}
			return p, true
		}
		if space == spGlobal && addr>>40 == SharedWindow>>40 {
			break
		}
	case spShared:
		s := w.b.shared
		if n := uint64(len(s)); addr < n && n-addr >= size {
			return unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), addr), false
		}
	case spFrame:
		addr += uint64(w.lbase)
		fallthrough
	case spLocal:
		if n := w.localSize; addr < n && n-addr >= size {
			return unsafe.Add(unsafe.Pointer(unsafe.SliceData(w.local)), uint64(lane)*n+addr), false
		}
	case spParam:
		// A parameter address is the offset, or the generic address of one.
		if addr>>32 != 0 {
			return w.ptr(in, lane, spGeneric, addr, size, align)
		}
		s := w.b.l.params
		if n := uint64(len(s)); addr < n && n-addr >= size && !w.storing(in) {
			return unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), addr), false
		}
	}
	w.memFault(IllegalAddress, in, lane, space, addr, size)
	return nil, false
}

// moves counts bytes of global memory.
func (w *warp) moves(in *inst, size uint64) {
	what := in.sub
	if in.flags&flagAtomic != 0 || what > memAtom {
		what = memAtom
	}
	w.moved[what] += size
}

// find asks the caller's memory and remembers the answer.
func (w *warp) find(addr, size uint64) unsafe.Pointer {
	base, data := GridWindow, w.b.l.workspace
	if addr-base >= uint64(len(data)) {
		m := w.b.l.Memory
		if m == nil {
			return nil
		}
		var ok bool
		base, data, ok = m.Find(addr)
		if !ok || addr < base || len(data) == 0 {
			return nil
		}
	}
	w.g = region{base, uint64(len(data)), unsafe.Pointer(unsafe.SliceData(data))}
	off := addr - base
	if off >= w.g.size || w.g.size-off < size {
		return nil
	}
	return unsafe.Add(w.g.p, off)
}

func (w *warp) storing(in *inst) bool { return in.sub == memStore || in.sub == memAtom }

// What a memory instruction does; kept in inst.sub.
const (
	memLoad uint8 = iota
	memStore
	memAtom
)

func (w *warp) memFault(k FaultKind, in *inst, lane int, space uint8, addr, size uint64) {
	w.fail(k, in, lane, w.b.noGridHint(addr))
	w.flt.Address, w.flt.Size, w.flt.Space, w.flt.Write = addr, size, spaceName[space], w.storing(in)
}

// fail records the first fault of the warp.
func (w *warp) fail(k FaultKind, in *inst, lane int, msg string) {
	if w.flt != nil {
		return
	}
	w.flt = &Fault{Kind: k, Kernel: w.b.k.name, Block: w.b.ctaid, Thread: w.thread(lane), Line: int(in.line), Msg: msg}
}
