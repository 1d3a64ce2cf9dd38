package nvrtc

import (
	"context"
	"strings"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// Compile compiles a program to a target, without any cache. It blocks for 10 ms to many seconds
// and is safe for concurrent use. When ctx ends, the wait ends with its cause. The compile itself
// then ends as soon as NVRTC asks, from 12.8 on. Older ones run on to the end on a thread of their
// own.
//
// A program that does not compile gives [driver.ErrKernelCompileFailed]: Log has what
// NVRTC said and the numbered source lines around each error, and errors.Is matches
// NVRTC's [Result]. Further kinds are [driver.ErrInvalidArgument], and
// [driver.ErrUnsupported] for a target that this NVRTC cannot make.
func Compile(ctx context.Context, api API, p Program, t Target) (*Artifact, error) {
	switch {
	case ctx == nil:
		return nil, errNoContext()
	case api == nil:
		return nil, errNoAPI()
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	version, r := api.Version()
	if r != Success {
		return nil, failed(api, "nvrtcVersion", r)
	}
	if ctx.Done() == nil {
		return compile(ctx, api, version, p, t)
	}
	type outcome struct {
		image *Artifact
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		image, err := compile(ctx, api, version, p, t)
		done <- outcome{image, err}
	}()
	select {
	case o := <-done:
		return o.image, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// compile compiles and returns when NVRTC does. A compile that NVRTC gave up because ctx
// has ended gives the cause of that.
func compile(ctx context.Context, api API, version driver.Version, p Program, t Target) (*Artifact, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	program, r := api.CreateProgram(p.Source, p.name(), p.headers())
	if r != Success {
		return nil, failed(api, "nvrtcCreateProgram", r)
	}
	defer api.DestroyProgram(program)
	expressions := p.nameExpressions()
	for _, expression := range expressions {
		if r := api.AddNameExpression(program, expression); r != Success {
			return nil, failed(api, "nvrtcAddNameExpression", r)
		}
	}
	var stop func() bool
	if ctx.Done() != nil {
		stop = func() bool { return ctx.Err() != nil }
	}
	options := append(t.options(), p.list(version)...)
	begin := time.Now()
	r = api.CompileProgram(program, options, stop)
	took := time.Since(begin)
	log, _ := api.ProgramLog(program)
	if r == ResultCancelled && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if r != Success {
		return nil, compileFailed(api, "nvrtcCompileProgram", r, p, log, version, options)
	}
	image := &Artifact{Target: t, Log: log, CompileTime: took}
	image.Code, r = output(api, program, t.Kind)
	switch {
	case r == ResultSymbolMissing:
		return nil, driver.Errorf(driver.ErrUnsupported, "NVRTC %v cannot make %v", version, t.Kind)
	case r != Success:
		return nil, compileFailed(api, "getting the "+t.Kind.String(), r, p, log, version, options)
	case len(image.Code) == 0: // options in Extra may ask for another form of code
		return nil, driver.Errorf(driver.ErrKernelCompileFailed, "NVRTC %v made no %v with %s", version, t.Kind, strings.Join(options, " "))
	}
	if len(expressions) > 0 {
		image.LoweredNames = map[string]string{}
	}
	for _, expression := range expressions {
		if image.LoweredNames[expression], r = api.LoweredName(program, expression); r != Success {
			return nil, compileFailed(api, "nvrtcGetLoweredName of "+expression, r, p, log, version, options)
		}
	}
	return image, nil
}

func output(api API, program Handle, kind Kind) ([]byte, Result) {
	switch kind {
	case CUBIN:
		return api.CUBIN(program)
	case LTOIR:
		return api.LTOIR(program)
	}
	return api.PTX(program)
}
