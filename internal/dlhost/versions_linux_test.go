package dlhost_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/dlhost"
)

// TestVersionsOfGo starts programs that other versions of Go have built. This module
// asks for a version itself, so the package and the probe go into a module of their own
// that asks for less.
func TestVersionsOfGo(t *testing.T) {
	needsLong(t)
	needsSource(t)
	if _, err := os.Stat(loaderPath); err != nil {
		t.Skip("this machine has no " + loaderPath)
	}
	n, _ := starts(t)
	foreign := library(t, "cc", "-pthread")
	dir := smallModule(t)
	for _, version := range []string{"go1.25.0", "go1.25.14", "go1.26.0", "go1.26.11", "go1.27.0", "go1.27.4"} {
		t.Run(version, func(t *testing.T) {
			cmd := exec.Command("go", "version")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+version)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("%s cannot be had: %s", version, out)
			}
			for _, b := range variants("./probe", true) {
				b.toolchain, b.dir = version, dir
				probe := b.make(t)
				for word, mode := range map[string]string{"static": "static PURECUDA_LOADER=static", "host": "hosted "} {
					for range n {
						cmd := exec.Command(probe, "status")
						cmd.Env = []string{dlhost.Variable + "=" + word}
						out, err := cmd.CombinedOutput()
						require.NoError(t, err, string(out))
						assert.Equal(t, mode+"\n", string(out))
					}
				}
				stress(t, b, foreign)
			}
		})
	}
}

// smallModule copies this package and the probe into a module of the same name.
func smallModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, pattern := range []string{"*.go", "*.s", "testdata/probe/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			if matched, _ := filepath.Match("*_test.go", filepath.Base(file)); matched {
				continue
			}
			to := filepath.Join(dir, "internal", "dlhost", filepath.Base(file))
			if pattern == "testdata/probe/*.go" {
				to = filepath.Join(dir, "probe", filepath.Base(file))
			}
			copyFile(t, file, to)
		}
	}
	version := goOutput(t, "list", "-m", "-f", "{{.Version}}", "github.com/ebitengine/purego")
	text := "module " + module + "\n\ngo 1.25.0\n\nrequire github.com/ebitengine/purego " + version + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644))
	copyFile(t, "../../go.sum", filepath.Join(dir, "go.sum"))
	return dir
}
