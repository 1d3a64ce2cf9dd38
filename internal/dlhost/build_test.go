package dlhost_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// startsVariable is how often each program is started in each place. Setting it also
// adds what takes long: position-independent and stripped programs, other versions of
// Go and of glibc.
const startsVariable = "PURECUDA_TEST_STARTS"

const (
	module      = "github.com/purecuda/purecuda"
	probeSource = "./testdata/probe"
	plainSource = "./testdata/plain"
	callsSource = "./testdata/calls"
	smokeSource = module + "/cmd/smoke"
)

// scratch is a folder for all tests of the process.
var scratch string

func TestMain(m *testing.M) {
	code := 1
	defer func() { os.Exit(code) }()
	dir, err := os.MkdirTemp("", "dlhost")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer os.RemoveAll(dir)
	scratch = dir
	// Other users start what is built here.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	code = m.Run()
}

// starts is how often a program is started, and whether the long variants run.
func starts(t testing.TB) (n int, long bool) {
	value := os.Getenv(startsVariable)
	if value == "" {
		return 5, false
	}
	n, err := strconv.Atoi(value)
	require.NoError(t, err, startsVariable)
	return n, true
}

// needsLong skips a test that takes long.
func needsLong(t testing.TB) {
	t.Helper()
	if _, long := starts(t); !long {
		t.Skip("takes long: set " + startsVariable + "=100")
	}
}

// needsSource skips a test where there is only its binary, or no entry point to test.
func needsSource(t testing.TB) {
	t.Helper()
	if goruntime.GOOS != "linux" {
		t.Skip("the entry point is for linux")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not there to build programs with")
	}
	out, err := exec.Command("go", "list", "-m").Output()
	if err != nil || strings.TrimSpace(string(out)) != module {
		t.Skip("not in the source of " + module)
	}
}

// build is a program for the tests. The zero value of each field is the usual one.
type build struct {
	source    string
	goarch    string // of this machine if empty
	mode      string // buildmode: exe if empty
	strip     bool
	stock     bool   // not changed by purecuda-static
	toolchain string // toolchain: the one of the test if empty
	flags     string // further flags of go build
	dir       string // the module: this one if empty
}

func (b build) String() string {
	parts := []string{filepath.Base(b.source)}
	for _, p := range []struct {
		set  bool
		name string
	}{{b.goarch != "", b.goarch}, {b.mode != "", b.mode}, {b.strip, "stripped"}, {b.stock, "stock"}, {b.toolchain != "", b.toolchain}, {b.flags != "", "flags"}} {
		if p.set {
			parts = append(parts, p.name)
		}
	}
	return strings.Join(parts, "-")
}

var builds sync.Map // build to func() (string, error)

// make builds the program, once per process of the test, and returns its path.
func (b build) make(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs")
	}
	needsSource(t)
	do, _ := builds.LoadOrStore(b, sync.OnceValues(b.run))
	path, err := do.(func() (string, error))()
	require.NoError(t, err)
	return path
}

// run builds the program, and changes it unless it shall stay as it is.
func (b build) run() (string, error) {
	path, err := b.compile()
	if err != nil || b.stock {
		return path, err
	}
	command, err := patcher()
	if err != nil {
		return "", err
	}
	if out, err := exec.Command(command, path).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
}

func (b build) compile() (string, error) {
	dir, err := os.MkdirTemp(scratch, b.String()+"-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, filepath.Base(b.source))
	args := []string{"build", "-buildvcs=false", "-o", path}
	if b.mode != "" {
		args = append(args, "-buildmode="+b.mode)
	}
	if b.strip {
		args = append(args, "-ldflags=-s -w")
	}
	if b.flags != "" {
		args = append(args, b.flags)
	}
	cmd := exec.Command("go", append(args, b.source)...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if b.goarch != "" {
		cmd.Env = append(cmd.Env, "GOARCH="+b.goarch)
	}
	if b.toolchain != "" {
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN="+b.toolchain)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
	}
	return path, nil
}

// patcher is the command purecuda-static.
var patcher = sync.OnceValues(func() (string, error) {
	return build{source: module + "/cmd/purecuda-static", stock: true}.compile()
})

// library builds testdata/foreign.c, and skips where that cannot be done. flags are one
// text with blanks.
func library(t testing.TB, cc, flags string) string {
	t.Helper()
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("no C compiler %s to build a library with", cc)
	}
	do, _ := libraries.LoadOrStore(cc+flags, sync.OnceValues(func() (string, error) {
		path := filepath.Join(scratch, strings.ReplaceAll("libforeign-"+cc+flags, " ", "")+".so")
		args := append([]string{"-shared", "-fPIC", "-O2", "-o", path, "testdata/foreign.c"}, strings.Fields(flags)...)
		out, err := exec.Command(cc, args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return path, err
	}))
	path, err := do.(func() (string, error))()
	require.NoError(t, err)
	return path
}

var libraries sync.Map // compiler and flags to func() (string, error)
