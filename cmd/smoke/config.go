package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/cmd/smoke/internal/cli"
	"github.com/purecuda/purecuda/internal/job"
)

// config is what the flags ask for.
type config struct {
	input    string
	chunk    int
	rounds   uint32
	verify   job.Verify
	devices  []string // ordinals or UUIDs; none: all
	withCPU  bool     // the CPU hashes as well
	isolate  bool     // in child processes
	policy   policy
	simulate int // simulated GPUs; 0: this machine's
	workers  int // 0: what suits the engine
	out      string
	progress bool
}

// policy says what is done about GPUs.
type policy string

const (
	policyAuto     policy = "auto"     // GPUs, or else the CPU
	policyOff      policy = "off"      // the driver is not touched
	policyRequired policy = "required" // absence is an error
)

// policyVariable is the environment variable that sets the policy where --policy
// does not.
const policyVariable = "PURECUDA_POLICY"

// maxWorkers is far above what any machine can use.
const maxWorkers = 4096

func parseConfig(cmd *cli.Command) (config, error) {
	c := config{out: cmd.String(flagOut), progress: !cmd.Bool(flagQuiet), withCPU: cmd.Bool(flagWithCPU), isolate: cmd.Bool(flagIsolate)}
	if len(cmd.Args) > 0 {
		name := cmd.Args[0]
		if _, err := os.Lstat(name); err != nil {
			return c, unknownCommand(cmd, name)
		}
		return c, usageError("unexpected argument %q; name the input with --input", name)
	}
	for _, step := range []func(*cli.Command) error{c.parseInput, c.parseChunk, c.parseNumbers, c.parseDevices, c.parseVerify, c.parsePolicy} {
		if err := step(cmd); err != nil {
			return c, err
		}
	}
	if c.policy == policyOff && c.simulate != 0 {
		return c, usageError("--simulate %d asks for GPUs, the policy off forbids them; drop one of them", c.simulate)
	}
	if c.policy == policyOff && c.isolate {
		return c, usageError("--%s asks for GPUs, the policy off forbids them; drop one of them", flagIsolate)
	}
	if c.policy == policyOff && len(c.devices) > 0 {
		return c, usageError("--%s %s asks for GPUs, the policy off forbids them; drop one of them", flagDevices, strings.Join(c.devices, ","))
	}
	return c, nil
}

func (c *config) parseInput(cmd *cli.Command) error {
	for _, name := range []string{flagInput, flagOut} {
		if cmd.IsSet(name) && cmd.String(name) == "" {
			return usageError("--%s is empty; it needs a path", name)
		}
	}
	c.input = cmd.String(flagInput)
	if c.input != "" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return usageError("cannot find this program's own file (%v); name an input with --input", err)
	}
	c.input = self
	return nil
}

func (c *config) parseChunk(cmd *cli.Command) error {
	n, err := parseSize(cmd.String(flagChunk))
	if err != nil {
		return usageError("--%s: %v", flagChunk, err)
	}
	if n < 1 || n > job.MaxChunkBytes {
		return usageError("--%s %s is outside 1 byte to %s", flagChunk, cmd.String(flagChunk), formatSize(job.MaxChunkBytes))
	}
	c.chunk = int(n)
	return nil
}

func (c *config) parseNumbers(cmd *cli.Command) error {
	rounds, err := parseNumber(cmd, flagRounds, 0, 1<<32-1)
	c.rounds = uint32(rounds)
	if err == nil && cmd.IsSet(flagWorkers) {
		var n uint64
		n, err = parseNumber(cmd, flagWorkers, 1, maxWorkers)
		c.workers = int(n)
	}
	if err == nil && cmd.IsSet(flagSimulate) {
		var n uint64
		n, err = parseNumber(cmd, flagSimulate, 1, maxSimulated)
		c.simulate = int(n)
	}
	return err
}

// deviceName is an ordinal, or a UUID or the beginning of one.
var deviceName = regexp.MustCompile(`^(?i:(GPU-)?[0-9a-f][0-9a-f-]*)$`)

func (c *config) parseDevices(cmd *cli.Command) error {
	if !cmd.IsSet(flagDevices) {
		return nil
	}
	for name := range strings.SplitSeq(cmd.String(flagDevices), ",") {
		name = strings.TrimSpace(name)
		switch {
		case !deviceName.MatchString(name):
			return usageError("--%s: %q is neither the number of a GPU nor a UUID; write a list such as 0,2", flagDevices, name)
		case slices.Contains(c.devices, name):
			return usageError("--%s: %s is there twice", flagDevices, name)
		}
		c.devices = append(c.devices, name)
	}
	return nil
}

func (c *config) parseVerify(cmd *cli.Command) error {
	verify, err := job.ParseVerify(cmd.String(flagVerify))
	if err != nil {
		_, detail := describe(err)
		return usageError("--%s: %s", flagVerify, detail)
	}
	verify.Seed = uint64(rand.Uint32()) // any JSON reader holds 32 bits exactly
	if cmd.IsSet(flagVerifySeed) {
		verify.Seed, err = parseNumber(cmd, flagVerifySeed, 0, 1<<53-1)
	}
	c.verify = verify
	return err
}

func (c *config) parsePolicy(cmd *cli.Command) error {
	text, from := os.Getenv(policyVariable), policyVariable
	if text == "" {
		text = string(policyAuto) // an empty variable is as good as none
	}
	if cmd.IsSet(flagPolicy) {
		text, from = cmd.String(flagPolicy), "--"+flagPolicy
	}
	switch p := policy(strings.ToLower(strings.TrimSpace(text))); p {
	case policyAuto, policyOff, policyRequired:
		c.policy = p
		return nil
	default:
		return usageError("%s: %q is not auto, off or required", from, text)
	}
}

// parseNumber reads the value of a flag as a whole number from low to high.
func parseNumber(cmd *cli.Command, flag string, low, high uint64) (uint64, error) {
	text := cmd.String(flag)
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || n < low || n > high {
		return 0, usageError("--%s: %q is not a whole number from %d to %d", flag, text, low, high)
	}
	return n, nil
}

// cpuWorkers is one worker for each core that this process may use.
func cpuWorkers() int { return goruntime.GOMAXPROCS(0) }

// usageError is an error about how the program was called.
func usageError(format string, args ...any) error {
	return &failure{kind: string(job.InvalidArgument), detail: fmt.Sprintf(format, args...), code: exitUsage, usage: true}
}
