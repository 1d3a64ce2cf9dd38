package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/purecuda/purecuda/internal/cleantext"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the whole program.
func run(args []string, stdout, stderr io.Writer) int {
	if isTool(args, os.Getenv(toolexecVariable) != "") {
		return toolexec(args, stdout, stderr)
	}
	flags := flag.NewFlagSet("purecuda-static", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	check := flags.Bool("check", false, "change nothing; tell whether all files are done")
	quiet := flags.Bool("q", false, "say nothing on success")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return code(exitOK, usage(flags, stdout))
	}
	if err == nil && flags.NArg() == 0 {
		err = errors.New("no file is named")
	}
	if err != nil {
		_ = say(stderr, "purecuda-static: %v", err)
		_ = usage(flags, stderr)
		return exitUsage
	}
	done := exitOK
	for _, path := range flags.Args() {
		outcome, err := patchFile(path, *check)
		if err != nil {
			_ = say(stderr, "purecuda-static: %s: %v", path, err)
			done = exitFailed
		} else if !*quiet {
			done = code(done, say(stdout, "%s: %s", path, outcome))
		}
	}
	return done
}

func usage(flags *flag.FlagSet, out io.Writer) error {
	_, err := fmt.Fprintf(out, "usage: purecuda-static [-check] [-q] FILE...\n       go build -toolexec=purecuda-static\n")
	flags.SetOutput(out)
	flags.PrintDefaults()
	return err
}

// say prints a line. Names of files and what is read from them may hold anything.
func say(out io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintln(out, cleantext.String(fmt.Sprintf(format, args...)))
	return err
}

// code is the program's when the result cannot be written.
func code(done int, err error) int {
	if err != nil {
		return exitFailed
	}
	return done
}
