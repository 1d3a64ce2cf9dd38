package compile

import (
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strconv"
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
	Only   bool   // for this one alone, with all that it has: sm_90a
	Checks Checks // where the kernel's directive says nothing
	// Other is what the same kernels became for other targets: one launch has the same arguments and one list of sites for all.
	Other Module
	Plain bool // without unrolling and the passes of opt.go; tests compare with it
}

// Target is what code is compiled for.
type Target struct {
	Arch int  // 75 for sm_75
	Only bool // for this one alone, with all that it has: sm_90a
}

func (o Options) target() Target { return Target{o.Arch, o.Only} }

// ParseTarget parses sm_75 or sm_90a.
func ParseTarget(name string) (t Target, err error) {
	number, _ := strings.CutPrefix(name, "sm_")
	number, t.Only = strings.CutSuffix(number, "a")
	if t.Arch, err = strconv.Atoi(number); err != nil || name != t.String() {
		return t, fmt.Errorf("%s is no target: write sm_75 or sm_90a", name)
	}
	return t, nil
}

// String is its name.
func (t Target) String() string {
	if t.Only {
		return fmt.Sprintf("sm_%da", t.Arch)
	}
	return fmt.Sprintf("sm_%d", t.Arch)
}

// Has reports whether code for one target runs on another.
func (t Target) Has(other Target) bool { return t == other || t.Arch >= other.Arch && !other.Only }

// versions are the oldest versions of PTX that know an architecture and what is written for it: "PTX ISA Notes" and "Target ISA
// Notes" in the documents of PTX.
var versions = map[int]string{75: "7.0", 80: "7.0", 86: "7.1", 87: "7.8", 88: "9.0", 89: "7.8", 90: "7.8", 100: "8.6", 101: "8.6", 103: "8.8", 110: "9.0", 120: "8.8", 121: "8.8"}

// version is the version of PTX for the target.
func (t Target) version() (string, error) {
	known, ok := versions[t.Arch]
	switch {
	case t.Arch < 75:
		return "", fmt.Errorf("sm_%d is older than sm_75, the oldest target", t.Arch)
	case !ok:
		return "", fmt.Errorf("sm_%d is not known: there are %v", t.Arch, slices.Sorted(maps.Keys(versions)))
	case t.Arch == 90 && t.Only:
		return "8.0", nil
	case t.Only:
		return "", fmt.Errorf("%v is not known: the targets with all that they have are sm_90a", t)
	}
	return known, nil
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
	for i, times := 0, 0; i < len(e.Chain); i += times {
		for times = 1; i+times < len(e.Chain) && e.Chain[i+times] == e.Chain[i]; times++ {
		}
		fmt.Fprintf(&b, "\n\tcalled by %s at %s", e.Chain[i].Caller, e.Chain[i].Pos)
		if times > 1 {
			fmt.Fprintf(&b, ", %d times", times)
		}
	}
	return b.String()
}
