//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly && !windows

package main

import "os"

// terminalWidth knows no terminal of this platform.
func terminalWidth(*os.File) (columns int, ok bool) { return 0, false }
