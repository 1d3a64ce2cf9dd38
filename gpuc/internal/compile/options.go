package compile

import (
	"fmt"
	"go/token"
	"strings"
)

// Checks says what a kernel does at an index that is out of range, and at a division by zero.
type Checks string

// The kinds of checks.
const (
	ChecksOff    Checks = "off"    // none: it is undefined what happens
	ChecksTrap   Checks = "trap"   // the launch fails, and the context with it
	ChecksReport Checks = "report" // the first thread that fails says where, and ends; the context survives
)

// ParseChecks parses the name of a kind.
func ParseChecks(s string) (Checks, error) {
	switch c := Checks(s); c {
	case ChecksOff, ChecksTrap, ChecksReport:
		return c, nil
	}
	return "", fmt.Errorf("checks=%s: it is off, trap or report", s)
}

// Options say how to compile.
type Options struct {
	Arch   int    // 75 for sm_75
	Checks Checks // where the kernel's directive says nothing
	// Other is what the same kernels became for other targets: one launch has the same arguments and one list of sites for all.
	Other Module
	Plain bool // without unrolling and the passes of opt.go; tests compare with it
}

// version is the oldest version of PTX that knows the target, and all instructions that are written for it.
func (o Options) version() (string, error) {
	switch a := o.Arch; {
	case a < 75:
		return "", fmt.Errorf("sm_%d is older than sm_75, the oldest target", a)
	case a <= 80:
		return "7.0", nil
	case a <= 86:
		return "7.1", nil
	case a <= 90:
		return "7.8", nil
	case a <= 101:
		return "8.6", nil
	case a <= 121:
		return "8.8", nil
	default:
		return "", fmt.Errorf("sm_%d is not known", a)
	}
}

// Error is about source that cannot become a kernel.
type Error struct {
	Pos   token.Position
	Msg   string
	Chain []Call // from where it is back to the kernel
}

// Call is a call on the way from a kernel.
type Call struct {
	Pos    token.Position
	Caller string
}

// Error says where, what, and through which calls the kernel comes there.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Pos, e.Msg)
	for _, c := range e.Chain {
		fmt.Fprintf(&b, "\n\tcalled by %s at %s", c.Caller, c.Pos)
	}
	return b.String()
}
