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

// find is Library.Find.
func find(api calls, uuid string) (Device, error) {
	var last Result
	for _, prefix := range []string{"GPU-", "MIG-", ""} {
		d, r := api.deviceByUUID(prefix + uuid)
		if r == Success {
			return d, nil
		}
		if r != ResultNotFound && r != ResultInvalidArgument {
			return 0, failed(api, "nvmlDeviceGetHandleByUUID", r)
		}
		last = r
	}
	e := failed(api, "nvmlDeviceGetHandleByUUID", last)
	e.Kind, e.Detail = driver.ErrInvalidArgument, fmt.Sprintf("NVML has no device with UUID %q", uuid)
	return 0, e
}

// reader notes what could not be read.
type reader struct {
	api calls
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

// read is Library.Read.
func read(api calls, d Device) Status {
	var s Status
	r := reader{api, &s}
	var result Result
	if s.UUID, result = api.uuid(d); !r.ok("nvmlDeviceGetUUID", result) {
		s.UUID = ""
		if result == ResultGPUIsLost || result == ResultUninitialized || result == ResultInvalidArgument {
			return s // and so will all the others
		}
	}
	s.Name, result = api.name(d)
	r.ok("nvmlDeviceGetName", result)
	s.PCIBusID, result = api.pciBusID(d)
	r.ok("nvmlDeviceGetPciInfo_v3", result)
	if parent, result := api.parent(d); result == Success && parent != d {
		s.Parent, result = api.uuid(parent)
		r.ok("nvmlDeviceGetUUID", result)
	}
	s.Memory = value[Memory](r, "nvmlDeviceGetMemoryInfo")(api.memory(d))
	s.Utilization = value[Utilization](r, "nvmlDeviceGetUtilizationRates")(api.utilization(d))
	s.Clocks = r.clocks(d)
	if celsius, result := api.temperature(d); r.ok("nvmlDeviceGetTemperature", result) {
		s.Temperature = &Temperature{Now: celsius}
		s.Temperature.Slowdown, result = api.slowdown(d)
		r.ok("nvmlDeviceGetTemperatureThreshold", result)
	}
	if milliwatts, result := api.power(d); r.ok("nvmlDeviceGetPowerUsage", result) {
		s.Power = &Power{Now: milliwatts}
		s.Power.Limit, result = api.powerLimit(d)
		r.ok("nvmlDeviceGetEnforcedPowerLimit", result)
	}
	s.ECC = r.ecc(d)
	s.Rows = value[RemappedRows](r, "nvmlDeviceGetRemappedRows")(api.remappedRows(d))
	s.Processes = value[[]Process](r, "nvmlDeviceGetComputeRunningProcesses_v3")(api.processes(d))
	if now, result := api.pcie(d); r.ok("nvmlDeviceGetCurrPcieLinkGeneration", result) {
		s.PCIe = &Link{Now: now}
		s.PCIe.Max, result = api.maxPCIe(d)
		r.ok("nvmlDeviceGetMaxPcieLinkGeneration", result)
	}
	s.NVLinks = r.nvlinks(d)
	if on, pending, result := api.migMode(d); result != ResultNotSupported && r.ok("nvmlDeviceGetMigMode", result) {
		s.MIG = &MIG{On: on, Pending: pending}
		for _, mig := range instances(api, d) {
			if uuid, result := api.uuid(mig); r.ok("nvmlDeviceGetUUID", result) {
				s.MIG.Instances = append(s.MIG.Instances, uuid)
			}
		}
	}
	return s
}

func (r reader) clocks(d Device) *Clocks {
	var c Clocks
	var result Result
	if c.SM, result = r.api.clock(d, clockSM); !r.ok("nvmlDeviceGetClockInfo", result) {
		return nil
	}
	c.Memory, result = r.api.clock(d, clockMemory)
	r.ok("nvmlDeviceGetClockInfo", result)
	c.MaxSM, result = r.api.maxClock(d, clockSM)
	r.ok("nvmlDeviceGetMaxClockInfo", result)
	c.MaxMemory, result = r.api.maxClock(d, clockMemory)
	r.ok("nvmlDeviceGetMaxClockInfo", result)
	c.Reasons, result = r.api.clockReasons(d)
	r.ok("nvmlDeviceGetCurrentClocksEventReasons", result)
	return &c
}

func (r reader) ecc(d Device) *ECC {
	var e ECC
	var result Result
	if e.On, e.Pending, result = r.api.eccMode(d); !r.ok("nvmlDeviceGetEccMode", result) || !e.On {
		if result != Success {
			return nil
		}
		return &e
	}
	for _, count := range []struct {
		to                *uint64
		uncorrected, ever bool
	}{{&e.Corrected, false, false}, {&e.Uncorrected, true, false}, {&e.EverCorrected, false, true}, {&e.EverUncorrected, true, true}} {
		*count.to, result = r.api.eccErrors(d, count.uncorrected, count.ever)
		r.ok("nvmlDeviceGetTotalEccErrors", result)
	}
	return &e
}

// nvlinks asks until the device has no more links.
func (r reader) nvlinks(d Device) (links []NVLink) {
	for link := range maxNVLinks {
		active, result := r.api.nvLink(d, link)
		if result == ResultInvalidArgument || result == ResultNotSupported {
			return links
		}
		if !r.ok("nvmlDeviceGetNvLinkState", result) {
			return links
		}
		if active {
			remote, _ := r.api.nvLinkRemote(d, link)
			links = append(links, NVLink{link, remote})
		}
	}
	return links
}

// instances are the MIG instances of a device.
func instances(api calls, d Device) (all []Device) {
	n, r := api.maxMIGDevices(d)
	if r != Success {
		return nil
	}
	for i := range n {
		if mig, r := api.migDevice(d, i); r == Success {
			all = append(all, mig)
		}
	}
	return all
}

// readAll is Library.ReadAll.
func readAll(api calls) ([]Status, error) {
	n, r := api.deviceCount()
	if r != Success {
		return nil, failed(api, "nvmlDeviceGetCount_v2", r)
	}
	var all []Status
	for i := range n {
		d, r := api.deviceByIndex(i)
		if r != Success {
			all = append(all, Status{Unknown: []error{failed(api, "nvmlDeviceGetHandleByIndex_v2", r)}})
			continue
		}
		all = append(all, read(api, d))
		for _, mig := range instances(api, d) {
			all = append(all, read(api, mig))
		}
	}
	return all, nil
}
