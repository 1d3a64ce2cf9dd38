package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLinkerVersion(t *testing.T) {
	for line, want := range map[string]string{
		"link version go1.26.8":                                  "link version go1.26.8 purecuda-static-1",
		"link version go1.26.8 X:nodwarf5":                       "link version go1.26.8 X:nodwarf5 purecuda-static-1",
		"link version devel go1.27-abc Thu buildID=a/b/c/d":      "link version devel go1.27-abc Thu buildID=a/b/c/d-purecuda-static-1",
		"link version devel go1.27-abc Thu Jan 1 buildID=_xyz-_": "link version devel go1.27-abc Thu Jan 1 buildID=_xyz-_-purecuda-static-1",
	} {
		assert.Equal(t, want, linkerVersion(line))
	}
}

func TestOutputOf(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "a.out", "-s", "x.a"}, "a.out"},
		{[]string{"-s", "-o=b.out", "x.a"}, "b.out"},
		{[]string{"--o", "c.out"}, "c.out"},
		{[]string{"-V=full"}, ""},
		{[]string{"-o"}, ""},
		{nil, ""},
	} {
		assert.Equal(t, c.want, outputOf(c.args), "%v", c.args)
	}
}

func TestIsTool(t *testing.T) {
	const link, vet = "/usr/local/go/pkg/tool/linux_amd64/link", "/tmp/cache/ab/abcdef-d/vet"
	for _, c := range []struct {
		args       []string
		byGo, want bool
	}{
		{[]string{link, "-o", "a.out", "x.a"}, true, true},
		{[]string{vet, "vet.cfg"}, true, true}, // built into a cache of any name
		{[]string{link, "-V=full"}, false, true},
		{[]string{"/go/pkg/tool/linux_amd64/preprofile", "-o", "a", "-i", "default.pgo"}, false, true},
		{[]string{link}, false, false},
		{[]string{link, "-o", "a.out", "x.a"}, false, false},
		{[]string{"/x/tool/trace"}, false, false},
		{[]string{"/go-build/trace"}, false, false},
		{[]string{link, link}, false, false},
		{[]string{"/usr/local/go/pkg/tool/linux_amd64/whatever"}, true, false},
		{[]string{"link", "-V=full"}, true, false},
		{[]string{"./link", "-V=full"}, true, false},
		{[]string{"-check"}, true, false},
		{nil, true, false},
	} {
		assert.Equal(t, c.want, isTool(c.args, c.byGo), "%v", c)
	}
}

// What somebody names is changed or refused, and never run, whatever it is called.
func TestArgumentsAreNeverExecuted(t *testing.T) {
	if goruntime.GOOS == "windows" {
		t.Skip("no scripts there")
	}
	t.Setenv(toolexecVariable, "")
	for _, folder := range []string{"tool", "go-build", "pkg/tool/linux_amd64"} {
		for _, name := range []string{"trace", "link", "vet"} {
			dir := filepath.Join(t.TempDir(), folder)
			require.NoError(t, os.MkdirAll(dir, 0o755))
			script, sign := filepath.Join(dir, name), filepath.Join(dir, "was-run")
			require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch '"+sign+"'\n"), 0o755))
			code, stdout, stderr := command(script)
			assert.Equal(t, exitFailed, code, script)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, errNotLinux.Error())
			assert.NoFileExists(t, sign)
		}
	}
}

// TestToolexec builds through the go command: with the command, without it, and with it
// again, and each time the program has to be what was asked for.
func TestToolexec(t *testing.T) {
	needsGo(t)
	dir := t.TempDir()
	self, path := filepath.Join(dir, "purecuda-static"), filepath.Join(dir, "probe")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", self, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	interpreters := func() int {
		f, err := elf.Open(path)
		require.NoError(t, err)
		defer f.Close()
		n := 0
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				n++
			}
		}
		return n
	}
	linkedWith := func(args ...string) {
		out, err := goCommand(append(append([]string{"build", "-buildvcs=false", "-o", path}, args...), probe)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	linkedWith()
	require.Equal(t, 1, interpreters())
	linkedWith("-toolexec=" + self)
	require.Zero(t, interpreters(), "the link step ran again")
	first := sum(t, path)
	linkedWith()
	require.Equal(t, 1, interpreters())
	require.NoError(t, os.Remove(path))
	linkedWith("-toolexec=" + self)
	assert.Equal(t, first, sum(t, path))

	// A program that cannot be changed is no program.
	out, err = goCommand("build", "-buildvcs=false", "-o", path, "-tags=purecuda_nohost", "-toolexec="+self, probe).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "without the tag purecuda_nohost")

	// One that asks for no interpreter, and one for another system, pass.
	out, err = goCommand("build", "-buildvcs=false", "-o", path, "-toolexec="+self, plain).CombinedOutput()
	require.NoError(t, err, string(out))
	windows := goCommand("build", "-buildvcs=false", "-o", path, "-toolexec="+self, plain)
	windows.Env = append(windows.Env, "GOOS=windows")
	out, err = windows.CombinedOutput()
	require.NoError(t, err, string(out))
}
