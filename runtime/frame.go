package runtime

import (
	"fmt"
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
// behind them can be used. argsError says why not.
func (k *Kernel) fill(f *frame, args []Arg) bool {
	params, pointers := k.params, f.pointers
	if len(args) != len(params) || len(args) != len(pointers) {
		return false
	}
	for i := range args {
		a := &args[i]
		if a.size != params[i].size || a.typ&params[i].refused != 0 || a.err != nil || a.access != noRef && a.ref.State() != k.ctx.state && !k.ctx.sees(a.ref.State()) ||
			a.host != nil && !k.reaches(a.host) {
			return false
		}
		switch {
		case a.ref != nil:
			*(*driver.DevicePtr)(pointers[i]) = a.ref.Ptr()
		case a.ptr != nil:
			copy(unsafe.Slice((*byte)(pointers[i]), a.size), unsafe.Slice((*byte)(a.ptr), a.size))
		case a.size == 8:
			*(*uint64)(pointers[i]) = a.bits
		case a.size == 4:
			*(*uint32)(pointers[i]) = *(*uint32)(unsafe.Pointer(&a.bits))
		default:
			copy(unsafe.Slice((*byte)(pointers[i]), a.size), unsafe.Slice((*byte)(unsafe.Pointer(&a.bits)), a.size))
		}
	}
	return true
}

// reaches tells whether the kernel can work on memory of the host: it is open, and the
// device has an address for it.
func (k *Kernel) reaches(memory *object) bool {
	memory.ctx.usedBy(k.ctx)
	return k.ctx.device.UnifiedAddressing && !memory.gate.closed()
}

// argsError says what is wrong with arguments that do not fit.
func (k *Kernel) argsError(args []Arg) error {
	for i := range args {
		switch a := &args[i]; {
		case a.err != nil:
			return a.err
		case a.access != noRef && a.ref.State() == nil:
			_, err := a.ref.Access() // says that it was never allocated
			return err
		case a.ref != nil && a.ref.State() != k.ctx.state && a.ref.State().Device() == k.ctx.device.Ordinal:
			return errForeign(k.ctx.device.Ordinal)
		case a.ref != nil && a.ref.State() != k.ctx.state && !k.ctx.sees(a.ref.State()):
			return k.invalid("argument %d is memory of device %d, and the kernel is loaded on device %d (see Context.EnablePeer)",
				i, a.ref.State().Device(), k.ctx.device.Ordinal)
		case a.host != nil && a.host.gate.closed():
			return errClosed(a.host.resource.kind.String())
		case a.host != nil && !k.reaches(a.host):
			return k.unsupported("argument %d is memory of the host, which the device has no address for", i)
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
