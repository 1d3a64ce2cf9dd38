package dlhost_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/dlhost"
)

// sysroot is where Debian's packages for cross-compiling put glibc.
const sysroot = "/usr/aarch64-linux-gnu"

// TestArm64 runs smoke and the stress under qemu-user, with and without glibc.
func TestArm64(t *testing.T) {
	needsLong(t)
	if goruntime.GOARCH == "arm64" {
		t.Skip("this machine needs no emulator")
	}
	if _, err := exec.LookPath("qemu-aarch64"); err != nil {
		t.Skip("no qemu-aarch64")
	}
	with := []string{"qemu-aarch64", "-L", sysroot}
	input := filepath.Join(t.TempDir(), "input")
	data := make([]byte, 100_000)
	require.NoError(t, os.WriteFile(input, data, 0o644))
	n, _ := starts(t)
	for _, b := range []build{
		{source: smokeSource, goarch: "arm64"}, {source: smokeSource, goarch: "arm64", strip: true},
		{source: smokeSource, goarch: "arm64", mode: "pie"}, {source: smokeSource, goarch: "arm64", mode: "pie", strip: true},
	} {
		t.Run(b.String(), func(t *testing.T) {
			smoke := b.make(t)
			for _, c := range []struct {
				name     string
				emulator []string
				word     string
				reason   string
			}{
				{"empty", []string{"qemu-aarch64", "-L", t.TempDir()}, "host", "/lib/ld-linux-aarch64.so.1 cannot be opened"},
				{"nothing asks", with, "", "no sign of an NVIDIA GPU"},
				{"static", with, "static", "PURECUDA_LOADER=static"},
				{"hosted", with, "host", "libcuda.so.1: not found"},
			} {
				t.Run(c.name, func(t *testing.T) {
					for range max(1, n/10) {
						cmd := exec.Command(c.emulator[0], append(c.emulator[1:], smoke, "--json", "--input", input)...)
						cmd.Env = append(os.Environ(), dlhost.Variable+"="+c.word)
						out, err := cmd.Output()
						require.NoError(t, err)
						var report smokeReport
						require.NoError(t, json.Unmarshal(out, &report))
						assert.Contains(t, report.Reason.Detail, c.reason)
						assert.Equal(t, rootDigest(data), report.Job.Root)
					}
				})
			}
		})
	}
	foreign := library(t, "aarch64-linux-gnu-gcc", "-pthread")
	for _, mode := range []string{"exe", "pie"} {
		stress(t, build{source: probeSource, goarch: "arm64", mode: mode}, foreign, with...)
	}
}
