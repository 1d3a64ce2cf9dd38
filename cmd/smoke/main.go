package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/purecuda/purecuda/pool/isolate"
)

func main() {
	isolate.Main(openChild, sha256Chunks)
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run is the whole program. args[0] is the program's name. The first interrupt
// stops the job in order; a second one ends the process at once.
func run(args []string, stdout, stderr io.Writer) int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup sees to that
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	context.AfterFunc(ctx, stop)
	// A reader that goes away is an error of writing, so that no temporary file stays.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	a := &app{stdout: &output{Writer: stdout}, stderr: stderr, openGPU: openGPU}
	return a.run(ctx, args)
}
