package nvml

// eventSet is an nvmlEventSet_t.
type eventSet uintptr

// clock is a clock domain.
type clock uint32

// The clock domains that are read.
const (
	clockSM     clock = 1
	clockMemory clock = 2
)

// calls is NVML, function by function. Values go in, values come out, and the last result is NVML's status. A method
// that this NVML lacks returns [ResultSymbolMissing]. Tests put one that is simulated in the place of the [Library].
//
// The methods are functions of NVML: https://docs.nvidia.com/deploy/nvml-api.
type calls interface {
	// driverVersion returns the version of the driver, "580.159.03".
	driverVersion() (string, Result)
	// deviceCount returns the number of devices, MIG instances left out, also of those that CUDA does not see.
	deviceCount() (int, Result)
	// deviceByIndex returns a device, in the order of the PCI bus.
	deviceByIndex(index int) (Device, Result)
	// deviceByUUID returns the device of "GPU-..." or the instance of "MIG-...".
	deviceByUUID(uuid string) (Device, Result)
	// uuid returns "GPU-..." or "MIG-...".
	uuid(d Device) (string, Result)
	// name returns what the device is called.
	name(d Device) (string, Result)
	// pciBusID returns "00000000:3B:00.0".
	pciBusID(d Device) (string, Result)

	// memory returns the memory of the device at the moment. Before CUDA 11.6 what the system has
	// reserved is not known and a part of what is used.
	memory(d Device) (Memory, Result)
	// utilization returns how busy the device was during the last sample period.
	utilization(d Device) (Utilization, Result)
	// clock returns the present frequency in MHz, and maxClock the highest.
	clock(d Device, domain clock) (mhz int, r Result)
	maxClock(d Device, domain clock) (mhz int, r Result)
	// clockReasons returns why the clocks are as low as they are.
	clockReasons(d Device) (Reasons, Result)
	// temperature returns the chip's temperature in degrees Celsius, and slowdown the one at which the
	// hardware slows down.
	temperature(d Device) (celsius int, r Result)
	slowdown(d Device) (celsius int, r Result)
	// power returns what the device draws in milliwatts, and powerLimit what it may draw.
	power(d Device) (milliwatts int, r Result)
	powerLimit(d Device) (milliwatts int, r Result)

	// eccMode tells whether ECC is on, and whether it will be after a reboot.
	eccMode(d Device) (on, pending bool, r Result)
	// eccErrors returns how many memory errors there were since the driver was loaded, or ever.
	eccErrors(d Device, uncorrected, ever bool) (count uint64, r Result)
	// remappedRows returns how many rows of memory were replaced.
	remappedRows(d Device) (RemappedRows, Result)
	// processes returns those that compute on the device.
	processes(d Device) ([]Process, Result)

	// migMode tells whether the device is divided, and whether it will be after a reset.
	migMode(d Device) (on, pending bool, r Result)
	// maxMIGDevices returns how many instances there can be, and migDevice one of them or ResultNotFound.
	maxMIGDevices(d Device) (int, Result)
	migDevice(d Device, index int) (Device, Result)
	// parent returns the device that a MIG instance is a part of.
	parent(mig Device) (Device, Result)

	// nvLink tells whether a link is active. Links that the device does not have are ResultInvalidArgument
	// or ResultNotSupported.
	nvLink(d Device, link int) (active bool, r Result)
	// nvLinkRemote returns the PCI bus id of the other end of a link.
	nvLinkRemote(d Device, link int) (pciBusID string, r Result)
	// pcie returns the link to the host as it is now, and maxPCIe the best that device and host can do.
	pcie(d Device) (PCIe, Result)
	maxPCIe(d Device) (PCIe, Result)

	// supportedEvents returns the events that the device can tell of.
	supportedEvents(d Device) (EventType, Result)
	// createEventSet makes a set, which freeEventSet ends. registerEvents makes it hear of a device.
	createEventSet() (eventSet, Result)
	registerEvents(d Device, types EventType, set eventSet) Result
	freeEventSet(set eventSet) Result
	// waitEvent waits on the calling thread for an event of a set, and returns ResultTimeout after that time. A
	// set must not be freed meanwhile.
	waitEvent(set eventSet, milliseconds int) (Event, Result)
}
