package runtime

import (
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// frame holds the argument values of one launch, and a pointer to each, on the
// heap: the driver is handed the addresses through an interface.
type frame struct {
	pointers   []unsafe.Pointer
	attributes []driver.LaunchAttribute // of launches that have any
}

// smallFrame is a frame with its values in one piece, which is most of them.
type smallFrame struct {
	frame
	pointers [5]unsafe.Pointer
	data     [6]uint64
}

func (k *Kernel) newFrame() *frame {
	n, words := len(k.params), int((k.bytes+7)/8)
	if n == 0 {
		return &frame{} // the driver is faster with no pointer than with one to nothing
	}
	var f *frame
	var data unsafe.Pointer // aligned for every parameter
	if small := new(smallFrame); n <= len(small.pointers) && words <= len(small.data) {
		f, data = &small.frame, unsafe.Pointer(&small.data)
		f.pointers = small.pointers[:n]
	} else {
		f = &frame{pointers: make([]unsafe.Pointer, n)}
		data = unsafe.Pointer(unsafe.SliceData(make([]uint64, words+1)))
	}
	for i, p := range k.params {
		f.pointers[i] = unsafe.Add(data, p.offset)
	}
	return f
}

// fill copies the arguments into the frame if they fit the parameters and the memory
// that they refer to can be used. argsError says why not. leases says that some are memory.
func (k *Kernel) fill(f *frame, args []Arg) (leases, ok bool) {
	params, pointers, own := k.params, f.pointers, k.ctx.state
	if len(args) != len(params) || len(args) != len(pointers) {
		return false, false
	}
	for i := range args {
		a, p := &args[i], &params[i]
		ref := a.ref()
		if a.size != p.size || a.typ&p.refused != 0 || a.kind != scalar && ref.State() != own && !k.mayUse(a) {
			if !a.narrows(p) || !a.fitsInt32() {
				return false, false
			}
			*(*uint32)(pointers[i]) = uint32(a.bits)
			continue
		}
		switch {
		case a.kind >= readingTiles:
			*(*driver.TensorMap)(pointers[i]) = (*Tiles)(a.of).tensor
			leases = true
		case ref != nil:
			*(*driver.DevicePtr)(pointers[i]) = ref.Ptr()
			leases = true
		case a.kind == structure:
			copy(unsafe.Slice((*byte)(pointers[i]), a.size), unsafe.Slice((*byte)(a.of), a.size))
		case a.kind == objectArg:
			*(*uint64)(pointers[i]) = a.bits
			leases = true
		case a.kind == reportArg && i != len(args)-1:
			return false, false
		case a.size == 8:
			*(*uint64)(pointers[i]) = a.bits
		case a.size == 4:
			*(*uint32)(pointers[i]) = *(*uint32)(unsafe.Pointer(&a.bits))
		default:
			copy(unsafe.Slice((*byte)(pointers[i]), a.size), unsafe.Slice((*byte)(unsafe.Pointer(&a.bits)), a.size))
		}
	}
	return leases, true
}

// mayUse reports whether the kernel can work on what an argument points to.
func (k *Kernel) mayUse(a *Arg) bool {
	switch a.kind {
	case structure, reportArg:
		return true
	case reading, writing, readingTiles, writingTiles:
		state := a.ref().State()
		return state == k.ctx.state || k.ctx.hasPeerAccess(state)
	case objectArg:
		return k.reaches(a.object())
	}
	return false
}

// reaches reports whether the kernel can work on memory of the host: it is open, and the
// device has an address for it.
func (k *Kernel) reaches(memory *object) bool {
	if memory.entry.kind == libraryEntry {
		return false
	}
	memory.ctx.usedBy(k.ctx)
	return k.ctx.device.UnifiedAddressing && !memory.gate.Closed()
}

// argsError says what is wrong with arguments that do not fit.
func (k *Kernel) argsError(args []Arg) error {
	for i := range args {
		a := &args[i]
		if a.kind == reportArg && i != len(args)-1 {
			return k.invalid("argument %d is that of Checks, which is the last argument of a kernel", i)
		}
		if a.kind == scalar || k.mayUse(a) {
			continue
		}
		switch ref := a.ref(); {
		case a.kind == wrong:
			return (*driver.Error)(a.of)
		case a.kind != objectArg && ref.State() == nil:
			_, err := ref.Access() // says that it was never allocated
			return err
		case ref != nil && ref.State().Device() == k.ctx.device.Ordinal:
			return errForeign(k.ctx.device.Ordinal)
		case ref != nil:
			return k.invalid("argument %d is memory of device %d, and the kernel is loaded on device %d (see Context.EnablePeer)",
				i, ref.State().Device(), k.ctx.device.Ordinal)
		case a.object().entry.kind == libraryEntry:
			return k.invalid("argument %d is a library handle, which only Stream.Submit takes", i)
		case a.object().gate.Closed():
			return errClosed(a.object().entry.kind.String())
		default:
			return k.unsupported("argument %d is memory of the host, which the device has no address for", i)
		}
	}
	for i := range min(len(args), len(k.params)) {
		if a := &args[i]; a.narrows(&k.params[i]) && !a.fitsInt32() {
			return k.invalid("argument %d is %d, and parameter %d of kernel %s has 4 bytes: want %d to %d, or a Value of a uint32",
				i, int64(a.bits), i, k.name, math.MinInt32, math.MaxInt32)
		}
	}
	if err := k.typeError(args); err != nil {
		return err
	}
	want := make([]string, len(k.params))
	for i, p := range k.params {
		want[i] = fmt.Sprint(p.size)
	}
	got := make([]string, len(args))
	for i := range args {
		got[i] = fmt.Sprint(args[i].size)
	}
	return k.invalid("kernel %s takes %d arguments of (%s) bytes, got %d of (%s)",
		k.name, len(want), strings.Join(want, ", "), len(got), strings.Join(got, ", "))
}
