package main

import (
	"context"
	"os"
	"time"

	"github.com/purecuda/purecuda/cmd/smoke/internal/cli"
	"github.com/purecuda/purecuda/cmd/smoke/internal/doctor"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/job"
)

const (
	// probeLimit is how long a probe may take. A host with many GPUs and no persistence
	// mode needs several seconds for cuInit.
	probeLimit = 30 * time.Second
	// probeSlow is when people are told what the report waits for.
	probeSlow = 3 * time.Second
)

// doctorCommand examines the machine.
func (a *app) doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "tell what this machine has of CUDA, what of it works, and what to do about the rest",
		Description: "Looks for the driver and NVRTC as every program does, opens each GPU and runs a kernel " +
			"on it. Reads the health of the GPUs with NVML, and loads cuBLAS and its like where they are. Each look is a process of its own, so that a driver that crashes or hangs is a " +
			"line of the report.\n\n" +
			"Exit codes: 0 the report is complete, whatever it says; 1 it was interrupted or cannot " +
			"be written; 2 a bad flag or value.",
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := refuse(cmd); err != nil {
				return err
			}
			return a.examine(ctx, cmd)
		},
		Commands: []*cli.Command{{
			Name: "probe", Hidden: true,
			Action: func(ctx context.Context, cmd *cli.Command) error {
				a.form = formNone
				return doctor.Serve(ctx, cmd.First(), os.Stdin, a.stdout)
			},
		}},
	}
}

func (a *app) examine(ctx context.Context, cmd *cli.Command) error {
	config := a.doctor
	if config.Driver == nil {
		var err error
		if config, err = a.machine(probeLimit); err != nil {
			return err
		}
	}
	if cmd.IsSet(flagSimulate) {
		n, err := parseNumber(cmd, flagSimulate, 1, maxSimulated)
		if err != nil {
			return err
		}
		gpu := drivertest.New(drivertest.Config{Devices: simulatedDevices(int(n))})
		defer gpu.Close()
		config.Driver, config.Health, config.Libraries = doctor.Libraries{Driver: gpu}.InProcess, nil, nil
	}
	found, err := doctor.Examine(ctx, config)
	if err != nil {
		return &failure{kind: string(job.Canceled), detail: "stopped before the report was complete: " + err.Error(), code: exitFailed}
	}
	return a.printFound(cmd, found)
}

// machine examines this machine, in child processes of this program.
func (a *app) machine(limit time.Duration) (doctor.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return doctor.Config{}, &failure{kind: string(job.ReadFailed), detail: "cannot find this program's own file: " + err.Error(), code: exitFailed}
	}
	child := doctor.Child{Program: self, Limit: limit, SlowAfter: probeSlow, Slow: func(doing string) {
		if a.terminal() != nil {
			line(a.stderr, "smoke: waiting for %s, at most %v", doing, limit)
		}
	}}
	return doctor.Config{Driver: child.Probe, NVRTC: child.Probe, Health: child.Probe, Libraries: child.Probe, Files: child.Probe}, nil
}

func (a *app) printFound(cmd *cli.Command, found *doctor.Report) (err error) {
	switch {
	case cmd.Bool(flagJSON):
		err = writeJSON(a.stdout, found)
	case cmd.Bool(flagQuiet):
		err = found.WriteProblems(a.stdout)
	default:
		err = found.WriteText(a.stdout)
	}
	if err != nil {
		return unwritten("the report", err)
	}
	return nil
}
