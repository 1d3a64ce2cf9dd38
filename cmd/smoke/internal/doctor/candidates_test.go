package doctor

import (
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

func TestLibraryFile(t *testing.T) {
	if goruntime.GOOS != "linux" || machines[goruntime.GOARCH] == 0 {
		t.Skip("the files are those of Linux on amd64 and arm64")
	}
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	elfFile := func(class byte, machine uint16) string {
		return "\x7fELF" + string(class) + "\x01\x01" + string(make([]byte, 11)) + string([]byte{byte(machine), byte(machine >> 8), 0, 0})
	}
	host := uint16(machines[goruntime.GOARCH])
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("nowhere", link))
	self, err := os.Executable()
	require.NoError(t, err)
	for path, wrong := range map[string]string{
		self:                                   "",
		write("fits", elfFile(2, host)):        "",
		write("empty", ""):                     "is empty",
		write("text", "hello, this is a text"): "is no library",
		write("short", "\x7fELF"):              "is no library",
		write("ppc", elfFile(2, 21)):           "is for ppc64le, and this program for " + machineName(machines[goruntime.GOARCH]),
		write("strange", elfFile(2, 9999)):     "is for processor 9999",
		write("class", elfFile(1, host)):       "is a 32-bit library",
		dir:                                    "is a folder",
		os.DevNull:                             "is no regular file",
		link:                                   "is a link to nowhere, which is not there",
	} {
		f, there := libraryFile(path)
		assert.True(t, there, path)
		assert.Contains(t, f.Wrong, wrong, path)
		assert.Equal(t, wrong == "", f.Wrong == "", "%s: %s", path, f.Wrong)
	}
	_, there := libraryFile(filepath.Join(dir, "none"))
	assert.False(t, there)
}

func TestSettle(t *testing.T) {
	list := []Candidate{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	recordAttempts(list, []driver.Attempt{{Name: "a", Reason: "a: not found"}}, "b")
	assert.Equal(t, []Candidate{{Name: "a", Reason: "not found"}, {Name: "b", Taken: true}, {Name: "c", Reason: notTried}}, list)
}

func TestHowAChildEnded(t *testing.T) {
	failed := errors.New("exit status 2")
	for stderr, want := range map[string]string{
		"fatal error: unexpected signal during runtime execution\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x7f]\n": "SIGSEGV (segmentation violation)",
		"SIGABRT: abort\nPC=0x7f m=0 sigcode=18446744073709551610\n":                                                                    "SIGABRT (abort)",
		"some words\nmore\n": "exit status 2: some words",
		"":                   "exit status 2",
	} {
		assert.Equal(t, want, how(stderr, failed))
	}
	assert.Equal(t, "itself", how("", nil))
}

// Lines come in pieces, and with others between them.
func TestListener(t *testing.T) {
	var l listener
	for _, piece := range []string{"noise\nsmoke-", "probe: {\"doing\":\"one\"}", "\nsmoke-probe: {broken\n", "more noise"} {
		n, err := l.Write([]byte(piece))
		require.NoError(t, err)
		require.Equal(t, len(piece), n)
	}
	assert.Equal(t, "one", l.last().Doing)
	assert.False(t, l.done())
	_, _ = l.Write([]byte("\nsmoke-probe: {}\n"))
	assert.True(t, l.done())
	for range 100 {
		_, _ = l.Write(make([]byte, 10_000))
	}
	assert.Less(t, len(l.pending), 1<<20, "what is printed without end is not kept")
}

func TestChildThatCannotStart(t *testing.T) {
	f, ended := Child{Program: filepath.Join(t.TempDir(), "none")}.Probe(t.Context(), Request{Probe: ProbeDriver})
	assert.Contains(t, ended, "could not be started")
	assert.Nil(t, f.Driver)
}
