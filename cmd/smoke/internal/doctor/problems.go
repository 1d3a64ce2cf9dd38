package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/artifact"
	"github.com/purecuda/purecuda/internal/dlhost"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/runtime"
)

// diagnose fills in the problems, each with one thing to do. What follows from a problem
// that is in the list is left out.
func (r *Report) diagnose(filesEnded string) {
	r.aboutPolicy()
	r.aboutStart()
	if r.Process.Loader {
		r.aboutDriver()
		r.aboutNVRTC()
		r.aboutHealth()
		r.aboutLibraries()
	}
	r.aboutFiles(filesEnded)
	r.aboutDevices()
	r.aboutCompiling()
	r.aboutCache()
}

func (r *Report) add(about, do, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{About: about, Problem: oneLine(fmt.Sprintf(format, args...)), Do: do})
}

// value is a variable of the environment, "" where it is not set.
func (r *Report) value(name string) string {
	i := slices.IndexFunc(r.Environment, func(v Variable) bool { return v.Name == name })
	if i < 0 {
		return ""
	}
	return strings.TrimSpace(r.Environment[i].Value)
}

func (r *Report) set(name string) bool {
	return slices.ContainsFunc(r.Environment, func(v Variable) bool { return v.Name == name && v.Set })
}

func (r *Report) aboutPolicy() {
	name, usable := runtime.PolicyVariable, r.Driver.Outcome == Available
	switch p := r.Policy; {
	case p.Reason != "":
		r.add("policy", fmt.Sprintf("set %s to auto, off or required, or unset it", name), "no program can look for a GPU: %s", p.Reason)
	case p.Policy == string(runtime.PolicyOff) && usable:
		r.add("policy", "unset "+name+" to use it", "%s is off: programs do not look for the GPU that is here", name)
	case p.Policy == string(runtime.PolicyRequired) && !usable:
		r.add("policy", "repair what is said below, or set "+name+" to auto to work on the CPU", "%s is required: programs end with an error", name)
	}
}

func (r *Report) aboutStart() {
	switch p := r.Process; {
	case !p.Loader:
		r.add("process", "run it where glibc is (docs/deploy.md), or let it work on the CPU", "this process cannot load libraries: %s", p.Reason)
	case p.Reason != "":
		r.add("process", "set "+dlhost.Variable+" to auto, host or static, or unset it", "%s", p.Reason)
	}
}

func (r *Report) aboutDriver() {
	const about = "driver"
	d := r.Driver
	switch {
	case d.Outcome == Available:
	case d.Ended != "":
		r.add(about, "reinstall the driver; until then "+runtime.PolicyVariable+"=off keeps programs away from it", "the probe of %s %s", orElse(d.Taken, "the driver library"), d.Ended)
	case d.Taken == "" && d.Outcome == Absent:
		r.aboutNoDriver()
	case d.Taken == "":
		r.aboutNotLoaded()
	case d.Release != "" && d.KernelRelease != "" && d.Release != d.KernelRelease:
		r.add(about, "restart the machine after an update of the driver; in a container mount the host's driver",
			"the library is of release %s and the kernel module of release %s: %v", d.Release, d.KernelRelease, d.Failure)
	default:
		r.add(about, r.adviceFor(driver.Result(d.Failure.Code)), "%v", d.Failure)
	}
}

// aboutNoDriver is for a machine where no candidate is there, as far as the loader says.
func (r *Report) aboutNoDriver() {
	const about = "driver"
	wrong := r.wrongFile(r.Driver.Candidates)
	gpu := len(r.Machine.PCI) > 0 || r.Driver.KernelRelease != ""
	capabilities := r.value(capabilitiesVariable)
	path := r.value(driver.PathVariable)
	switch container := len(r.Machine.Container) > 0; {
	case len(r.Driver.Candidates) == 0:
		r.add(about, "run it on Linux or Windows, or let it work on the CPU", "NVIDIA has no driver for %s/%s", r.Build.OS, r.Build.Arch)
	case wrong != nil:
		r.add(about, r.takeAway(wrong, driver.PathVariable, "a driver"), "%s %s", wrong.Path, wrong.Wrong)
	case path != "":
		r.add(about, "correct it, or unset it to look in the usual places", "%s names %s, which is not there", driver.PathVariable, path)
	case container && capabilities != "" && !strings.Contains(capabilities, "compute") && !strings.Contains(capabilities, "all"):
		r.add(about, "start the container with "+capabilitiesVariable+"=compute,utility", "%s=%s leaves the driver library out of this container", capabilitiesVariable, capabilities)
	case container && slices.Contains([]string{"none", "void"}, r.value(containerVariable)):
		r.add(about, "start the container with "+containerVariable+"=all", "%s=%s keeps the GPUs out of this container", containerVariable, r.value(containerVariable))
	case container && gpu:
		r.add(about, "start it with the NVIDIA container toolkit: docker run --gpus all", "the host of this container has an NVIDIA GPU, and the container no driver library")
	case container:
		r.add(about, "start it with docker run --gpus all if the host has an NVIDIA GPU; else there is nothing to do, work goes to the CPU", "no CUDA driver in this container")
	case r.Machine.WSL:
		r.add(about, "install NVIDIA's driver in Windows, and none in the Linux of WSL", "no CUDA driver in this WSL: /usr/lib/wsl/lib has no libcuda.so.1")
	case gpu:
		r.add(about, "install NVIDIA's driver", "there is an NVIDIA GPU (%s), and no driver library", orElse(strings.Join(r.Machine.PCI, ", "), "its kernel module is loaded"))
	default:
		r.add(about, "install NVIDIA's driver if it has an NVIDIA GPU; else there is nothing to do, work goes to the CPU", "no CUDA driver on this machine")
	}
}

// aboutNotLoaded is for a library that is there and does not load.
func (r *Report) aboutNotLoaded() {
	const about = "driver"
	failure := r.Driver.Failure
	if failure == nil {
		failure = &Failure{Kind: string(driver.ErrDriverLibraryLoadFailed), Detail: "the probe told nothing"}
	}
	wrong := r.wrongFile(r.Driver.Candidates)
	switch {
	case wrong != nil:
		r.add(about, r.takeAway(wrong, driver.PathVariable, "a driver"), "%s %s", wrong.Path, wrong.Wrong)
	case strings.Contains(failure.Detail, "lacks "):
		r.add(about, r.takeAway(nil, driver.PathVariable, "a driver of CUDA 11.0 or newer"), "%s", failure.Detail)
	case strings.Contains(failure.Detail, "No such file or directory"):
		r.add(about, "install the driver as a whole; in a container mount all of its libraries", "a library that the driver needs is missing: %s", failure.Detail)
	case strings.Contains(failure.Detail, "ermission denied"):
		r.add(about, allow, "%s", failure.Detail)
	default:
		r.add(about, "reinstall the driver", "%s", failure.Detail)
	}
}

// wrongFile is the first file that a candidate may mean and that cannot be loaded.
func (*Report) wrongFile(candidates []Candidate) *LibraryFile {
	for _, c := range candidates {
		for i := range c.Files {
			if c.Files[i].Wrong != "" {
				return &c.Files[i]
			}
		}
	}
	return nil
}

const allow = "let this user read the file and enter its folders"

// takeAway says how to get rid of a wrong library. f is its file, where that is known.
func (r *Report) takeAway(f *LibraryFile, variable, what string) string {
	platform := r.Build.OS + "/" + r.Build.Arch
	switch {
	case f != nil && strings.HasSuffix(f.Wrong, "permission denied"):
		return allow
	case r.value(variable) != "":
		return fmt.Sprintf("point %s at %s for %s, or unset it", variable, what, platform)
	case r.value("LD_LIBRARY_PATH") != "":
		return fmt.Sprintf("take its folder out of LD_LIBRARY_PATH, or put %s for %s there", what, platform)
	}
	return fmt.Sprintf("replace it by %s for %s", what, platform)
}

// advice says what to do about a result of the driver.
var advice = map[driver.Result]string{
	driver.ResultStubLibrary:                "this file is for linking only: take its stubs folder out of LD_LIBRARY_PATH and install NVIDIA's driver",
	driver.ResultNoDevice:                   "see whether nvidia-smi lists a GPU; in a container start it with --gpus all",
	driver.ResultInvalidDevice:              "correct or unset " + visibleVariable,
	driver.ResultSystemNotReady:             "start the fabric manager: systemctl start nvidia-fabricmanager",
	driver.ResultSystemDriverMismatch:       "restart the machine after an update of the driver; in a container mount the host's driver",
	driver.ResultCompatNotSupportedOnDevice: "remove the package cuda-compat, or update the driver of the host",
	driver.ResultDeviceUnavailable:          "end the other process that holds the device, or set its compute mode: nvidia-smi -c DEFAULT",
	driver.ResultOutOfMemory:                "free memory on the device: nvidia-smi lists who uses it",
	driver.ResultUnknown:                    "load the module nvidia-uvm (nvidia-modprobe -u -c 0), look for NVRM in dmesg, restart the machine",
	driver.ResultJITCompilerNotFound:        "install the driver's PTX compiler, libnvidia-ptxjitcompiler.so.1 of the same release",
	driver.ResultECCUncorrectable:           "restart the machine, and have the GPU replaced if it comes back",
}

func (r *Report) adviceFor(code driver.Result) string {
	if code == driver.ResultNoDevice && r.set(visibleVariable) {
		return fmt.Sprintf("correct or unset %s, which is %q", visibleVariable, r.value(visibleVariable))
	}
	if do := advice[code]; do != "" {
		return do
	}
	if code.Sticky() {
		return "restart the machine or reset the GPU (nvidia-smi --gpu-reset), and look for Xid in dmesg"
	}
	return "look for NVRM in dmesg and restart the machine; until then " + runtime.PolicyVariable + "=off keeps programs away from it"
}

func (r *Report) aboutNVRTC() {
	const about = "nvrtc"
	n := r.NVRTC
	wrong := r.wrongFile(n.Candidates)
	switch {
	case n.Outcome == Available:
	case n.Ended != "":
		r.add(about, "reinstall NVRTC, or point "+nvrtc.PathVariable+" at another one", "the probe of %s %s", orElse(n.Taken, "NVRTC"), n.Ended)
	case n.Failure == nil:
		r.add(about, "run it again", "the probe of NVRTC told nothing")
	case n.Outcome == Absent && r.value(nvrtc.PathVariable) != "" && wrong == nil:
		r.add(about, "correct it, or unset it to look in the usual places", "%s names %s, which is not there", nvrtc.PathVariable, r.value(nvrtc.PathVariable))
	case n.Taken == "" && wrong != nil:
		r.add(about, r.takeAway(wrong, nvrtc.PathVariable, "NVRTC"), "%s %s", wrong.Path, wrong.Wrong)
	case n.Outcome == Absent && r.Driver.Outcome == Available:
		r.add(about, "pip install nvidia-cuda-nvrtc, or install the package cuda-nvrtc; programs that bring PTX do not need it", "no NVRTC: CUDA C++ cannot be compiled here")
	case n.Outcome == Absent: // without a driver nobody needs it
	case strings.Contains(n.Failure.Detail, "builtins"):
		r.add(about, "install libnvrtc-builtins of the same version beside libnvrtc", "%s", n.Failure.Detail)
	default:
		r.add(about, "reinstall NVRTC", "%s", n.Failure.Detail)
	}
}

func (r *Report) aboutFiles(ended string) {
	const about = "device files"
	if ended != "" {
		r.add(about, "look for NVRM in dmesg and restart the machine", "the probe of the device files %s", ended)
	}
	mig := slices.ContainsFunc(r.Devices, func(d Device) bool { return d.MIG })
	there := map[string]bool{}
	for _, f := range r.Files {
		there[f.Path] = f.Exists
		if !f.Exists || f.Opens || ended != "" || strings.HasPrefix(f.Path, "/dev/nvidia-caps/") && !mig {
			continue
		}
		do := "let this user open it by its group or its mode"
		if len(r.Machine.Container) > 0 {
			do = "start the container with this device (--gpus all), for a user who may open it"
		}
		r.add(about, do, "uid %d may not open %s (%s): %s", r.Process.UID, f.Path, f.Owner, f.Reason)
	}
	if there["/dev/nvidiactl"] && !there["/dev/nvidia-uvm"] && r.Driver.Outcome != Available {
		r.add(about, "nvidia-modprobe -u -c 0, as root; in a container on its host", "/dev/nvidia-uvm is not there, and CUDA needs it")
	}
}

func (r *Report) aboutDevices() {
	for _, d := range r.Devices {
		if d.Usable {
			continue
		}
		do := r.adviceFor(driver.Result(d.Code))
		if d.Code == 0 && strings.Contains(d.Reason, "does not run on") {
			do = "bring kernels that are built for it: those of purecuda are for compute capability 7.5 and later"
		}
		r.add("devices", do, "device %d (%s) cannot be used: %s", d.Ordinal, orElse(d.Name, "of unknown name"), d.Reason)
	}
}

func (r *Report) aboutCompiling() {
	told := map[string]bool{} // the same of several devices
	for _, c := range r.Compiling {
		if c.Reason == "" || told[c.Reason] {
			continue
		}
		told[c.Reason] = true
		problem, do := c.Reason, "update the driver, or install an NVRTC of its major version"
		if at := strings.LastIndex(problem, ": "); at >= 0 { // TargetFor says itself what to do
			problem, do = problem[:at], problem[at+2:]
		}
		r.add("compiling", do, "%s", problem)
	}
}

func (r *Report) aboutCache() {
	if r.Cache.State != "unusable" {
		return
	}
	do := "make it a folder of this user alone, or name another one in " + artifact.DirVariable
	if strings.Contains(r.Cache.Reason, "chmod 700") {
		do = "chmod 700 " + r.Cache.Directory
	}
	r.add("cache", do, "compiled kernels are not kept: %s", r.Cache.Reason)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
