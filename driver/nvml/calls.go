package nvml

import (
	"bytes"
	"math"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ffi"
)

var _ API = (*Library)(nil)

// The bounds of what an NVML returns.
const (
	maxDevices   = 1024
	maxProcesses = 1 << 16
	maxText      = 96 // of all texts that NVML writes
	maxMHz       = 1 << 20
)

// get calls f(device, out).
func (l *Library) get(f function, d Device, out unsafe.Pointer) Result {
	var c struct {
		ffi.Frame
		device Device
		out    unsafe.Pointer
		_      [ffi.RegisterWords - 2]uintptr
	}
	c.device, c.out = d, out
	return l.call(f, &c.Frame, 2)
}

// getOf calls f(device, argument, out).
func (l *Library) getOf(f function, d Device, argument int, out unsafe.Pointer) Result {
	if argument < 0 || argument > math.MaxInt32 {
		return ResultInvalidArgument
	}
	var c struct {
		ffi.Frame
		device   Device
		argument uintptr
		out      unsafe.Pointer
		_        [ffi.RegisterWords - 3]uintptr
	}
	c.device, c.argument, c.out = d, uintptr(argument), out
	return l.call(f, &c.Frame, 3)
}

// number is get of an unsigned int that is at most limit.
func (l *Library) number(f function, d Device, limit uint32) (int, Result) {
	var n uint32
	r := l.get(f, d, unsafe.Pointer(&n))
	return bounded(n, limit, r)
}

func (l *Library) numberOf(f function, d Device, argument int, limit uint32) (int, Result) {
	var n uint32
	r := l.getOf(f, d, argument, unsafe.Pointer(&n))
	return bounded(n, limit, r)
}

func bounded(n, limit uint32, r Result) (int, Result) {
	switch {
	case r != Success:
		return 0, r
	case n > limit:
		return 0, ResultImpossibleValue
	}
	return int(n), Success
}

// text calls f(device, buffer, length).
func (l *Library) text(f function, d Device) (string, Result) {
	buffer := make([]byte, maxText)
	var c struct {
		ffi.Frame
		device Device
		buffer *byte
		length uintptr
		_      [ffi.RegisterWords - 3]uintptr
	}
	c.device, c.buffer, c.length = d, unsafe.SliceData(buffer), maxText
	r := l.call(f, &c.Frame, 3)
	return textOf(buffer), r
}

// textOf is a text of C, or all of the buffer if it does not end.
func textOf(buffer []byte) string {
	text, _, _ := bytes.Cut(buffer, []byte{0})
	return string(text)
}

// two calls f(device, *first, *second), of which each is an nvmlEnableState_t or a number.
func (l *Library) two(f function, d Device) (first, second bool, r Result) {
	var a, b uint32
	var c struct {
		ffi.Frame
		device Device
		a, b   *uint32
		_      [ffi.RegisterWords - 3]uintptr
	}
	c.device, c.a, c.b = d, &a, &b
	r = l.call(f, &c.Frame, 3)
	return a != 0, b != 0, r
}

// handle checks a handle that NVML has made.
func handle[T ~uintptr](h T, r Result) (T, Result) {
	if r == Success && h == 0 {
		return 0, ResultImpossibleValue
	}
	return h, r
}

// DriverVersion implements [API].
func (l *Library) DriverVersion() (string, Result) {
	buffer := make([]byte, maxText)
	var c struct {
		ffi.Frame
		buffer *byte
		length uintptr
		_      [ffi.RegisterWords - 2]uintptr
	}
	c.buffer, c.length = unsafe.SliceData(buffer), maxText
	r := l.call(fnSystemGetDriverVersion, &c.Frame, 2)
	return textOf(buffer), r
}

// DeviceCount implements [API].
func (l *Library) DeviceCount() (int, Result) {
	var n uint32
	var c struct {
		ffi.Frame
		out *uint32
		_   [ffi.RegisterWords - 1]uintptr
	}
	c.out = &n
	r := l.call(fnDeviceGetCount_v2, &c.Frame, 1)
	return bounded(n, maxDevices, r)
}

// DeviceByIndex implements [API].
func (l *Library) DeviceByIndex(index int) (Device, Result) {
	if index < 0 || index > maxDevices {
		return 0, ResultInvalidArgument
	}
	var d Device
	r := l.get(fnDeviceGetHandleByIndex_v2, Device(index), unsafe.Pointer(&d))
	return handle(d, r)
}

// DeviceByUUID implements [API].
func (l *Library) DeviceByUUID(uuid string) (Device, Result) {
	text, ok := ffi.CString(uuid)
	if !ok {
		return 0, ResultInvalidArgument
	}
	var d Device
	var c struct {
		ffi.Frame
		uuid *byte
		out  *Device
		_    [ffi.RegisterWords - 2]uintptr
	}
	c.uuid, c.out = text, &d
	r := l.call(fnDeviceGetHandleByUUID, &c.Frame, 2)
	return handle(d, r)
}

// UUID implements [API].
func (l *Library) UUID(d Device) (string, Result) { return l.text(fnDeviceGetUUID, d) }

// Name implements [API].
func (l *Library) Name(d Device) (string, Result) { return l.text(fnDeviceGetName, d) }

// PCIBusID implements [API].
func (l *Library) PCIBusID(d Device) (string, Result) {
	var info cPCIInfo
	r := l.get(fnDeviceGetPciInfo_v3, d, unsafe.Pointer(&info))
	return textOf(info.busID[:]), r
}

// Memory implements [API].
func (l *Library) Memory(d Device) (Memory, Result) {
	v2 := cMemoryV2{version: memoryVersion}
	r := l.get(fnDeviceGetMemoryInfo_v2, d, unsafe.Pointer(&v2))
	if r == Success {
		return memoryOf(Memory{Total: v2.total, Free: v2.free, Used: v2.used, Reserved: v2.reserved})
	}
	var v1 cMemory
	if r = l.get(fnDeviceGetMemoryInfo, d, unsafe.Pointer(&v1)); r != Success {
		return Memory{}, r
	}
	return memoryOf(Memory{Total: v1.total, Free: v1.free, Used: v1.used})
}

func memoryOf(m Memory) (Memory, Result) {
	if max(m.Free, m.Used, m.Reserved) > m.Total {
		return Memory{}, ResultImpossibleValue
	}
	return m, Success
}

// Utilization implements [API].
func (l *Library) Utilization(d Device) (Utilization, Result) {
	var u cUtilization
	r := l.get(fnDeviceGetUtilizationRates, d, unsafe.Pointer(&u))
	if r == Success && max(u.gpu, u.memory) > 100 {
		return Utilization{}, ResultImpossibleValue
	}
	return Utilization{GPU: int(u.gpu), Memory: int(u.memory)}, r
}

// Clock implements [API].
func (l *Library) Clock(d Device, domain Clock) (mhz int, r Result) {
	return l.numberOf(fnDeviceGetClockInfo, d, int(domain), maxMHz)
}

// MaxClock implements [API].
func (l *Library) MaxClock(d Device, domain Clock) (mhz int, r Result) {
	return l.numberOf(fnDeviceGetMaxClockInfo, d, int(domain), maxMHz)
}

// ClockReasons implements [API].
func (l *Library) ClockReasons(d Device) (Reasons, Result) {
	var reasons Reasons
	r := l.get(fnDeviceGetCurrentClocksEventReasons, d, unsafe.Pointer(&reasons))
	return reasons, r
}

// Temperature implements [API].
func (l *Library) Temperature(d Device) (celsius int, r Result) {
	const chip = 0 // NVML_TEMPERATURE_GPU
	return l.numberOf(fnDeviceGetTemperature, d, chip, 1000)
}

// Slowdown implements [API].
func (l *Library) Slowdown(d Device) (celsius int, r Result) {
	const slowdown = 1 // NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
	return l.numberOf(fnDeviceGetTemperatureThreshold, d, slowdown, 1000)
}

// Power implements [API].
func (l *Library) Power(d Device) (milliwatts int, r Result) {
	return l.number(fnDeviceGetPowerUsage, d, math.MaxInt32)
}

// PowerLimit implements [API].
func (l *Library) PowerLimit(d Device) (milliwatts int, r Result) {
	return l.number(fnDeviceGetEnforcedPowerLimit, d, math.MaxInt32)
}

// ECCMode implements [API].
func (l *Library) ECCMode(d Device) (on, pending bool, r Result) { return l.two(fnDeviceGetEccMode, d) }

// ECCErrors implements [API].
func (l *Library) ECCErrors(d Device, uncorrected, ever bool) (count uint64, r Result) {
	var c struct {
		ffi.Frame
		device      Device
		kind, since uintptr
		out         *uint64
		_           [ffi.RegisterWords - 4]uintptr
	}
	c.device, c.out = d, &count
	if uncorrected {
		c.kind = 1 // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
	}
	if ever {
		c.since = 1 // NVML_AGGREGATE_ECC
	}
	r = l.call(fnDeviceGetTotalEccErrors, &c.Frame, 4)
	return count, r
}

// RemappedRows implements [API].
func (l *Library) RemappedRows(d Device) (RemappedRows, Result) {
	var corrected, uncorrected, pending, failed uint32
	var c struct {
		ffi.Frame
		device                                  Device
		corrected, uncorrected, pending, failed *uint32
		_                                       [ffi.RegisterWords - 5]uintptr
	}
	c.device, c.corrected, c.uncorrected, c.pending, c.failed = d, &corrected, &uncorrected, &pending, &failed
	r := l.call(fnDeviceGetRemappedRows, &c.Frame, 5)
	return RemappedRows{Corrected: int(corrected), Uncorrected: int(uncorrected), Pending: pending != 0, Failed: failed != 0}, r
}

// Processes implements [API].
func (l *Library) Processes(d Device) ([]Process, Result) {
	// More than there were a moment ago, since others come.
	for room := uint32(64); room <= maxProcesses; room *= 4 {
		list, count := make([]cProcess, room), room
		var c struct {
			ffi.Frame
			device Device
			count  *uint32
			list   *cProcess
			_      [ffi.RegisterWords - 3]uintptr
		}
		c.device, c.count, c.list = d, &count, unsafe.SliceData(list)
		r := l.call(fnDeviceGetComputeRunningProcesses_v3, &c.Frame, 3)
		if r == ResultInsufficientSize {
			continue
		}
		if r != Success {
			return nil, r
		}
		if count > room {
			return nil, ResultImpossibleValue
		}
		all := make([]Process, count)
		for i, p := range list[:count] {
			all[i] = Process{PID: p.pid, Memory: p.memory}
			if p.memory == math.MaxUint64 { // NVML_VALUE_NOT_AVAILABLE
				all[i].Memory = 0
			}
		}
		return all, Success
	}
	return nil, ResultInsufficientSize
}

// MIGMode implements [API].
func (l *Library) MIGMode(d Device) (on, pending bool, r Result) { return l.two(fnDeviceGetMigMode, d) }

// MaxMIGDevices implements [API].
func (l *Library) MaxMIGDevices(d Device) (int, Result) {
	return l.number(fnDeviceGetMaxMigDeviceCount, d, maxDevices)
}

// MIGDevice implements [API].
func (l *Library) MIGDevice(d Device, index int) (Device, Result) {
	var mig Device
	r := l.getOf(fnDeviceGetMigDeviceHandleByIndex, d, index, unsafe.Pointer(&mig))
	return handle(mig, r)
}

// Parent implements [API].
func (l *Library) Parent(mig Device) (Device, Result) {
	var parent Device
	r := l.get(fnDeviceGetDeviceHandleFromMigDeviceHandle, mig, unsafe.Pointer(&parent))
	return handle(parent, r)
}

// NVLink implements [API].
func (l *Library) NVLink(d Device, link int) (active bool, r Result) {
	state, r := l.numberOf(fnDeviceGetNvLinkState, d, link, math.MaxInt32)
	return state != 0, r
}

// NVLinkRemote implements [API].
func (l *Library) NVLinkRemote(d Device, link int) (pciBusID string, r Result) {
	var info cPCIInfo
	r = l.getOf(fnDeviceGetNvLinkRemotePciInfo_v2, d, link, unsafe.Pointer(&info))
	return textOf(info.busID[:]), r
}

// PCIe implements [API].
func (l *Library) PCIe(d Device) (PCIe, Result) {
	return l.link(d, fnDeviceGetCurrPcieLinkGeneration, fnDeviceGetCurrPcieLinkWidth)
}

// MaxPCIe implements [API].
func (l *Library) MaxPCIe(d Device) (PCIe, Result) {
	return l.link(d, fnDeviceGetMaxPcieLinkGeneration, fnDeviceGetMaxPcieLinkWidth)
}

func (l *Library) link(d Device, generation, width function) (p PCIe, r Result) {
	if p.Generation, r = l.number(generation, d, 100); r == Success {
		p.Width, r = l.number(width, d, 100)
	}
	return p, r
}

// SupportedEvents implements [API].
func (l *Library) SupportedEvents(d Device) (EventType, Result) {
	var types EventType
	r := l.get(fnDeviceGetSupportedEventTypes, d, unsafe.Pointer(&types))
	return types, r
}

// CreateEventSet implements [API].
func (l *Library) CreateEventSet() (EventSet, Result) {
	var set EventSet
	var c struct {
		ffi.Frame
		out *EventSet
		_   [ffi.RegisterWords - 1]uintptr
	}
	c.out = &set
	r := l.call(fnEventSetCreate, &c.Frame, 1)
	return handle(set, r)
}

// RegisterEvents implements [API].
func (l *Library) RegisterEvents(d Device, types EventType, set EventSet) Result {
	var c struct {
		ffi.Frame
		device Device
		types  EventType
		set    EventSet
		_      [ffi.RegisterWords - 3]uintptr
	}
	c.device, c.types, c.set = d, types, set
	return l.call(fnDeviceRegisterEvents, &c.Frame, 3)
}

// FreeEventSet implements [API].
func (l *Library) FreeEventSet(set EventSet) Result {
	var c struct {
		ffi.Frame
		set EventSet
		_   [ffi.RegisterWords - 1]uintptr
	}
	c.set = set
	return l.call(fnEventSetFree, &c.Frame, 1)
}

// WaitEvent implements [API].
func (l *Library) WaitEvent(set EventSet, milliseconds int) (Event, Result) {
	if milliseconds < 0 || milliseconds > math.MaxInt32 {
		return Event{}, ResultInvalidArgument
	}
	var e cEvent
	var c struct {
		ffi.Frame
		set          EventSet
		out          *cEvent
		milliseconds uintptr
		_            [ffi.RegisterWords - 3]uintptr
	}
	c.set, c.out, c.milliseconds = set, &e, uintptr(milliseconds)
	r := l.call(fnEventSetWait_v2, &c.Frame, 3)
	event := Event{Device: e.device, Type: EventType(e.types)}
	if event.Type&EventXid != 0 {
		event.Xid = Xid(e.data)
	}
	return event, r
}
