//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asNobody is the program as a process of a user without privileges: of user 65534 where
// the test is root, else of this one.
func asNobody(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	if os.Geteuid() != 0 {
		return exec.Command(self, args...)
	}
	// A test binary, and t.TempDir, lie where others cannot go.
	dir, err := os.MkdirTemp("", "smoke-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	copied := filepath.Join(dir, "smoke")
	require.NoError(t, os.WriteFile(copied, program, 0o755))
	cmd := exec.Command(copied, args...)
	cmd.Dir = dir
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}
