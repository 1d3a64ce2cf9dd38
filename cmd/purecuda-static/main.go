package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the whole program.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && isTool(args[0]) {
		return toolexec(args, stdout, stderr)
	}
	flags := flag.NewFlagSet("purecuda-static", flag.ContinueOnError)
	flags.SetOutput(stderr)
	check := flags.Bool("check", false, "change nothing; tell whether all files are done")
	quiet := flags.Bool("q", false, "say nothing on success")
	flags.Usage = func() {
		_, _ = fmt.Fprintf(stderr, "usage: purecuda-static [-check] [-q] FILE...\n       go build -toolexec=purecuda-static\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return exitUsage
	}
	code := exitOK
	for _, path := range flags.Args() {
		outcome, err := patchFile(path, *check)
		if err != nil {
			_, _ = fmt.Fprintf(stderr, "purecuda-static: %s: %v\n", path, err)
			code = exitFailed
		} else if !*quiet {
			_, _ = fmt.Fprintf(stdout, "%s: %s\n", path, outcome)
		}
	}
	return code
}

// isTool tells whether an argument is a tool that the go command runs through us: they
// come with their absolute path, and none of our files lies in a folder of tools.
func isTool(arg string) bool {
	name := strings.TrimSuffix(filepath.Base(arg), ".exe")
	switch name {
	case "asm", "cgo", "compile", "cover", "covdata", "buildid", "fix", "link", "nm", "objdump", "pack", "pprof", "preprofile", "test2json", "trace", "vet":
	default:
		return false
	}
	return filepath.IsAbs(arg) && strings.Contains(filepath.ToSlash(arg), "/tool/") || strings.Contains(filepath.ToSlash(arg), "/go-build/")
}
