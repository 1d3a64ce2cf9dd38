package generate

import (
	"fmt"
	"strings"

	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/internal/kernelsum"
)

// buildLine is the build constraint of the kernels, for a file that needs them.
func buildLine(p *compile.Program) string {
	if p.Constraint == "" {
		return ""
	}
	return "//go:build " + p.Constraint + "\n\n"
}

// Test returns the text of the test that fails where a kernel of a package, which lies in a folder, has changed. The
// Go file there is read no more.
func Test(p *compile.Program, dir, goFile string) ([]byte, error) {
	files, err := kernelsum.Parse(dir, goFile)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `%s

%spackage %s

import (
	"testing"

	"github.com/purecuda/purecuda/gpu/gputest"
)

// TestKernelsAreGenerated fails where a kernel has changed since gpuc compiled it.
func TestKernelsAreGenerated(t *testing.T) {
	gputest.Generated(t,
`, kernelsum.Generated, buildLine(p), p.Name)
	for _, k := range p.Kernels {
		names := p.Needs(k)
		if len(names) == 0 {
			continue // it is all of the library
		}
		fmt.Fprintf(&b, "\t\t%q,\n", strings.Join(append([]string{files.Sum(names), k.Name}, names...), " "))
	}
	b.WriteString("\t)\n}\n")
	return []byte(b.String()), nil
}
