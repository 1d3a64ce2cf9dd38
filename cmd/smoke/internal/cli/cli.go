// Package cli reads a command line of commands and flags.
//
// Flags may stand anywhere before --, also before or behind the commands below theirs. A value follows its
// flag, or = within it.
package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Flag is one flag. Its zero value takes a text.
type Flag struct {
	Names   []string
	Usage   string // what it does; a word in backquotes is what its value is called
	Default string // its value where it is not set
	Shown   string // the default that help shows, instead of Default
	Bool    bool   // it takes no value, or true or false behind =

	value string
	set   bool
}

// IsSet reports whether the command line has the flag.
func (f *Flag) IsSet() bool { return f.set }

// Command is a command with its flags, and with the commands below it.
type Command struct {
	Name, Usage string
	UsageText   string // how it is called; empty: with its options
	Description string
	Hidden      bool // it is not for people
	Flags       []*Flag
	Commands    []*Command
	Action      func(ctx context.Context, cmd *Command) error

	Args   []string // what stands there beside commands and flags
	parent *Command
}

// UnknownFlagError is an error of [Command.Parse] for a flag that there is not.
type UnknownFlagError struct{ Name string }

func (e *UnknownFlagError) Error() string { return "unknown flag " + Dashed(e.Name) }

// Dashed is a flag as it is written.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// Parse reads arguments, and returns the command that they name: at an error the one that was read so far.
func (c *Command) Parse(args []string) (*Command, error) {
	c.link()
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		below := c.Command(arg)
		switch {
		case arg == "--":
			c.Args = append(c.Args, args...)
			return c, nil
		case isFlag(arg):
			var err error
			if args, err = c.parseFlag(arg, args); err != nil {
				return c, err
			}
		case below != nil && len(c.Args) == 0:
			c = below
		default:
			c.Args = append(c.Args, arg)
		}
	}
	return c, nil
}

// link tells all commands below what is above them.
func (c *Command) link() {
	for _, below := range c.Commands {
		below.parent = c
		below.link()
	}
}

// isFlag reports whether an argument begins as a flag does. A negative number is none, nor is "-", which often names stdin.
func isFlag(arg string) bool {
	_, err := strconv.ParseFloat(arg, 64)
	return err != nil && len(arg) > 1 && arg[0] == '-'
}

// parseFlag reads one flag, and its value of the arguments that follow.
func (c *Command) parseFlag(arg string, rest []string) ([]string, error) {
	name, value, given := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
	f := c.Flag(name)
	switch {
	case f == nil:
		return rest, &UnknownFlagError{name}
	case f.Bool && !given:
		value = "true"
	case f.Bool:
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return rest, fmt.Errorf("%s takes true or false, not %q", Dashed(name), value)
		}
		value = strconv.FormatBool(yes)
	case !given && len(rest) == 0:
		return rest, fmt.Errorf("flag needs an argument: %s", Dashed(name))
	case !given:
		value, rest = rest[0], rest[1:]
	}
	f.value, f.set = value, true
	return rest, nil
}

// Flag returns the flag of the command, or of those above it, that has a name. It is nil if there is none.
func (c *Command) Flag(name string) *Flag {
	for ; c != nil; c = c.parent {
		if i := slices.IndexFunc(c.Flags, func(f *Flag) bool { return slices.Contains(f.Names, name) }); i >= 0 {
			return c.Flags[i]
		}
	}
	return nil
}

// Command returns the command below that has a name, or nil.
func (c *Command) Command(name string) *Command {
	i := slices.IndexFunc(c.Commands, func(below *Command) bool { return below.Name == name })
	if i < 0 {
		return nil
	}
	return c.Commands[i]
}

// First returns the first argument, or "".
func (c *Command) First() string {
	if len(c.Args) == 0 {
		return ""
	}
	return c.Args[0]
}

// Root returns the program.
func (c *Command) Root() *Command {
	for c.parent != nil {
		c = c.parent
	}
	return c
}

// FullName returns the name, behind the names of the commands above.
func (c *Command) FullName() string {
	if c.parent == nil {
		return c.Name
	}
	return c.parent.FullName() + " " + c.Name
}

// IsSet reports whether the command line has a flag.
func (c *Command) IsSet(name string) bool { return c.Flag(name).set }

// String returns the value of a flag.
func (c *Command) String(name string) string {
	f := c.Flag(name)
	if !f.set {
		return f.Default
	}
	return f.value
}

// Bool reports whether a flag that takes no value is set.
func (c *Command) Bool(name string) bool { return c.String(name) == "true" }
