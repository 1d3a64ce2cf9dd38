package runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/nvrtc"
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
// The driver links. Where a part is LTO-IR, from nvrtc with the target LTOIR or from nvcc -dlto, NVIDIA's nvJitLink does, to
// machine code of the device. It is looked for at the first such call, and what it has linked stays on disk for the next process
// ([nvrtc.Linker]). Where it is absent the error is of kind [driver.ErrLibraryUnavailable], and says what to install.
//
// Parts that do not fit together are an error of kind [driver.ErrModuleLoadFailed] with the linker's log, and nothing of them
// stays loaded. The simulated driver links PTX only; nvJitLink links LTO-IR to PTX for it.
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
		if len(bytes.Trim(part.Code, " \t\r\n\x00")) == 0 {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "part %d of %d is empty", i, len(parts))
		}
	}
	return c.cached(context.Background(), linkKey(parts), func(ctx context.Context) (*Module, error) { return c.link(ctx, list) })
}

// linkKey is the key of parts that were linked.
func linkKey(parts []Image) moduleKey {
	images := imagesKey(parts)
	return sha256.Sum256(append([]byte("linked "), images[:]...))
}

// link links parts and loads what comes of it. The driver links what it can, since its library is there.
func (c *Context) link(ctx context.Context, parts []driver.LinkPart) (*Module, error) {
	is := func(kinds ...driver.LinkKind) bool {
		return slices.ContainsFunc(parts, func(p driver.LinkPart) bool { return slices.Contains(kinds, p.Kind) })
	}
	if is(driver.LinkLTOIR) {
		return c.linkLTO(ctx, parts)
	}
	m, err := c.linkByDriver(ctx, parts)
	if errors.Is(err, driver.ErrModuleLoadFailed) && is(driver.LinkFatbin, driver.LinkObject, driver.LinkLibrary) { // it may be LTO-IR
		switch linked, failed := c.linkLTO(ctx, parts); {
		case failed == nil:
			return linked, nil
		case errors.Is(failed, driver.ErrModuleLoadFailed):
			err = failed
		default:
			e, _ := errors.AsType[*driver.Error](err)
			e.Detail += fmt.Sprintf(" (and if it is LTO-IR: %v)", failed)
		}
	}
	return m, err
}

// linkLTO links parts with nvJitLink.
func (c *Context) linkLTO(ctx context.Context, parts []driver.LinkPart) (*Module, error) {
	linker, err := c.rt.openLinker()
	if err != nil {
		return nil, err
	}
	target := nvrtc.Target{Kind: nvrtc.CUBIN, Arch: c.device.Capability.Arch()}
	if loader, ok := c.api.(driver.PTXLoader); ok && loader.LoadsPTXOnly() {
		target.Kind = nvrtc.PTX
	}
	linked, err := c.traceArtifact(ctx, "link", func() (*nvrtc.Artifact, error) { return linker.Link(ctx, target, parts) })
	if err != nil {
		if e, ok := errors.AsType[*driver.Error](err); ok {
			e.Device = c.device.Ordinal
		}
		return nil, err
	}
	m, err := c.load(ctx, Image{Arch: target.Arch, Code: linked.Code})
	if err == nil {
		m.log.Info = linked.Log
	}
	return m, err
}

// newLinker opens the nvJitLink of this machine. It shares the disk cache of the compiler.
func (rt *Runtime) newLinker() (*nvrtc.Linker, error) {
	config := nvrtc.Config{Logger: rt.cfg.logger}
	if rt.cfg.compiler != nil {
		config = rt.cfg.compiler.Config()
	}
	return nvrtc.OpenLinker(config)
}

// linkByDriver links parts with cuLink.
func (c *Context) linkByDriver(ctx context.Context, parts []driver.LinkPart) (*Module, error) {
	lines := false
	for _, part := range parts {
		lines = lines || part.Kind == driver.LinkPTX && bytes.Contains(part.Data, []byte("\n\t.loc "))
	}
	var image []byte
	var log driver.JITLog
	err := c.traceModule(ctx, "link", func() (int, bool, error) {
		err := c.call(func() error {
			var r driver.Result
			image, log, r = c.api.Link(parts, driver.JIT{LineInfo: lines})
			return c.bind.Failed("cuLinkComplete", r)
		})
		return len(image), false, err
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
	m, err := c.load(ctx, Image{Code: image})
	if err == nil {
		m.log = log
	}
	return m, err
}
