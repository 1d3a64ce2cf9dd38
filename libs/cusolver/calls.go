package cusolver

import (
	"math"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cublas"
)

// The functions in the argument order of cusolverDn.h. That of a routine and that of its workspace begin with the same arguments.

// calls are the functions of the routines: size asks for the workspace, where there is one.
var calls = [...]struct{ size, run function }{
	Potrf: {fnPotrfSize, fnPotrf},
	Potrs: {run: fnPotrs},
	Getrf: {fnGetrfSize, fnGetrf},
	Getrs: {run: fnGetrs},
	Geqrf: {fnGeqrfSize, fnGeqrf},
	Ormqr: {fnSormqrSize, fnSormqr},
	Syevd: {fnSyevdSize, fnSyevd},
	Gesvd: {fnGesvdSize, fnGesvd},
}

// create calls a function whose only argument is where the handle goes.
func (l *Library) create(f function) (uintptr, Status) {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	b.out = 0
	s := l.call(f, b, uintptr(unsafe.Pointer(&b.out)))
	if s == StatusSuccess && b.out == 0 {
		s = StatusImpossibleValue
	}
	return b.out, s
}

// Create implements [API].
func (l *Library) Create() (h RawHandle, s Status) {
	if h.Handle, s = l.create(fnCreate); s != StatusSuccess {
		return RawHandle{}, s
	}
	if h.Params, s = l.create(fnCreateParams); s != StatusSuccess {
		l.do(fnDestroy, h.Handle)
		return RawHandle{}, s
	}
	return h, StatusSuccess
}

// Destroy implements [API].
func (l *Library) Destroy(h RawHandle) Status {
	return max(l.do(fnDestroyParams, h.Params), l.do(fnDestroy, h.Handle))
}

// SetStream implements [API].
func (l *Library) SetStream(h RawHandle, s driver.Stream) Status {
	return l.do(fnSetStream, h.Handle, uintptr(s))
}

// functions of a call, for its type.
func (c *Call) functions() (size, run function, ok bool) {
	switch {
	case c.Routine < 0 || int(c.Routine) >= len(calls) || c.Type != cublas.TypeFloat32 && c.Type != cublas.TypeFloat64:
		return 0, 0, false
	case c.Routine == Ormqr && c.Type == cublas.TypeFloat64:
		return fnDormqrSize, fnDormqr, true
	}
	return calls[c.Routine].size, calls[c.Routine].run, true
}

// begin are the arguments that a routine and its workspace have in common.
func (c *Call) begin(h RawHandle) []uintptr {
	t, m, n, k, v := uintptr(c.Type), uintptr(c.M), uintptr(c.N), uintptr(c.K), uintptr(c.Vector)
	a, lda, b, ldb := uintptr(c.A.At), uintptr(c.A.LD), uintptr(c.B.At), uintptr(c.B.LD)
	switch c.Routine {
	case Potrf:
		return []uintptr{h.Handle, h.Params, uintptr(c.Fill), n, t, a, lda, t}
	case Potrs:
		return []uintptr{h.Handle, h.Params, uintptr(c.Fill), n, k, t, a, lda, t, b, ldb}
	case Getrf:
		return []uintptr{h.Handle, h.Params, m, n, t, a, lda}
	case Getrs:
		return []uintptr{h.Handle, h.Params, uintptr(c.Trans), n, k, t, a, lda, v, t, b, ldb}
	case Geqrf:
		return []uintptr{h.Handle, h.Params, m, n, t, a, lda, t, v, t}
	case Ormqr:
		return []uintptr{h.Handle, uintptr(c.Side), uintptr(c.Trans), m, n, k, a, lda, v, b, ldb}
	case Syevd:
		var vectors uintptr
		if c.Vectors {
			vectors = 1
		}
		return []uintptr{h.Handle, h.Params, vectors, uintptr(c.Fill), n, t, a, lda, t, v, t}
	}
	return []uintptr{h.Handle, h.Params, uintptr(c.JobU), uintptr(c.JobVT), m, n, t, a, lda, t, v,
		t, uintptr(c.U.At), uintptr(c.U.LD), t, uintptr(c.VT.At), uintptr(c.VT.LD), t}
}

// element is the size of an element.
func (c *Call) element() uint64 {
	if c.Type == cublas.TypeFloat64 {
		return 8
	}
	return 4
}

// Workspace implements [API].
func (l *Library) Workspace(h RawHandle, c *Call) (device, host uint64, s Status) {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	b.device, b.host = 0, 0
	size, _, ok := c.functions()
	if !ok {
		return 0, 0, StatusInvalidValue
	}
	words := c.begin(h)
	switch c.Routine {
	case Potrs, Getrs:
		return 0, 0, StatusSuccess
	case Ormqr:
		s = l.call(size, b, append(words, uintptr(unsafe.Pointer(&b.device)))...)
		if s == StatusSuccess && b.device > math.MaxInt32 { // an int, which was negative
			s = StatusImpossibleValue
		}
		return b.device * c.element(), 0, s
	case Getrf:
		words = append(words, uintptr(c.Type))
	}
	s = l.call(size, b, append(words, uintptr(unsafe.Pointer(&b.device)), uintptr(unsafe.Pointer(&b.host)))...)
	if s == StatusSuccess && max(b.device, b.host) > math.MaxInt64 {
		s = StatusImpossibleValue
	}
	return b.device, b.host, s
}

// Run implements [API].
func (l *Library) Run(h RawHandle, c *Call) Status {
	_, run, ok := c.functions()
	if !ok {
		return StatusInvalidValue
	}
	words := c.begin(h)
	switch c.Routine {
	case Potrs, Getrs:
		return l.do(run, append(words, uintptr(c.Info))...)
	case Ormqr:
		return l.do(run, append(words, uintptr(c.Device), uintptr(c.DeviceBytes/c.element()), uintptr(c.Info))...)
	case Getrf:
		words = append(words, uintptr(c.Vector), uintptr(c.Type))
	}
	return l.do(run, append(words, uintptr(c.Device), uintptr(c.DeviceBytes), uintptr(c.Host), uintptr(c.HostBytes), uintptr(c.Info))...)
}
