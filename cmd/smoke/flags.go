package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/cmd/smoke/internal/cli"
)

// taken are the flags of the job that a command takes too, and what they do there, if that is
// something else. All of them may stand before the command as well.
var taken = map[string]map[string]string{
	"bench":  {flagDevices: "", flagPolicy: "", flagSimulate: "", flagJSON: "", flagQuiet: "print the results only, and no progress"},
	"doctor": {flagSimulate: "look at `N` simulated GPUs", flagJSON: "", flagQuiet: "print the problems only"},
	"cache":  {flagJSON: ""},
	"clear":  {flagJSON: ""},
}

// helped is a flag as the help of a command and its completion show it.
type helped struct {
	*cli.Flag
	text string // instead of its own
}

// flagsOf are the flags that a command takes.
func flagsOf(cmd *cli.Command) (flags []helped) {
	for _, f := range cmd.Flags {
		flags = append(flags, helped{Flag: f})
	}
	if cmd.Root() == cmd {
		return flags
	}
	for _, f := range cmd.Root().Flags {
		if text, takes := taken[cmd.Name][f.Names[0]]; takes || f.Names[0] == flagHelp {
			flags = append(flags, helped{f, text})
		}
	}
	return flags
}

// refuse is an error if an argument is left, or a flag of the job is set that cmd does not take.
func refuse(cmd *cli.Command) error {
	if len(cmd.Args) > 0 {
		if len(visible(cmd)) > 0 {
			return unknownCommand(cmd, cmd.First())
		}
		return usageError("unexpected argument %q after %s", cmd.First(), cmd.FullName())
	}
	return refuseFlags(cmd)
}

func refuseFlags(cmd *cli.Command) error {
	for _, f := range cmd.Root().Flags {
		if name := f.Names[0]; f.IsSet() && !hasFlag(cmd, name) {
			return usageError("--%s has no meaning for %s", name, cmd.FullName())
		}
	}
	return nil
}

func hasFlag(cmd *cli.Command, name string) bool {
	return slices.ContainsFunc(flagsOf(cmd), func(f helped) bool { return slices.Contains(f.Names, name) })
}

// value is the word for the value of a flag, or "" where it takes none.
func (f helped) value() string {
	if f.Bool {
		return ""
	}
	if parts := strings.Split(f.Usage, "`"); len(parts) == 3 {
		return parts[1]
	}
	return "VALUE"
}

// spelling is "--name VALUE", with its other names.
func (f helped) spelling() string {
	var names []string
	for _, name := range f.Names {
		names = append(names, strings.TrimRight(cli.Dashed(name)+" "+f.value(), " "))
	}
	return strings.Join(names, ", ")
}

// usage is what the flag does, and its default.
func (f helped) usage() string {
	text := strings.ReplaceAll(cmp.Or(f.text, f.Usage), "`", "")
	if value := cmp.Or(f.Shown, f.Default); value != "" {
		text += fmt.Sprintf(" (default: %s)", value)
	}
	return text
}

// flagError is an error about flags for people. It names the flag that may have been meant.
func flagError(cmd *cli.Command, err error) error {
	if e, ok := errors.AsType[*cli.UnknownFlagError](err); ok {
		for _, f := range flagsOf(cmd) {
			if i := slices.IndexFunc(f.Names, func(known string) bool { return near(known, e.Name) }); i >= 0 {
				return usageError("%v; did you mean %s?", err, cli.Dashed(f.Names[i]))
			}
		}
	}
	return usageError("%v", err)
}

// complete prints what can follow on the command line, for the scripts of the shells: commands,
// or the flags that the command takes. For the value of a flag it prints nothing, and the shell offers
// files.
func (a *app) complete(cmd *cli.Command, args []string) {
	last := ""
	if n := len(args); n > 0 {
		last = args[n-1]
	}
	if !strings.HasPrefix(last, "-") {
		for _, c := range visible(cmd) {
			_, _ = fmt.Fprintf(a.stdout, "%s:%s\n", c.Name, c.Usage)
		}
		return
	}
	flags := flagsOf(cmd)
	for _, f := range flags {
		if slices.Contains(f.Names, strings.TrimLeft(last, "-")) && f.value() != "" {
			return
		}
	}
	for _, f := range flags {
		if name := cli.Dashed(f.Names[0]); strings.HasPrefix(name, last) && name != last {
			_, _ = fmt.Fprintf(a.stdout, "%s:%s\n", name, f.usage())
		}
	}
}
