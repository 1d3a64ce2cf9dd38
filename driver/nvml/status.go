package nvml

import (
	"fmt"

	"github.com/purecuda/purecuda/driver"
)

// Status is what NVML says of a device or a MIG instance at a moment. What it does not say is nil or
// empty, and Unknown has the reasons.
type Status struct {
	UUID     string // "GPU-..." or "MIG-..."
	Name     string
	PCIBusID string
	Parent   string // of a MIG instance: the UUID of its device

	Memory      *Memory
	Utilization *Utilization
	Clocks      *Clocks
	Temperature *Temperature
	Power       *Power
	ECC         *ECC
	Rows        *RemappedRows
	Processes   *[]Process
	PCIe        *Link
	NVLinks     []NVLink // those that are active
	MIG         *MIG

	Unknown []error
}

// Clocks are frequencies in MHz, and why they are not higher.
type Clocks struct {
	SM, MaxSM         int
	Memory, MaxMemory int
	Reasons           Reasons
}

// Temperature of the chip, in degrees Celsius.
type Temperature struct {
	Now      int
	Slowdown int // at which the hardware slows down; 0: not known
}

// Power is what the device draws, in milliwatts.
type Power struct {
	Now   int
	Limit int // what it may draw; 0: not known
}

// ECC is about errors of the memory. The counts are those since the driver was loaded, and ever.
type ECC struct {
	On, Pending                    bool // now, and after a reboot
	Corrected, Uncorrected         uint64
	EverCorrected, EverUncorrected uint64
}

// Link is the PCI Express link to the host. An idle device has a slow one, to save power.
type Link struct{ Now, Max PCIe }

// NVLink is an active link to another device or a switch.
type NVLink struct {
	Number int
	Remote string // PCI bus id of the other end, or "" if it is not known
}

// MIG says how a device is divided.
type MIG struct {
	On, Pending bool     // now, and after a reset
	Instances   []string // UUIDs
}

// maxNVLinks is NVML_NVLINK_MAX_LINKS.
const maxNVLinks = 36

// Fault is why the device should not get new work, or nil: its memory has errors that nothing corrects. Bad
// rows that are replaced at the next reset count, and those that cannot be replaced.
func (s Status) Fault() error {
	rows, ecc := s.Rows, s.ECC
	switch {
	case rows != nil && rows.Failed:
		return driver.Errorf(driver.ErrDriverCallFailed, "%s: a bad row of memory could not be replaced: the device needs repair", s.UUID)
	case rows != nil && rows.Pending:
		return driver.Errorf(driver.ErrDriverCallFailed, "%s: a bad row of memory is replaced at the next reset of the device: reset it", s.UUID)
	case ecc != nil && rows == nil && ecc.Uncorrected > 0: // where rows are replaced the driver has done that
		return driver.Errorf(driver.ErrDriverCallFailed, "%s: %d errors of memory since the driver was loaded that ECC could not correct: reset the device", s.UUID, ecc.Uncorrected)
	}
	return nil
}

// Find returns the device with a UUID: a runtime.Device has one, or it is a text with or without "GPU-" or "MIG-".
// The error is of kind [driver.ErrInvalidArgument] if there is none.
func Find(api API, uuid fmt.Stringer) (Device, error) {
	if api == nil || uuid == nil {
		return 0, driver.Errorf(driver.ErrInvalidArgument, "Find takes an NVML and a UUID that are not nil")
	}
	text := uuid.String()
	var last Result
	for _, prefix := range []string{"GPU-", "MIG-", ""} {
		d, r := api.DeviceByUUID(prefix + text)
		if r == Success {
			return d, nil
		}
		if r != ResultNotFound && r != ResultInvalidArgument {
			return 0, failed(api, "nvmlDeviceGetHandleByUUID", r)
		}
		last = r
	}
	e := failed(api, "nvmlDeviceGetHandleByUUID", last)
	e.Kind, e.Detail = driver.ErrInvalidArgument, fmt.Sprintf("NVML has no device with UUID %q", text)
	return 0, e
}

// reader notes what could not be read.
type reader struct {
	api API
	s   *Status
}

// ok tells whether a call has succeeded, and notes why not.
func (r reader) ok(function string, result Result) bool {
	if result != Success {
		r.s.Unknown = append(r.s.Unknown, failed(r.api, function, result))
	}
	return result == Success
}

// value is a pointer to a value that is known, or nil.
func value[T any](r reader, function string) func(T, Result) *T {
	return func(v T, result Result) *T {
		if !r.ok(function, result) {
			return nil
		}
		return &v
	}
}

// Read asks for all that NVML knows of a device: some forty calls, which take some milliseconds.
func Read(api API, d Device) Status {
	var s Status
	if api == nil {
		s.Unknown = []error{driver.Errorf(driver.ErrInvalidArgument, "Read takes an NVML that is not nil")}
		return s
	}
	r := reader{api, &s}
	var result Result
	if s.UUID, result = api.UUID(d); !r.ok("nvmlDeviceGetUUID", result) {
		s.UUID = ""
		if result == ResultGPUIsLost || result == ResultUninitialized || result == ResultInvalidArgument {
			return s // and so will all the others
		}
	}
	s.Name, result = api.Name(d)
	r.ok("nvmlDeviceGetName", result)
	s.PCIBusID, result = api.PCIBusID(d)
	r.ok("nvmlDeviceGetPciInfo_v3", result)
	if parent, result := api.Parent(d); result == Success && parent != d {
		s.Parent, result = api.UUID(parent)
		r.ok("nvmlDeviceGetUUID", result)
	}
	s.Memory = value[Memory](r, "nvmlDeviceGetMemoryInfo")(api.Memory(d))
	s.Utilization = value[Utilization](r, "nvmlDeviceGetUtilizationRates")(api.Utilization(d))
	s.Clocks = r.clocks(d)
	if celsius, result := api.Temperature(d); r.ok("nvmlDeviceGetTemperature", result) {
		s.Temperature = &Temperature{Now: celsius}
		s.Temperature.Slowdown, result = api.Slowdown(d)
		r.ok("nvmlDeviceGetTemperatureThreshold", result)
	}
	if milliwatts, result := api.Power(d); r.ok("nvmlDeviceGetPowerUsage", result) {
		s.Power = &Power{Now: milliwatts}
		s.Power.Limit, result = api.PowerLimit(d)
		r.ok("nvmlDeviceGetEnforcedPowerLimit", result)
	}
	s.ECC = r.ecc(d)
	s.Rows = value[RemappedRows](r, "nvmlDeviceGetRemappedRows")(api.RemappedRows(d))
	s.Processes = value[[]Process](r, "nvmlDeviceGetComputeRunningProcesses_v3")(api.Processes(d))
	if now, result := api.PCIe(d); r.ok("nvmlDeviceGetCurrPcieLinkGeneration", result) {
		s.PCIe = &Link{Now: now}
		s.PCIe.Max, result = api.MaxPCIe(d)
		r.ok("nvmlDeviceGetMaxPcieLinkGeneration", result)
	}
	s.NVLinks = r.nvlinks(d)
	if on, pending, result := api.MIGMode(d); result != ResultNotSupported && r.ok("nvmlDeviceGetMigMode", result) {
		s.MIG = &MIG{On: on, Pending: pending}
		for _, mig := range instances(api, d) {
			if uuid, result := api.UUID(mig); r.ok("nvmlDeviceGetUUID", result) {
				s.MIG.Instances = append(s.MIG.Instances, uuid)
			}
		}
	}
	return s
}

func (r reader) clocks(d Device) *Clocks {
	var c Clocks
	var result Result
	if c.SM, result = r.api.Clock(d, ClockSM); !r.ok("nvmlDeviceGetClockInfo", result) {
		return nil
	}
	c.Memory, result = r.api.Clock(d, ClockMemory)
	r.ok("nvmlDeviceGetClockInfo", result)
	c.MaxSM, result = r.api.MaxClock(d, ClockSM)
	r.ok("nvmlDeviceGetMaxClockInfo", result)
	c.MaxMemory, result = r.api.MaxClock(d, ClockMemory)
	r.ok("nvmlDeviceGetMaxClockInfo", result)
	c.Reasons, result = r.api.ClockReasons(d)
	r.ok("nvmlDeviceGetCurrentClocksEventReasons", result)
	return &c
}

func (r reader) ecc(d Device) *ECC {
	var e ECC
	var result Result
	if e.On, e.Pending, result = r.api.ECCMode(d); !r.ok("nvmlDeviceGetEccMode", result) || !e.On {
		if result != Success {
			return nil
		}
		return &e
	}
	for _, count := range []struct {
		to                *uint64
		uncorrected, ever bool
	}{{&e.Corrected, false, false}, {&e.Uncorrected, true, false}, {&e.EverCorrected, false, true}, {&e.EverUncorrected, true, true}} {
		*count.to, result = r.api.ECCErrors(d, count.uncorrected, count.ever)
		r.ok("nvmlDeviceGetTotalEccErrors", result)
	}
	return &e
}

// nvlinks asks until the device has no more links.
func (r reader) nvlinks(d Device) (links []NVLink) {
	for link := range maxNVLinks {
		active, result := r.api.NVLink(d, link)
		if result == ResultInvalidArgument || result == ResultNotSupported {
			return links
		}
		if !r.ok("nvmlDeviceGetNvLinkState", result) {
			return links
		}
		if active {
			remote, _ := r.api.NVLinkRemote(d, link)
			links = append(links, NVLink{link, remote})
		}
	}
	return links
}

// instances are the MIG instances of a device.
func instances(api API, d Device) (all []Device) {
	n, r := api.MaxMIGDevices(d)
	if r != Success {
		return nil
	}
	for i := range n {
		if mig, r := api.MIGDevice(d, i); r == Success {
			all = append(all, mig)
		}
	}
	return all
}

// ReadAll is Read of all devices, each followed by its MIG instances. A device that NVML cannot open has a
// Status with the reason alone.
func ReadAll(api API) ([]Status, error) {
	if api == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "ReadAll takes an NVML that is not nil")
	}
	n, r := api.DeviceCount()
	if r != Success {
		return nil, failed(api, "nvmlDeviceGetCount_v2", r)
	}
	var all []Status
	for i := range n {
		d, r := api.DeviceByIndex(i)
		if r != Success {
			all = append(all, Status{Unknown: []error{failed(api, "nvmlDeviceGetHandleByIndex_v2", r)}})
			continue
		}
		all = append(all, Read(api, d))
		for _, mig := range instances(api, d) {
			all = append(all, Read(api, mig))
		}
	}
	return all, nil
}
