package dlhost_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/dlhost"
)

// stress runs the probe's stress in both modes.
func stress(t *testing.T, b build, foreign string, emulator ...string) {
	probe := b.make(t)
	n, long := starts(t)
	if n = n / 10; !long {
		n = 1
	}
	for _, word := range []string{"static", "host"} {
		t.Run(b.String()+" "+word, func(t *testing.T) {
			mode := map[string]string{"static": "static", "host": "hosted"}[word]
			for range n {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				args := append(append([]string{}, emulator...), probe, "stress", foreign)
				cmd := exec.CommandContext(ctx, args[0], args[1:]...)
				// A process that qemu-user forks hangs where another thread was within GLib's own allocator.
				cmd.Env = append(os.Environ(), dlhost.Variable+"="+word, "PROBE_EMULATOR="+strings.Join(emulator, " "), "G_SLICE=always-malloc")
				cmd.WaitDelay = 10 * time.Second // its children have the output too
				out, err := cmd.CombinedOutput()
				cancel()
				require.NoError(t, err, string(out))
				assert.Contains(t, string(out), "done "+mode+"\n")
			}
		})
	}
}

func TestStress(t *testing.T) {
	if _, err := os.Stat(loaderPath); err != nil {
		t.Skip("this machine has no " + loaderPath)
	}
	_, long := starts(t)
	foreign := library(t, "cc", "-pthread")
	for _, b := range variants(probeSource, long) {
		stress(t, b, foreign)
	}
}
