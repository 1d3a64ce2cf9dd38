package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cmd/smoke/internal/doctor"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/driver/library"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/driver/nvml/nvmltest"
	"github.com/purecuda/purecuda/internal/artifact"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
)

var update = flag.Bool("update", false, "write the golden files of smoke doctor anew")

// patient is a machine that is examined: what the probes of its driver and NVRTC run on, and
// a folder for its files.
type patient struct {
	t      *testing.T
	root   string // of its file system
	config doctor.Config
}

// newPatient is a machine without any file of a driver and with a simulated NVRTC 12.4. Its
// driver is looked for by child processes.
func newPatient(t *testing.T) *patient {
	t.Helper()
	if goruntime.GOOS != "linux" {
		t.Skip("the report is that of Linux")
	}
	for _, name := range []string{
		policyVariable, driver.PathVariable, nvrtc.PathVariable, nvml.PathVariable, "PURECUDA_LOADER", "CUDA_VISIBLE_DEVICES",
		"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "CUDA_DEVICE_MAX_CONNECTIONS", "LD_LIBRARY_PATH", "KUBERNETES_SERVICE_HOST",
		"CUDA_PATH", "CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX",
	} {
		t.Setenv(name, "") // so that it is as before afterwards
		require.NoError(t, os.Unsetenv(name))
	}
	t.Setenv(asProgram, "1")
	t.Setenv("GORACE", noSleep)
	p := &patient{t: t, root: t.TempDir()}
	t.Setenv(artifact.DirVariable, p.path("cache"))
	p.write("proc/sys/kernel/osrelease", "6.1.0-test\n")
	var err error
	p.config, err = (&app{}).machine(probeLimit)
	require.NoError(t, err)
	p.config.Root, p.config.Health, p.config.Libraries = p.root, nil, nil
	p.compiler(nvrtctest.Config{Version: 12040})
	return p
}

func (p *patient) path(name string) string { return filepath.Join(p.root, name) }

func (p *patient) write(name, content string) string {
	p.t.Helper()
	require.NoError(p.t, os.MkdirAll(filepath.Dir(p.path(name)), 0o755))
	require.NoError(p.t, os.WriteFile(p.path(name), []byte(content), 0o755))
	require.NoError(p.t, os.Chmod(p.path(name), 0o755)) // whatever the mask
	return p.path(name)
}

// library builds a driver library with the given body of cuInit.
func (p *patient) library(name, init string) string {
	p.t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		p.t.Skip("no C compiler to build testdata/doctor/libcuda.c with")
	}
	path := p.write(name, "")
	out, err := exec.Command(cc, "-shared", "-fPIC", "-DINIT="+init, "-o", path, "testdata/doctor/libcuda.c").CombinedOutput()
	if err != nil {
		p.t.Skipf("the C compiler cannot build for this processor: %s", out)
	}
	return path
}

// foreign is the beginning of a library for another processor, as much as a loader reads of it.
func foreign() string {
	const amd64, arm64 = 62, 183
	header := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...)
	binary.LittleEndian.PutUint16(header[16:], 3) // a shared object
	binary.LittleEndian.PutUint16(header[18:], map[string]uint16{"amd64": arm64, "arm64": amd64}[goruntime.GOARCH])
	binary.LittleEndian.PutUint32(header[20:], 1)
	return string(header)
}

func (p *patient) compiler(config nvrtctest.Config) {
	sim := nvrtctest.ForTest(p.t, config)
	ptx := map[driver.Version]string{12040: "8.4", 13000: "9.0"}[config.Version]
	sim.Add(doctor.TrialKernel, ".version "+ptx+"\n.target sm_75\n.address_size 64\n")
	p.config.NVRTC = doctor.Libraries{NVRTC: sim}.InProcess
}

func (p *patient) simulated(config drivertest.Config) {
	gpu := drivertest.New(config)
	p.t.Cleanup(func() { _ = gpu.Close() })
	p.config.Driver = doctor.Libraries{Driver: gpu}.InProcess
}

// gpuFiles are the files of a host with two GPUs.
func (p *patient) gpuFiles() {
	for _, name := range []string{"nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm", "nvidia-caps/nvidia-cap1"} {
		p.write("dev/"+name, "")
	}
	p.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:15:14 UTC 2025\nGCC version: 12\n")
	for _, address := range []string{"0000:01:00.0", "0000:02:00.0"} {
		p.write("sys/bus/pci/devices/"+address+"/vendor", "0x10de\n")
		p.write("sys/bus/pci/devices/"+address+"/class", "0x030200\n")
	}
}

// examine runs smoke doctor.
func (p *patient) examine(args ...string) (c call) {
	p.t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &output{Writer: &stdout}, stderr: &stderr, openGPU: absent, doctor: p.config}
	c.code = a.run(context.Background(), append([]string{"smoke", "doctor"}, args...))
	c.stdout, c.stderr = stdout.String(), stderr.String()
	assert.Empty(p.t, c.stderr)
	return c
}

// varying is what differs from machine to machine.
var varying = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`uid \d+, gid \d+`), "uid $$UID, gid $$GID"},
	{regexp.MustCompile(`uid \d+ may`), "uid $$UID may"},
	{regexp.MustCompile(`linux/(amd64|arm64)`), "$$PLATFORM"},
}

// fixed parses a document and puts placeholders in place of what differs from machine to
// machine, before any column is aligned.
func (p *patient) fixed(document string) *doctor.Report {
	p.t.Helper()
	document = strings.ReplaceAll(document, p.root, "$TMP")
	for _, v := range varying {
		document = v.pattern.ReplaceAllString(document, v.text)
	}
	var r doctor.Report
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.DisallowUnknownFields()
	require.NoError(p.t, decoder.Decode(&r))
	r.Build = doctor.Build{Version: "$VERSION", Go: "$GO", OS: "$OS", Arch: "$ARCH"}
	r.Machine.Memory.Locked = nil
	r.Process.UID, r.Process.GID, r.Process.Groups = 1000, 1000, []int{1000}
	return &r
}

// golden compares a report with testdata/doctor/NAME.golden.
func (p *patient) golden(name string, r *doctor.Report) {
	p.t.Helper()
	var text bytes.Buffer
	require.NoError(p.t, r.WriteText(&text))
	file := filepath.Join("testdata", "doctor", name+".golden")
	if *update {
		require.NoError(p.t, os.WriteFile(file, text.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(p.t, err, "go test -run TestDoctor -update writes it")
	assert.Equal(p.t, string(want), text.String())
}

func (p *patient) noDriverHere() {
	if lib, err := driver.Open(); err == nil {
		p.t.Skipf("this machine has a driver: %s", lib.Path())
	}
	p.onlyAMD64()
}

func (p *patient) onlyAMD64() {
	if goruntime.GOARCH != "amd64" {
		p.t.Skip("the golden file has the candidates and the name of amd64")
	}
}

func TestDoctor(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(p *patient)
	}{
		{"no driver", func(p *patient) { p.noDriverHere() }},
		{"no driver in a container of a GPU host", func(p *patient) {
			p.noDriverHere()
			p.gpuFiles()
			p.write(".dockerenv", "")
			p.write("proc/1/cgroup", "12:devices:/kubepods/burstable/pod1\n")
		}},
		{"driver path that is not there", func(p *patient) { p.t.Setenv(driver.PathVariable, p.path("none/libcuda.so.1")) }},
		{"no library", func(p *patient) { p.t.Setenv(driver.PathVariable, p.write("lib/libcuda.so.1", "this is no library\n")) }},
		{"stub", func(p *patient) { p.t.Setenv(driver.PathVariable, p.library("lib/libcuda.so.1", "return 34")) }},
		{"no device", func(p *patient) {
			p.t.Setenv(driver.PathVariable, p.library("lib/libcuda.so.1", "return 100"))
			p.t.Setenv("CUDA_VISIBLE_DEVICES", "7")
		}},
		{"releases that differ", func(p *patient) {
			p.gpuFiles()
			real := p.library("lib/libcuda.so.570.10.01", "return 803")
			require.NoError(p.t, os.Symlink(real, p.path("lib/libcuda.so.1")))
			p.t.Setenv(driver.PathVariable, p.path("lib/libcuda.so.1"))
		}},
		{"crash", func(p *patient) {
			p.t.Setenv(driver.PathVariable, p.library("lib/libcuda.so.1", "return *(volatile int *)0"))
			p.t.Setenv(policyVariable, "required")
		}},
		{"hang", func(p *patient) {
			p.t.Setenv(driver.PathVariable, p.library("lib/libcuda.so.1", "for (;;) pause()"))
			var err error
			p.config, err = (&app{}).machine(2 * time.Second)
			require.NoError(p.t, err)
			p.config.Root, p.config.Health, p.config.Libraries = p.root, nil, nil
			p.compiler(nvrtctest.Config{Version: 12040})
		}},
		{"sticky error", func(p *patient) { p.t.Setenv(driver.PathVariable, p.library("lib/libcuda.so.1", "return 700")) }},
		{"old driver", func(p *patient) {
			p.simulated(drivertest.Config{Version: 11000})
			p.compiler(nvrtctest.Config{Version: 13000})
		}},
		{"two GPUs", func(p *patient) {
			p.gpuFiles()
			p.simulated(drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
		}},
		{"two GPUs of which one fails", func(p *patient) {
			p.gpuFiles()
			devices := drivertest.Devices(2, drivertest.H100())
			devices[1].Major, devices[1].Minor = 7, 0 // the PTX of the kernel is for 7.5
			p.simulated(drivertest.Config{Devices: devices})
		}},
		{"wrong architecture by path", func(p *patient) {
			p.onlyAMD64()
			p.t.Setenv(driver.PathVariable, p.write("lib/libcuda.so.1", foreign()))
		}},
		{"device files", func(p *patient) {
			p.gpuFiles()
			require.NoError(p.t, os.Remove(p.path("dev/nvidia-uvm")))
			require.NoError(p.t, os.Remove(p.path("dev/nvidia1")))
			require.NoError(p.t, os.Mkdir(p.path("dev/nvidia1"), 0o755)) // root cannot open it either
			require.NoError(p.t, os.Chmod(p.path("dev/nvidia1"), 0o755))
			p.t.Setenv(driver.PathVariable, p.library("lib/libcuda.so.1", "return 999"))
		}},
		{"wrong architecture in LD_LIBRARY_PATH", func(p *patient) {
			p.noDriverHere()
			p.t.Setenv("LD_LIBRARY_PATH", filepath.Dir(p.write("lib/libcuda.so.1", foreign())))
		}},
		{"policy and cache", func(p *patient) {
			p.simulated(drivertest.Config{})
			p.t.Setenv(policyVariable, "sometimes")
			p.t.Setenv(artifact.DirVariable, p.write("file", ""))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPatient(t)
			c.prepare(p)
			got := p.examine("--json")
			require.Zero(t, got.code)
			p.golden(strings.ReplaceAll(c.name, " ", "_"), p.fixed(got.stdout))
		})
	}
}

// A driver, in a folder that this user may not enter, is told from one that is not there.
// Root may enter everything, so that for root the program runs as nobody.
func TestDoctorWithoutPermission(t *testing.T) {
	p := newPatient(t)
	closed := p.write("closed/libcuda.so.1", "x")
	require.NoError(t, os.Chmod(filepath.Dir(closed), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Dir(closed), 0o700) })
	t.Setenv(driver.PathVariable, closed)
	t.Setenv(nvrtc.PathVariable, "/nonexistent/libnvrtc.so.12")
	t.Setenv(nvml.PathVariable, "/nonexistent/libnvidia-ml.so.1")
	t.Setenv(artifact.DirVariable, "off")
	cmd := asNobody(t, "doctor", "--json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), stderr.String())
	r := p.fixed(stdout.String())
	r.Machine, r.Files, r.Libraries = doctor.Machine{}, nil, nil // of the machine that the test runs on
	r.Driver.KernelRelease = ""
	r.Problems = slices.DeleteFunc(r.Problems, func(p doctor.Problem) bool { return p.About == "device files" })
	p.golden("no_permission", r)
}

// How a library ends a process differs, and the report tells it.
func TestDoctorTellsHowADriverEnds(t *testing.T) {
	for _, c := range []struct{ name, init, ended string }{
		{"abort", "abort()", "was ended by SIGABRT (abort), at cuInit"},
		{"exit", "_exit(3)", "was ended by exit status 3, at cuInit"},
		{"killed", "raise(SIGKILL); return 0", "was ended by signal: killed, at cuInit"},
		{"bus error", "raise(SIGBUS); return 0", "was ended by SIGBUS (bus error), at cuInit"},
		{"words and a crash", `puts("smoke-probe: {"); printf("no line end"); fflush(stdout); abort()`, "was ended by SIGABRT (abort), at cuInit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPatient(t)
			t.Setenv(driver.PathVariable, p.library("libcuda.so.1", c.init))
			got := p.examine("--json")
			require.Zero(t, got.code)
			r := p.fixed(got.stdout)
			assert.Equal(t, doctor.Fault, r.Driver.Outcome)
			assert.Equal(t, c.ended, r.Driver.Ended)
			assert.Len(t, r.Problems, 1)
		})
	}
}

// What a library prints does not disturb the report.
func TestDoctorAndALibraryThatPrints(t *testing.T) {
	p := newPatient(t)
	t.Setenv(driver.PathVariable, p.library("libcuda.so.1", `printf("no line end"); fflush(stdout); return 34`))
	r := p.fixed(p.examine("--json").stdout)
	assert.Equal(t, doctor.Absent, r.Driver.Outcome)
	assert.Equal(t, int(driver.ResultStubLibrary), r.Driver.Failure.Code)
	assert.Empty(t, r.Driver.Ended)
}

// A device that crashes, hangs or computes wrong takes no other device with it.
func TestDoctorTellsWhichDeviceFails(t *testing.T) {
	p := newPatient(t)
	p.gpuFiles()
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(4, drivertest.H100())})
	t.Cleanup(func() { _ = gpu.Close() })
	healthy := doctor.Libraries{Driver: gpu}.InProcess
	p.config.Driver = func(ctx context.Context, r doctor.Request) (doctor.Finding, string) {
		switch {
		case r.Probe == doctor.ProbeDevice && r.Device == 1:
			return doctor.Finding{Doing: "opening a context"}, "was ended by SIGSEGV (segmentation violation), at opening a context"
		case r.Probe == doctor.ProbeDevice && r.Device == 2:
			return doctor.Finding{Trial: &doctor.Trial{Failure: &doctor.Failure{Kind: "DriverCallFailed", Detail: "busy", Code: int(driver.ResultDeviceUnavailable)}}}, ""
		case r.Probe == doctor.ProbeDevice && r.Device == 3:
			return doctor.Finding{}, ""
		}
		return healthy(ctx, r)
	}
	r := p.fixed(p.examine("--json").stdout)
	require.Len(t, r.Devices, 4)
	assert.True(t, r.Devices[0].Usable)
	for i, reason := range []string{"was ended by SIGSEGV", "DriverCallFailed: busy", "told nothing"} {
		assert.False(t, r.Devices[i+1].Usable)
		assert.Contains(t, r.Devices[i+1].Reason, reason)
	}
	require.Len(t, r.Problems, 3)
	assert.Contains(t, r.Problems[1].Do, "compute mode")
}

func TestDoctorForms(t *testing.T) {
	p := newPatient(t)
	t.Setenv(nvrtc.PathVariable, p.path("none/libnvrtc.so.12"))
	p.config.NVRTC = p.config.Files // the real one
	human := p.examine("--simulate", "2")
	require.Zero(t, human.code)
	for _, section := range []string{"process", "environment", "machine", "device files", "driver", "nvrtc", "devices", "cache", "problems"} {
		assert.Regexp(t, "(?m)^"+section+"$", human.stdout)
	}
	assert.Contains(t, human.stdout, "  1  simulated H100  9.0  0000:02:00.0  80.0 GiB, 80.0 free  usable\n")
	assert.NotContains(t, human.stdout, "\x1b")
	quiet := p.examine("--simulate", "2", "--quiet")
	assert.Equal(t, "problems\n  1. nvrtc: PURECUDA_NVRTC_PATH names "+p.path("none/libnvrtc.so.12")+
		", which is not there -> correct it, or unset it to look in the usual places\n", quiet.stdout)
	doc := p.examine("--simulate", "2", "--json").document(t)
	assert.ElementsMatch(t, []string{"schema_version", "build", "process", "policy", "environment", "machine", "device_files",
		"driver", "nvrtc", "devices", "compiling", "cache", "problems"}, keys(doc))
	assert.Len(t, doc["devices"], 2)
}

// healthy is a device that NVML reads, and ill one that it finds much wrong with.
func TestDoctorHealth(t *testing.T) {
	p := newPatient(t)
	healthy := nvml.Status{UUID: "GPU-1", Name: "H200", Memory: &nvml.Memory{Total: 141 << 30, Used: 1 << 30, Free: 140 << 30},
		Processes: &[]nvml.Process{{PID: 1}}, Utilization: &nvml.Utilization{GPU: 5}, Temperature: &nvml.Temperature{Now: 33},
		Power: &nvml.Power{Now: 99_500, Limit: 700_000}, Clocks: &nvml.Clocks{SM: 345, MaxSM: 1980, Reasons: nvml.ReasonIdle},
		ECC: &nvml.ECC{On: true}, PCIe: &nvml.Link{Now: nvml.PCIe{Generation: 5, Width: 16}}, NVLinks: []nvml.NVLink{{Number: 1}, {Number: 2}}}
	ill := nvml.Status{UUID: "GPU-2", Name: "A100", Rows: &nvml.RemappedRows{Pending: true},
		Clocks: &nvml.Clocks{SM: 210, MaxSM: 1410, Reasons: nvml.ReasonHWThermalSlowdown | nvml.ReasonSWPowerCap}}
	part := nvml.Status{UUID: "MIG-3", Name: "A100 MIG 1g.5gb", Parent: "GPU-2"}
	machine := nvmltest.New(healthy, ill, part, nvml.Status{UUID: "GPU-4"})
	machine.Update("GPU-2", func(s *nvml.Status) { s.MIG = &nvml.MIG{On: true} })
	machine.Vanish("GPU-4")
	p.simulated(drivertest.Config{})
	p.config.Health = doctor.Libraries{NVML: machine}.InProcess
	got := p.examine()
	require.Zero(t, got.code)
	for _, line := range []string{
		"\nhealth\n  state    available\n  library  simulated\n  driver   580.159.03\n",
		"  GPU-1    H200, 1.0 of 141.0 GiB used, processes: 1, busy 5%, 33 C, 99 of 700 W, 345 of 1980 MHz (idle), ECC on, PCIe generation 5, 16 lanes, NVLinks: 2\n",
		"  GPU-2    A100, 210 of 1410 MHz (the power limit, hardware slows it down because of heat)\n",
		"  MIG-3    A100 MIG 1g.5gb, instance of GPU-2\n",
		"           DriverCallFailed: nvmlDeviceGetHandleByIndex_v2: NVML_ERROR_GPU_IS_LOST (15): the device has fallen off the bus\n",
		"health: GPU-2: a bad row of memory is replaced at the next reset of the device: reset it -> nvidia-smi --gpu-reset",
		"health: GPU-2 runs at 210 of 1410 MHz: hardware slows it down because of heat -> look at the fans",
		"health: NVML cannot read a device: DriverCallFailed: nvmlDeviceGetHandleByIndex_v2: NVML_ERROR_GPU_IS_LOST (15)",
	} {
		assert.Contains(t, got.stdout, line)
	}
	assert.NotContains(t, p.examine("--quiet").stdout, "GPU-1")
	doc := p.examine("--json").document(t)
	assert.Len(t, doc["health"].(map[string]any)["devices"], 4)

	machine.Fail("ReadAll", nvml.ResultUnknown)
	assert.Contains(t, p.examine("--quiet").stdout, "health: nvmlDeviceGetCount_v2: NVML_ERROR_UNKNOWN (999)")
}

// Without NVML nothing is wrong, and a probe of it that crashes is a line.
func TestDoctorWithoutNVML(t *testing.T) {
	p := newPatient(t)
	p.simulated(drivertest.Config{})
	p.config.Health = p.config.Files // in a child process
	t.Setenv(nvml.PathVariable, p.path("none/libnvidia-ml.so.1"))
	got := p.examine()
	assert.Contains(t, got.stdout, "\nhealth\n  state       absent: LibraryUnavailable: no NVML to read the health of devices with\n")
	assert.Contains(t, got.stdout, "health: PURECUDA_NVML_PATH names "+p.path("none/libnvidia-ml.so.1")+", which is not there -> correct it")
	require.NoError(t, os.Unsetenv(nvml.PathVariable))
	if _, err := nvml.Open(); errors.Is(err, driver.ErrLibraryUnavailable) {
		assert.NotContains(t, p.examine("--quiet").stdout, "health: ")
	}
	p.config.Health = func(context.Context, doctor.Request) (doctor.Finding, string) {
		return doctor.Finding{}, "was ended by SIGSEGV"
	}
	assert.Contains(t, p.examine("--quiet").stdout, "health: the probe of NVML was ended by SIGSEGV -> look for NVRM")
}

func TestDoctorUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"doctor", "me"}, `unexpected argument "me" after smoke doctor`},
		{[]string{"doctor", "--chunk", "1"}, "--chunk has no meaning for smoke doctor"},
		{[]string{"doctor", "--simulate", "0"}, `--simulate: "0" is not a whole number from 1 to 64`},
		{[]string{"doctor", "--jsn"}, "unknown flag --jsn"},
	} {
		got := runWith(t, absent, c.args...)
		assert.Equal(t, exitUsage, got.code, c.args)
		assert.Contains(t, got.stderr, c.text)
		assert.Empty(t, got.stdout)
	}
	for _, args := range [][]string{{"doctor", "probe"}, {"doctor", "probe", "nothing"}} {
		assert.Equal(t, exitFailed, runWith(t, absent, args...).code)
	}
	assert.NotContains(t, runWith(t, absent, "doctor", "--help").stdout, "probe ")
}

func TestDoctorThatCannotWrite(t *testing.T) {
	p := newPatient(t)
	p.simulated(drivertest.Config{})
	for _, form := range [][]string{{}, {"--json"}, {"--quiet"}} {
		var stderr bytes.Buffer
		a := &app{stdout: &output{Writer: brokenPipe{}}, stderr: &stderr, openGPU: absent, doctor: p.config}
		assert.Equal(t, exitFailed, a.run(t.Context(), append([]string{"smoke", "doctor"}, form...)))
		assert.Contains(t, stderr.String(), "OutputFailed: writing the report: broken pipe")
	}
}

// An interrupt ends a report that waits for a driver.
func TestDoctorInterrupted(t *testing.T) {
	p := newPatient(t)
	t.Setenv(driver.PathVariable, p.library("libcuda.so.1", "for (;;) pause()"))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &output{Writer: &stdout}, stderr: &stderr, openGPU: absent, doctor: p.config}
	began := time.Now()
	assert.Equal(t, exitFailed, a.run(ctx, []string{"smoke", "doctor"}))
	assert.Less(t, time.Since(began), probeLimit, "it does not wait for the driver")
	assert.Empty(t, stdout.String())
	assert.Equal(t, "smoke: Canceled: stopped before the report was complete: context canceled\n", stderr.String())
}

// TestDoctorOnHardware examines a host with a GPU, and asks the driver whether it is true.
func TestDoctorOnHardware(t *testing.T) {
	lib := hardware.Open(t)
	count, r := lib.DeviceGetCount()
	require.Equal(t, driver.Success, r)
	t.Setenv(asProgram, "1")
	t.Setenv(artifact.DirVariable, t.TempDir())
	config, err := (&app{}).machine(probeLimit)
	require.NoError(t, err)
	var text bytes.Buffer
	found, err := doctor.Examine(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, found.WriteText(&text))
	t.Logf("\n%s", text.String())
	assert.Equal(t, doctor.Available, found.Driver.Outcome)
	assert.Equal(t, int(lib.Version()), found.Driver.Version)
	assert.Equal(t, lib.Path(), found.Driver.Taken)
	assert.NotEmpty(t, found.Driver.File)
	require.Len(t, found.Devices, int(count))
	for _, d := range found.Devices {
		assert.True(t, d.Usable, d.Reason)
		assert.NotEmpty(t, d.Name)
		assert.Positive(t, d.FreeBytes)
	}
}

// Each library is found, or not, with its version and whether the driver is new enough for it.
func TestDoctorLibraries(t *testing.T) {
	p := newPatient(t)
	p.simulated(drivertest.Config{Version: 12040})
	p.config.Libraries = p.config.Files // in child processes
	build := func(name, source string) string {
		cc, err := exec.LookPath("cc")
		if err != nil {
			t.Skip("no C compiler to build libraries with")
		}
		file := p.path(name)
		out, err := exec.Command(cc, "-shared", "-fPIC", "-o", file, p.write(name+".c", source)).CombinedOutput()
		if err != nil {
			t.Skipf("the C compiler cannot build for this processor: %s", out)
		}
		return file
	}
	property := func(name, version string) string {
		return "int " + name + "(int type, int *value) { static int v[] = {" + version + "}; *value = v[type]; return 0; }"
	}
	t.Setenv("PURECUDA_CUBLAS_PATH", build("libcublas.so.13", property("cublasGetProperty", "13, 1, 2")))
	t.Setenv("PURECUDA_CUBLASLT_PATH", build("libcublasLt.so.12", property("cublasLtGetProperty", "12, 4, 5")))
	t.Setenv("PURECUDA_CUFFT_PATH", p.write("libcufft.so.11", foreign()))
	t.Setenv("PURECUDA_CURAND_PATH", p.path("none/libcurand.so.10"))
	t.Setenv("PURECUDA_CUSOLVER_PATH", build("libcusolver.so.11", "__attribute__((constructor)) static void crash(void) { *(volatile int *)0 = 0; }"))
	t.Setenv("PURECUDA_NCCL_PATH", build("libnccl.so.2", "int ncclGetVersion(int *v) { *v = 22304; return 0; }"))
	var link strings.Builder
	for _, f := range library.NVJITLINK.Functions[1:] {
		link.WriteString("int " + f + "(void) { return 1; }\n")
	}
	t.Setenv("PURECUDA_NVJITLINK_PATH", build("libnvJitLink.so.13", link.String()+"int nvJitLinkVersion(unsigned *major, unsigned *minor) { *major = 13; *minor = 0; return 0; }"))
	got := p.examine()
	require.Zero(t, got.code)
	for _, line := range []string{
		"  cuBLAS     13.1.2 +" + regexp.QuoteMeta(p.path("libcublas.so.13")) + " +needs a driver of CUDA 13, found 12.4\n",
		"  cuBLASLt   12.4.5 +" + regexp.QuoteMeta(p.path("libcublasLt.so.12")) + " +works with driver 12.4\n",
		"  cuFFT      fault: DriverLibraryLoadFailed: cuFFT is there and cannot be used: ",
		"  cuRAND     not found\n",
		"  cuSOLVER   fault: the probe was ended by SIGSEGV \\(segmentation violation\\), at loading it\n",
		"  NCCL       2.23.4 +" + regexp.QuoteMeta(p.path("libnccl.so.2")) + "\n",
		"  nvJitLink  13.0.0 +" + regexp.QuoteMeta(p.path("libnvJitLink.so.13")) + " +needs a driver of CUDA 13, found 12.4\n",
		"libraries: cuBLAS 13.1.2 needs a driver of CUDA 13, found 12.4 -> update the driver, or install cuBLAS of CUDA 12\n",
		"libraries: cuFFT is there and cannot be used: .* -> reinstall it, or point PURECUDA_CUFFT_PATH at another one\n",
		"libraries: PURECUDA_CURAND_PATH names .*, which is not there -> correct it",
		"libraries: the probe of cuSOLVER was ended by SIGSEGV",
	} {
		assert.Regexp(t, line, got.stdout)
	}
	all := p.examine("--json").document(t)["libraries"].([]any)
	require.Len(t, all, len(library.Further))
	assert.Equal(t, map[string]any{"name": "cuBLASLt", "outcome": "available", "taken": p.path("libcublasLt.so.12"), "file": p.path("libcublasLt.so.12"),
		"version": "12.4.5", "needs_cuda": 12.0}, all[1])

	f, _ := doctor.Libraries{}.InProcess(t.Context(), doctor.Request{Probe: doctor.ProbeLibrary, Library: "cuNothing"})
	require.NotNil(t, f.Error)
	assert.Equal(t, `there is no library "cuNothing"`, f.Error.Detail)
}
