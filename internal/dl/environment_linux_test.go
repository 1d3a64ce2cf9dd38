package dl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const asPrivileged = "PURECUDA_TEST_PRIVILEGED"

func TestGetenv(t *testing.T) {
	t.Setenv(asPrivileged, "a file")
	assert.Equal(t, "a file", Getenv(asPrivileged))
	assert.Empty(t, Getenv(asPrivileged+"_NOT"))
}

// TestGetenvOfAPrivilegedProgram starts this test as a set-user-ID program of another user.
func TestGetenvOfAPrivilegedProgram(t *testing.T) {
	if os.Getenv(asPrivileged) != "" {
		fmt.Printf("uid %d, euid %d, %q\n", os.Getuid(), os.Geteuid(), Getenv(asPrivileged))
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a program to another user")
	}
	folder, err := os.MkdirTemp("/tmp", "privileged") // t.TempDir is closed to others
	require.NoError(t, err)
	defer func() { assert.NoError(t, os.RemoveAll(folder)) }()
	require.NoError(t, os.Chmod(folder, 0o755))
	self, err := os.Executable()
	require.NoError(t, err)
	program := filepath.Join(folder, "program")
	from, err := os.Open(self)
	require.NoError(t, err)
	defer from.Close()
	to, err := os.Create(program)
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	require.NoError(t, os.Chown(program, 65533, 65533))
	for _, c := range []struct {
		mode os.FileMode
		want string
	}{
		{0o755, "uid 65534, euid 65534, \"a file\"\n"},
		{0o755 | os.ModeSetuid, "uid 65534, euid 65533, \"\"\n"},
	} {
		require.NoError(t, os.Chmod(program, c.mode))
		cmd := exec.Command(program, "-test.run=^TestGetenvOfAPrivilegedProgram$")
		cmd.Dir, cmd.Env = "/", []string{asPrivileged + "=a file"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Skip("an emulator runs this test, which cannot start a program of its processor")
		}
		require.NoError(t, err, "%s", out)
		if c.mode&os.ModeSetuid != 0 && string(out[:len("uid 65534, euid 65534")]) == "uid 65534, euid 65534" {
			t.Skip("this file system ignores the set-user-ID bit")
		}
		assert.Contains(t, string(out), c.want)
	}
}

func TestSays(t *testing.T) {
	word := binary.NativeEndian.AppendUint64
	if ^uint(0)>>32 == 0 {
		word = func(b []byte, v uint64) []byte { return binary.NativeEndian.AppendUint32(b, uint32(v)) }
	}
	list := func(values ...uint64) (b []byte) {
		for _, v := range values {
			b = word(b, v)
		}
		return b
	}
	for name, c := range map[string]struct {
		list []byte
		want bool
	}{
		"nothing":  {nil, false},
		"gained":   {list(6, 4096, secure, 1, 0, 0), true},
		"ordinary": {list(6, 4096, secure, 0, 0, 0), false},
		"no word":  {list(6, secure, 0, 0), false},
		"cut":      {list(6, 4096, secure), false},
	} {
		assert.Equal(t, c.want, says(c.list, secure), name)
	}
}
