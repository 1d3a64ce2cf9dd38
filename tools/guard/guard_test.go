package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
)

// The test program is the program itself where this is set, and a side that breaks where it names how.
const asProgram, asBroken = "GUARD_TEST_PROGRAM", "GUARD_TEST_BROKEN"

func TestMain(m *testing.M) {
	for _, f := range atStart { // a child of isolate does not come back
		f()
	}
	if how := os.Getenv(asBroken); how != "" {
		broken(how)
	}
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// broken is a side with one benchmark, which says and does what a side should not.
func broken(how string) {
	fmtLine := func(s string) { _, _ = os.Stdout.WriteString(s + "\n") }
	fmtLine("Event/do=query\t\t\n")
	request := make([]byte, 100)
	for {
		if _, err := os.Stdin.Read(request); err != nil {
			os.Exit(0)
		}
		switch how {
		case "dies":
			_, _ = os.Stderr.WriteString("it hurts\n")
			os.Exit(7)
		case "fails":
			fmtLine("error: not today\n")
		case "skips":
			fmtLine("skip: " + errSkip.Error() + ": no room\n")
		case "babbles":
			fmtLine("what?\n")
		case "lags":
			fmtLine("BenchmarkEvent/do=query\t1\t1000000 ns/op\n")
		}
	}
}

// guard runs the program.
func guard(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	text, err := cmd.CombinedOutput()
	if err != nil {
		require.IsType(t, new(exec.ExitError), err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// simulating is a side on simulated devices.
func simulating(devices int, args string) string {
	return os.Args[0] + " serve -simulate " + strconv.Itoa(devices) + " " + args
}

func TestEmptyKernelsAreThoseOfTheTests(t *testing.T) {
	assert.Equal(t, string(hardware.EmptyKernels), string(emptyKernels))
}

// Every benchmark runs, once one device is there and once two.
func TestEachBenchmark(t *testing.T) {
	for devices, least := range map[int]int{1: 80, 2: 85} {
		var list, out bytes.Buffer
		m, err := openMachine(devices)
		require.NoError(t, err)
		t.Setenv(simulateVariable, strconv.Itoa(devices))
		require.NoError(t, serve(m, strings.NewReader(""), &list))
		var requests strings.Builder
		names := 0
		for line := range strings.Lines(list.String()) {
			if name, _, found := strings.Cut(line, "\t"); found && !strings.HasPrefix(name, "Job") {
				requests.WriteString("0.001 " + name + "\n")
				names++
			}
		}
		require.NoError(t, serve(m, strings.NewReader(requests.String()), &out))
		assert.GreaterOrEqual(t, names, least)
		answers := strings.Split(strings.TrimPrefix(out.String(), list.String()), "\n\n")
		require.Len(t, answers, names+1)
		for _, answer := range answers[:names] {
			if devices == 1 && strings.HasPrefix(answer, "skip: ") && strings.Contains(answer, "AllReduce") {
				continue
			}
			values, err := parseLine(answer)
			require.NoError(t, err)
			require.NotEmpty(t, values)
			assert.Positive(t, values[0].v, answer)
		}
		require.NoError(t, m.rt.Close())
		require.NoError(t, m.simulated.Close())
		assert.Empty(t, m.simulated.Leaks())
	}
}

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "guard.json")
	side := simulating(1, "")
	code, out := guard(t, "run", "-old", side, "-new", side, "-only", "Event/do=query", "-budget", "5s", "-out", file, "-commits", "a,b")
	l, err := readLedger(file)
	require.NoError(t, err, out)
	assert.Equal(t, []string{"a", "b"}, []string{l.Old, l.New})
	assert.GreaterOrEqual(t, l.Rounds, baseRounds)
	require.Len(t, l.Figures, 2, "times and allocations")
	assert.Len(t, l.Figures[0].Old, 2*l.Rounds)
	again, table := guard(t, "table", file)
	assert.Equal(t, code, again)
	assert.Contains(t, out, table)
}

func TestBrokenSides(t *testing.T) {
	for _, c := range []struct {
		how, side string
		code      int
		want      string
	}{
		{"dies", "new", exitWorse, "failed: Event/do=query: "},
		{"dies", "new", exitWorse, "it hurts"},
		{"dies", "old", exitWorse, "note: Event/do=query failed in old: "},
		{"fails", "new", exitWorse, "failed: Event/do=query: not today"},
		{"babbles", "new", exitWorse, `"what?" is no line of a benchmark`},
		{"skips", "new", exitWorse, "note: Event: not on this machine: no room"},
		{"lags", "new", exitWorse, "worse: Event/do=query  ns/op"},
		{"lags", "old", 0, "better"},
	} {
		sides := map[string]string{"old": simulating(1, ""), "new": simulating(1, "")}
		sides[c.side] = asBroken + "=" + c.how + " " + sides[c.side]
		code, out := guard(t, "run", "-old", sides["old"], "-new", sides["new"], "-only", "Event/do=query", "-budget", "2s", "-out", filepath.Join(t.TempDir(), "guard.json"))
		assert.Equal(t, c.code, code, "%s %s: %s", c.side, c.how, out)
		assert.Contains(t, out, c.want, "%s %s", c.side, c.how)
	}
}

func TestUsage(t *testing.T) {
	side := simulating(1, "")
	for want, args := range map[string][]string{
		"usage: guard":                         {},
		"takes -old and -new":                  {"run"},
		"no benchmark has":                     {"run", "-old", side, "-new", side, "-only", "nonsense"},
		"usage: guard table":                   {"table"},
		"no such file":                         {"table", "nonsense"},
		"/nonsense: no such file":              {"run", "-old", side, "-new", "/nonsense"},
		"flag provided but not defined: -what": {"run", "-what"},
	} {
		code, out := guard(t, args...)
		assert.NotZero(t, code, args)
		assert.Contains(t, out, want)
	}
	t.Setenv("PURECUDA_DRIVER_PATH", filepath.Join(t.TempDir(), "libcuda.so.1"))
	code, out := guard(t, "run", "-old", side, "-new", os.Args[0]+" serve")
	assert.Equal(t, exitNoGPU, code, out)
}

// The programs in C speak as serve does. A driver and libraries of which each call succeeds and does nothing stand in for NVIDIA's.
func TestProgramsInC(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	dir := t.TempDir()
	compile := func(args ...string) {
		out, err := exec.CommandContext(t.Context(), cc, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	library := filepath.Join(dir, "libcuda.so.1")
	compile("-shared", "-fPIC", "-w", "-o", library, "testdata/nothing.c")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty.ptx"), emptyKernels, 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "input"), make([]byte, 10<<20), 0o666))
	m, err := openMachine(1)
	require.NoError(t, err)
	defer m.rt.Close()
	m.input = filepath.Join(dir, "input")
	sides, asked := map[string]*side{}, 0
	for _, f := range suites {
		for _, b := range f(m).all {
			if b.c.name == "" || strings.Contains(b.c.name, "GiB") {
				continue
			}
			if len(b.c.program) == 0 { // a library, which is simulated here
				program, _, _ := strings.Cut(b.name, "/")
				b.c.program = []string{program, library}
			}
			key := strings.Join(b.c.program, " ")
			if sides[key] == nil {
				path := filepath.Join(dir, b.c.program[0])
				compile("-O1", "-Wall", "-Wextra", "-o", path, "../../scripts/baseline/"+b.c.program[0]+".c", "-ldl", "-lpthread")
				sides[key] = &side{command: append(append([]string{"LD_LIBRARY_PATH=" + dir, path}, b.c.program[1:]...), "-serve"), dir: dir}
			}
			values, err := sides[key].ask(b.c.name, time.Microsecond)
			require.NoError(t, err, b.c)
			require.NotEmpty(t, values, "%v has no %s", sides[key].command, b.c.name)
			asked++
		}
	}
	assert.Greater(t, asked, 50)
	for _, s := range sides {
		values, err := s.ask("nonsense", time.Microsecond)
		require.NoError(t, err)
		assert.Empty(t, values)
		require.NoError(t, s.end(nil))
	}
}
