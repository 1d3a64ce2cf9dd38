package exec

import (
	"fmt"
	"math"
	"strings"
	"unsafe"
)

// external is a function that the CUDA runtime provides to kernels.
type external struct {
	args int
	run  func(w *warp, in *inst, mask uint32)
}

var externals = map[string]external{
	"vprintf":      {2, runVprintf},
	"__assertfail": {4, runAssertFail},

	"cudaGraphSetConditional": {2, runSetConditional},
}

// Provides tells that the interpreter has a function that a module may declare and not define.
func Provides(name string) bool {
	_, ok := externals[name]
	return ok
}

// argument reads an argument of a call as a 64-bit value.
func (w *warp) argument(a *actual, lane int) uint64 {
	if a.size == 0 {
		return w.lane(a.slot)[lane]
	}
	var b [8]byte
	n := min(a.size, 8)
	copy(b[:n], w.frameBytes(&w.groups[w.cur], a.offset, lane))
	return *(*uint64)(unsafe.Pointer(&b))
}

// readByte reads generic memory without a fault of its own.
func (w *warp) readByte(in *inst, lane int, addr uint64) (byte, bool) {
	p, _ := w.ptr(in, lane, spGeneric, addr, 1, 1)
	if p == nil {
		return 0, false
	}
	return *(*byte)(p), true
}

const maxString = 1 << 16

func (w *warp) cString(in *inst, lane int, addr uint64) (string, bool) {
	var s []byte
	for i := range uint64(maxString) {
		c, ok := w.readByte(in, lane, addr+i)
		if !ok {
			return "", false
		}
		if c == 0 {
			break
		}
		s = append(s, c)
	}
	return string(s), true
}

func runAssertFail(w *warp, in *inst, mask uint32) {
	lane := firstLane(mask)
	msg, ok := w.cString(in, lane, w.argument(&in.call.args[0], lane))
	if !ok {
		return
	}
	file, _ := w.cString(in, lane, w.argument(&in.call.args[1], lane))
	line := uint32(w.argument(&in.call.args[2], lane))
	function, _ := w.cString(in, lane, w.argument(&in.call.args[3], lane))
	w.flt = nil
	w.fail(Assert, in, lane, fmt.Sprintf("%s:%d: %s: assertion `%s' failed", file, line, function, msg))
}

// runSetConditional sets the number of a conditional node of a graph.
func runSetConditional(w *warp, in *inst, mask uint32) {
	for m := mask; m != 0; m &= m - 1 {
		lane := firstLane(m)
		handle, value := w.argument(&in.call.args[0], lane), uint32(w.argument(&in.call.args[1], lane))
		if set := w.b.l.Conditional; set == nil || !set(handle, value) {
			w.fail(IllegalAddress, in, lane, fmt.Sprintf("cudaGraphSetConditional of %#x, which is no handle of a graph", handle))
			return
		}
	}
}

// runVprintf prints for each lane in turn. The arguments lie one after another in a
// buffer, each at its natural alignment, floats as doubles.
func runVprintf(w *warp, in *inst, mask uint32) {
	for m := mask; m != 0; m &= m - 1 {
		lane := firstLane(m)
		format, ok := w.cString(in, lane, w.argument(&in.call.args[0], lane))
		if !ok {
			return
		}
		text, n, ok := w.sprintf(in, lane, format, w.argument(&in.call.args[1], lane))
		if !ok {
			return
		}
		if out := w.b.l.Printf; out != nil {
			w.b.l.print.Lock()
			_, _ = out.Write([]byte(text)) // as on the device, lost output is nobody's error
			w.b.l.print.Unlock()
		}
		if len(in.call.returns) > 0 {
			w.result(&in.call.returns[0], lane, uint64(uint32(n)))
		}
	}
}

func (w *warp) result(a *actual, lane int, v uint64) {
	if a.size == 0 {
		w.reg(a.slot)[lane] = v & a.mask
		return
	}
	b := (*[8]byte)(unsafe.Pointer(&v))
	copy(w.frameBytes(&w.groups[w.cur], a.offset, lane), b[:min(a.size, 8)])
}

// sprintf formats as the device's printf does; n is the number of arguments.
func (w *warp) sprintf(in *inst, lane int, format string, args uint64) (text string, n int, ok bool) {
	var out strings.Builder
	off := uint64(0)
	take := func(size uint64) (v uint64, ok bool) {
		off = (off + size - 1) &^ (size - 1)
		for i := range size {
			c, ok := w.readByte(in, lane, args+off+i)
			if !ok {
				return 0, false
			}
			v |= uint64(c) << (8 * i)
		}
		off += size
		n++
		return v, true
	}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			out.WriteByte(format[i])
			continue
		}
		j := i + 1
		spec := []byte{'%'}
		long := false
		for ; j < len(format); j++ {
			c := format[j]
			switch {
			case strings.IndexByte("-+ #0123456789.", c) >= 0:
				if len(spec) < 16 {
					spec = append(spec, c)
				}
				continue
			case c == '*':
				v, ok := take(4)
				if !ok {
					return "", 0, false
				}
				spec = fmt.Appendf(spec, "%d", min(max(int32(v), -200), 200))
				continue
			case c == 'l' || c == 'z' || c == 'j' || c == 't':
				long = true
				continue
			case c == 'h':
				continue
			}
			break
		}
		if j >= len(format) {
			out.WriteString(format[i:])
			break
		}
		verb := format[j]
		i = j
		size := uint64(4)
		if long {
			size = 8
		}
		var v uint64
		switch verb {
		case '%':
			out.WriteByte('%')
			continue
		case 'd', 'i', 'u', 'x', 'X', 'o', 'c':
		case 'e', 'E', 'f', 'F', 'g', 'G', 'a', 'A', 's', 'p':
			size = 8
		default:
			out.WriteString(string(spec) + string(rune(verb)))
			continue
		}
		if v, ok = take(size); !ok {
			return "", 0, false
		}
		f := string(spec)
		switch verb {
		case 'd', 'i':
			fmt.Fprintf(&out, f+"d", sext(v, uint(8*size)))
		case 'u':
			fmt.Fprintf(&out, f+"d", v)
		case 'x', 'X', 'o':
			fmt.Fprintf(&out, f+string(rune(verb)), v)
		case 'c':
			fmt.Fprintf(&out, f+"s", string([]byte{byte(v)}))
		case 's':
			s, ok := w.cString(in, lane, v)
			if !ok {
				return "", 0, false
			}
			fmt.Fprintf(&out, f+"s", s)
		case 'p':
			fmt.Fprintf(&out, f+"s", fmt.Sprintf("%#x", v))
		case 'a', 'A':
			fmt.Fprintf(&out, f+string(rune(verb+'x'-'a')), math.Float64frombits(v))
		default:
			if !strings.Contains(f, ".") {
				f += ".6" // as in C, where Go's %g has as many digits as there are
			}
			fmt.Fprintf(&out, f+string(rune(verb)), math.Float64frombits(v))
		}
	}
	return out.String(), n, true
}
