package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/purecuda/purecuda/cmd/smoke/internal/cli"
	"github.com/purecuda/purecuda/cmd/smoke/internal/doctor"
)

// app is one invocation of the program.
type app struct {
	stdout  *output
	stderr  io.Writer
	openGPU gpuOpener
	doctor  doctor.Config // what doctor examines; the zero value is this machine

	form   form    // how the report is printed; none until a job was asked for
	report *report // filled as the job proceeds
}

// run parses the arguments, does what they ask for and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.report = newReport()
	if slices.Contains(args, "--json") || slices.Contains(args, "-json") {
		a.form = formJSON // so that a bad flag is reported in JSON as well
	}
	return a.finish(a.dispatch(ctx, args[min(1, len(args)):]))
}

// dispatch does what the arguments ask for.
func (a *app) dispatch(ctx context.Context, args []string) error {
	root := a.command()
	if n := len(args) - 1; n >= 0 && args[n] == completionFlag {
		cmd, _ := root.Parse(args[:n]) // as far as it can be read
		a.complete(cmd, args[:n])
		return nil
	}
	cmd, err := root.Parse(args)
	switch {
	case root.Flag(flagHelp).IsSet() && cmd == root && cmd.First() != "":
		return unknownCommand(cmd, cmd.First())
	case root.Flag(flagHelp).IsSet():
		a.printHelp(cmd)
		return nil
	case err != nil:
		return flagError(cmd, err)
	case cmd == root && root.Flag(flagVersion).IsSet():
		line(a.stdout, "smoke version %s", doctor.ReadBuild())
		return nil
	}
	return cmd.Action(ctx, cmd)
}

// The flags of the job. Numbers and sizes are parsed by parseConfig: its messages
// name the value and the limit.
const (
	flagInput      = "input"
	flagChunk      = "chunk"
	flagRounds     = "rounds"
	flagVerify     = "verify"
	flagVerifySeed = "verify-seed"
	flagDevices    = "devices"
	flagDevice     = "device" // the older name of devices
	flagWithCPU    = "with-cpu"
	flagIsolate    = "isolate"
	flagPolicy     = "policy"
	flagSimulate   = "simulate"
	flagWorkers    = "workers"
	flagOut        = "out"
	flagJSON       = "json"
	flagQuiet      = "quiet"
	flagHelp       = "help"
	flagVersion    = "version"
)

func (a *app) command() *cli.Command {
	return &cli.Command{
		Name:      "smoke",
		Usage:     "hash a file or folder on the GPUs, or on the CPU where there are none, and check the result",
		UsageText: "smoke [options]\nsmoke COMMAND [options]",
		Description: "Cuts every file into chunks, computes SHA-256 of each chunk, checks the digests with " +
			"the CPU, and prints the root: SHA-256 over all chunk digests in order. The root is " +
			"the same wherever the job ran.\n\n" +
			"Exit codes: 0 done and verified; 1 a fault, a wrong digest, or reading, writing or " +
			"hashing failed; 2 a bad flag or value, or an input that is missing, empty or runs in " +
			"a circle; 3 a GPU is required and there is none.",
		Commands: []*cli.Command{a.benchCommand(), a.cacheCommand(), a.doctorCommand(), a.helpCommand(), a.completionCommand()},
		Flags: []*cli.Flag{
			{Names: []string{flagInput}, Usage: "hash the file or folder at `PATH` (default: this program)"},
			{Names: []string{flagChunk}, Default: "4KiB", Usage: "cut files into chunks of `SIZE`, such as 4096, 4KiB or 1MiB"},
			{Names: []string{flagRounds}, Default: "0", Usage: "hash each digest `N` times more, to make the job compute-bound"},
			{Names: []string{flagVerify}, Default: "auto", Usage: "check `WHICH` digests with the CPU: all, none, a share such as 5%, or auto: all up to 64 MiB of input, above it one in 64 and at least 4096"},
			{Names: []string{flagVerifySeed}, Usage: "choose the checked sample by seed `N` (default: at random)"},
			{Names: []string{flagDevices, flagDevice}, Usage: "use the GPUs of `LIST` only, by number or UUID, such as 0,2 (default: all)"},
			{Names: []string{flagWithCPU}, Bool: true, Usage: "let the CPU cores that read for no GPU hash as well"},
			{Names: []string{flagIsolate}, Bool: true, Usage: "hash in a child process for each GPU: a batch whose process or GPU dies is hashed again"},
			{Names: []string{flagPolicy}, Shown: "auto", Usage: "`POLICY` auto uses the GPUs or else the CPU, off never looks for a GPU, required fails without one [$" + policyVariable + "]"},
			{Names: []string{flagSimulate}, Usage: "use `N` simulated GPUs, which run the same kernel on the CPU, slowly, and check every access"},
			{Names: []string{flagWorkers}, Usage: "hash `N` batches at once (default: what suits the GPUs, or one for each CPU core)"},
			{Names: []string{flagOut}, Usage: "write the digests to `FILE`, one line a chunk as sha256sum has it; - is stdout, and then the report goes to stderr"},
			{Names: []string{flagJSON}, Bool: true, Usage: "print one JSON document"},
			{Names: []string{flagQuiet}, Bool: true, Usage: "print the root only, and no progress"},
			{Names: []string{flagHelp, "h"}, Bool: true, Usage: "show help"},
			{Names: []string{flagVersion, "v"}, Bool: true, Usage: "print the version"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			switch {
			case cmd.Bool(flagJSON):
				a.form = formJSON
			case cmd.Bool(flagQuiet):
				a.form = formQuiet
			default:
				a.form = formHuman
			}
			config, err := parseConfig(cmd)
			if err != nil {
				return err
			}
			return a.smoke(ctx, config)
		},
	}
}

// isUsage says whether err is about how the program was called.
func isUsage(err error) bool {
	e, ok := errors.AsType[*failure](err)
	return ok && e.usage
}
