package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
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
	cli.Flag
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
	help := len(flags) - 1 // the library has added it
	for _, f := range cmd.Root().Flags {
		if text, takes := taken[cmd.Name][f.Names()[0]]; takes {
			flags = append(flags, helped{f, text})
		}
	}
	return append(slices.Delete(slices.Clone(flags), help, help+1), flags[help])
}

// refuse is an error if an argument is left, or a flag of the job is set that cmd does not take.
func refuse(cmd *cli.Command) error {
	if name := cmd.Args().First(); cmd.Args().Present() {
		if len(visible(cmd)) > 0 {
			return unknownCommand(cmd, name)
		}
		return usageError("unexpected argument %q after %s", name, cmd.FullName())
	}
	return refuseFlags(cmd)
}

func refuseFlags(cmd *cli.Command) error {
	for _, f := range cmd.Root().Flags {
		if name := f.Names()[0]; f.IsSet() && !hasFlag(cmd, name) {
			return usageError("--%s has no meaning for %s", name, cmd.FullName())
		}
	}
	return nil
}

func hasFlag(cmd *cli.Command, name string) bool {
	return slices.ContainsFunc(flagsOf(cmd), func(f helped) bool { return slices.Contains(f.Names(), name) })
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// value is the word for the value of a flag, or "" where it takes none.
func (f helped) value() string {
	doc, ok := f.Flag.(cli.DocGenerationFlag)
	if !ok || !doc.TakesValue() {
		return ""
	}
	if parts := strings.Split(doc.GetUsage(), "`"); len(parts) == 3 {
		return parts[1]
	}
	return "VALUE"
}

// spelling is "--name VALUE", with its other names.
func (f helped) spelling() string {
	var names []string
	for _, name := range f.Names() {
		names = append(names, strings.TrimRight(dashed(name)+" "+f.value(), " "))
	}
	return strings.Join(names, ", ")
}

// usage is what the flag does, and its default.
func (f helped) usage() string {
	doc, ok := f.Flag.(cli.DocGenerationFlag)
	if !ok {
		return f.text
	}
	text := f.text
	if text == "" {
		text = doc.GetUsage()
	}
	text = strings.ReplaceAll(text, "`", "")
	value := doc.GetDefaultText()
	if s, ok := f.Flag.(*cli.StringFlag); ok && value == "" {
		value = s.Value
	}
	if value != "" {
		text += fmt.Sprintf(" (default: %s)", value)
	}
	return text
}

// flagError rewords the library's errors about flags.
func (a *app) flagError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usageError("%s", strings.Join(strings.Fields(err.Error()), " "))
	}
	for _, f := range flagsOf(cmd) {
		if i := slices.IndexFunc(f.Names(), func(known string) bool { return near(known, name) }); i >= 0 {
			return usageError("unknown flag %s; did you mean %s?", dashed(name), dashed(f.Names()[i]))
		}
	}
	return usageError("unknown flag %s", dashed(name))
}

// complete prints what can follow on the command line, for the scripts of the shells: commands,
// or the flags that the command takes. For the value of a flag it prints nothing, and the shell offers
// files.
func (a *app) complete(_ context.Context, cmd *cli.Command) {
	last := ""
	if n := len(a.args); n > 2 { // the program, what is there, and the request to complete it
		last = a.args[n-2]
	}
	if !strings.HasPrefix(last, "-") {
		for _, c := range visible(cmd) {
			_, _ = fmt.Fprintf(a.stdout, "%s:%s\n", c.Name, c.Usage)
		}
		return
	}
	flags := flagsOf(cmd)
	for _, f := range flags {
		if slices.Contains(f.Names(), strings.TrimLeft(last, "-")) && f.value() != "" {
			return
		}
	}
	for _, f := range flags {
		if name := dashed(f.Names()[0]); strings.HasPrefix(name, last) && name != last {
			_, _ = fmt.Fprintf(a.stdout, "%s:%s\n", name, f.usage())
		}
	}
}

// completionCommand sets up the command that prints the scripts.
func (a *app) completionCommand(cmd *cli.Command) {
	cmd.Hidden = false
	cmd.Usage = "print a script that completes commands and flags in a shell"
	cmd.UsageText = "smoke completion bash|zsh|fish|pwsh"
	cmd.Description = `In the file that the shell reads at its start:

  source <(smoke completion bash)    # ~/.bashrc
  source <(smoke completion zsh)     # ~/.zshrc

or once:

  smoke completion fish > ~/.config/fish/completions/smoke.fish
  smoke completion pwsh > smoke.ps1`
	cmd.OnUsageError, cmd.ShellComplete = a.flagError, a.complete
	cmd.Action = func(_ context.Context, cmd *cli.Command) error {
		if cmd.Args().Present() {
			return unknownCommand(cmd, cmd.Args().First())
		}
		return usageError("name a shell: bash, zsh, fish or pwsh")
	}
	for _, shell := range cmd.Commands {
		shell.Usage = "print the script for " + shell.Name
		shell.OnUsageError, shell.ShellComplete = a.flagError, a.complete
		script := shell.Action
		shell.Action = func(ctx context.Context, cmd *cli.Command) error {
			if err := refuse(cmd); err != nil {
				return err
			}
			return script(ctx, cmd)
		}
	}
}
