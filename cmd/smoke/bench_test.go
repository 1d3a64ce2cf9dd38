package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cmd/smoke/internal/bench"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/job"
)

// quickBench is smoke bench with little of everything.
func quickBench(args ...string) []string {
	return append([]string{"bench", "--time", "100us", "--count", "2", "--max-size", "16KiB"}, args...)
}

// benchLine is a line of a result in the format of Go benchmarks: name, number of operations,
// and values with their units.
var benchLine = regexp.MustCompile(`^Benchmark([A-Z]\S*?)(-\d+)?\t +(\d+)((?:\t +[\d.]+ [\w/-]+)+)$`)

// benchLines are the names of the results, each as often as it has rounds, and the other lines.
func benchLines(t *testing.T, stdout string) (names map[string]int, others []string) {
	t.Helper()
	names = map[string]int{}
	for line := range strings.Lines(stdout) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "Benchmark") {
			others = append(others, line)
			continue
		}
		parts := benchLine.FindStringSubmatch(line)
		require.NotNil(t, parts, "%q", line)
		assert.Contains(t, parts[4], " ns/op")
		names[parts[1]]++
	}
	return names, others
}

func TestBenchSimulated(t *testing.T) {
	t.Setenv(policyVariable, "")
	c := runWith(t, faulty, quickBench("--simulate", "2")...)
	require.Zero(t, c.code, c.stderr)
	assert.Zero(t, c.probes, "the GPUs of this machine are left alone")
	names, others := benchLines(t, c.stdout)
	for _, name := range []string{
		"Call/fn=cuDriverGetVersion", "Launch/args=0", "Launch/args=4", "LaunchSync/args=0", "AllocFree/size=1MiB/goroutines=1",
		"Copy/dir=upload/host=slice/size=1KiB", "Copy/dir=download/host=pinned/size=16KiB", "Copy/dir=device/size=4KiB",
		"PeerCopy/from=0/to=1/size=16KiB", "PeerCopy/from=1/to=0/size=16KiB", "Graph/do=replay/nodes=10", "Graph/do=launches/nodes=10",
		"Scatter/do=nothing/devices=2", "Scatter/do=launch/devices=2", "Scaling/devices=1", "Scaling/devices=2", "BreakEven/do=sha256",
		"Job/on=gpu/devices=1/size=16KiB", "Job/on=gpu/devices=2/size=16KiB", fmt.Sprintf("Job/on=cpu/cores=%d/size=16KiB", cpuWorkers()),
	} {
		assert.Equal(t, 2, names[name], name)
	}
	assert.Contains(t, c.stdout, " items\n# smoke bench on 2 x simulated H100 (9.0), driver ")
	assert.Subset(t, others, []string{"goos: linux", "gpu: 2 x simulated H100", "driver: simulated", "cuda: 13.0"})
	assert.Contains(t, c.stderr, "simulated: the numbers say nothing about a GPU")
	assert.NotContains(t, c.stdout+c.stderr, "\x1b")
	assert.NotContains(t, c.stderr, "\r")

	quiet := runWith(t, faulty, quickBench("--simulate", "1", "--only", "^Call", "--quiet")...)
	require.Zero(t, quiet.code)
	assert.Empty(t, quiet.stderr)
}

// benchstat is the reader that the format is for.
func TestBenchstatReadsIt(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the go command is not there to run benchstat with")
	}
	t.Setenv(policyVariable, "")
	c := runWith(t, absent, quickBench("--simulate", "1", "--only", "Copy/dir=upload|Scaling")...)
	require.Zero(t, c.code, c.stderr)
	file := writeFile(t, c.stdout+"# partial: interrupted\n")
	cmd := exec.Command("go", "tool", "-modfile=tools/go.mod", "benchstat", file)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly") // no test needs the network
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && strings.Contains(stderr.String(), "module lookup disabled by GOPROXY=off") {
		t.Skip("benchstat is not in the module cache: run go tool -modfile=tools/go.mod benchstat once")
	}
	require.NoError(t, err, stderr.String())
	table := string(out)
	for _, want := range []string{"gpu: simulated H100", "Copy/dir=upload/host=slice/size=16KiB", "Copy/dir=upload/host=pinned/size=1KiB", "sec/op", "B/s", "hashes/s"} {
		assert.Contains(t, table, want)
	}
	assert.Empty(t, stderr.String())
}

func TestBenchWithoutGPU(t *testing.T) {
	t.Setenv(policyVariable, "")
	c := runWith(t, absent, quickBench()...)
	require.Zero(t, c.code, c.stderr)
	names, others := benchLines(t, c.stdout)
	assert.Equal(t, 2, names["SHA256/cores=1"])
	assert.Equal(t, 2, names["Job/on=cpu/cores=1/size=16KiB"])
	for _, line := range others {
		assert.NotRegexp(t, "^(gpu|cuda|driver):", line)
	}
	assert.Regexp(t, `(?m)^smoke: only the CPU is measured, the rest needs a GPU: DriverLibraryUnavailable: no CUDA driver library \(see smoke doctor\)$`, c.stderr)

	c = runWith(t, absent, quickBench("--policy", "off")...)
	assert.Zero(t, c.code)
	assert.Zero(t, c.probes)
	assert.Contains(t, c.stderr, "policy off")
	assert.Equal(t, exitRequired, runWith(t, absent, quickBench("--policy", "required")...).code)
	c = runWith(t, faulty, quickBench()...)
	assert.Equal(t, exitFailed, c.code)
	assert.Contains(t, c.stderr, "--policy off measures the CPU")
	assert.Empty(t, c.stdout)
}

func TestBenchJSON(t *testing.T) {
	t.Setenv(policyVariable, "")
	c := runWith(t, absent, quickBench("--simulate", "2", "--json", "--devices", "1", "--only", "size=4KiB|Scaling")...)
	require.Zero(t, c.code, c.stderr)
	doc := c.document(t)
	assert.ElementsMatch(t, []string{"schema_version", "tool", "host", "cpu", "gpu", "driver", "cuda", "date", "simulated", "outcome",
		"reason", "devices", "round_seconds", "count", "partial", "results", "error"}, append(keys(doc), missingCPU(doc)...))
	assert.Equal(t, "available", doc["outcome"])
	assert.Equal(t, true, doc["simulated"])
	assert.Equal(t, false, doc["partial"])
	assert.Nil(t, doc["error"])
	date, err := time.Parse(time.RFC3339, doc["date"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), date, time.Minute)
	units := map[string][]string{}
	for _, r := range doc["results"].([]any) {
		result := r.(map[string]any)
		assert.ElementsMatch(t, []string{"name", "unit", "values", "median"}, keys(result))
		values := result["values"].([]any)
		require.Len(t, values, 2)
		assert.InDelta(t, (values[0].(float64)+values[1].(float64))/2, result["median"], 1e-6*result["median"].(float64))
		name := result["name"].(string)
		units[name] = append(units[name], result["unit"].(string))
	}
	assert.Equal(t, []string{bench.PerOp, bench.Rate}, units["Copy/dir=upload/host=slice/size=4KiB"])
	assert.Equal(t, []string{bench.PerOp, bench.Hashing}, units["Scaling/devices=1"])
	assert.NotContains(t, units, "Scaling/devices=2", "one of the two devices was asked for")
}

// missingCPU is the member that only some systems tell.
func missingCPU(doc map[string]any) []string {
	if _, there := doc["cpu"]; there {
		return nil
	}
	return []string{"cpu"}
}

func TestBenchUsage(t *testing.T) {
	t.Setenv(policyVariable, "")
	for _, test := range []struct {
		args []string
		text string
	}{
		{[]string{"--only", "("}, "--only: error parsing regexp"},
		{[]string{"--only", "Nothing"}, `"Nothing" matches none of the`},
		{[]string{"--only", "Copy"}, "of this machine, which are Job, SHA256"},
		{[]string{"--time", "0"}, `--time: "0" is not a time of up to 1h0m0s`},
		{[]string{"--time", "-1s"}, "--time"},
		{[]string{"--time", "2h"}, "--time"},
		{[]string{"--time", "soon"}, "write for example 100ms"},
		{[]string{"--count", "0"}, "--count: \"0\" is not a whole number from 1 to 1000"},
		{[]string{"--max-size", "1023"}, "--max-size 1023 is outside 1 KiB to 1 TiB"},
		{[]string{"--max-size", "2000GiB"}, "outside"},
		{[]string{"--max-size", "big"}, "is not a size"},
		{[]string{"--devices", "x"}, "neither the number of a GPU nor a UUID"},
		{[]string{"--policy", "off", "--devices", "0"}, "forbids them"},
		{[]string{"--policy", "off", "--simulate", "1"}, "forbids them"},
		{[]string{"--policy", "maybe"}, "is not auto, off or required"},
		{[]string{"--simulate", "0"}, "whole number from 1"},
		{[]string{"--simulate", "2", "--devices", "2"}, "2"},
		{[]string{"--input", "x"}, "--input has no meaning for smoke bench"},
		{[]string{"--workers", "2"}, "--workers has no meaning"},
		{[]string{"--onyl", "x"}, "did you mean --only?"},
		{[]string{"fast"}, `unexpected argument "fast" after smoke bench`},
	} {
		c := runWith(t, absent, append([]string{"bench"}, test.args...)...)
		assert.Equal(t, exitUsage, c.code, "%v: %s", test.args, c.stderr)
		assert.Contains(t, c.stderr, test.text)
		assert.Empty(t, c.stdout)
		lines := strings.Split(strings.TrimSpace(c.stderr), "\n")
		assert.Equal(t, 1, strings.Count(c.stderr, string(job.InvalidArgument)), "one line says what is wrong: %q", lines)
	}
	doc := runWith(t, absent, "bench", "--json", "--count", "x").document(t)
	assert.Contains(t, doc["error"].(map[string]any)["detail"], "--count")
	assert.Contains(t, runWith(t, absent, "--help").stdout, "bench       measure")
}

// interrupting ends a context when the first result is printed.
type interrupting struct {
	bytes.Buffer
	stop context.CancelFunc
}

func (w *interrupting) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("BenchmarkLaunch/")) {
		w.stop()
	}
	return w.Buffer.Write(p)
}

func TestBenchInterrupted(t *testing.T) {
	t.Setenv(policyVariable, "")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	out := &interrupting{stop: stop}
	var stderr bytes.Buffer
	a := &app{stdout: &output{Writer: out}, stderr: &stderr, openGPU: absent}
	start := time.Now()
	code := a.run(ctx, append([]string{"smoke"}, quickBench("--simulate", "1")...))
	assert.Equal(t, exitFailed, code)
	assert.Less(t, time.Since(start), time.Minute)
	names, others := benchLines(t, out.String())
	assert.Equal(t, 2, names["Launch/args=0"])
	assert.NotContains(t, names, "Launch/args=4")
	assert.Regexp(t, `^# partial: Canceled: interrupted: 3 of \d+ measurements were done, the results are partial$`, others[len(others)-1])
	assert.Contains(t, stderr.String(), "interrupted: 3 of")
}

func TestBenchInterruptedJSON(t *testing.T) {
	t.Setenv(policyVariable, "")
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	start := time.Now()
	c := runContext(t, ctx, absent, "bench", "--simulate", "1", "--json", "--time", "1h")
	assert.Equal(t, exitFailed, c.code)
	assert.Less(t, time.Since(start), time.Minute)
	doc := c.document(t)
	assert.Equal(t, true, doc["partial"])
	assert.Equal(t, "Canceled", doc["error"].(map[string]any)["kind"])
	assert.Empty(t, doc["results"])
}

// A device that vanishes under way ends the run with what was measured before.
func TestBenchOnADeviceThatVanishes(t *testing.T) {
	t.Setenv(policyVariable, "")
	open := func(ctx context.Context, devices []string) (probe, job.Engine, error) {
		config := drivertest.Config{Devices: drivertest.Devices(1, drivertest.H100())}
		config.Devices[0].VanishAt = 400
		return openSimulated(ctx, devices, config, newGPUEngine)
	}
	c := runWith(t, open, quickBench()...)
	assert.Equal(t, exitFailed, c.code)
	names, others := benchLines(t, c.stdout)
	assert.Positive(t, names["Call/fn=cuDriverGetVersion"])
	assert.Contains(t, others[len(others)-1], "# partial: ")
	assert.Contains(t, c.stderr, "the results are partial")
}

// fullDisk takes so many bytes.
type fullDisk struct{ room int }

func (w *fullDisk) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

func TestBenchThatCannotBePrinted(t *testing.T) {
	t.Setenv(policyVariable, "")
	for _, args := range [][]string{quickBench(), quickBench("--json")} {
		var stderr bytes.Buffer
		a := &app{stdout: &output{Writer: &fullDisk{room: 100}}, stderr: &stderr, openGPU: absent}
		assert.Equal(t, exitFailed, a.run(context.Background(), append([]string{"smoke"}, args...)))
		assert.Contains(t, stderr.String(), "OutputFailed: writing the results: no space left")
	}
}

func TestBenchNumbers(t *testing.T) {
	for v, text := range map[float64]string{0.00123: "0.0012", 3.14159: "3.142", 43.87: "43.87", 12345.6: "12346", 2.5e12: "2500000000000"} {
		assert.Equal(t, text, strings.TrimSpace(benchNumber(v)))
	}
	assert.Empty(t, procsSuffix(1))
	assert.Equal(t, "-16", procsSuffix(16))
}
