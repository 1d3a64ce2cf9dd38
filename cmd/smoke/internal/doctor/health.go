package doctor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
)

// Health is what the probe of NVML found.
type Health struct {
	Outcome    Outcome     `json:"outcome"`
	Failure    *Failure    `json:"failure,omitempty"`
	Candidates []Candidate `json:"candidates"`
	Taken      string      `json:"taken,omitempty"`
	File       string      `json:"file,omitempty"`
	Release    string      `json:"release,omitempty"` // of the driver, as NVML tells it
	Missing    []string    `json:"missing,omitempty"`
	Ended      string      `json:"ended,omitempty"`
	// Devices are all of the machine, also those that CUDA does not see, with their MIG instances.
	Devices []DeviceHealth `json:"devices"`
}

// DeviceHealth is what NVML tells of a device. What it does not tell is left out.
type DeviceHealth struct {
	UUID       string `json:"uuid,omitempty"`
	InstanceOf string `json:"mig_instance_of,omitempty"` // the UUID of the device
	Name       string `json:"name,omitempty"`
	UsedBytes  uint64 `json:"used_bytes,omitempty"`
	TotalBytes uint64 `json:"total_bytes,omitempty"`
	Processes  *int   `json:"processes,omitempty"` // that compute
	GPUPercent *int   `json:"gpu_percent,omitempty"`
	Celsius    *int   `json:"celsius,omitempty"`
	Watts      *int   `json:"watts,omitempty"`
	WattsLimit int    `json:"watts_limit,omitempty"`
	MHz        int    `json:"sm_mhz,omitempty"`
	MaxMHz     int    `json:"sm_mhz_max,omitempty"`
	Clocks     string `json:"clock_reasons,omitempty"` // why they are not higher
	Slowed     string `json:"slowed,omitempty"`        // those of them that should not be
	ECC        *bool  `json:"ecc,omitempty"`
	Link       string `json:"pcie,omitempty"` // "generation 5, 16 lanes"
	NVLinks    int    `json:"nvlinks,omitempty"`
	// Fault is why it should not be used.
	Fault string `json:"fault,omitempty"`
	// Reason is why nothing is known of it.
	Reason string `json:"reason,omitempty"`
}

// health reads what NVML knows of the devices.
func (l Libraries) health(tell func(Finding)) {
	h := &Health{Outcome: Fault, Candidates: []Candidate{}, Devices: []DeviceHealth{}}
	api := l.NVML
	if api == nil {
		h.Candidates = candidates(nvml.Candidates())
		tell(Finding{Doing: "loading NVML and nvmlInit", Health: h})
		lib, err := nvml.Open()
		if err != nil {
			if errors.Is(err, driver.ErrLibraryUnavailable) {
				h.Outcome = Absent
			}
			h.Failure = failureOf(err)
			recordAttempts(h.Candidates, attemptsOf(err), "")
			tell(Finding{Health: h})
			return
		}
		h.Taken, h.File, h.Missing = lib.Path(), loadedFile(lib.Path()), lib.Missing()
		recordAttempts(h.Candidates, lib.Attempts(), lib.Path())
		api = lib
	} else {
		h.Taken = "simulated"
	}
	tell(Finding{Doing: "reading the devices", Health: h})
	h.Release = api.DriverVersion()
	all, err := api.ReadAll()
	for _, s := range all {
		h.Devices = append(h.Devices, healthOf(s))
	}
	if err != nil {
		h.Failure = failureOf(err)
	} else {
		h.Outcome = Available
	}
	tell(Finding{Health: h})
}

func healthOf(s nvml.Status) DeviceHealth {
	d := DeviceHealth{UUID: s.UUID, InstanceOf: s.Parent, Name: s.Name, NVLinks: len(s.NVLinks)}
	if s.UUID == "" && len(s.Unknown) > 0 {
		d.Reason = failureOf(s.Unknown[0]).String()
	}
	if s.Memory != nil {
		d.UsedBytes, d.TotalBytes = s.Memory.Used, s.Memory.Total
	}
	if s.Processes != nil {
		n := len(*s.Processes)
		d.Processes = &n
	}
	if s.Utilization != nil {
		d.GPUPercent = &s.Utilization.GPU
	}
	if s.Temperature != nil {
		d.Celsius = &s.Temperature.Now
	}
	if s.Power != nil {
		watts := s.Power.Now / 1000
		d.Watts, d.WattsLimit = &watts, s.Power.Limit/1000
	}
	if c := s.Clocks; c != nil {
		d.MHz, d.MaxMHz, d.Clocks = c.SM, c.MaxSM, c.Reasons.String()
		if wrong := c.Reasons.Wrong(); wrong != 0 {
			d.Slowed = wrong.String()
		}
	}
	if s.ECC != nil {
		d.ECC = &s.ECC.On
	}
	if s.PCIe != nil {
		d.Link = fmt.Sprintf("generation %d, %d lanes", s.PCIe.Now.Generation, s.PCIe.Now.Width)
	}
	if err := s.Fault(); err != nil {
		d.Fault = failureOf(err).Detail
	}
	return d
}

func (r *Report) healthRows(row rows) {
	h := r.Health
	failure := h.Failure
	if h.Outcome == Absent && h.Taken == "" && failure != nil {
		failure = &Failure{Kind: failure.Kind, Detail: "no NVML to read the health of devices with"} // the candidates are below
	}
	row("state", stateOf(h.Outcome, failure, h.Ended))
	note(row, "library", withFile(h.Taken, h.File))
	note(row, "driver", h.Release)
	note(row, "lacks", few(h.Missing))
	for _, d := range h.Devices {
		row(d.UUID, d.String())
	}
	candidateRows(h.Candidates, row)
}

// String is one line of what is known.
func (d DeviceHealth) String() string {
	if d.Reason != "" {
		return d.Reason
	}
	texts := []string{d.Name}
	add := func(known bool, format string, args ...any) {
		if known {
			texts = append(texts, fmt.Sprintf(format, args...))
		}
	}
	number := func(n *int) int {
		if n == nil {
			return 0
		}
		return *n
	}
	add(d.InstanceOf != "", "instance of %s", d.InstanceOf)
	add(d.TotalBytes > 0, "%.1f of %.1f GiB used", gib(d.UsedBytes), gib(d.TotalBytes))
	add(d.Processes != nil, "processes: %d", number(d.Processes))
	add(d.GPUPercent != nil, "busy %d%%", number(d.GPUPercent))
	add(d.Celsius != nil, "%d C", number(d.Celsius))
	add(d.Watts != nil, "%d of %d W", number(d.Watts), d.WattsLimit)
	add(d.MHz > 0, "%d of %d MHz (%s)", d.MHz, d.MaxMHz, d.Clocks)
	if d.ECC != nil {
		add(true, "ECC %s", map[bool]string{true: "on", false: "off"}[*d.ECC])
	}
	add(d.Link != "", "PCIe %s", d.Link)
	add(d.NVLinks > 0, "NVLinks: %d", d.NVLinks)
	return strings.Join(texts, ", ")
}

// aboutHealth finds what is wrong. That there is no NVML is normal.
func (r *Report) aboutHealth() {
	const about = "health"
	h := r.Health
	switch {
	case h == nil || h.Outcome == Absent && r.value(nvml.PathVariable) == "":
		return
	case h.Outcome == Absent:
		r.add(about, "correct it, or unset it to look in the usual places", "%s names %s, which is not there", nvml.PathVariable, r.value(nvml.PathVariable))
	case h.Ended != "":
		r.add(about, "look for NVRM in dmesg; nvidia-smi asks the same library", "the probe of NVML %s", h.Ended)
	case h.Failure != nil:
		r.add(about, "look for NVRM in dmesg; nvidia-smi asks the same library", "%s", h.Failure.Detail)
	}
	for _, d := range h.Devices {
		if d.Fault != "" {
			r.add(about, "nvidia-smi --gpu-reset, with nothing on the device; a host that says so again needs repair", "%s", d.Fault)
		}
		if d.Slowed != "" {
			r.add(about, "look at the fans, the heat sink and the power supply", "%s runs at %d of %d MHz: %s", d.UUID, d.MHz, d.MaxMHz, d.Slowed)
		}
		if d.Reason != "" {
			r.add(about, "look for Xid in dmesg, and reset the GPU or restart the machine", "NVML cannot read a device: %s", d.Reason)
		}
	}
}
