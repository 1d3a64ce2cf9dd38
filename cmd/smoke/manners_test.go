package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/job"
)

// asProcess is the program as a process of its own.
func asProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", policyVariable+"=", "GORACE="+noSleep)
	return cmd
}

// sparse is a file of 64 GiB that takes no room.
func sparse(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sparse")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	if err := os.Truncate(path, 64<<30); err != nil {
		t.Skipf("this file system has no sparse files: %v", err)
	}
	return path
}

// controlCode is what a pipe must never get.
var controlCode = regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f]`)

// An interrupt ends the job within a second, with what was hashed so far, whatever the
// workers are at.
func TestInterrupt(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("a process cannot be sent an interrupt there")
	}
	large, small := sparse(t), writeFile(t, strings.Repeat("0123456789abcdef", 80_000))
	const manyRounds = "4000000000"
	// Under nohup this process ignores SIGHUP, and its children would as well. They get the default of what it handles.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for _, c := range []struct {
		name     string
		args     []string
		progress bool // some batches are done by then, also on a slow machine
		forms    []string
		by       syscall.Signal
	}{
		{"cpu", []string{"--input", large, "--policy", "off"}, true, []string{"--json", "--workers=2"}, syscall.SIGINT},
		{"hangup", []string{"--input", large, "--policy", "off"}, true, []string{"--json"}, syscall.SIGHUP},
		{"cpu, many rounds", []string{"--input", small, "--policy", "off", "--rounds", manyRounds}, false, []string{"--json"}, syscall.SIGTERM},
		{"simulated", []string{"--input", large, "--simulate", "2"}, false, []string{"--json"}, syscall.SIGHUP},
		{"simulated, many rounds", []string{"--input", small, "--simulate", "2", "--rounds", manyRounds}, false, []string{"--json", "--workers=2"}, syscall.SIGINT},
	} {
		for _, form := range c.forms {
			t.Run(c.name+" "+form, func(t *testing.T) {
				list := filepath.Join(t.TempDir(), "list")
				cmd := asProcess(t, append(c.args, form, "--out", list)...)
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				require.NoError(t, cmd.Start())
				time.Sleep(500 * time.Millisecond) // so that it is under way
				began := time.Now()
				require.NoError(t, cmd.Process.Signal(c.by))
				err := cmd.Wait()
				took := time.Since(began)
				t.Logf("stopped after %v: %s%s", took, stdout.String(), stderr.String())
				require.Error(t, err)
				assert.Equal(t, exitFailed, cmd.ProcessState.ExitCode())
				assert.Less(t, took, time.Minute, "it does not hang")
				assert.Contains(t, stderr.String(), "smoke: Canceled: ")
				assert.Equal(t, 1, strings.Count(stderr.String(), "\n"))
				assert.NotRegexp(t, controlCode, stdout.String()+stderr.String())
				left, err := os.ReadDir(filepath.Dir(list))
				require.NoError(t, err)
				assert.Empty(t, left, "no part of the list stays")
				if form != "--json" {
					assert.Regexp(t, `(?m)^partial  interrupted after \d+\.\d{3} s: \d+ of \d+ chunks hashed, .* there is no root$`, stdout.String())
					assert.NotRegexp(t, `(?m)^root `, stdout.String())
					return
				}
				var doc struct {
					Job   map[string]any
					Error reason
				}
				require.NoError(t, json.Unmarshal(stdout.Bytes(), &doc))
				assert.Equal(t, "Canceled", doc.Error.Kind)
				assert.Equal(t, true, doc.Job["partial"])
				assert.NotContains(t, doc.Job, "root")
				require.Contains(t, doc.Job, "done_chunks")
				assert.Equal(t, doc.Job["done_chunks"].(float64)*4096, doc.Job["done_bytes"])
				if c.progress {
					assert.Positive(t, doc.Job["done_bytes"])
				}
				assert.Less(t, doc.Job["done_bytes"], doc.Job["bytes"])
			})
		}
	}
}

// Under nohup a job outlives its terminal.
func TestNohup(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("there is no SIGHUP there")
	}
	cmd := asProcess(t)
	list := filepath.Join(t.TempDir(), "list")
	cmd.Args = []string{"sh", "-c", `trap "" HUP; (for n in 1 2 3 4 5; do sleep 0.1; kill -HUP $$; done) & exec "$0" "$@"`, cmd.Path, "--input", writeFile(t, "data"), "--policy", "off", "--rounds", "2000000", "--quiet", "--out", list}
	var err error
	cmd.Path, err = exec.LookPath("sh")
	require.NoError(t, err)
	require.NoError(t, cmd.Run())
	assert.FileExists(t, list)
}

// A GPU that never comes up does not hold up an interrupt either.
func TestInterruptWhileAGPUIsOpened(t *testing.T) {
	t.Setenv(policyVariable, "")
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	defer close(over)
	hang := func(context.Context, []string) (probe, job.Engine, error) {
		cancel()
		<-over
		return absent(ctx, nil)
	}
	began := time.Now()
	c := runContext(t, ctx, hang, "--input", writeFile(t, "data"), "--json")
	assert.Less(t, time.Since(began), time.Minute)
	assert.Equal(t, exitFailed, c.code)
	doc := c.document(t)
	assert.Equal(t, "Canceled", doc["error"].(map[string]any)["kind"])
	assert.Equal(t, true, doc["job"].(map[string]any)["partial"])
	assert.EqualValues(t, 0, doc["job"].(map[string]any)["done_bytes"])
}

// A job that is done is not partial.
func TestCompleteIsNotPartial(t *testing.T) {
	t.Setenv(policyVariable, "off")
	details := runWith(t, absent, "--input", writeFile(t, "data"), "--json").document(t)["job"].(map[string]any)
	for _, key := range []string{"partial", "done_chunks", "done_bytes"} {
		assert.NotContains(t, details, key)
	}
}

// Pipes get results on stdout, nothing on stderr, and no control codes on either.
func TestNoControlCodesInPipes(t *testing.T) {
	path := writeFile(t, strings.Repeat("x", 1<<20))
	for _, args := range [][]string{
		{"--input", path, "--policy", "off"},
		{"--input", path, "--policy", "off", "--json"},
		{"--input", path, "--policy", "off", "--quiet"},
		{"--input", path, "--simulate", "2"},
		{"--help"}, {"--version"}, {"cache"}, {"doctor", "--simulate", "1"},
	} {
		cmd := asProcess(t, args...)
		cmd.Env = append(cmd.Env, "TERM=xterm-256color", "PURECUDA_CACHE_DIR="+t.TempDir())
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		require.NoError(t, cmd.Run(), "%v: %s", args, stderr.String())
		assert.NotEmpty(t, stdout.String())
		assert.NotRegexp(t, controlCode, stdout.String(), args)
		assert.Empty(t, stderr.String(), args)
	}
}

func TestVersion(t *testing.T) {
	c := runWith(t, absent, "--version")
	assert.Zero(t, c.code)
	assert.Regexp(t, `^smoke version \S+(, commit [0-9a-f]{12}( and changes)?)?, `+regexp.QuoteMeta(goruntime.Version())+`.*, `+goruntime.GOOS+"/"+goruntime.GOARCH+"\n$", c.stdout)
}

func TestCompletion(t *testing.T) {
	for shell, text := range map[string]string{"bash": "complete -o", "zsh": "compdef", "fish": "complete -c smoke"} {
		c := runWith(t, absent, "completion", shell)
		assert.Zero(t, c.code, shell)
		assert.Contains(t, c.stdout, text)
		if path, err := exec.LookPath(shell); err == nil { // does the shell read it?
			check := exec.Command(path, "-n", "/dev/stdin")
			check.Stdin = strings.NewReader(c.stdout)
			out, err := check.CombinedOutput()
			assert.NoError(t, err, "%s: %s", shell, out)
		}
	}
	complete := func(args ...string) string {
		out, err := asProcess(t, append(args, "--generate-shell-completion")...).Output()
		require.NoError(t, err)
		return string(out)
	}
	for _, command := range []string{"cache", "doctor"} {
		assert.Regexp(t, "(?m)^"+command+":", complete())
	}
	assert.Regexp(t, "(?m)^--input:", complete("--in"))
	assert.Contains(t, complete("cache"), "clear:")
	assert.NotContains(t, complete("doctor"), "probe", "it is not for people")
}
