package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/purecuda/purecuda/cmd/smoke/internal/doctor"
)

// app is one invocation of the program.
type app struct {
	stdout  *output
	stderr  io.Writer
	openGPU gpuOpener
	doctor  doctor.Config // what doctor examines; the zero value is this machine

	args   []string
	form   form    // how the report is printed; none until a job was asked for
	report *report // filled as the job proceeds
}

// run parses the arguments, does what they ask for and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.report = newReport()
	if slices.Contains(args, "--json") || slices.Contains(args, "-json") {
		a.form = formJSON // so that a bad flag is reported in JSON as well
	}
	a.args = args
	command := a.command()
	_ = command.Walk(func(c *cli.Command) error {
		c.ShellComplete = a.complete
		return nil
	})
	return a.finish(command.Run(ctx, args))
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
		Version:                         doctor.ReadBuild().String(),
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: a.completionCommand,
		HideHelpCommand:                 true,
		Writer:                          a.stdout,
		ErrWriter:                       a.stderr,
		Commands:                        []*cli.Command{a.benchCommand(), a.cacheCommand(), a.doctorCommand(), a.helpCommand()},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagInput, TakesFile: true, Usage: "hash the file or folder at `PATH` (default: this program)"},
			&cli.StringFlag{Name: flagChunk, Value: "4KiB", Usage: "cut files into chunks of `SIZE`, such as 4096, 4KiB or 1MiB"},
			&cli.StringFlag{Name: flagRounds, Value: "0", Usage: "hash each digest `N` times more, to make the job compute-bound"},
			&cli.StringFlag{Name: flagVerify, Value: "auto", Usage: "check `WHICH` digests with the CPU: all, none, a share such as 5%, or auto: all up to 64 MiB of input, above it one in 64 and at least 4096"},
			&cli.StringFlag{Name: flagVerifySeed, Usage: "choose the checked sample by seed `N` (default: at random)"},
			&cli.StringFlag{Name: flagDevices, Aliases: []string{flagDevice}, Usage: "use the GPUs of `LIST` only, by number or UUID, such as 0,2 (default: all)"},
			&cli.BoolFlag{Name: flagWithCPU, Usage: "let the CPU cores that read for no GPU hash as well"},
			&cli.BoolFlag{Name: flagIsolate, Usage: "hash in a child process for each GPU: a batch whose process or GPU dies is hashed again"},
			&cli.StringFlag{Name: flagPolicy, DefaultText: "auto", Usage: "`POLICY` auto uses the GPUs or else the CPU, off never looks for a GPU, required fails without one [$" + policyVariable + "]"},
			&cli.StringFlag{Name: flagSimulate, Usage: "use `N` simulated GPUs, which run the same kernel on the CPU, slowly, and check every access"},
			&cli.StringFlag{Name: flagWorkers, Usage: "hash `N` batches at once (default: what suits the GPUs, or one for each CPU core)"},
			&cli.StringFlag{Name: flagOut, TakesFile: true, Usage: "write the digests to `FILE`, one line a chunk as sha256sum has it; - is stdout, and then the report goes to stderr"},
			&cli.BoolFlag{Name: flagJSON, Usage: "print one JSON document"},
			&cli.BoolFlag{Name: flagQuiet, Usage: "print the root only, and no progress"},
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
		OnUsageError:   a.flagError,
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // run turns errors into exit codes
	}
}

// isUsage says whether err is about how the program was called.
func isUsage(err error) bool {
	e, ok := errors.AsType[*failure](err)
	return ok && e.usage
}
