package runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/purecuda/purecuda/driver"
)

// LinkModule makes one module of several parts, whose functions and variables may name those of each other. A part is
// relocatable code: PTX, a cubin or a fatbin, an object file of the host with such code in it, or an archive of these. It
// comes from nvcc -dc, say, or from nvrtc with the option --relocatable-device-code=true:
//
//	m, err := c.LinkModule(runtime.Image{Code: first}, runtime.Image{Code: second})
//
// The Module is shared, as with [Context.CachedModule]: the same parts in the same order are linked once for the context.
// The driver compiles parts of PTX, which takes milliseconds to seconds. Module.Log has what the linker said.
//
// Parts that do not fit together are an error of kind [driver.ErrModuleLoadFailed] with the linker's log, and nothing of them
// stays loaded. LTO-IR is an error of kind [driver.ErrUnsupported]: the driver does not link it. The simulated driver links
// PTX only.
func (c *Context) LinkModule(parts ...Image) (*Module, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "no part to link")
	}
	list := make([]driver.LinkPart, len(parts))
	for i, part := range parts {
		kind := driver.LinkKindOf(part.Code)
		list[i] = driver.LinkPart{Kind: kind, Data: part.Code, Name: fmt.Sprintf("part %d", i)}
		switch {
		case len(bytes.Trim(part.Code, " \t\r\n\x00")) == 0:
			return nil, driver.Errorf(driver.ErrInvalidArgument, "part %d of %d is empty", i, len(parts))
		case bytes.HasPrefix(part.Code, ltoMagic):
			return nil, driver.Errorf(driver.ErrUnsupported, "part %d of %d is LTO-IR, which the driver does not link: compile it to PTX or to machine code", i, len(parts))
		}
	}
	return c.cached(context.Background(), linkKey(parts), func(context.Context) (*Module, error) { return c.link(list) })
}

// ltoMagic is what LTO-IR begins with.
var ltoMagic = []byte{0xed, 'C', 'N', 0x7f}

// linkKey is the key of parts that were linked.
func linkKey(parts []Image) moduleKey {
	images := imagesKey(parts)
	return sha256.Sum256(append([]byte("linked "), images[:]...))
}

// link links parts and loads what comes of it.
func (c *Context) link(parts []driver.LinkPart) (*Module, error) {
	lines := false
	for _, part := range parts {
		lines = lines || part.Kind == driver.LinkPTX && bytes.Contains(part.Data, []byte("\n\t.loc "))
	}
	var image []byte
	var log driver.JITLog
	err := c.call(func() error {
		var r driver.Result
		image, log, r = c.api.Link(parts, driver.JIT{LineInfo: lines})
		return c.failed("cuLinkComplete", r)
	})
	if e, ok := errors.AsType[*driver.Error](err); ok && e.Kind == driver.ErrDriverCallFailed {
		first, _, _ := strings.Cut(strings.TrimSpace(log.Error), "\n")
		failed := driver.Errorf(driver.ErrModuleLoadFailed, "%d parts could not be linked: %s", len(parts), strings.TrimSpace(first))
		failed.Device, failed.Err, failed.Log = c.device.Ordinal, err, strings.TrimSpace(log.Error)
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	m, err := c.load(Image{Code: image})
	if err == nil {
		m.log = log
	}
	return m, err
}
