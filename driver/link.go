package driver

import (
	"bytes"
	goruntime "runtime"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ffi"
)

// LinkPart is what [API].Link makes an image of.
type LinkPart struct {
	Kind LinkKind
	Data []byte
	Name string // for the log
}

// LinkKindOf tells what relocatable code is by its first bytes. PTX is what has no other sign.
func LinkKindOf(data []byte) LinkKind {
	const machine, cuda = 18, 190 // of an ELF header
	switch {
	case bytes.HasPrefix(data, fatbinMagic):
		return LinkFatbin
	case bytes.HasPrefix(data, []byte("!<arch>\n")):
		return LinkLibrary
	case bytes.HasPrefix(data, ltoMagic):
		return LinkLTOIR
	case !bytes.HasPrefix(data, elfMagic):
		return LinkPTX
	case len(data) > machine && data[machine] == cuda:
		return LinkCubin
	}
	return LinkObject
}

// ltoMagic is what LTO-IR begins with.
var ltoMagic = []byte{0xed, 'C', 'N', 0x7f}

// forC is the code in the form that C takes, and false if it is empty or cut off.
func (p LinkPart) forC() ([]byte, bool) {
	if p.Kind == LinkLibrary || p.Kind == LinkObject || p.Kind == LinkLTOIR {
		return p.Data, len(p.Data) > 0
	}
	return imageForC(p.Data)
}

// Link implements [API].
func (l *Library) Link(parts []LinkPart, jit JIT) (image []byte, log JITLog, r Result) {
	c := jit.call()
	defer goruntime.KeepAlive(c) // the driver writes the logs until the end of the link
	var state linkState
	r = l.linkCreate(uint32(len(c.options)), unsafe.SliceData(c.options), unsafe.SliceData(c.values), &state)
	if r = notZero(l, fnLinkCreate, r, "state", state); r != Success {
		return nil, log, r
	}
	image, r = l.link(state, parts)
	log = c.log()
	if ended := l.linkDestroy(state); r == Success {
		r = ended
	}
	if r != Success {
		return nil, log, r
	}
	return image, log, Success
}

// link adds the parts, and copies the image, which belongs to the state.
func (l *Library) link(state linkState, parts []LinkPart) ([]byte, Result) {
	for _, part := range parts {
		data, ok := part.forC()
		name, named := ffi.CString(part.Name)
		switch {
		case !ok:
			return nil, ResultInvalidImage
		case !named:
			return nil, ResultInvalidValue
		}
		if r := l.linkAddData(state, part.Kind, unsafe.SliceData(data), uint64(len(data)), name, 0, nil, nil); r != Success {
			return nil, r
		}
	}
	var at *byte
	var size uint64
	r := l.linkComplete(state, &at, &size)
	switch {
	case r != Success:
		return nil, r
	case at == nil || size == 0 || size > maxImage:
		return nil, ResultImpossibleValue
	}
	return bytes.Clone(unsafe.Slice(at, size)), Success
}

// maxImage is more than any linker makes, and what a slice of 32 bits holds.
const maxImage = 1<<31 - 1
