//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// sabotaged kills the child of a place before it gets a batch, so often.
type sabotaged struct {
	*isolatedEngine
	mu   sync.Mutex
	left map[int]int // by place
	used int
}

func (e *sabotaged) Hash(w *pool.Worker, b *job.Batch) error {
	e.sabotage(w.Index())
	return e.isolatedEngine.Hash(w, b)
}

func (e *sabotaged) sabotage(place int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pid := e.group.Stats().Devices[place].PID; pid != 0 && e.left[place] > 0 {
		e.left[place]--
		e.used++
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// isolatedInput is long enough for some batches on each of two devices.
func isolatedInput(t *testing.T) (path, root string) {
	data := strings.Repeat("0123456789abcdef", 64_000) // 8 batches
	return writeFile(t, data), rootOf(data, 4096)
}

// told are the children in a document: how many died, and why the last one of each device did.
func told(t *testing.T, doc map[string]any) (died float64, why string) {
	t.Helper()
	for _, row := range doc["job"].(map[string]any)["children"].([]any) {
		c := row.(map[string]any)
		died += c["died"].(float64)
		if c["died"].(float64) > 0 {
			why += fmt.Sprintln(c["last_death"])
		}
	}
	return died, why
}

func TestIsolate(t *testing.T) {
	t.Setenv(policyVariable, "")
	path, root := isolatedInput(t)
	c := runWith(t, absent, "--input", path, "--json", "--simulate", "2", "--isolate", "--with-cpu", "--chunk", "1000")
	require.Zero(t, c.code, c.stderr)
	doc := c.document(t)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, rootOf(string(data), 1000), doc["job"].(map[string]any)["root"])
	died, _ := told(t, doc)
	assert.Zero(t, died)
	c = runWith(t, absent, "--input", path, "--simulate", "1", "--isolate")
	require.Zero(t, c.code, c.stderr)
	assert.Contains(t, c.stdout, "in child processes")
	assert.Regexp(t, `(?m)^children +gpu 0: 1 started$`, c.stdout)
	assert.Contains(t, c.stdout, root)
	c = runWith(t, absent, "--input", path, "--isolate", "--quiet")
	assert.Equal(t, root+"\n", c.stdout, "the CPU does it without a GPU")
	c = runWith(t, absent, "--input", path, "--isolate", "--policy", "off")
	assert.Equal(t, exitUsage, c.code)
}

// Children that are killed cost a restart, and no result.
func TestIsolateSurvivesKills(t *testing.T) {
	t.Setenv(policyVariable, "")
	path, root := isolatedInput(t)
	for name, kills := range map[string]map[int]int{
		"one": {1: 1}, "all": {0: 1, 1: 1}, "some of each": {0: 3, 1: 3}, "one device always": {0: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			var saboteur *sabotaged
			open := func(ctx context.Context, devices []string) (probe, job.Engine, error) {
				build := func(ctx context.Context, rt *runtime.Runtime, usable []runtime.Device) (job.Engine, error) {
					engine, err := inChildren(2)(ctx, rt, usable)
					if err != nil {
						return nil, err
					}
					saboteur = &sabotaged{isolatedEngine: engine.(*isolatedEngine), left: kills}
					return saboteur, nil
				}
				return openSimulated(ctx, devices, drivertest.Config{Devices: simulatedDevices(2)}, build)
			}
			c := runWith(t, open, "--input", path, "--json")
			require.Zero(t, c.code, c.stderr)
			doc := c.document(t)
			assert.Equal(t, root, doc["job"].(map[string]any)["root"])
			died, why := told(t, doc)
			assert.Equal(t, saboteur.used > 0, died > 0)
			assert.Equal(t, saboteur.used > 0, why != "", why) // that it was killed, or that it took no more requests
		})
	}
}

// An illegal address poisons a child, and not the job.
func TestIsolateSurvivesFaults(t *testing.T) {
	t.Setenv(policyVariable, "")
	path, root := isolatedInput(t)
	faults := t.TempDir()
	childEnvironment = []string{faultsVariable + "=" + faults}
	defer func() { childEnvironment = nil }()
	for _, name := range []string{"1", "2"} {
		require.NoError(t, os.WriteFile(filepath.Join(faults, name), nil, 0o600))
	}
	c := runWith(t, absent, "--input", path, "--json", "--simulate", "2", "--isolate")
	require.Zero(t, c.code, c.stderr)
	doc := c.document(t)
	assert.Equal(t, root, doc["job"].(map[string]any)["root"])
	died, why := told(t, doc)
	assert.EqualValues(t, 2, died)
	assert.Contains(t, why, "ILLEGAL_ADDRESS")
}

// The same on the GPUs of this machine, with a process of the program.
func TestIsolateOnHardware(t *testing.T) {
	hardware.Open(t)
	path, root := isolatedInput(t)
	out, err := asProcess(t, "--input", path, "--quiet", "--isolate", "--policy", "required").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, root+"\n", string(out))
}

// A child whose number of simulated GPUs is none does not look for real ones.
func TestChildWithABadNumber(t *testing.T) {
	for _, value := range []string{"two", "-1", "65", "1.5", "99999999999999999999"} {
		t.Setenv(simulateVariable, value)
		rt, err := openChild()
		assert.Nil(t, rt, value)
		assert.ErrorContains(t, err, fmt.Sprintf("%s is %q: want a number of simulated GPUs, 0 to 64", simulateVariable, value))
	}
}
