package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/job"
)

// nasty is what a driver may tell for a name, and a user for a flag: it sets the title of the
// window, clears the screen, forges a line and turns the direction of writing.
const nasty = "\x1b]0;gone\a\x1b[2J\r\nroot  forged\u009b31m\u202e\u2028"

// raw is what no terminal must get. Lines of benchmarks have tabs.
const raw = `[\x00-\x08\x0b-\x1f\x7f]|[\x{80}-\x{9f}]|\x{202e}|\x{2028}`

// Whatever a device, a variable of the environment, a path or a flag is called, a terminal gets
// visible text, and no line more.
func TestNothingRawReachesTheTerminal(t *testing.T) {
	t.Setenv(policyVariable, "")
	t.Setenv(asProgram, "1") // for the probes of doctor
	t.Chdir(t.TempDir())     // for what is written under a bad name
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(path, []byte("data"), 0o644))
	names := []string{"none"}
	if goruntime.GOOS == "linux" {
		names = append(names, nasty, nasty+"\xff")
		require.NoError(t, os.WriteFile(filepath.Join(folder, nasty), []byte("data"), 0o644))
		require.NoError(t, os.Symlink("nowhere", filepath.Join(folder, nasty+"link")))
	}
	gpu := newFakeGPU(nil)
	device := func(ctx context.Context, devices []string) (probe, job.Engine, error) {
		p, _, err := available(gpu)(ctx, nil)
		p.devices[0].Name, p.devices[0].Unusable = nasty, nasty
		return p, named{gpu, "gpu 0 (" + nasty + ")"}, err
	}
	missing := func(context.Context, []string) (probe, job.Engine, error) {
		return probe{outcome: outcomeAbsent, reason: &reason{Kind: "DriverLibraryUnavailable", Detail: nasty + ": not found"}}, nil, nil
	}
	broken := func(context.Context, []string) (probe, job.Engine, error) {
		return probe{outcome: outcomeFault, reason: &reason{Kind: "DeviceLost", Detail: nasty}}, nil, errors.New(nasty)
	}
	calls := [][]string{
		{"--input", folder}, {"--input", folder, "--json"}, {"bench", "--time", "1us", "--count", "1", "--only", "SHA"},
		{nasty}, {"--" + nasty}, {"help", nasty}, {"-h", nasty}, {"doctor", nasty}, {"doctor", "--" + nasty}, {"cache", nasty}, {"completion", nasty},
		{"bench", "--only", nasty}, {"bench", "--only", "(" + nasty},
	}
	for _, name := range names {
		calls = append(calls, []string{"--input", name}, []string{"--input", path, "--out", filepath.Join(folder, name, "list")},
			[]string{"--input", path, "--out", filepath.Join(t.TempDir(), name)})
	}
	for _, f := range (&app{}).command().Flags {
		calls = append(calls, []string{"--" + f.Names[0] + "=" + nasty, "--json"})
	}
	check := func(t *testing.T, c call) {
		assert.NotEmpty(t, c.stdout+c.stderr)
		assert.NotRegexp(t, raw, c.stdout)
		assert.NotRegexp(t, raw, c.stderr)
		assert.NotRegexp(t, "(?m)^root  forged", c.stdout+c.stderr)
	}
	for _, args := range calls {
		for _, open := range []gpuOpener{device, missing, broken} {
			check(t, runWith(t, open, args...))
		}
	}
	for _, variable := range []string{policyVariable, "PURECUDA_CACHE_DIR", "PURECUDA_DRIVER_PATH", "NVIDIA_VISIBLE_DEVICES"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, strings.ReplaceAll(nasty, "\x00", ""))
			for _, args := range [][]string{{"--input", path}, {"cache"}, {"doctor", "--simulate", "1"}, {"doctor", "--simulate", "1", "--json"}} {
				check(t, runWith(t, missing, args...))
			}
		})
	}
}

// named is an engine of another name.
type named struct {
	job.Engine
	name string
}

func (e named) Name() string { return e.name }

func (e named) Places() []job.Place {
	places := e.Engine.Places()
	for i := range places {
		places[i].Name = e.name
	}
	return places
}

// What is escaped in a document reads as it was.
func TestJSONIsNotChangedByEscapes(t *testing.T) {
	for _, text := range []string{nasty, "\x7f", "\U000e0041 and \U0010ffff", `\u0041 "quoted"`, "plain é 日本"} {
		var b bytes.Buffer
		require.NoError(t, writeJSON(&b, map[string]string{text: text}))
		assert.NotRegexp(t, raw, strings.TrimSuffix(b.String(), "\n"))
		assert.NotContains(t, b.String(), "\U000e0041")
		var back map[string]string
		require.NoError(t, json.Unmarshal(b.Bytes(), &back))
		assert.Equal(t, map[string]string{text: text}, back)
	}
}

// Whatever cannot be written is a failure: help and scripts as well as results.
func TestFullStdout(t *testing.T) {
	t.Setenv(policyVariable, "")
	t.Setenv(asProgram, "1") // for the probes of doctor
	t.Setenv("PURECUDA_CACHE_DIR", t.TempDir())
	path := writeFile(t, "data")
	for _, args := range [][]string{
		{"--help"}, {"-h"}, {"--version"}, {"help"}, {"help", "doctor"}, {"doctor", "--help"}, {"--help", "bench"},
		{"completion", "bash"}, {"completion", "--help"}, {"cache"}, {"cache", "--json"}, {"cache", "clear"},
		{"doctor", "--simulate", "1"}, {"doctor", "--simulate", "1", "--json"}, {"doctor", "--simulate", "1", "--quiet"},
		{"--input", path}, {"--input", path, "--json"}, {"--input", path, "--quiet"}, {"--input", path, "--out", "-"},
		{"bench", "--only", "SHA", "--count", "2", "--time", "1us"}, {"bench", "--only", "SHA", "--count", "1", "--time", "1us", "--json"},
	} {
		var stderr bytes.Buffer
		a := &app{stdout: &output{Writer: brokenPipe{}}, stderr: &stderr, openGPU: absent}
		assert.Equal(t, exitFailed, a.run(context.Background(), append([]string{"smoke"}, args...)), args)
		assert.Contains(t, stderr.String(), "smoke: OutputFailed: ", args)
		assert.Contains(t, stderr.String(), "broken pipe", args)
	}
}
