package dlhost

import (
	"fmt"
	"os"
	"strings"
)

// Variable is the environment variable that chooses how a program starts. It is read
// before the Go runtime starts: setting it later has an effect on child processes only.
const Variable = "PURECUDA_LOADER"

// Mode is how this process was started.
type Mode int

const (
	// Ordinary is a start that had nothing to do with this package. The binary was not changed by
	// purecuda-static, or a C library started it, or the platform has no such entry point.
	Ordinary Mode = iota
	// Hosted is a start through the system's loader, which the entry point mapped.
	Hosted
	// Static is a start without any loader. No shared library can be opened, and a call
	// of C would end the process.
	Static
)

// String is the name of the mode in lower case.
func (m Mode) String() string {
	switch m {
	case Hosted:
		return "hosted"
	case Static:
		return "static"
	default:
		return "ordinary"
	}
}

// Status tells how this process was started.
type Status struct {
	Mode Mode
	// Reason says in words why the mode is Static, and is empty for the other modes.
	Reason string
}

// Current tells how this process was started. It does not change while the process
// runs.
func Current() Status { return current() }

// Check returns an error if [Variable] holds a word that it does not have. The entry point, which has nobody to tell, has taken it
// as auto.
func Check() error {
	word := os.Getenv(Variable)
	switch strings.ToLower(word) {
	case "", "auto", "host", "static":
		return nil
	}
	return fmt.Errorf("%s is %q: want auto, host or static", Variable, word)
}

// HasLoader reports whether this process has a dynamic loader that shared libraries can be opened
// with, as far as this package knows. It is false if and only if the mode is [Static]. It costs one
// load from memory and allocates nothing.
func HasLoader() bool { return hasLoader() }
