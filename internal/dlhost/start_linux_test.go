package dlhost_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/dlhost"
)

// wish is what a start is asked for, and by what.
type wish struct {
	name string
	word string // PURECUDA_LOADER
	hint string // a file that says that a GPU may be there
}

var wishes = []wish{
	{name: "nothing asks"},
	{name: "auto", word: "AUTO"},
	{name: "static", word: "static", hint: "/dev/nvidiactl"},
	{name: "host", word: "Host"},
	{name: "control device", hint: "/dev/nvidiactl"},
	{name: "WSL", hint: "/dev/dxg"},
	{name: "Tegra", word: "auto", hint: "/dev/nvmap"},
	{name: "modprobe", hint: "/usr/bin/nvidia-modprobe"},
}

// expect says how a start has to end.
func (w wish) expect(r root) (mode dlhost.Mode, reason string) {
	switch {
	case w.word == "static":
		return dlhost.Static, "PURECUDA_LOADER=static"
	case w.hint == "" && w.word != "Host":
		return dlhost.Static, "no sign of an NVIDIA GPU"
	case r.refused != "":
		return dlhost.Static, r.refused
	}
	return dlhost.Hosted, ""
}

// variants are the builds that are started everywhere.
func variants(source string, long bool) []build {
	all := []build{{source: source}}
	if long {
		all = append(all, build{source: source, strip: true}, build{source: source, mode: "pie"},
			build{source: source, mode: "pie", strip: true})
	}
	return all
}

// smokeReport is what the tests read of the document that smoke prints.
type smokeReport struct {
	Outcome string
	Reason  struct{ Kind, Detail string }
	Job     struct {
		Root     string
		RanOn    string `json:"ran_on"`
		Chunks   int
		Verified int
	}
}

// rootDigest is the root of a job over one file, computed here.
func rootDigest(data []byte) string {
	outer := sha256.New()
	for chunk := range slices.Chunk(data, 4096) {
		inner := sha256.Sum256(chunk)
		outer.Write(inner[:])
	}
	return hex.EncodeToString(outer.Sum(nil))
}

// TestStarts starts smoke and the probe in every root file system, in every way.
func TestStarts(t *testing.T) {
	needsRoot(t)
	n, long := starts(t)
	var smokes, probes []string
	for _, b := range variants(smokeSource, long) {
		smokes = append(smokes, b.make(t))
	}
	for _, b := range variants(probeSource, long) {
		probes = append(probes, b.make(t))
	}
	data := bytes.Repeat([]byte("purecuda "), 5000)
	digest := rootDigest(data)
	foreign := ""
	if _, err := exec.LookPath("cc"); err == nil {
		foreign = library(t, "cc", "-DALONE -nostdlib")
	}
	for _, r := range roots {
		t.Run(r.name, func(t *testing.T) {
			if r.long {
				needsLong(t)
			}
			dir := t.TempDir()
			r.build(t, dir)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "input"), data, 0o644))
			if foreign != "" {
				copyFile(t, foreign, filepath.Join(dir, "libforeign.so"))
			}
			for i := range smokes {
				placeFile(t, smokes[i], filepath.Join(dir, fmt.Sprintf("smoke%d", i)))
				placeFile(t, probes[i], filepath.Join(dir, fmt.Sprintf("probe%d", i)))
			}
			count := 0
			for _, w := range wishes {
				if w.hint != "" {
					hint := filepath.Join(dir, w.hint)
					require.NoError(t, os.MkdirAll(filepath.Dir(hint), 0o755))
					require.NoError(t, os.WriteFile(hint, nil, 0o644))
				}
				mode, reason := w.expect(r)
				for i := range smokes {
					for range (n + 2*len(wishes) - 1) / (2 * len(wishes)) {
						checkSmoke(t, dir, w, mode, reason, digest, i)
						checkProbe(t, dir, w, mode, reason, foreign != "", i)
						count += 2
					}
				}
				if w.hint != "" {
					require.NoError(t, os.Remove(filepath.Join(dir, w.hint)))
				}
			}
			t.Logf("%d starts of each of %d variants", count/len(smokes), len(smokes))
		})
	}
}

// inRoot runs a program with another root folder.
func inRoot(dir string, w wish, args ...string) (stdout string, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{}
	if w.word != "" {
		cmd.Env = []string{dlhost.Variable + "=" + w.word}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%v: %w: %s", args, err, errors.String())
	}
	return out.String(), err
}

func checkSmoke(t *testing.T, dir string, w wish, mode dlhost.Mode, reason, digest string, variant int) {
	t.Helper()
	what := fmt.Sprintf("%s, variant %d", w.name, variant)
	out, err := inRoot(dir, w, fmt.Sprintf("/smoke%d", variant), "--json", "--input", "/input")
	require.NoError(t, err, what)
	var report smokeReport
	require.NoError(t, json.Unmarshal([]byte(out), &report), what)
	assert.Equal(t, "absent", report.Outcome, what)
	assert.Equal(t, "DriverLibraryUnavailable", report.Reason.Kind, what)
	assert.Equal(t, mode == dlhost.Static, strings.Contains(report.Reason.Detail, "without a dynamic loader"), "%s: %s", what, report.Reason.Detail)
	assert.Contains(t, report.Reason.Detail, reason, what)
	assert.Equal(t, digest, report.Job.Root, what)
	assert.Equal(t, "cpu", report.Job.RanOn, what)
	assert.Equal(t, report.Job.Chunks, report.Job.Verified, what)
}

func checkProbe(t *testing.T, dir string, w wish, mode dlhost.Mode, reason string, foreign bool, variant int) {
	t.Helper()
	what := fmt.Sprintf("%s, variant %d", w.name, variant)
	probe := fmt.Sprintf("/probe%d", variant)
	out, err := inRoot(dir, w, probe, "status")
	require.NoError(t, err, what)
	assert.True(t, strings.HasPrefix(out, mode.String()+" "), "%s: %s", what, out)
	assert.Contains(t, out, reason, what)
	if !foreign {
		return
	}
	want := "no loader\n"
	if mode == dlhost.Hosted {
		want = "called\n"
	}
	out, err = inRoot(dir, w, probe, "library", "/libforeign.so")
	require.NoError(t, err, what)
	assert.Equal(t, want, out, what)
}

// A program as Go links it does not start where this package makes it start.
func TestStockProgramNeedsTheLoader(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	copyFile(t, build{source: probeSource, stock: true}.make(t), filepath.Join(dir, "probe"))
	_, err := inRoot(dir, wish{}, "/probe", "status")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// A program as Go links it does not notice that the entry point is in it.
func TestStockProgramIsOrdinary(t *testing.T) {
	probe := build{source: probeSource, stock: true}.make(t)
	for _, word := range []string{"", "static", "host"} {
		cmd := exec.Command(probe, "status")
		cmd.Env = []string{dlhost.Variable + "=" + word}
		out, err := cmd.Output()
		if err != nil {
			t.Skip("this machine cannot start it: ", err)
		}
		assert.Equal(t, "ordinary \n", string(out), word)
	}
}

// Stripping does not undo it.
func TestStripAfterwards(t *testing.T) {
	if _, err := exec.LookPath("strip"); err != nil {
		t.Skip("no strip")
	}
	if _, err := os.Stat(loaderPath); err != nil {
		t.Skip("this machine has no " + loaderPath)
	}
	_, long := starts(t)
	for _, mode := range []string{"", "pie"} {
		if mode != "" && !long {
			continue
		}
		path := filepath.Join(t.TempDir(), "probe")
		copyFile(t, build{source: probeSource, mode: mode}.make(t), path)
		out, err := exec.Command("strip", path).CombinedOutput()
		require.NoError(t, err, string(out))
		for word, want := range map[string]string{"static": "static PURECUDA_LOADER=static\n", "host": "hosted \n"} {
			cmd := exec.Command(path, "status")
			cmd.Env = []string{dlhost.Variable + "=" + word}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Equal(t, want, string(out))
		}
	}
}

// What purecuda does in a process without a loader: it answers that there is none.
func TestCallsWithoutLoader(t *testing.T) {
	calls := []build{{source: callsSource}, {source: callsSource, flags: "-tags=purecuda_portable"}}
	for _, b := range calls {
		cmd := exec.Command(b.make(t))
		cmd.Env = []string{dlhost.Variable + "=static"}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		const why = "this process runs without a dynamic loader: PURECUDA_LOADER=static"
		assert.Equal(t, []string{
			"0 true " + why, "true", "true",
			"true DriverLibraryUnavailable: no CUDA driver library: " + why,
		}, strings.Split(strings.TrimSpace(string(out)), "\n"), b.String())
	}
}

// Somebody may start the loader by hand, or a debugger may.
func TestLoaderByHandIsOrdinary(t *testing.T) {
	if _, err := os.Stat(loaderPath); err != nil {
		t.Skip("this machine has no " + loaderPath)
	}
	for _, mode := range []string{"exe", "pie"} {
		if mode == "pie" {
			if _, long := starts(t); !long {
				continue
			}
		}
		cmd := exec.Command(loaderPath, build{source: probeSource, mode: mode}.make(t), "status")
		cmd.Env = []string{dlhost.Variable + "=static"}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Equal(t, "ordinary \n", string(out))
	}
}

func TestEnvironment(t *testing.T) {
	probe := build{source: probeSource}.make(t)
	_, err := os.Stat(loaderPath)
	glibc := err == nil
	for _, c := range []struct {
		name     string
		env      []string
		contains string
		glibc    bool // needs one
	}{
		{"nothing", nil, "static no sign", false},
		{"static", []string{"PURECUDA_LOADER=static"}, "static PURECUDA_LOADER=static\n", false},
		{"empty", []string{"PURECUDA_LOADER="}, "static no sign", false},
		{"unknown word", []string{"PURECUDA_LOADER=statically"}, "static no sign", false},
		{"another name", []string{"PURECUDA_LOADERX=host", "XPURECUDA_LOADER=host"}, "static no sign", false},
		{"host", []string{"A=B", "", "PURECUDA_LOADER=host"}, "hosted \n", true},
		{"a driver is named", []string{"PURECUDA_DRIVER_PATH=/nowhere/libcuda.so"}, "hosted \n", true},
		{"a compiler is named", []string{"PURECUDA_NVRTC_PATH=/nowhere/libnvrtc.so"}, "hosted \n", true},
		{"a driver is named, but", []string{"PURECUDA_DRIVER_PATH=/nowhere/libcuda.so", "PURECUDA_LOADER=static"}, "static PURECUDA_LOADER=static\n", false},
		{"no driver is named", []string{"PURECUDA_DRIVER_PATH="}, "static no sign", false},
		{"unknown word and a driver", []string{"PURECUDA_DRIVER_PATH=x", "PURECUDA_LOADER=yes"}, "hosted \n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.glibc && !glibc {
				t.Skip("this machine has no " + loaderPath)
			}
			if _, err := os.Stat("/dev/nvidiactl"); err == nil && strings.Contains(c.contains, "no sign") {
				t.Skip("this machine has a GPU")
			}
			cmd := exec.Command(probe, "status")
			cmd.Env = append([]string{}, c.env...)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), c.contains)
		})
	}
}

// A profile of seccomp may answer with an error. The program starts all the same.
func TestSeccompThatForbidsToOpen(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	launcher := filepath.Join(t.TempDir(), "seccomp")
	out, err := exec.Command("cc", "-O2", "-o", launcher, "testdata/seccomp.c").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, c := range []struct{ forbidden, want string }{
		{"openat", "static glibc's loader " + loaderPath + " cannot be opened: operation not permitted\n"},
		{"pread64", "static glibc's loader " + loaderPath + " cannot be opened: operation not permitted\n"},
		{"faccessat", "static no sign of an NVIDIA GPU"},
	} {
		cmd := exec.Command(launcher, c.forbidden, build{source: probeSource}.make(t), "status")
		if cmd.Env = []string{"PURECUDA_LOADER=host"}; c.forbidden == "faccessat" {
			cmd.Env = []string{"PURECUDA_LOADER=auto"}
		}
		out, err := cmd.CombinedOutput()
		if err != nil && strings.Contains(string(out), "seccomp:") {
			t.Skip(string(out))
		}
		require.NoError(t, err, string(out))
		assert.Contains(t, string(out), c.want, c.forbidden)
	}
}

// A program that gains privileges does not let the environment of an ordinary user
// choose.
func TestPrivilegedProgramIgnoresTheEnvironment(t *testing.T) {
	needsRoot(t)
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("this machine has a GPU")
	}
	path := filepath.Join(filepath.Dir(build{source: probeSource}.make(t)), "setuid")
	copyFile(t, build{source: probeSource}.make(t), path)
	require.NoError(t, os.Chmod(path, 0o755|os.ModeSetuid))
	for _, word := range []string{"host", "static"} {
		cmd := exec.Command(path, "status")
		cmd.Dir = "/"
		cmd.Env = []string{dlhost.Variable + "=" + word}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		assert.Contains(t, string(out), "static no sign of an NVIDIA GPU", word)
	}
}

// The loader searches the folders that the user names, so the entry point does not know
// better.
func TestSearchPathIsTrusted(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	glibc(t, dir)
	for _, name := range libraryNames {
		require.NoError(t, os.Rename(filepath.Join(dir, libraryDir, name), filepath.Join(dir, "lib64", name)))
	}
	copyFile(t, build{source: probeSource}.make(t), filepath.Join(dir, "probe"))
	cmd := exec.Command("/probe", "status")
	cmd.Dir = "/"
	cmd.Env = []string{"PURECUDA_LOADER=host", "LD_LIBRARY_PATH=/lib64"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "hosted \n", string(out))
}

// Command line, environment and standard streams arrive as they were.
func TestEverythingArrives(t *testing.T) {
	for _, b := range variants(plainSource, false) {
		b.stock = true // has no purego in it, and serves to compare
		want, err := exec.Command(b.make(t), "a", "", "b c").Output()
		require.NoError(t, err)
		assert.Equal(t, "[a  b c]\n", string(want))
	}
	probe := build{source: probeSource}.make(t)
	out, err := exec.Command(probe, "a\x01", "").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), `unknown command "a\x01"`)
}

// What the kernel and the usual tools see of the file.
func TestFileAsksForNoInterpreter(t *testing.T) {
	_, long := starts(t)
	for _, b := range variants(smokeSource, long) {
		t.Run(b.String(), func(t *testing.T) {
			path := b.make(t)
			f, err := elf.Open(path)
			require.NoError(t, err)
			defer f.Close()
			for _, p := range f.Progs {
				assert.NotEqual(t, elf.PT_INTERP, p.Type)
			}
			for _, tool := range [][]string{{"readelf", "-lW", path}, {"file", path}} {
				out, err := exec.Command(tool[0], tool[1:]...).CombinedOutput()
				if err != nil {
					t.Logf("%s is not there", tool[0])
					continue
				}
				assert.NotContains(t, strings.ReplaceAll(string(out), path, ""), "interpreter")
				assert.NotContains(t, string(out), "INTERP")
			}
		})
	}
}
