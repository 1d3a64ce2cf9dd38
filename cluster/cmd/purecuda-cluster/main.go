// Purecuda-cluster does the main job of smoke, SHA-256 of all chunks of files, on the GPUs of several hosts, and shows hosts and their
// rates.
//
//	purecuda-cluster hash --input DIR --workers 2   # starts a server and two workers here, and needs nothing installed
//	purecuda-cluster worker --nats URL --root data=/srv/data
//	purecuda-cluster hash --nats URL --root data=/srv/data --input /srv/data/set
//	purecuda-cluster status --nats URL
//	purecuda-cluster bench --nats URL
//	purecuda-cluster permissions
//
// It ends with 0, with 1 after a failure, and with 2 where the command line is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/purecuda/purecuda/internal/cleantext"
	"github.com/purecuda/purecuda/pool/isolate"
)

func main() {
	isolate.Main(openRuntime, sha256Chunks)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is one of the program's.
type command struct {
	name, text string
	// set adds the flags, and returns what runs with them.
	set func(f *flag.FlagSet) func(ctx context.Context, out io.Writer) error
}

var commands = []command{
	{"hash", "hash a file or a folder on all hosts, and print the root", hashCommand},
	{"worker", "serve with the devices of this host until SIGTERM", workerCommand},
	{"status", "show hosts, devices, the queue and rates, once a second", statusCommand},
	{"bench", "measure pieces that do nothing", benchCommand},
	{"permissions", "print the users' part of a server's configuration, with the least rights", permissionsCommand},
}

// usageError is a mistake in the command line.
type usageError string

func (e usageError) Error() string { return string(e) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, stdout, stderr)
	var usage usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "purecuda-cluster:", cleantext.String(err.Error()), "(see --help)")
		return 2
	}
	fmt.Fprintln(stderr, "purecuda-cluster:", cleantext.String(err.Error()))
	return 1
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	for _, c := range commands {
		if len(args) == 0 || args[0] != c.name {
			continue
		}
		f := flag.NewFlagSet("purecuda-cluster "+c.name, flag.ContinueOnError)
		f.SetOutput(io.Discard)
		run := c.set(f)
		if err := f.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(stdout, "purecuda-cluster %s: %s\n\n", c.name, c.text)
			f.SetOutput(stdout)
			f.PrintDefaults()
			return err
		} else if err != nil {
			return usageError(err.Error())
		}
		if f.NArg() > 0 {
			return usageError(fmt.Sprintf("unexpected argument %q after %s", f.Arg(0), c.name))
		}
		return run(ctx, stdout)
	}
	if len(args) > 0 && args[0] != "-h" && args[0] != "-help" && args[0] != "--help" {
		return usageError(fmt.Sprintf("unknown command %q", args[0]))
	}
	for _, c := range commands {
		fmt.Fprintf(stdout, "purecuda-cluster %-12s %s\n", c.name, c.text)
	}
	fmt.Fprintln(stdout, "\nFlags: purecuda-cluster COMMAND --help")
	if len(args) == 0 {
		return usageError("name a command")
	}
	return nil
}
