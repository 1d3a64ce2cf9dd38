package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/nvrtc"
)

// healthy is a report of a host with a GPU on which all is well.
func healthy() *Report {
	return &Report{
		Build:   Build{OS: "linux", Arch: "amd64"},
		Process: Process{Start: "ordinary", Loader: true, UID: 1000},
		Policy:  Policy{Policy: "auto", From: "default"},
		Files:   []File{{Path: "/dev/nvidiactl", Exists: true, Opens: true}, {Path: "/dev/nvidia-uvm", Exists: true, Opens: true}},
		Driver:  Driver{Outcome: Available, Taken: "libcuda.so.1", CUDA: "13.0", Version: 13000},
		NVRTC:   NVRTC{Outcome: Available, Taken: "libnvrtc.so.13", CUDA: "13.0", Version: 13000},
		Devices: []Device{{Name: "GPU", Usable: true}},
		Cache:   Cache{State: "on"},
	}
}

func (r *Report) with(name, value string) {
	r.Environment = append(r.Environment, Variable{Name: name, Set: true, Value: value})
}

// without is the report of a machine without a driver library.
func (r *Report) without() {
	r.Devices = nil
	r.Driver = Driver{Outcome: Absent, Failure: &Failure{Kind: "DriverLibraryUnavailable"}, Candidates: []Candidate{{Name: "libcuda.so.1", Reason: "not found"}}}
}

func (r *Report) failing(outcome Outcome, code driver.Result) {
	r.Devices = nil
	r.Driver = Driver{Outcome: outcome, Taken: "libcuda.so.1", Failure: &Failure{Kind: "DriverCallFailed", Detail: code.String(), Code: int(code)}}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name        string
		spoil       func(r *Report)
		problem, do string // of the only problem; "" for none
	}{
		{"nothing", func(*Report) {}, "", ""},
		{"no NVRTC where there is no driver", func(r *Report) {
			r.without()
			r.NVRTC = NVRTC{Outcome: Absent, Failure: &Failure{}}
		}, "no CUDA driver on this machine", "else there is nothing to do"},
		{"policy off", func(r *Report) { r.Policy.Policy = "off" }, "PURECUDA_POLICY is off", "unset PURECUDA_POLICY"},
		{"static", func(r *Report) {
			r.without()
			r.Process.Loader, r.Process.Reason = false, "no glibc"
		}, "cannot load libraries: no glibc", "docs/deploy.md"},
		{"loader variable", func(r *Report) {
			r.Process.Reason = `PURECUDA_LOADER is "bogus": want auto, host or static`
		}, "want auto, host or static", "unset it"},
		{"platform", func(r *Report) {
			r.without()
			r.Driver.Candidates, r.Build.OS = nil, "darwin"
		}, "NVIDIA has no driver for darwin/amd64", "on the CPU"},
		{"GPU without a driver", func(r *Report) {
			r.without()
			r.Machine.PCI = []string{"0000:01:00.0"}
		}, "there is an NVIDIA GPU (0000:01:00.0), and no driver library", "install NVIDIA's driver"},
		{"WSL", func(r *Report) {
			r.without()
			r.Machine.WSL = true
		}, "no CUDA driver in this WSL", "in Windows"},
		{"container", func(r *Report) {
			r.without()
			r.Machine.Container = []string{"/.dockerenv"}
		}, "no CUDA driver in this container", "--gpus all"},
		{"container without compute", func(r *Report) {
			r.without()
			r.Machine.Container = []string{"/.dockerenv"}
			r.with("NVIDIA_DRIVER_CAPABILITIES", "utility")
		}, "NVIDIA_DRIVER_CAPABILITIES=utility leaves the driver library out", "compute,utility"},
		{"container without GPUs", func(r *Report) {
			r.without()
			r.Machine.Container = []string{"/.dockerenv"}
			r.with("NVIDIA_VISIBLE_DEVICES", "void")
		}, "NVIDIA_VISIBLE_DEVICES=void keeps the GPUs out", "NVIDIA_VISIBLE_DEVICES=all"},
		{"dependency", func(r *Report) {
			r.without()
			r.Driver.Outcome, r.Driver.Failure.Detail = Fault, "libcuda.so.1: libnvidia-x.so: cannot open shared object file: No such file or directory"
		}, "a library that the driver needs is missing", "as a whole"},
		{"not a driver", func(r *Report) {
			r.without()
			r.Driver.Outcome, r.Driver.Failure.Detail = Fault, "x.so lacks cuInit (2.0): not a CUDA driver, or one older than 11.0"
		}, "x.so lacks cuInit", "CUDA 11.0 or newer"},
		{"fabric manager", func(r *Report) { r.failing(Absent, driver.ResultSystemNotReady) }, "(802)", "nvidia-fabricmanager"},
		{"compat", func(r *Report) { r.failing(Absent, driver.ResultCompatNotSupportedOnDevice) }, "(804)", "cuda-compat"},
		{"unknown", func(r *Report) { r.failing(Fault, driver.ResultUnknown) }, "(999)", "nvidia-uvm"},
		{"another result", func(r *Report) { r.failing(Fault, driver.ResultInvalidValue) }, "(1)", "PURECUDA_POLICY=off"},
		{"the probe told nothing", func(r *Report) { r.Driver = Driver{Outcome: Fault, Ended: "could not be started: no such file"} }, "the driver library could not be started", "reinstall"},
		{"NVRTC absent", func(r *Report) { r.NVRTC = NVRTC{Outcome: Absent, Failure: &Failure{}} }, "no NVRTC", "pip install"},
		{"NVRTC's builtins", func(r *Report) {
			r.NVRTC = NVRTC{Outcome: Fault, Taken: "x", Failure: &Failure{Detail: "failed to open libnvrtc-builtins.so.12.4"}}
		}, "libnvrtc-builtins.so.12.4", "of the same version"},
		{"NVRTC crashes", func(r *Report) { r.NVRTC = NVRTC{Outcome: Fault, Taken: "x.so", Ended: "was ended by SIGSEGV"} }, "the probe of x.so was ended by SIGSEGV", "PURECUDA_NVRTC_PATH"},
		{"NVRTC of another architecture", func(r *Report) {
			r.NVRTC = NVRTC{Outcome: Absent, Failure: &Failure{}, Candidates: []Candidate{{Name: "/x.so", Files: []LibraryFile{{"/x.so", "is for arm64"}}}}}
			r.with("PURECUDA_NVRTC_PATH", "/x.so")
		}, "/x.so is for arm64", "point PURECUDA_NVRTC_PATH at NVRTC for linux/amd64"},
		{"a file that does not open", func(r *Report) {
			r.Files[0] = File{Path: "/dev/nvidiactl", Exists: true, Owner: "uid 0, gid 44, mode crw-rw----", Reason: "permission denied"}
		}, "uid 1000 may not open /dev/nvidiactl (uid 0, gid 44, mode crw-rw----): permission denied", "group"},
		{"MIG's files without MIG", func(r *Report) {
			r.Files = append(r.Files, File{Path: "/dev/nvidia-caps/nvidia-cap1", Exists: true, Reason: "permission denied"})
		}, "", ""},
		{"MIG's files", func(r *Report) {
			r.Files = append(r.Files, File{Path: "/dev/nvidia-caps/nvidia-cap1", Exists: true, Reason: "permission denied"})
			r.Devices[0].MIG = true
		}, "nvidia-cap1", "group"},
		{"device", func(r *Report) {
			r.Devices[0] = Device{Name: "GPU", Reason: "DriverCallFailed: busy", Code: int(driver.ResultOutOfMemory)}
		}, "device 0 (GPU) cannot be used: DriverCallFailed: busy", "nvidia-smi"},
		{"compiling, twice the same", func(r *Report) {
			r.Compiling = []Compiling{{Device: 0, Reason: "too new: update it"}, {Device: 1, Reason: "too new: update it"}}
		}, "too new", "update it"},
		{"cache", func(r *Report) {
			r.Cache = Cache{State: "unusable", Directory: "/c", Reason: "/c is open to others (mode 0755): chmod 700 it"}
		}, "/c is open to others", "chmod 700 /c"},
		{"control characters", func(r *Report) { r.Cache = Cache{State: "unusable", Reason: "a\nb"} }, "a; b", "PURECUDA_CACHE_DIR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := healthy()
			c.spoil(r)
			r.diagnose("")
			if c.problem == "" {
				assert.Empty(t, r.Problems)
				return
			}
			require.Len(t, r.Problems, 1, "each cause is told once")
			assert.Contains(t, r.Problems[0].Problem, c.problem)
			assert.Contains(t, r.Problems[0].Do, c.do)
		})
	}
}

func TestCompiling(t *testing.T) {
	archs := []int{75, 90}
	for _, c := range []struct {
		arch                 int
		version, nvrtc       driver.Version
		kind, target, reason string
	}{
		{90, 13000, 13000, "cubin", "sm_90", ""},
		{90, 12040, 13000, "cubin", "sm_90", "need not load machine code of NVRTC 13.0"},
		{80, 13000, 12040, "PTX", "compute_75", ""},
		{80, 12040, 13000, "", "", "cannot read the PTX of NVRTC 13.0"},
		{70, 13000, 13000, "", "", "install another NVRTC"},
	} {
		got := compiling(found{Arch: c.arch}, NVRTC{Version: int(c.nvrtc), Archs: archs}, c.version)
		assert.Equal(t, c.kind, got.Kind)
		assert.Equal(t, c.target, got.Target)
		assert.Contains(t, got.Reason, c.reason)
		assert.Equal(t, c.reason == "", got.Reason == "")
	}
	var _ nvrtc.API = known{}
}
