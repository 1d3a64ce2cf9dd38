package promises_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/promises"
	"github.com/purecuda/purecuda/runtime"
)

// program are the cells of a program, which are tested with processes.
func program(row promises.Door) cells {
	ends := func(policy runtime.Policy, driver string, good bool, says string) func(t *testing.T) {
		return func(t *testing.T) {
			out, err := runProgram(t, row.Folder, policy, driver)
			if good {
				assert.NoError(t, err, out)
			} else {
				assert.Error(t, err, out)
			}
			assert.Contains(t, out, says)
		}
	}
	return cells{
		"off":             ends(runtime.PolicyOff, "faulty", true, ""),
		"absent":          ends(runtime.PolicyAuto, "absent", true, ""),
		"faulty":          ends(runtime.PolicyAuto, "faulty", false, "DriverLibraryLoadFailed"),
		"required-absent": ends(runtime.PolicyRequired, "absent", false, noDriver),
		"required-faulty": ends(runtime.PolicyRequired, "faulty", false, "DriverLibraryLoadFailed"),
		"says-so": func(t *testing.T) {
			ends(runtime.PolicyAuto, "absent", true, noDriver)(t)
			ends(runtime.PolicyOff, "absent", true, notLooked)(t)
		},
	}
}

var built struct {
	once   sync.Once
	folder string
	err    error
	out    []byte
}

// programs builds the programs of this module.
func programs(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not there to build the programs")
	}
	built.once.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "promises"); built.err != nil {
			return
		}
		build := []string{"build", "-ldflags=-s -w", "-o", built.folder}
		for _, d := range promises.Doors {
			if d.Folder != "" && d.Test == "internal/promises/promises_test.go" {
				build = append(build, "./"+d.Folder)
			}
		}
		cmd := exec.Command("go", build...)
		cmd.Dir = root
		built.out, built.err = cmd.CombinedOutput()
	})
	require.NoError(t, built.err, "%s", built.out)
	return built.folder
}

// arguments are those without which a program does not end by itself.
var arguments = map[string][]string{"examples/http": {"-addr", "localhost:0"}}

// runProgram runs a program until it ends, or until it listens for requests. It returns what the program has printed.
func runProgram(t *testing.T, folder string, policy runtime.Policy, driver string) (string, error) {
	t.Helper()
	from := programs(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	name := path.Base(folder)
	if goruntime.GOOS == "windows" {
		name += ".exe"
	}
	cmd := exec.CommandContext(ctx, filepath.Join(from, name), arguments[folder]...)
	cmd.Env = append(environment(t, policy, driver), "PURECUDA_CACHE_DIR=off")
	out := &ender{stop: func() { _ = cmd.Process.Signal(syscall.SIGTERM) }}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "%s does not end: %s", folder, &out.text)
	return out.text.String(), err
}

// ender stops a service once it says that it listens.
type ender struct {
	text bytes.Buffer
	stop func()
}

var _ io.Writer = (*ender)(nil)

func (e *ender) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "listening on") {
		e.stop()
	}
	return e.text.Write(p)
}
