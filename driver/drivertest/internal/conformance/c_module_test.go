//go:build linux && (amd64 || arm64)

package conformance

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// Options of the PTX compiler (CUjit_option).
const (
	jitMaxRegisters      = 0
	jitWallTime          = 2
	jitInfoLog           = 3
	jitInfoLogBytes      = 4
	jitErrorLog          = 5
	jitErrorLogBytes     = 6
	jitOptimizationLevel = 7
	jitGenerateDebugInfo = 11
	jitLogVerbose        = 12
	jitGenerateLineInfo  = 13
)

// compiler is what a list of options says: what to do, and where to write what comes of
// it.
type compiler struct {
	jit                   driver.JIT
	milliseconds          *float32
	info, errors          *byte
	infoBytes, errorBytes int
}

// compilerOf reads a list of options. A value is a number or an address, in the place
// of a pointer.
func compilerOf(count uint32, options *int32, values *uintptr) (c compiler, r driver.Result) {
	for i, option := range unsafe.Slice(options, count) {
		place := unsafe.Add(unsafe.Pointer(values), uintptr(i)*unsafe.Sizeof(*values))
		number := int(*(*uintptr)(place))
		switch option {
		case jitMaxRegisters:
			c.jit.MaxRegisters = number
		case jitWallTime:
			c.milliseconds = (*float32)(place)
		case jitInfoLog:
			c.info = *(**byte)(place)
		case jitInfoLogBytes:
			c.infoBytes = number
		case jitErrorLog:
			c.errors = *(**byte)(place)
		case jitErrorLogBytes:
			c.errorBytes = number
		case jitOptimizationLevel:
			c.jit.Optimization = number
		case jitGenerateDebugInfo:
			c.jit.DebugInfo = number != 0
		case jitLogVerbose:
			c.jit.Verbose = number != 0
		case jitGenerateLineInfo:
			c.jit.LineInfo = number != 0
		default:
			return c, driver.ResultInvalidValue
		}
	}
	return c, driver.Success
}

func (c *compiler) write(log driver.JITLog, began time.Time) {
	put(c.info, c.infoBytes, log.Info)
	put(c.errors, c.errorBytes, log.Error)
	if c.milliseconds != nil {
		if log.Milliseconds == 0 {
			log.Milliseconds = float32(time.Since(began).Seconds() * 1000)
		}
		*c.milliseconds = log.Milliseconds
	}
}

// image is the image at an address. Its length follows from the headers of machine
// code, and PTX ends with a NUL.
func image(p *byte) []byte {
	if p == nil {
		return nil
	}
	head := func(n int) []byte { return unsafe.Slice(p, n) }
	size := 0
	switch {
	case starts(p, "\x7fELF"):
		h := head(64)
		sections, each, count := binary.LittleEndian.Uint64(h[0x28:]), binary.LittleEndian.Uint16(h[0x3a:]), binary.LittleEndian.Uint16(h[0x3c:])
		size = max(64, int(sections)+int(each)*int(count))
	case starts(p, "\x50\xed\x55\xba"):
		h := head(16)
		size = int(binary.LittleEndian.Uint16(h[6:])) + int(binary.LittleEndian.Uint64(h[8:]))
	default:
		size = length(p)
	}
	return bytes.Clone(head(size))
}

// starts tells whether a piece of memory begins with a string without a NUL. It does
// not look beyond a NUL.
func starts(p *byte, with string) bool {
	for i := range len(with) {
		if *(*byte)(unsafe.Add(unsafe.Pointer(p), i)) != with[i] {
			return false
		}
	}
	return true
}

func cModuleLoadDataEx(module *driver.Module, code *byte, count uint32, options *int32, values *uintptr) driver.Result {
	c, r := compilerOf(count, options, values)
	if r != driver.Success {
		return r
	}
	began := time.Now()
	var log driver.JITLog
	*module, log, r = target().ModuleLoadData(image(code), c.jit)
	c.write(log, began)
	return r
}

func cLibraryLoadData(library *driver.KernelLibrary, code *byte, options *int32, values *uintptr, count uint32,
	_, _ unsafe.Pointer, libraryOptions uint32) driver.Result {
	c, r := compilerOf(count, options, values)
	switch {
	case r != driver.Success:
		return r
	case libraryOptions != 0:
		return driver.ResultNotSupported
	}
	began := time.Now()
	var log driver.JITLog
	*library, log, r = target().LibraryLoadData(image(code), c.jit)
	c.write(log, began)
	return r
}

func cLibraryEnumerateKernels(kernels *driver.Kernel, count uint32, library driver.KernelLibrary) driver.Result {
	all, r := target().LibraryEnumerateKernels(library)
	if r == driver.Success {
		copy(unsafe.Slice(kernels, count), all)
	}
	return r
}

// links are those that are under way, by their handles.
var links struct {
	sync.Mutex
	last uintptr
	all  map[uintptr]*link
}

// link is what cuLinkCreate has begun. Its parts are linked at once, by cuLinkComplete.
type link struct {
	compiler compiler
	parts    []driver.LinkPart
	image    []byte // which C reads until cuLinkDestroy
}

func linkOf(state uintptr) *link {
	links.Lock()
	defer links.Unlock()
	return links.all[state]
}

func cLinkCreate(count uint32, options *int32, values *uintptr, state *uintptr) driver.Result {
	c, r := compilerOf(count, options, values)
	if r != driver.Success {
		return r
	}
	links.Lock()
	defer links.Unlock()
	if links.all == nil {
		links.all = map[uintptr]*link{}
	}
	links.last++
	links.all[links.last] = &link{compiler: c}
	*state = links.last
	return driver.Success
}

func cLinkAddData(state uintptr, kind driver.LinkKind, data *byte, bytes uint64, name *byte, _ uint32, _ *int32, _ *uintptr) driver.Result {
	l := linkOf(state)
	if l == nil || data == nil {
		return driver.ResultInvalidValue
	}
	part := driver.LinkPart{Kind: kind, Data: slices.Clone(unsafe.Slice(data, bytes)), Name: text(name)}
	if kind == driver.LinkPTX && part.Data[bytes-1] == 0 {
		part.Data = part.Data[:bytes-1]
	}
	l.parts = append(l.parts, part)
	return driver.Success
}

func cLinkComplete(state uintptr, image **byte, bytes *uint64) driver.Result {
	l := linkOf(state)
	if l == nil {
		return driver.ResultInvalidValue
	}
	began := time.Now()
	var log driver.JITLog
	var r driver.Result
	l.image, log, r = target().Link(l.parts, l.compiler.jit)
	l.compiler.write(log, began)
	*image, *bytes = unsafe.SliceData(l.image), uint64(len(l.image))
	return r
}

func cLinkDestroy(state uintptr) driver.Result {
	links.Lock()
	defer links.Unlock()
	if links.all[state] == nil {
		return driver.ResultInvalidValue
	}
	delete(links.all, state)
	return driver.Success
}
