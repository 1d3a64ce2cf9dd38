package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// call is one run of the program with a given machine.
type call struct {
	code           int
	stdout, stderr string
	probes         int // how often a GPU was looked for
}

// absent is a machine without a driver.
func absent(context.Context, []string) (probe, job.Engine, error) {
	return probe{outcome: outcomeAbsent, reason: &reason{Kind: "DriverLibraryUnavailable", Detail: "no CUDA driver library: libcuda.so.1: not found\nlibcuda.so: not found"}}, nil, nil
}

// faulty is a machine with a broken driver.
func faulty(context.Context, []string) (probe, job.Engine, error) {
	return probe{outcome: outcomeFault, reason: &reason{Kind: "DriverLibraryLoadFailed", Detail: "libcuda.so.1: cannot open libnvidia-x.so"}}, nil, nil
}

// available is a machine with a GPU that computes with the given engine.
func available(engine job.Engine) gpuOpener {
	return func(_ context.Context, devices []string) (probe, job.Engine, error) {
		p := probe{outcome: outcomeAvailable, devices: []device{{Ordinal: 0, Name: "Fake", Used: true}}}
		if len(devices) > 0 && devices[0] != "0" {
			return p, nil, driver.Errorf(driver.ErrInvalidArgument, "device %s does not exist, there is 1", devices[0])
		}
		return p, engine, nil
	}
}

// fakeGPU hashes on the CPU and answers with digests that change may change.
type fakeGPU struct {
	job.Engine
	change   func(digests []job.Digest) error
	closeErr error
	rt       *runtime.Runtime
}

func newFakeGPU(change func([]job.Digest) error) *fakeGPU {
	return &fakeGPU{Engine: job.NewCPU(2), change: change}
}

func (g *fakeGPU) Name() string { return "gpu 0 (Fake)" }

func (g *fakeGPU) Places() []job.Place {
	return []job.Place{{Name: g.Name(), Workers: 2, BatchBytes: simulatedBatchBytes}}
}

// Open opens a pool on a device that is simulated, and not used.
func (g *fakeGPU) Open(int, int, job.Shape, bool) (_ *pool.Pool, err error) {
	g.rt, err = runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.New(drivertest.Config{Devices: simulatedDevices(1)})))
	if err != nil {
		return nil, err
	}
	return pool.Open(g.rt)
}

func (g *fakeGPU) Hash(w *pool.Worker, b *job.Batch) error {
	if err := b.HashOnCPU(w.CallContext()); err != nil || g.change == nil {
		return err
	}
	return g.change(b.Digests)
}

func (g *fakeGPU) Close() error { return errors.Join(g.closeErr, g.rt.Close()) }

func runWith(t *testing.T, open gpuOpener, args ...string) call {
	t.Helper()
	return runContext(t, context.Background(), open, args...)
}

func runContext(t *testing.T, ctx context.Context, open gpuOpener, args ...string) (c call) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &output{Writer: &stdout}, stderr: &stderr, openGPU: func(ctx context.Context, devices []string) (probe, job.Engine, error) {
		c.probes++
		return open(ctx, devices)
	}}
	c.code = a.run(ctx, append([]string{"smoke"}, args...))
	c.stdout, c.stderr = stdout.String(), stderr.String()
	return c
}

// document parses stdout, which must hold one JSON document and nothing else.
func (c call) document(t *testing.T) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(c.stdout))
	var doc map[string]any
	require.NoError(t, decoder.Decode(&doc), c.stdout)
	require.ErrorIs(t, decoder.Decode(new(any)), io.EOF)
	return doc
}

func writeFile(t *testing.T, data string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(data), 0o644))
	return path
}

// rootOf is the root of one file, computed in the plainest way.
func rootOf(data string, chunk int) string {
	all := sha256.New()
	for len(data) > 0 {
		n := min(chunk, len(data))
		digest := sha256.Sum256([]byte(data[:n]))
		all.Write(digest[:])
		data = data[n:]
	}
	return fmt.Sprintf("%x", all.Sum(nil))
}

func TestOutcomesAndExitCodes(t *testing.T) {
	t.Setenv(policyVariable, "")
	data := strings.Repeat("0123456789", 5000)
	path := writeFile(t, data)
	root := rootOf(data, 4096)
	healthy := available(newFakeGPU(nil))
	tests := []struct {
		name    string
		open    gpuOpener
		args    []string
		code    int
		outcome string
		ranOn   string
		probes  int
		errKind string
	}{
		{"absent", absent, nil, 0, "absent", "cpu", 1, ""},
		{"absent, required", absent, []string{"--policy", "required"}, 3, "absent", "", 1, "DriverLibraryUnavailable"},
		{"absent, off", absent, []string{"--policy", "off"}, 0, "off", "cpu", 0, ""},
		{"available", healthy, nil, 0, "available", "gpu 0 (Fake)", 1, ""},
		{"available, required", healthy, []string{"--policy= Required "}, 0, "available", "gpu 0 (Fake)", 1, ""},
		{"available, off", healthy, []string{"--policy", "OFF"}, 0, "off", "cpu", 0, ""},
		{"available, first device", healthy, []string{"--device", "0"}, 0, "available", "gpu 0 (Fake)", 1, ""},
		{"available, no such device", healthy, []string{"--device", "7"}, 2, "available", "", 1, "InvalidArgument"},
		{"fault", faulty, nil, 1, "fault", "", 1, "DriverLibraryLoadFailed"},
		{"fault, required", faulty, []string{"--policy", "required"}, 1, "fault", "", 1, "DriverLibraryLoadFailed"},
		{"fault, off", faulty, []string{"--policy", "off"}, 0, "off", "cpu", 0, ""},
		{"wrong digest", available(newFakeGPU(func(d []job.Digest) error { d[0][5]++; return nil })), nil, 1, "available", "", 1, "DigestMismatch"},
		{"device lost", available(newFakeGPU(func([]job.Digest) error { return driver.Errorf(driver.ErrDeviceLost, "error 700") })), nil, 1, "available", "", 1, "DeviceLost"},
		{"engine fails", available(newFakeGPU(func([]job.Digest) error { return errors.New("strange") })), nil, 1, "available", "", 1, "EngineFailed"},
		{"closing fails", available(&fakeGPU{Engine: job.NewCPU(1), closeErr: errors.New("strange")}), nil, 1, "available", "", 1, "EngineFailed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := runWith(t, tt.open, append([]string{"--input", path, "--json"}, tt.args...)...)
			assert.Equal(t, tt.code, c.code, c.stderr)
			assert.Equal(t, tt.probes, c.probes)
			doc := c.document(t)
			assert.Equal(t, tt.outcome, doc["outcome"])
			details := doc["job"].(map[string]any)
			if tt.code == 0 {
				assert.Nil(t, doc["error"])
				assert.Empty(t, c.stderr)
				assert.Equal(t, root, details["root"])
				assert.Equal(t, tt.ranOn, details["ran_on"])
				assert.EqualValues(t, 13, details["verified"])
				return
			}
			assert.NotContains(t, details, "root")
			assert.Equal(t, tt.errKind, doc["error"].(map[string]any)["kind"])
			assert.NotContains(t, doc["error"].(map[string]any)["detail"], tt.errKind+": "+tt.errKind)
			assert.Equal(t, 1, strings.Count(c.stderr, "\n"), c.stderr)
			assert.Contains(t, c.stderr, "smoke: "+tt.errKind+": ")
			assert.Equal(t, tt.errKind == "EngineFailed", strings.Contains(c.stderr, "EngineFailed"))

			human := runWith(t, tt.open, append([]string{"--input", path}, tt.args...)...)
			assert.Equal(t, tt.code, human.code)
			assert.Equal(t, c.stderr, human.stderr)
			assert.Empty(t, human.stdout)
		})
	}
}

func TestUsageErrors(t *testing.T) {
	t.Setenv(policyVariable, "")
	folder := t.TempDir()
	path := writeFile(t, "data")
	empty := writeFile(t, "")
	loop := filepath.Join(t.TempDir(), "loop")
	require.NoError(t, os.Symlink(".", loop))
	tests := []struct {
		name string
		args []string
		text string
	}{
		{"unknown flag", []string{"--chnk", "1"}, "unknown flag --chnk; did you mean --chunk?"},
		{"unknown short flag", []string{"-z"}, "unknown flag -z"},
		{"flag without value", []string{"--chunk"}, "flag needs an argument: --chunk"},
		{"misspelt command", []string{"doctr"}, `"doctr" is no command of smoke; did you mean smoke doctor?`},
		{"misspelt command, for help", []string{"help", "bnch"}, `"bnch" is no command of smoke; did you mean smoke bench?`},
		{"misspelt command, after a flag for help", []string{"--help", "cashe"}, `did you mean smoke cache?`},
		{"misspelt command below another", []string{"help", "cache", "cler"}, `did you mean smoke cache clear?`},
		{"no command at all", []string{"quux"}, `"quux" is no command of smoke; --input names what to hash`},
		{"a file", []string{path}, "name the input with --input"},
		{"empty argument", []string{""}, `"" is no command of smoke`},
		{"no shell", []string{"completion"}, "name a shell"},
		{"unknown shell", []string{"completion", "foo"}, `"foo" is no command of smoke completion`},
		{"misspelt shell", []string{"completion", "bahs"}, "did you mean smoke completion bash?"},
		{"too much after a shell", []string{"completion", "bash", "zsh"}, `unexpected argument "zsh"`},
		{"number as argument", []string{"-1"}, `"-1" is no command`},
		{"flag of another command", []string{"doctor", "--chnk", "1"}, "unknown flag --chnk"},
		{"chunk 0", []string{"--chunk", "0"}, "--chunk 0 is outside 1 byte to 256 MiB"},
		{"chunk negative", []string{"--chunk", "-4096"}, `--chunk: "-4096" is not a size`},
		{"chunk too large", []string{"--chunk", "1GiB"}, "--chunk 1GiB is outside 1 byte to 256 MiB"},
		{"chunk huge", []string{"--chunk", "99999999999999999999"}, "more than 2^63-1"},
		{"chunk word", []string{"--chunk", "many"}, `"many" is not a size`},
		{"rounds", []string{"--rounds", "4294967296"}, `--rounds: "4294967296" is not a whole number from 0 to 4294967295`},
		{"rounds negative", []string{"--rounds", "-1"}, "--rounds"},
		{"device", []string{"--device", "-1"}, `--devices: "-1" is neither the number of a GPU nor a UUID`},
		{"device word", []string{"--device", "first"}, `--devices: "first"`},
		{"devices with a gap", []string{"--devices", "0,,1"}, `--devices: "" is neither`},
		{"devices empty", []string{"--devices", ""}, `--devices: "" is neither`},
		{"devices twice", []string{"--devices", "1, 0,1"}, "--devices: 1 is there twice"},
		{"device and off", []string{"--device", "0", "--policy", "off"}, "drop one of them"},
		{"simulate and off", []string{"--simulate", "2", "--policy", "off"}, "--simulate 2 asks for GPUs, the policy off forbids them"},
		{"simulate none", []string{"--simulate", "0"}, `--simulate: "0" is not a whole number from 1 to 64`},
		{"simulate many", []string{"--simulate", "65"}, `--simulate: "65" is not a whole number from 1 to 64`},
		{"workers", []string{"--workers", "0"}, "--workers"},
		{"verify", []string{"--verify", "200%"}, `--verify: "200%" is not auto`},
		{"verify seed", []string{"--verify-seed", "x"}, "--verify-seed"},
		{"policy", []string{"--policy", "maybe"}, `--policy: "maybe" is not auto, off or required`},
		{"policy empty", []string{"--policy", ""}, `--policy: "" is not`},
		{"bool value", []string{"--quiet=perhaps"}, "perhaps"},
		{"input empty string", []string{"--input", ""}, "--input is empty"},
		{"out empty string", []string{"--out", ""}, "--out is empty"},
		{"input missing", []string{"--input", filepath.Join(folder, "none")}, "InputMissing: " + filepath.Join(folder, "none")},
		{"input without a byte", []string{"--input", empty}, "InputEmpty: " + empty + ": the file has no single byte"},
		{"folder without a file", []string{"--input", folder}, "InputEmpty: " + folder},
		{"input is a device", []string{"--input", "/dev/null"}, "InputUnsupported: /dev/null: is a device"},
		{"directory loop", []string{"--input", filepath.Dir(loop)}, "DirectoryLoop: " + loop},
		{"out over the input", []string{"--input", path, "--out", path}, "would replace the input"},
		{"out inside the input", []string{"--input", filepath.Dir(path), "--out", path + ".list"}, "inside the input"},
		{"out is a folder", []string{"--input", path, "--out", folder}, "not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := runWith(t, absent, tt.args...)
			assert.Equal(t, exitUsage, c.code)
			assert.Zero(t, c.probes, "no GPU is woken for a mistake")
			assert.Empty(t, c.stdout)
			assert.Equal(t, 1, strings.Count(c.stderr, "\n"), c.stderr)
			assert.Contains(t, c.stderr, tt.text)

			c = runWith(t, absent, append([]string{"--json"}, tt.args...)...)
			assert.Equal(t, exitUsage, c.code)
			doc := c.document(t)
			assert.Equal(t, "unknown", doc["outcome"])
			assert.NotEmpty(t, doc["error"].(map[string]any)["detail"])
		})
	}
}

func TestPolicyFromTheEnvironment(t *testing.T) {
	path := writeFile(t, "data")
	for _, tt := range []struct {
		value string
		args  []string
		code  int
	}{
		{" REQUIRED\n", nil, exitRequired},
		{"off", nil, exitOK},
		{"required", []string{"--policy", "auto"}, exitOK},
		{"sometimes", nil, exitUsage},
		{"sometimes", []string{"--policy", "auto"}, exitOK},
	} {
		t.Setenv(policyVariable, tt.value)
		c := runWith(t, absent, append(tt.args, "--input", path)...)
		assert.Equal(t, tt.code, c.code, "%q %q: %s", tt.value, tt.args, c.stderr)
		if tt.code == exitUsage {
			assert.Contains(t, c.stderr, `PURECUDA_POLICY: "sometimes"`)
		}
	}
}

func TestJSONKeys(t *testing.T) {
	t.Setenv(policyVariable, "")
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a\nb"), []byte("data"), 0o644))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(folder, "bad\xff")))
	out := filepath.Join(t.TempDir(), "list")
	c := runWith(t, available(newFakeGPU(nil)), "--input", folder, "--json", "--out", out, "--rounds", "2", "--verify-seed", "9")
	require.Zero(t, c.code, c.stderr)

	doc := c.document(t)
	assert.ElementsMatch(t, []string{"schema_version", "tool", "host", "outcome", "reason", "devices", "job", "error"}, keys(doc))
	assert.EqualValues(t, 1, doc["schema_version"])
	assert.ElementsMatch(t, []string{"name", "version", "go"}, keys(doc["tool"]))
	assert.ElementsMatch(t, []string{"os", "arch", "cpus"}, keys(doc["host"]))
	assert.ElementsMatch(t, []string{"ordinal", "name", "used"}, keys(doc["devices"].([]any)[0]))
	details := doc["job"].(map[string]any)
	assert.ElementsMatch(t, []string{
		"input", "files", "bytes", "chunk_bytes", "chunks", "rounds", "root", "verified", "verify_mode", "verify_fraction",
		"verify_seed", "skipped", "out", "seconds", "setup_seconds", "gb_per_s", "ran_on", "workers", "batch_bytes", "shares",
	}, keys(details))
	for key, want := range map[string]any{
		"input": folder, "files": 1.0, "bytes": 4.0, "chunk_bytes": 4096.0, "chunks": 1.0, "rounds": 2.0, "verified": 1.0,
		"verify_mode": "all", "verify_fraction": 1.0, "verify_seed": 9.0, "out": out, "ran_on": "gpu 0 (Fake)", "workers": 1.0,
		"skipped": map[string]any{"count": 1.0, "entries": []any{map[string]any{"path": `"bad\xff"`, "reason": "symbolic link to nothing"}}},
	} {
		assert.Equal(t, want, details[key], key)
	}
	list, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Regexp(t, `^\\[0-9a-f]{64}  a\\nb#0\n$`, string(list))
}

func keys(object any) (names []string) {
	for name := range object.(map[string]any) {
		names = append(names, name)
	}
	return names
}

func TestHumanForm(t *testing.T) {
	t.Setenv(policyVariable, "")
	data := strings.Repeat("x", 10000)
	path := writeFile(t, data)
	c := runWith(t, absent, "--input", path)
	require.Zero(t, c.code)
	lines := strings.Split(strings.TrimSpace(c.stdout), "\n")
	require.Len(t, lines, 7, c.stdout)
	assert.Equal(t, "on the CPU: DriverLibraryUnavailable: no CUDA driver library (see smoke doctor)", lines[0])
	assert.Equal(t, "input     "+path+" (1 file, 9.8 KiB)", lines[1])
	assert.Equal(t, "chunks    3 of up to 4 KiB", lines[2])
	assert.Equal(t, "ran on    cpu, 1 worker", lines[3])
	assert.Equal(t, "verified  all 3 chunks with crypto/sha256", lines[4])
	assert.Regexp(t, `^time      \d+\.\d{3} s, \d+\.\d\d GB/s$`, lines[5])
	assert.Equal(t, "root      "+rootOf(data, 4096), lines[6])
	assert.Empty(t, c.stderr, "no progress where stderr is no terminal")

	quiet := runWith(t, absent, "--input", path, "--quiet")
	assert.Equal(t, rootOf(data, 4096)+"\n", quiet.stdout)

	sampled := runWith(t, absent, "--input", path, "--verify", "1%", "--verify-seed", "3")
	assert.Contains(t, sampled.stdout, "1 of 3 chunks with crypto/sha256, sample seed 3")
	none := runWith(t, absent, "--input", path, "--verify", "none")
	assert.Contains(t, none.stdout, "verified  nothing, as asked")
}

func TestDefaultInputIsThisProgram(t *testing.T) {
	t.Setenv(policyVariable, "off")
	self, err := os.Executable()
	require.NoError(t, err)
	data, err := os.ReadFile(self)
	require.NoError(t, err)
	c := runWith(t, absent, "--quiet", "--chunk", "64KiB")
	require.Zero(t, c.code, c.stderr)
	assert.Equal(t, rootOf(string(data), 64<<10)+"\n", c.stdout)
}

func TestOutFailures(t *testing.T) {
	t.Setenv(policyVariable, "off")
	path := writeFile(t, strings.Repeat("x", 1e6))
	t.Run("no folder", func(t *testing.T) {
		c := runWith(t, absent, "--input", path, "--out", filepath.Join(t.TempDir(), "none", "list"))
		assert.Equal(t, exitFailed, c.code)
		assert.Contains(t, c.stderr, "OutputFailed: ")
	})
	t.Run("read-only folder", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root writes everywhere")
		}
		folder := t.TempDir()
		require.NoError(t, os.Chmod(folder, 0o500))
		c := runWith(t, absent, "--input", path, "--out", filepath.Join(folder, "list"))
		assert.Equal(t, exitFailed, c.code)
	})
	t.Run("nothing stays when the job fails", func(t *testing.T) {
		t.Setenv(policyVariable, "auto")
		folder := t.TempDir()
		wrong := available(newFakeGPU(func(d []job.Digest) error { d[0][0]++; return nil }))
		c := runWith(t, wrong, "--input", path, "--out", filepath.Join(folder, "list"))
		assert.Equal(t, exitFailed, c.code)
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		assert.Empty(t, entries)
	})
}

func TestCanceled(t *testing.T) {
	t.Setenv(policyVariable, "")
	ctx, cancel := context.WithCancel(context.Background())
	gpu := newFakeGPU(func([]job.Digest) error { cancel(); return nil })
	path := writeFile(t, strings.Repeat("x", 8<<20))
	c := runContext(t, ctx, available(gpu), "--input", path, "--json")
	assert.Equal(t, exitFailed, c.code)
	assert.Equal(t, "Canceled", c.document(t)["error"].(map[string]any)["kind"])
}

// brokenPipe fails every write.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestReportThatCannotBeWritten(t *testing.T) {
	t.Setenv(policyVariable, "off")
	path := writeFile(t, "data")
	for _, form := range []string{"--json", "--quiet", "--workers=1"} {
		var stderr bytes.Buffer
		a := &app{stdout: &output{Writer: brokenPipe{}}, stderr: &stderr, openGPU: absent}
		assert.Equal(t, exitFailed, a.run(context.Background(), []string{"smoke", "--input", path, form}))
		assert.Equal(t, "smoke: OutputFailed: writing the report: broken pipe\n", stderr.String())
	}
}

func TestHelpVersionCompletion(t *testing.T) {
	for args, text := range map[string]string{
		"--help": "--chunk SIZE", "-h": "Exit codes", "--version": "smoke version ", "completion bash": "complete",
	} {
		c := runWith(t, absent, strings.Fields(args)...)
		assert.Zero(t, c.code, args)
		assert.Contains(t, c.stdout, text)
		assert.Empty(t, c.stderr)
		assert.Zero(t, c.probes)
	}
}

func TestRunUsesTheRealProbe(t *testing.T) {
	t.Setenv(policyVariable, "off")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run([]string{"smoke", "--input", writeFile(t, "data"), "--quiet"}, &stdout, &stderr), stderr.String())
	assert.Equal(t, rootOf("data", 4096)+"\n", stdout.String())
}
