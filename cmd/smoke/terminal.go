package main

import (
	"io"
	"os"
)

// isTerminal reports whether out is a terminal.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, ok = terminalWidth(file)
	return ok
}
