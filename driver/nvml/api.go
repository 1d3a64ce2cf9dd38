package nvml

import "strings"

// Device is an nvmlDevice_t: a device or a MIG instance. It is a plain value, good until the Library is
// closed; 0 is none.
type Device uintptr

// EventSet is an nvmlEventSet_t.
type EventSet uintptr

// API is NVML: [*Library] calls the real one, and package nvmltest has one that is simulated. Values go in,
// values come out, and the last result is NVML's status. A method that this NVML lacks returns
// [ResultSymbolMissing].
//
// The methods are functions of NVML: https://docs.nvidia.com/deploy/nvml-api. All are safe for
// concurrent use. The interface grows with NVML: embed it in your own implementations.
type API interface {
	// DriverVersion returns the version of the driver, "580.159.03".
	DriverVersion() (string, Result)
	// DeviceCount returns the number of devices, MIG instances left out, also of those that CUDA does not see.
	DeviceCount() (int, Result)
	// DeviceByIndex returns a device, in the order of the PCI bus.
	DeviceByIndex(index int) (Device, Result)
	// DeviceByUUID returns the device of "GPU-..." or the instance of "MIG-...".
	DeviceByUUID(uuid string) (Device, Result)
	// UUID returns "GPU-..." or "MIG-...".
	UUID(d Device) (string, Result)
	// Name returns what the device is called.
	Name(d Device) (string, Result)
	// PCIBusID returns "00000000:3B:00.0".
	PCIBusID(d Device) (string, Result)

	// Memory returns the memory of the device at the moment. Before CUDA 11.6 what the system has
	// reserved is not known and a part of what is used.
	Memory(d Device) (Memory, Result)
	// Utilization returns how busy the device was during the last sample period.
	Utilization(d Device) (Utilization, Result)
	// Clock returns the present frequency in MHz, and MaxClock the highest.
	Clock(d Device, domain Clock) (mhz int, r Result)
	MaxClock(d Device, domain Clock) (mhz int, r Result)
	// ClockReasons returns why the clocks are as low as they are.
	ClockReasons(d Device) (Reasons, Result)
	// Temperature returns the chip's temperature in degrees Celsius, and Slowdown the one at which the
	// hardware slows down.
	Temperature(d Device) (celsius int, r Result)
	Slowdown(d Device) (celsius int, r Result)
	// Power returns what the device draws in milliwatts, and PowerLimit what it may draw.
	Power(d Device) (milliwatts int, r Result)
	PowerLimit(d Device) (milliwatts int, r Result)

	// ECCMode tells whether ECC is on, and whether it will be after a reboot.
	ECCMode(d Device) (on, pending bool, r Result)
	// ECCErrors returns how many memory errors there were since the driver was loaded, or ever.
	ECCErrors(d Device, uncorrected, ever bool) (count uint64, r Result)
	// RemappedRows returns how many rows of memory were replaced.
	RemappedRows(d Device) (RemappedRows, Result)
	// Processes returns those that compute on the device.
	Processes(d Device) ([]Process, Result)

	// MIGMode tells whether the device is divided, and whether it will be after a reset.
	MIGMode(d Device) (on, pending bool, r Result)
	// MaxMIGDevices returns how many instances there can be, and MIGDevice one of them or ResultNotFound.
	MaxMIGDevices(d Device) (int, Result)
	MIGDevice(d Device, index int) (Device, Result)
	// Parent returns the device that a MIG instance is a part of.
	Parent(mig Device) (Device, Result)

	// NVLink tells whether a link is active. Links that the device does not have are ResultInvalidArgument
	// or ResultNotSupported.
	NVLink(d Device, link int) (active bool, r Result)
	// NVLinkRemote returns the PCI bus id of the other end of a link.
	NVLinkRemote(d Device, link int) (pciBusID string, r Result)
	// PCIe returns the link to the host as it is now, and MaxPCIe the best that device and host can do.
	PCIe(d Device) (PCIe, Result)
	MaxPCIe(d Device) (PCIe, Result)

	// SupportedEvents returns the events that the device can tell of.
	SupportedEvents(d Device) (EventType, Result)
	// CreateEventSet makes a set, which FreeEventSet ends. RegisterEvents makes it hear of a device.
	CreateEventSet() (EventSet, Result)
	RegisterEvents(d Device, types EventType, set EventSet) Result
	FreeEventSet(set EventSet) Result
	// WaitEvent waits on the calling thread for an event of a set, and returns ResultTimeout after that time. A
	// set must not be freed meanwhile.
	WaitEvent(set EventSet, milliseconds int) (Event, Result)
}

// Memory is the memory of a device in bytes.
type Memory struct {
	Total, Free, Used uint64
	Reserved          uint64 // for the driver and the firmware
}

// Utilization is how busy a device was, in percent of the time.
type Utilization struct {
	GPU    int // a kernel ran
	Memory int // memory was read or written
}

// Clock is a clock domain.
type Clock uint32

// The clock domains.
const (
	ClockGraphics Clock = 0
	ClockSM       Clock = 1
	ClockMemory   Clock = 2
	ClockVideo    Clock = 3
)

// Reasons are why clocks are as low as they are, as a set of bits.
type Reasons uint64

// The reasons, by their names in nvml.h.
const (
	ReasonIdle                 Reasons = 0x1
	ReasonApplicationsSetting  Reasons = 0x2
	ReasonSWPowerCap           Reasons = 0x4
	ReasonHWSlowdown           Reasons = 0x8
	ReasonSyncBoost            Reasons = 0x10
	ReasonSWThermalSlowdown    Reasons = 0x20
	ReasonHWThermalSlowdown    Reasons = 0x40
	ReasonHWPowerBrakeSlowdown Reasons = 0x80
	ReasonDisplaySetting       Reasons = 0x100
)

var reasonTexts = []string{"idle", "a setting of the clocks", "the power limit", "a slowdown of the hardware", "sync boost",
	"software slows it down because of heat", "hardware slows it down because of heat", "the power brake of the hardware", "a setting of the display"}

// Wrong are the reasons that speak of too much heat or too little power, and so of a machine to look at.
func (r Reasons) Wrong() Reasons {
	return r & (ReasonHWSlowdown | ReasonSWThermalSlowdown | ReasonHWThermalSlowdown | ReasonHWPowerBrakeSlowdown)
}

// String names the reasons, in our words.
func (r Reasons) String() string {
	var names []string
	for i, text := range reasonTexts {
		if r&(1<<i) != 0 {
			names = append(names, text)
		}
	}
	if r>>len(reasonTexts) != 0 {
		names = append(names, "a reason that is newer than this program")
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// RemappedRows are the rows of memory that were replaced by spare ones.
type RemappedRows struct {
	Corrected, Uncorrected int
	Pending                bool // a reset of the device replaces one
	Failed                 bool // one could not be replaced: the device needs repair
}

// Process is one that computes on a device.
type Process struct {
	PID uint32
	// Memory is in bytes, or 0 where it is not known: on Windows, and for processes of other containers.
	Memory uint64
}

// PCIe is a link of the PCI Express bus.
type PCIe struct{ Generation, Width int }

// EventType is a set of kinds of events.
type EventType uint64

// The kinds of events that [Watch] asks for, by their names in nvml.h.
const (
	EventSingleBitECC EventType = 0x1
	EventDoubleBitECC EventType = 0x2
	EventXid          EventType = 0x8
)

// Event is what a device tells of.
type Event struct {
	Device Device
	Type   EventType
	Xid    Xid // of an EventXid
}
