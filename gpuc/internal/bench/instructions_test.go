package bench_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
)

// TestInstructions compares how many instructions of PTX each kernel has with testdata/instructions.txt, so that who changes a pass sees
// which kernels it changes. It says nothing of their time: run gpuc on a GPU host then. PURECUDA_UPDATE=1 writes the file anew.
func TestInstructions(t *testing.T) {
	device.NeedsGo(t)
	const file = "testdata/instructions.txt"
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %6s %6s %6s\n", "kernel", "off", "trap", "report")
	for _, s := range sets {
		p, err := compile.Load(compile.Config{Dir: "../testdata/" + s.program, Pattern: "."})
		require.NoError(t, err)
		counts := map[string][]any{}
		for _, checks := range []compile.Checks{compile.ChecksOff, compile.ChecksTrap, compile.ChecksReport} {
			m, err := p.Compile(compile.Options{Arch: 90, Checks: checks})
			require.NoError(t, err)
			for _, k := range m.Kernels {
				counts[k.Name] = append(counts[k.Name], k.Instrs)
			}
		}
		for _, k := range s.kernels {
			fmt.Fprintf(&b, "%-12s %6d %6d %6d\n", append([]any{k.name}, counts[k.name]...)...)
		}
	}
	if os.Getenv("PURECUDA_UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o666))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), b.String(), "if that is meant: PURECUDA_UPDATE=1 go test -run TestInstructions")
}
