package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/runtime"
)

// Request is what a probe is asked for.
type Request struct {
	Probe  string `json:"probe"`            // one of the constants
	Device int    `json:"device,omitempty"` // the ordinal, of ProbeDevice
	Root   string `json:"root,omitempty"`   // the root of the file system, of ProbeFiles
	// Library is the name of one, of ProbeLibrary.
	Library string `json:"library,omitempty"`
}

// The probes.
const (
	ProbeDriver  = "driver"
	ProbeNVRTC   = "nvrtc"
	ProbeHealth  = "health"
	ProbeLibrary = "library"
	ProbeDevice  = "device"
	ProbeFiles   = "files"
)

// Finding is what a probe has found so far. Each fills its own part.
type Finding struct {
	// Doing is the step under way, which may not return. It is empty at the end.
	Doing   string     `json:"doing,omitempty"`
	Driver  *Driver    `json:"driver,omitempty"`
	Devices []found    `json:"devices,omitempty"`
	NVRTC   *NVRTC     `json:"nvrtc,omitempty"`
	Health  *Health    `json:"health,omitempty"`
	Library *Installed `json:"library,omitempty"`
	Trial   *Trial     `json:"trial,omitempty"`
	Files   []File     `json:"files,omitempty"`
	Error   *Failure   `json:"error,omitempty"` // of the request itself
}

// found is a device with what the document does not have of it.
type found struct {
	Device
	Arch int `json:"arch"`
}

// Trial is whether a device computes.
type Trial struct {
	FreeBytes uint64   `json:"free_bytes"`
	Failure   *Failure `json:"failure,omitempty"`
}

// Libraries are what the probes work on in place of the libraries of the machine: a
// simulated driver, NVRTC or NVML. Nil is the machine's.
type Libraries struct {
	Driver driver.API
	NVRTC  nvrtc.API
	NVML   nvml.API
}

// Run runs a probe in this process. It calls tell with what is known before each step that
// may not return, and at the end.
func (l Libraries) Run(ctx context.Context, r Request, tell func(Finding)) {
	switch r.Probe {
	case ProbeDriver:
		l.driver(tell)
	case ProbeNVRTC:
		l.nvrtc(ctx, tell)
	case ProbeHealth:
		l.health(tell)
	case ProbeLibrary:
		installed(r.Library, tell)
	case ProbeDevice:
		l.device(ctx, r.Device, tell)
	case ProbeFiles:
		files(r.Root, tell)
	default:
		tell(Finding{Error: &Failure{Kind: string(driver.ErrInvalidArgument), Detail: fmt.Sprintf("there is no probe %q", r.Probe)}})
	}
}

// driver finds the driver and lists its devices, in the steps of runtime.Open.
func (l Libraries) driver(tell func(Finding)) {
	d := &Driver{Outcome: Fault}
	api := l.Driver
	if api == nil {
		names := driver.Candidates()
		d.Candidates = candidates(names)
		tell(Finding{Doing: "loading the library", Driver: d})
		lib, err := driver.Open()
		if err != nil {
			d.Outcome, d.Failure = outcomeOf(err), failureOf(err)
			recordAttempts(d.Candidates, attemptsOf(err), "")
			tell(Finding{Driver: d})
			return
		}
		d.Taken, d.Missing = lib.Path(), lib.Missing()
		d.File = loadedFile(lib.Path())
		d.Release = releaseOf(d.File)
		recordAttempts(d.Candidates, lib.Attempts(), lib.Path())
		d.version(lib.Version())
		api = lib
	} else {
		d.Taken = "simulated"
		if v, r := api.DriverGetVersion(); r == driver.Success {
			d.version(v)
		}
	}
	var devices []found
	watch := watched{api, func(op string) { tell(Finding{Doing: op, Driver: d, Devices: devices}) }}
	rt, err := runtime.Open(runtime.WithDriver(watch), runtime.WithPolicy(runtime.PolicyAuto))
	if err != nil {
		d.Failure = failureOf(err)
		tell(Finding{Driver: d})
		return
	}
	d.Outcome = Outcome(rt.Outcome())
	if d.Outcome != Available {
		d.Failure = failureOf(rt.Err())
	}
	d.version(rt.Version())
	for _, dev := range rt.Devices() {
		devices = append(devices, foundDevice(dev))
	}
	slices.SortFunc(devices, func(a, b found) int { return a.Ordinal - b.Ordinal })
	_ = rt.Close() // it holds nothing
	tell(Finding{Driver: d, Devices: devices})
}

func (d *Driver) version(v driver.Version) {
	if v != 0 {
		d.CUDA, d.Version = v.String(), int(v)
	}
}

func foundDevice(d runtime.Device) found {
	f := found{Device: Device{
		Ordinal: d.Ordinal, Name: d.Name, UUID: "GPU-" + d.UUID.String(), PCIBusID: d.PCIBusID,
		ComputeCapability: d.Capability.String(), SMs: d.Multiprocessors, TotalBytes: d.TotalBytes, MIG: d.MIG,
		Usable: d.Err == nil,
	}, Arch: d.Capability.Arch()}
	if d.Err != nil {
		failure := failureOf(d.Err)
		f.Reason, f.Code = failure.String(), failure.Code
		return f
	}
	f.Facts = &Facts{
		WarpSize: d.WarpSize, RegistersPerSM: d.RegistersPerSM, MaxBlocksPerSM: d.MaxBlocksPerSM, MaxThreadsPerSM: d.MaxThreadsPerSM,
		SharedPerBlock: max(d.SharedPerBlock, d.SharedPerBlockOptin), L2Bytes: d.L2Bytes, MemoryBusBits: d.MemoryBusBits,
		ComputeMode: d.ComputeMode.String(), Features: d.Features(), Links: d.Links,
	}
	return f
}

// watched tells of the calls before the first context, each of which may not return.
type watched struct {
	driver.API
	before func(op string)
}

func (w watched) Init(flags uint32) driver.Result {
	w.before("cuInit")
	return w.API.Init(flags)
}

func (w watched) DeviceGetCount() (int32, driver.Result) {
	w.before("cuDeviceGetCount")
	return w.API.DeviceGetCount()
}

func (w watched) DeviceGet(ordinal int32) (driver.Device, driver.Result) {
	w.before(fmt.Sprintf("the queries of device %d", ordinal))
	return w.API.DeviceGet(ordinal)
}

// TrialKernel is what NVRTC has to compile, exported for simulated ones. That it is that
// short does not matter: NVRTC asks for its builtins at any compile.
const TrialKernel = `extern "C" __global__ void trial(int *x) { *x = 1; }` + "\n"

// nvrtc finds NVRTC and compiles a kernel with it.
func (l Libraries) nvrtc(ctx context.Context, tell func(Finding)) {
	n := &NVRTC{Outcome: Fault}
	step := func(doing string) { tell(Finding{Doing: doing, NVRTC: n}) }
	done := func(err error) {
		if err != nil {
			n.Failure = failureOf(err)
		}
		tell(Finding{NVRTC: n})
	}
	api := l.NVRTC
	if api == nil {
		n.Candidates = candidates(nvrtc.Candidates())
		step("loading the library")
		lib, err := nvrtc.Open()
		if err != nil {
			if errors.Is(err, driver.ErrUnsupported) {
				n.Outcome = Absent
			}
			recordAttempts(n.Candidates, attemptsOf(err), "")
			done(err)
			return
		}
		n.Taken, n.File, n.Missing = lib.Path(), loadedFile(lib.Path()), lib.Missing()
		recordAttempts(n.Candidates, lib.Attempts(), lib.Path())
		api = lib
	} else {
		n.Taken = "simulated"
	}
	step("nvrtcVersion")
	version, r := api.Version()
	if r != nvrtc.Success {
		done(driver.Errorf(driver.ErrDriverCallFailed, "nvrtcVersion: %w", r))
		return
	}
	n.CUDA, n.Version = version.String(), int(version)
	step("nvrtcGetSupportedArchs")
	if n.Archs, r = api.SupportedArchs(); r != nvrtc.Success || len(n.Archs) == 0 {
		done(driver.Errorf(driver.ErrDriverCallFailed, "nvrtcGetSupportedArchs: %w, and %d architectures", r, len(n.Archs)))
		return
	}
	step("compiling a kernel")
	image, err := nvrtc.Compile(ctx, api, nvrtc.Program{Source: TrialKernel, Name: "trial.cu"}, nvrtc.Target{Kind: nvrtc.PTX, Arch: n.Archs[0]})
	if err == nil {
		n.Outcome = Available
		if m := ptxVersion.FindSubmatch(image.Code); m != nil {
			n.PTX = string(m[1])
		}
	}
	done(err)
}

// device opens a context on a device and runs a kernel.
func (l Libraries) device(ctx context.Context, ordinal int, tell func(Finding)) {
	t := &Trial{}
	step := func(doing string) { tell(Finding{Doing: doing, Trial: t}) }
	step("opening the driver")
	if err := l.try(ctx, ordinal, t, step); err != nil {
		t.Failure = failureOf(err)
	}
	tell(Finding{Trial: t})
}

func (l Libraries) try(ctx context.Context, ordinal int, t *Trial, step func(string)) (err error) {
	options := []runtime.Option{runtime.WithPolicy(runtime.PolicyRequired)}
	if l.Driver != nil {
		options = append(options, runtime.WithDriver(l.Driver))
	}
	rt, err := runtime.Open(options...)
	if err != nil {
		return err
	}
	defer func() {
		step("closing the context")
		err = errors.Join(err, rt.Close())
	}()
	step("opening a context")
	c, err := rt.Context(ordinal)
	if err != nil {
		return err
	}
	t.FreeBytes = c.Device().FreeBytes
	step("loading a kernel")
	saxpy, err := kernels.Load[kernels.Saxpy](c)
	if err != nil {
		return err
	}
	defer saxpy.Close()
	step("running a kernel")
	return runSaxpy(ctx, c, saxpy)
}

// runSaxpy computes on the device and compares.
func runSaxpy(ctx context.Context, c *runtime.Context, saxpy kernels.Saxpy) error {
	const n = 1000
	x, y, want := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range n {
		x[i], y[i], want[i] = float32(i), float32(3*i+1), float32(3*i+1)
	}
	if err := kernels.SaxpyCPU(2, x, want); err != nil {
		return err
	}
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	dx, errX := runtime.Alloc[float32](s, n)
	dy, errY := runtime.Alloc[float32](s, n)
	if err := errors.Join(errX, errY); err != nil {
		return err
	}
	defer dx.Close()
	defer dy.Close()
	if err := errors.Join(runtime.Upload(ctx, s, dx, x), runtime.Upload(ctx, s, dy, y),
		saxpy.Launch(s, 2, dx, dy), runtime.Download(ctx, s, y, dy)); err != nil {
		return err
	}
	for i := range y {
		if y[i] != want[i] {
			return driver.Errorf(driver.ErrDriverCallFailed, "the device computes wrong: element %d of 2x+y is %v, and not %v", i, y[i], want[i])
		}
	}
	return nil
}

func outcomeOf(err error) Outcome {
	if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		return Absent
	}
	return Fault
}

// failureOf is an error on one line.
func failureOf(err error) *Failure {
	f := &Failure{Kind: string(driver.ErrDriverCallFailed), Detail: oneLine(err.Error())}
	if e, ok := errors.AsType[*driver.Error](err); ok {
		f.Kind = string(e.Kind)
		f.Detail = strings.TrimPrefix(f.Detail, f.Kind+": ")
	}
	if code, ok := errors.AsType[driver.Result](err); ok {
		f.Code = int(code)
	}
	for cause := err; cause != nil && f.Code == 0; cause = errors.Unwrap(cause) {
		if e, ok := cause.(*driver.Error); ok && e.Code != driver.ResultSymbolMissing {
			f.Code = int(e.Code)
		}
	}
	return f
}

func (f *Failure) String() string { return f.Kind + ": " + f.Detail }

func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == '\r' }), "; ")
}
