package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

// Nothing that a driver forks in cuInit outlives the report, however the probe ends.
func TestDoctorLeavesNoProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		then      string
		interrupt bool
	}{
		"absent":      {"return 34", false},
		"crash":       {"abort()", false},
		"interrupted": {"for (;;) pause()", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatient(t)
			forked := p.path("forked")
			t.Setenv("DOCTOR_TEST_FORKED", forked)
			t.Setenv(driver.PathVariable, p.library("libcuda.so.1", `int f = open(getenv("DOCTOR_TEST_FORKED"), 02101, 0600); int id = fork(); if (id == 0) for (;;) pause(); dprintf(f, "%d\n", id); `+c.then))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.interrupt {
				go func() {
					for text := []byte(nil); !bytes.HasSuffix(text, []byte("\n")) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
						text, _ = os.ReadFile(forked)
					}
					cancel()
				}()
			}
			a := &app{stdout: &output{Writer: io.Discard}, stderr: io.Discard, openGPU: absent, doctor: p.config}
			a.run(ctx, []string{"smoke", "doctor", "--json"})
			text, err := os.ReadFile(forked)
			require.NoError(t, err)
			ids := strings.Fields(string(text))
			require.NotEmpty(t, ids, "cuInit has forked")
			for _, id := range ids {
				n, err := strconv.Atoi(id)
				require.NoError(t, err)
				t.Cleanup(func() { _ = syscall.Kill(n, syscall.SIGKILL) })
				assert.True(t, isGone(n), "process %d goes on", n)
			}
		})
	}
}

// isGone waits until a process has ended, or is one that its new parent has only to collect.
func isGone(id int) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return true
		}
	}
	return false
}
