package doctor

import (
	"context"
	"fmt"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/nvrtc"
)

// Config says what is examined.
type Config struct {
	// Root is the folder that stands for the root of the file system where files of the
	// system are looked at; "" is "/". Libraries are the loader's business, and not below it.
	Root string
	// Driver, NVRTC, Health, Libraries and Files run the probes. Without Health or Libraries that is left out.
	Driver, NVRTC, Health, Libraries, Files Prober
}

// Examine makes the report. It blocks as long as the probes take. The error is the ctx's,
// if that ends before: whatever is wrong with the machine is part of the report.
func Examine(ctx context.Context, c Config) (*Report, error) {
	if c.Root == "" {
		c.Root = "/"
	}
	r := &Report{
		SchemaVersion: SchemaVersion,
		Build:         ReadBuild(),
		Process:       process(),
		Policy:        policy(),
		Environment:   environment(),
		Machine:       machine(c.Root),
		Cache:         cache(),
		Devices:       []Device{},
		Compiling:     []Compiling{},
		Problems:      []Problem{},
	}
	var devices []found
	var filesEnded string
	var all sync.WaitGroup
	all.Go(func() {
		f, ended := c.Files(ctx, Request{Probe: ProbeFiles, Root: c.Root})
		r.Files, filesEnded = f.Files, ended
	})
	all.Go(func() {
		r.Driver, devices = askDriver(ctx, c.Driver)
		var trials sync.WaitGroup // all at once: opening a context takes 125 ms
		for i := range devices {
			if d := &devices[i].Device; d.Usable {
				trials.Go(func() { d.try(ctx, c.Driver) })
			}
		}
		trials.Wait()
	})
	all.Go(func() { r.NVRTC = askNVRTC(ctx, c.NVRTC) })
	if c.Health != nil {
		all.Go(func() { r.Health = askHealth(ctx, c.Health) })
	}
	if c.Libraries != nil {
		all.Go(func() { r.Libraries = askLibraries(ctx, c.Libraries) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if r.Files == nil {
		r.Files = []File{}
	}
	for _, f := range r.Files {
		if f.Path == kernelVersion {
			r.Driver.KernelRelease = release.FindString(f.Content)
		}
	}
	for _, d := range devices {
		r.Devices = append(r.Devices, d.Device)
		if r.NVRTC.Outcome == Available {
			r.Compiling = append(r.Compiling, compiling(d, r.NVRTC, driver.Version(r.Driver.Version)))
		}
	}
	r.diagnose(filesEnded)
	return r, nil
}

func askDriver(ctx context.Context, probe Prober) (Driver, []found) {
	f, ended := probe(ctx, Request{Probe: ProbeDriver})
	d := f.Driver
	if d == nil {
		d = &Driver{}
	}
	if d.Candidates == nil {
		d.Candidates = []Candidate{}
	}
	if d.Ended = ended; ended != "" {
		d.Outcome = Fault
	}
	return *d, f.Devices
}

func askNVRTC(ctx context.Context, probe Prober) NVRTC {
	f, ended := probe(ctx, Request{Probe: ProbeNVRTC})
	n := f.NVRTC
	if n == nil {
		n = &NVRTC{}
	}
	if n.Candidates == nil {
		n.Candidates = []Candidate{}
	}
	if n.Ended = ended; ended != "" {
		n.Outcome = Fault
	}
	return *n
}

func askHealth(ctx context.Context, probe Prober) *Health {
	f, ended := probe(ctx, Request{Probe: ProbeHealth})
	h := f.Health
	if h == nil {
		h = &Health{Candidates: []Candidate{}, Devices: []DeviceHealth{}}
	}
	if h.Ended = ended; ended != "" {
		h.Outcome = Fault
	}
	return h
}

// try finds out whether the device computes.
func (d *Device) try(ctx context.Context, probe Prober) {
	f, ended := probe(ctx, Request{Probe: ProbeDevice, Device: d.Ordinal})
	switch {
	case ended != "":
		d.Usable, d.Reason = false, ended
	case f.Trial == nil:
		d.Usable, d.Reason = false, "the probe told nothing"
	case f.Trial.Failure != nil:
		d.Usable, d.Reason, d.Code = false, f.Trial.Failure.String(), f.Trial.Failure.Code
	}
	if f.Trial != nil {
		d.FreeBytes = f.Trial.FreeBytes
	}
}

// compiling tells what Context.Compile makes for a device.
func compiling(d found, n NVRTC, version driver.Version) Compiling {
	c := Compiling{Device: d.Ordinal}
	target, err := nvrtc.TargetFor(known{version: driver.Version(n.Version), archs: n.Archs}, d.Arch, version)
	if err != nil {
		c.Reason = failureOf(err).Detail
		return c
	}
	c.Kind, c.Target = target.Kind.String(), target.String()
	if newer := driver.Version(n.Version); target.Kind == nvrtc.CUBIN && newer/1000 > version/1000 {
		c.Reason = fmt.Sprintf("driver %v need not load machine code of NVRTC %v, which is of a newer major version", version, newer)
	}
	return c
}

// known is an NVRTC of which the answers are known.
type known struct {
	nvrtc.API
	version driver.Version
	archs   []int
}

func (k known) Version() (driver.Version, nvrtc.Result) { return k.version, nvrtc.Success }
func (k known) SupportedArchs() ([]int, nvrtc.Result)   { return k.archs, nvrtc.Success }
