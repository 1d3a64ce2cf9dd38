package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/nvrtc"
)

// paramInfoSince is the driver that tells the parameters of kernels in machine code.
const paramInfoSince driver.Version = 12040

// Compile compiles CUDA C++ for the device and loads it. The Module is shared, as with
// [Context.CachedModule]: the same program is compiled and loaded once for the context, and
// from the disk cache in the next process (docs/caching.md). Kernels are found by their
// names. Those in templates and namespaces have the name expressions of the program:
//
//	m, err := c.Compile(ctx, nvrtc.Program{Source: source, NameExpressions: []string{"scale<float>"}})
//	k, err := m.Kernel("scale<float>")
//
// It compiles to machine code of the device where NVRTC knows it, and to PTX otherwise and
// for a driver that loads nothing else, as the simulated one ([driver.PTXLoader]). A
// compile takes from 10 ms to many seconds, a hit some microseconds: the time of a digest of
// the program. With include paths or extra options the files are looked at each time.
//
// When ctx ends, Compile returns its cause, and callers that wait for the same go on waiting.
// When nobody waits any more the compile ends, if NVRTC can.
//
// Without NVRTC the error is of kind [driver.ErrLibraryUnavailable] and says what to install: load
// the PTX that the program ships then. Further kinds come from [nvrtc.Compiler.Compile] and
// of LoadModule. Failures are not remembered.
func (c *Context) Compile(ctx context.Context, p nvrtc.Program) (*Module, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errNoContext("Compile")
	}
	compiler, err := c.rt.Compiler()
	if err != nil {
		return nil, err
	}
	if standsAlone(p, compiler) {
		return c.cached(ctx, programKey(p), func(ctx context.Context) (*Module, error) {
			code, err := c.compile(ctx, compiler, p)
			if err != nil {
				return nil, err
			}
			return c.loadCompiled(ctx, compiler, code)
		})
	}
	ctx, stop := c.rt.untilClosed(ctx)
	defer stop()
	code, err := c.compile(ctx, compiler, p)
	if err != nil {
		return nil, err
	}
	return c.cached(ctx, codeKey(code), func(ctx context.Context) (*Module, error) {
		return c.loadCompiled(ctx, compiler, code)
	})
}

// compiled is a program in the form that the device takes.
type compiled struct {
	image *nvrtc.Artifact
	// signatures is the program as PTX, where the driver cannot tell the parameters of
	// machine code. It is read and not loaded: the driver may be too old for it.
	signatures []byte
}

func (c *Context) compile(ctx context.Context, compiler *nvrtc.Compiler, p nvrtc.Program) (code compiled, err error) {
	target, err := c.target(compiler)
	if err != nil {
		return code, err
	}
	code.image, err = c.traceArtifact(ctx, "compile", func() (*nvrtc.Artifact, error) { return compiler.Compile(ctx, p, target) })
	if err != nil {
		return code, err
	}
	if target.Kind == nvrtc.CUBIN && c.rt.Version() < paramInfoSince {
		var text *nvrtc.Artifact
		text, err = compiler.Compile(ctx, p, nvrtc.Target{Kind: nvrtc.PTX, Arch: target.Arch})
		if err == nil {
			code.signatures = text.Code
		}
	}
	return code, err
}

// target is what to compile to for the device.
func (c *Context) target(compiler *nvrtc.Compiler) (nvrtc.Target, error) {
	target, err := compiler.TargetFor(c.device.Capability.Arch(), c.rt.Version())
	loader, ok := c.api.(driver.PTXLoader)
	if err != nil || !ok || !loader.LoadsPTXOnly() {
		return target, err
	}
	if compiler.Version() > c.rt.Version() {
		return target, driver.Errorf(driver.ErrUnsupported,
			"the driver loads PTX only, and driver %v cannot read the PTX of NVRTC %v: give the simulated driver the version of NVRTC, or install an older NVRTC",
			c.rt.Version(), compiler.Version())
	}
	target.Kind = nvrtc.PTX
	return target, nil
}

func (c *Context) loadCompiled(ctx context.Context, compiler *nvrtc.Compiler, code compiled) (*Module, error) {
	m, err := c.load(ctx, Image{Arch: code.image.Arch, Code: code.image.Code})
	if err == nil {
		m.names = code.image.LoweredNames
		if code.signatures != nil {
			m.signatures = signaturesOf(code.signatures)
		}
		return m, nil
	}
	if e, ok := errors.AsType[*driver.Error](err); ok && e.Kind == driver.ErrModuleLoadFailed {
		e.Detail += fmt.Sprintf(" (%v of NVRTC %v for driver %v)", code.image.Kind, compiler.Version(), c.rt.Version())
		if compiler.Version() > c.rt.Version() {
			e.Detail += ": update the driver or install an NVRTC that is not newer"
		}
	}
	return nil, err
}

// Compiler is what Compile compiles with: the one of [WithCompiler], or else the NVRTC of this
// machine, which is looked for at the first call ([nvrtc.OpenCompiler]). That it is absent or
// broken is remembered.
func (rt *Runtime) Compiler() (*nvrtc.Compiler, error) {
	if rt == nil || rt.life == nil {
		return nil, errNothing("runtime")
	}
	return rt.openCompiler()
}

// newCompiler opens the NVRTC of this machine.
func (rt *Runtime) newCompiler() (*nvrtc.Compiler, error) {
	if rt.cfg.compiler != nil {
		rt.compiler.Store(rt.cfg.compiler)
		return rt.cfg.compiler, nil
	}
	compiler, err := nvrtc.OpenCompiler(nvrtc.Config{Logger: rt.cfg.logger})
	if err != nil {
		return nil, err
	}
	rt.compiler.Store(compiler)
	return compiler, nil
}

// untilClosed is a context that ends with ctx or when the runtime begins to close.
func (rt *Runtime) untilClosed(ctx context.Context) (limited context.Context, stop func()) {
	limited, cancel := context.WithCancelCause(ctx)
	end := context.AfterFunc(rt.closing, func() { cancel(context.Cause(rt.closing)) })
	return limited, func() {
		end()
		cancel(nil)
	}
}
