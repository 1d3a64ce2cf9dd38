// Package examples_test runs the examples as programs.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Where a GPU is required and there is none, each example ends with an error, and does nothing on the CPU.
func TestExamplesWhereAGPUIsRequired(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("it builds the examples, and there is no Go here")
	}
	if _, err := os.Stat("saxpy/main.go"); err != nil {
		t.Skipf("it builds the examples, which are not here: %v", err)
	}
	folder := t.TempDir()
	out, err := exec.Command("go", "build", "-o", folder+string(filepath.Separator), "./...").CombinedOutput()
	require.NoError(t, err, string(out))
	programs, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(programs), 9)
	for _, program := range programs {
		t.Run(program.Name(), func(t *testing.T) {
			command := exec.CommandContext(t.Context(), filepath.Join(folder, program.Name()))
			command.Env = append(os.Environ(), runtime.PolicyVariable+"=required", driver.PathVariable+"=/nonexistent/libcuda.so.1")
			command.WaitDelay = time.Second
			end := time.AfterFunc(time.Minute, func() { _ = command.Process.Kill() }) // a server that serves
			defer end.Stop()
			out, err := command.CombinedOutput()
			require.Error(t, err, string(out))
			assert.Contains(t, string(out), string(driver.ErrRequired)+": ")
			assert.Contains(t, string(out), "/nonexistent/libcuda.so.1")
		})
	}
}
