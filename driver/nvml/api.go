package nvml

import (
	"context"
	"strings"
)

// Device is an nvmlDevice_t: a device or a MIG instance. It is a plain value, good until the Library is
// closed; 0 is none.
type Device uintptr

// API reads NVML: [*Library] is the real one, and package nvmltest has one that is simulated. All methods are safe for
// concurrent use. The interface grows with NVML: embed it in your own implementations.
type API interface {
	// DriverVersion returns the version of the driver, "580.159.03", or "" where it is not known.
	DriverVersion() string
	// Find returns the device with a UUID, with or without "GPU-" or "MIG-". A runtime.Device has one. The error
	// is of kind [driver.ErrInvalidArgument] if there is none.
	Find(uuid string) (Device, error)
	// Read asks for all that NVML knows of a device: some forty calls, which take some milliseconds.
	Read(d Device) Status
	// ReadAll is Read of all devices, each followed by its MIG instances. Devices that CUDA does not see are among
	// them. A device that NVML cannot open has a Status with the reason alone.
	ReadAll() ([]Status, error)
	// Memory reads the memory alone, with one call.
	Memory(d Device) (Memory, error)
	// Watch calls f for every Xid and ECC error of the devices, until ctx ends, and returns ctx's cause then. Without
	// devices it watches all. f runs on the goroutine of Watch; events that come meanwhile wait.
	//
	// A device that has no such events is left out. If none has any, the error is of kind [driver.ErrUnsupported].
	// A device that is lost is an event with Xid 79, at times a second one, and is left out then; losing the last
	// one ends Watch. An error or a panic of f ends Watch, which returns it.
	Watch(ctx context.Context, f func(Event) error, devices ...Device) error
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

// The kinds of events that Watch asks for, by their names in nvml.h.
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
