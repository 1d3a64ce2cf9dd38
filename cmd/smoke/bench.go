package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/purecuda/purecuda/cmd/smoke/internal/bench"
	"github.com/purecuda/purecuda/cmd/smoke/internal/cli"
	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/runtime"
)

// The flags of smoke bench. Those of the job that it takes too are in taken.
const (
	flagOnly    = "only"
	flagTime    = "time"
	flagCount   = "count"
	flagMaxSize = "max-size"
)

// How long all of it takes about, where --time does not say how long a round does.
const (
	benchBudgetGPU = 45 * time.Second // opening and warming up take the rest of a minute
	benchBudgetCPU = 15 * time.Second
	benchMaxRound  = time.Second
)

const (
	benchMinSize  = 1 << 10
	benchMaxSize  = 1 << 40
	benchMaxCount = 1000
	benchMaxTime  = time.Hour
)

func (a *app) benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "measure calls, launches, allocations, copies, graphs, scatters and the job on this machine",
		Description: "Prints lines in the format of Go benchmarks, which benchstat reads, or with --json one " +
			"document. Without a GPU it measures the CPU.\n\n" +
			"Exit codes: 0 all was measured; 1 a fault, or interrupted: what was printed is a part; " +
			"2 a bad flag or value; 3 a GPU is required and there is none.",
		Flags: []*cli.Flag{
			{Names: []string{flagOnly}, Usage: "measure what matches `REGEXP` only, such as Copy or 'Launch|Graph'"},
			{Names: []string{flagTime}, Usage: "repeat each operation for `DURATION`, such as 100ms (default: so long that all of it takes about a minute on GPUs and 20 s on the CPU)"},
			{Names: []string{flagCount}, Default: "3", Usage: "measure each `N` times"},
			{Names: []string{flagMaxSize}, Default: "1GiB", Usage: "copy and hash up to `SIZE`; free memory may allow less"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Bool(flagJSON) {
				a.form = formJSON
			}
			config, err := parseBench(cmd)
			if err != nil {
				return err
			}
			return a.bench(ctx, config)
		},
	}
}

// benchConfig is what the flags ask for.
type benchConfig struct {
	config                // devices, policy, simulate and progress of it
	only   *regexp.Regexp // nil: everything
	time   time.Duration  // of a round; 0: by the budget
	count  int
	size   int64
}

func parseBench(cmd *cli.Command) (c benchConfig, err error) {
	if err := refuse(cmd); err != nil {
		return c, err
	}
	c.progress = !cmd.Bool(flagQuiet)
	for _, step := range []func(*cli.Command) error{c.parseNumbers, c.parseDevices, c.parsePolicy, c.parseMeasure} {
		if err := step(cmd); err != nil {
			return c, err
		}
	}
	if c.policy == policyOff && (c.simulate != 0 || len(c.devices) > 0) {
		return c, usageError("--%s and --%s ask for GPUs, the policy off forbids them; drop one of them", flagSimulate, flagDevices)
	}
	return c, nil
}

func (c *benchConfig) parseMeasure(cmd *cli.Command) error {
	if text := cmd.String(flagOnly); cmd.IsSet(flagOnly) {
		only, err := regexp.Compile(text)
		if err != nil {
			return usageError("--%s: %v", flagOnly, err)
		}
		c.only = only
	}
	if cmd.IsSet(flagTime) {
		text := cmd.String(flagTime)
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || d <= 0 || d > benchMaxTime {
			return usageError("--%s: %q is not a time of up to %s; write for example 100ms or 2s", flagTime, text, benchMaxTime)
		}
		c.time = d
	}
	count, err := parseNumber(cmd, flagCount, 1, benchMaxCount)
	if err != nil {
		return err
	}
	c.count = int(count)
	if c.size, err = parseSize(cmd.String(flagMaxSize)); err != nil {
		return usageError("--%s: %v", flagMaxSize, err)
	}
	if c.size < benchMinSize || c.size > benchMaxSize {
		return usageError("--%s %s is outside %s to %s", flagMaxSize, cmd.String(flagMaxSize), formatSize(benchMinSize), formatSize(benchMaxSize))
	}
	return nil
}

// bench measures, and prints what was measured also when it fails or is interrupted.
func (a *app) bench(ctx context.Context, c benchConfig) error {
	engine, err := a.benchEngine(ctx, c)
	if err != nil {
		return err
	}
	p, err := a.measure(ctx, c, benchMachine(engine))
	if engine != nil {
		if closeErr := engine.Close(); closeErr != nil {
			err = errors.Join(err, &job.Error{Kind: job.EngineFailed, Detail: "closing " + engine.Name(), Err: closeErr})
		}
	}
	if p == nil {
		return err
	}
	return errors.Join(err, p.finish(err))
}

// benchEngine opens the GPUs, or returns no engine where only the CPU is measured.
func (a *app) benchEngine(ctx context.Context, c benchConfig) (job.Engine, error) {
	open := a.openGPU
	switch {
	case c.policy == policyOff:
		a.report.Outcome = outcomeOff
		a.benchNote(c, "only the CPU is measured, the rest needs a GPU, which the policy off forbids")
		return nil, nil
	case c.simulate != 0:
		open = simulated(c.simulate)
		a.benchNote(c, "the GPUs are simulated: the numbers say nothing about a GPU")
	}
	found, engine, err := open(ctx, c.devices)
	engine, err = a.engineOrCPU(found, engine, err, c.policy, "measures the CPU")
	if engine == nil && err == nil {
		a.benchNote(c, "only the CPU is measured, the rest needs a GPU: %s (see smoke doctor)", found.reason.short())
	}
	return engine, err
}

// benchNote tells the reader of the terminal something. stdout is for results.
func (a *app) benchNote(c benchConfig, format string, args ...any) {
	if c.progress {
		line(a.stderr, "smoke: "+format, args...)
	}
}

// benchMachine is the machine as package bench takes it.
func benchMachine(engine job.Engine) *bench.Machine {
	_, simulated := engine.(*simulatedEngine)
	m := &bench.Machine{Cores: cpuWorkers(), Simulated: simulated}
	gpus := gpusOf(engine)
	if gpus == nil {
		return m
	}
	m.Runtime = gpus.rt
	for _, g := range gpus.gpus {
		m.Devices = append(m.Devices, g.context.Device())
	}
	m.Engine = func(n int) job.Engine {
		first := job.Engine(&gpuEngine{rt: gpus.rt, gpus: gpus.gpus[:n]})
		if simulated {
			first = &simulatedEngine{Engine: first}
		}
		return lent{first}
	}
	return m
}

// gpusOf is the engine on the devices of a runtime that engine is or has, or nil.
func gpusOf(engine job.Engine) *gpuEngine {
	switch e := engine.(type) {
	case *gpuEngine:
		return e
	case *simulatedEngine:
		return gpusOf(e.Engine)
	}
	return nil
}

// lent is an engine that somebody else closes.
type lent struct{ job.Engine }

func (lent) Close() error { return nil }

// measure measures what is asked for and prints it. Without a printer nothing was measured.
func (a *app) measure(ctx context.Context, c benchConfig, machine *bench.Machine) (*benchPrinter, error) {
	sizes := bench.Sizes{Largest: c.size, Host: freeHostMemory(), Device: freeDeviceMemory(machine.Devices)}
	all := bench.List(machine, sizes)
	cases := all
	if c.only != nil {
		if cases = bench.Select(all, c.only); len(cases) == 0 {
			return nil, usageError("--%s %q matches none of the %d measurements of this machine, which are %s", flagOnly, c.only, len(all), families(all))
		}
	}
	if cut := sizes.Cut(); cut != 0 {
		a.benchNote(c, "sizes end at %s, a quarter of the free memory", formatSize(cut))
	}
	options := bench.Options{Time: c.time, Count: c.count}
	if options.Time == 0 {
		budget := benchBudgetCPU
		if len(machine.Devices) > 0 {
			budget = benchBudgetGPU
		}
		options.Time = min(max(budget/time.Duration(len(cases)*c.count), time.Millisecond), benchMaxRound)
	}
	p := a.newBenchPrinter(machine, options)
	bar := a.newBenchProgress(c, cases, options)
	options.Started = bar.started
	p.header()
	run, stop := context.WithCancel(ctx)
	defer stop()
	err := bench.Run(run, cases, options, func(r bench.Result) {
		bar.clear()
		if p.add(r); p.err != nil {
			stop() // nobody reads the rest
		}
	})
	bar.clear()
	if p.err != nil {
		return p, unwritten("the results", p.err)
	}
	if err != nil {
		p.doc.Partial = true
		err = benchFailure(ctx, err, p.measured, len(cases))
	}
	return p, err
}

// benchFailure says that results are partial, and why.
func benchFailure(ctx context.Context, err error, done, all int) error {
	part := fmt.Sprintf("%d of %d measurements were done, the results are partial", done, all)
	if ctx.Err() != nil {
		return &failure{kind: string(job.Canceled), detail: "interrupted: " + part, code: exitFailed}
	}
	kind, detail := describe(&job.Error{Kind: job.EngineFailed, Err: err})
	return &failure{kind: kind, detail: detail + "; " + part, code: exitFailed}
}

// families are the names of the cases up to the first slash, each once.
func families(cases []bench.Case) string {
	var names []string
	for _, c := range cases {
		names = append(names, c.Family())
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// freeDeviceMemory is what the device with the least has free, or 0 if that is unknown.
func freeDeviceMemory(devices []runtime.Device) (free int64) {
	for _, d := range devices {
		if n := int64(d.FreeBytes); free == 0 || n < free {
			free = n
		}
	}
	return free
}
