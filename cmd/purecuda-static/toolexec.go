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

// patchVersion becomes part of what the go command takes for the version of its linker. So programs
// that it linked without us, or when we did something else, are linked again. It changes whenever
// the change to the file does.
const patchVersion = "purecuda-static-1"

// toolexecVariable is the variable that the go command sets for the tools of a package.
const toolexecVariable = "TOOLEXEC_IMPORTPATH"

// isTool reports whether the go command runs a tool through us. A file that somebody names for us
// to change is never run, whatever it is called and wherever it lies. byGo says that the variable
// is set; without it the go command asks for a version, and prepares a profile.
func isTool(args []string, byGo bool) bool {
	if len(args) == 0 || !filepath.IsAbs(args[0]) {
		return false
	}
	switch name := toolName(args[0]); name {
	case "asm", "buildid", "cgo", "compile", "cover", "covdata", "fix", "link", "nm", "objdump", "pack", "pprof", "preprofile", "test2json", "trace", "vet":
		return byGo || len(args) == 2 && args[1] == "-V=full" || name == "preprofile" && len(args) == 5 && args[1] == "-o" && args[3] == "-i"
	}
	return false
}

func toolName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".exe") }

// toolexec runs a tool of the go command, and changes the program if it was the linker.
func toolexec(args []string, stdout, stderr io.Writer) int {
	linker := toolName(args[0]) == "link"
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
		_ = say(stderr, "purecuda-static: %s: %v", args[0], err)
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
		_ = say(stderr, "purecuda-static: %v", err)
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
