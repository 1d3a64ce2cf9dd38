package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/pool"
)

// smoke does the job and fills the report.
func (a *app) smoke(ctx context.Context, c config) error {
	// The input comes first: a mistyped path is answered without waking a GPU.
	type listing struct {
		in  *job.Input
		err error
	}
	listed, ok := orLeave(ctx, func() (l listing) {
		l.in, l.err = job.List(ctx, c.input)
		return l
	})
	if !ok {
		return left(ctx)
	}
	in, err := listed.in, listed.err
	if err != nil {
		return err
	}
	a.report.Job = newJobReport(in, c)
	if c.out == "" {
		return a.hash(ctx, c, in, nil)
	}
	shown := isTerminal(a.stdout.Writer)
	list, err := a.openList(in, c.out)
	if err != nil {
		return err
	}
	defer list.Abort()
	if shown && a.stdout.Writer == a.stderr {
		c.progress = false // the digests are on the terminal
	}
	if err := a.hash(ctx, c, in, list); err != nil {
		return err
	}
	return list.Commit()
}

// hash runs the job on the engine of this machine.
func (a *app) hash(ctx context.Context, c config, in *job.Input, sink job.Sink) error {
	engine, err := a.engine(ctx, c)
	if err != nil {
		return err
	}
	_, simulated := engine.(*simulatedEngine)
	children := childrenOf(engine)
	if c.withCPU && a.report.Outcome == outcomeAvailable {
		engine = withCPU(engine)
	}
	count := &account{bar: a.newProgress(c, in.Bytes), sink: sink, began: time.Now()}
	type ending struct {
		result job.Result
		err    error
	}
	done, ok := orLeave(ctx, func() (o ending) {
		o.result, o.err = job.Run(ctx, in, engine, job.Options{
			ChunkBytes: c.chunk,
			Rounds:     c.rounds,
			Verify:     c.verify,
			Workers:    c.workers,
			Sink:       count,
			Progress:   count.add,
		})
		closeErr := engine.Close()
		switch {
		case closeErr == nil:
		case o.err == nil:
			o.err = &job.Error{Kind: job.EngineFailed, Detail: "closing " + engine.Name(), Err: closeErr}
		case simulated: // the findings say why it failed
			o.err = errors.Join(o.err, closeErr)
		}
		return o
	})
	chunks, bytes, elapsed := count.close()
	if children != nil {
		a.report.Job.Children = children()
	}
	if !ok {
		done.err = left(ctx)
	}
	if errors.Is(done.err, job.Canceled) {
		a.report.Job.interrupted(chunks, bytes, elapsed)
	}
	if done.err != nil {
		return done.err
	}
	a.report.Job.complete(done.result)
	return nil
}

// engine chooses where the job runs. A fault is an error and not a reason to use the
// CPU: a service would run slowly for months and nobody would know.
func (a *app) engine(ctx context.Context, c config) (job.Engine, error) {
	if c.policy == policyOff {
		a.report.Outcome = outcomeOff
		if a.form == formHuman {
			line(a.stdout, "on the CPU: the policy is off")
		}
		return job.NewCPU(cpuWorkers()), nil
	}
	open := a.openGPU
	switch {
	case c.isolate:
		open = isolated(c.simulate)
	case c.simulate != 0:
		open = simulated(c.simulate)
	}
	type opening struct {
		found  probe
		engine job.Engine
		err    error
	}
	opened, ok := orLeave(ctx, func() (o opening) {
		o.found, o.engine, o.err = open(ctx, c.devices)
		return o
	})
	if !ok {
		a.report.Job.interrupted(0, 0, 0)
		return nil, left(ctx)
	}
	engine, err := a.engineOrCPU(opened.found, opened.engine, opened.err, c.policy, "runs the job on the CPU")
	if engine != nil || err != nil {
		return engine, err
	}
	if a.form == formHuman {
		line(a.stdout, "on the CPU: %s (see smoke doctor)", opened.found.reason.short())
	}
	return job.NewCPU(cpuWorkers()), nil
}

// engineOrCPU returns the engine of the GPUs, or nil where there are no GPUs and the policy allows the
// CPU. off says in an error what --policy off does.
func (a *app) engineOrCPU(found probe, engine job.Engine, err error, p policy, off string) (job.Engine, error) {
	a.report.setProbe(found)
	switch {
	case err != nil:
		return nil, openError(err)
	case found.outcome == outcomeAvailable:
		return engine, nil
	case found.outcome == outcomeAbsent && p == policyRequired:
		return nil, found.failure(exitRequired, "a GPU is required by the policy, and there is none")
	case found.outcome == outcomeAbsent:
		return nil, nil
	}
	return nil, found.failure(exitFailed, "the GPU or its driver is faulty; --policy off "+off)
}

// withCPU adds the cores that read for no GPU: they hash their own batches. Were it all of
// them, the GPUs would wait for the readers.
func withCPU(gpus job.Engine) job.Engine {
	readers, _ := pool.Readers(len(gpus.Places()))
	return job.WithCPU(gpus, cpuWorkers()-readers)
}

// openError gives a failure to open a GPU its exit code.
func openError(err error) error {
	wrapped := &job.Error{Kind: job.EngineFailed, Err: err}
	kind, _ := describe(wrapped)
	if kind == string(job.InvalidArgument) {
		return &failure{kind: kind, detail: strings.TrimPrefix(err.Error(), kind+": "), code: exitUsage}
	}
	return wrapped
}

func (p probe) failure(code int, meaning string) error {
	return &failure{kind: p.reason.Kind, detail: p.reason.Detail + "; " + meaning, code: code}
}

// String is the reason on one line.
func (r *reason) String() string {
	return r.Kind + ": " + strings.Join(strings.FieldsFunc(r.Detail, func(c rune) bool { return c == '\n' }), "; ")
}

// noLibrary is how the detail of an absence begins where no library was found. What follows are the
// places that were looked at.
const noLibrary = "no CUDA driver library"

// short is the reason as the first line of a report has it.
func (r *reason) short() string {
	if strings.HasPrefix(r.Detail, noLibrary+": ") {
		return r.Kind + ": " + noLibrary
	}
	return r.String()
}
