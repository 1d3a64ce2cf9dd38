package promises

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen.
const Patience = time.Minute

// What an error says of a driver that is absent, that is faulty, and that was not looked for.
const (
	Absent    = "no CUDA driver library"
	Faulty    = "does not load"
	NotLooked = "the policy is off"
)

// Environment of a process with a policy, and with a driver that is "absent" or "faulty".
func Environment(t testing.TB, policy, driver string) []string {
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	if driver == "faulty" {
		if err := os.WriteFile(path, []byte("this is no library"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return append(os.Environ(), "PURECUDA_POLICY="+policy, "PURECUDA_DRIVER_PATH="+path, "PURECUDA_CACHE_DIR=off")
}

// mayBuild skips a test where programs cannot be built, or would take too long.
func mayBuild(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not there to build the programs")
	}
}

// Build builds programs into a folder, without what a debugger needs. It skips the test where there is no Go.
func Build(t testing.TB, root, folder string, packages ...string) {
	t.Helper()
	mayBuild(t)
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-s -w", "-o", folder + string(filepath.Separator)}, packages...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Program are the cells of a program of a folder, which run it with some arguments. built returns where Build has put it. A
// service is stopped when it says that it is "listening on" something.
func Program(folder string, built func(t *testing.T) string, args ...string) map[string]func(t *testing.T) {
	ends := func(policy, driver string, good bool, says string) func(t *testing.T) {
		return func(t *testing.T) {
			mayBuild(t)
			name := filepath.Join(built(t), path.Base(folder))
			if runtime.GOOS == "windows" {
				name += ".exe"
			}
			ctx, cancel := context.WithTimeout(t.Context(), Patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Env = Environment(t, policy, driver)
			out := &service{stop: func() { _ = cmd.Process.Signal(syscall.SIGTERM) }}
			cmd.Stdout, cmd.Stderr = out, out
			err := cmd.Run()
			switch {
			case ctx.Err() != nil:
				t.Errorf("it does not end: %s", &out.text)
			case good && err != nil:
				t.Errorf("%v: %s", err, &out.text)
			case !good && err == nil:
				t.Errorf("it ended with 0: %s", &out.text)
			case !strings.Contains(out.text.String(), says):
				t.Errorf("it does not say %q: %s", says, &out.text)
			}
		}
	}
	return map[string]func(t *testing.T){
		"off":             ends("off", "faulty", true, ""),
		"absent":          ends("auto", "absent", true, ""),
		"faulty":          ends("auto", "faulty", false, "DriverLibraryLoadFailed"),
		"required-absent": ends("required", "absent", false, Absent),
		"required-faulty": ends("required", "faulty", false, "DriverLibraryLoadFailed"),
		"says-so": func(t *testing.T) {
			ends("auto", "absent", true, Absent)(t)
			ends("off", "absent", true, NotLooked)(t)
		},
	}
}

// service stops a program once it says that it listens.
type service struct {
	text bytes.Buffer
	stop func()
}

func (s *service) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "listening on") {
		s.stop()
	}
	return s.text.Write(p)
}
