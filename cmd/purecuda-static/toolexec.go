package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// patchVersion becomes part of what the go command takes for the version of its linker,
// so that programs which it linked without us, or with us when we did something else,
// are linked again. It changes whenever the change to the file does.
const patchVersion = "purecuda-static-1"

// toolexec runs a tool of the go command, and changes the program if it was the linker.
func toolexec(args []string, stdout, stderr io.Writer) int {
	linker := strings.TrimSuffix(filepath.Base(args[0]), ".exe") == "link"
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	var version bytes.Buffer
	asked := linker && len(args) == 2 && args[1] == "-V=full"
	if asked {
		cmd.Stdout = &version
	}
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() > 0 {
			return exit.ExitCode()
		}
		_, _ = fmt.Fprintf(stderr, "purecuda-static: %s: %v\n", args[0], err)
		return exitFailed
	}
	if asked {
		_, _ = fmt.Fprintln(stdout, linkerVersion(strings.TrimSpace(version.String())))
		return exitOK
	}
	output := outputOf(args[1:])
	if !linker || output == "" {
		return exitOK
	}
	if _, err := patchFile(output, false); err != nil && !errors.Is(err, errNotLinux) {
		_, _ = fmt.Fprintf(stderr, "purecuda-static: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// linkerVersion adds ours to the answer of the linker. The go command takes the whole
// line of a release; of a development version it takes the end, which is a build ID.
func linkerVersion(line string) string {
	fields := strings.Fields(line)
	if n := len(fields); n > 2 && fields[2] == "devel" && strings.HasPrefix(fields[n-1], "buildID=") {
		return line + "-" + patchVersion
	}
	return line + " " + patchVersion
}

// outputOf is the value of the flag -o of the linker.
func outputOf(args []string) string {
	for i, arg := range args {
		for _, flag := range []string{"-o", "--o"} {
			if arg == flag && i+1 < len(args) {
				return args[i+1]
			}
			if value, ok := strings.CutPrefix(arg, flag+"="); ok {
				return value
			}
		}
	}
	return ""
}
