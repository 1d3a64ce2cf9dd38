package nvml

import (
	"bytes"
	"math"
	"unsafe"

	"github.com/purecuda/purecuda/internal/ffi"
)

var (
	_ API   = (*Library)(nil)
	_ calls = (*Library)(nil)
)

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

func (l *Library) driverVersion() (string, Result) {
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

func (l *Library) deviceCount() (int, Result) {
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

func (l *Library) deviceByIndex(index int) (Device, Result) {
	if index < 0 || index > maxDevices {
		return 0, ResultInvalidArgument
	}
	var d Device
	r := l.get(fnDeviceGetHandleByIndex_v2, Device(index), unsafe.Pointer(&d))
	return handle(d, r)
}

func (l *Library) deviceByUUID(uuid string) (Device, Result) {
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

func (l *Library) uuid(d Device) (string, Result) { return l.text(fnDeviceGetUUID, d) }

func (l *Library) name(d Device) (string, Result) { return l.text(fnDeviceGetName, d) }

func (l *Library) pciBusID(d Device) (string, Result) {
	var info cPCIInfo
	r := l.get(fnDeviceGetPciInfo_v3, d, unsafe.Pointer(&info))
	return textOf(info.busID[:]), r
}

func (l *Library) memory(d Device) (Memory, Result) {
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

func (l *Library) utilization(d Device) (Utilization, Result) {
	var u cUtilization
	r := l.get(fnDeviceGetUtilizationRates, d, unsafe.Pointer(&u))
	if r == Success && max(u.gpu, u.memory) > 100 {
		return Utilization{}, ResultImpossibleValue
	}
	return Utilization{GPU: int(u.gpu), Memory: int(u.memory)}, r
}

func (l *Library) clock(d Device, domain clock) (mhz int, r Result) {
	return l.numberOf(fnDeviceGetClockInfo, d, int(domain), maxMHz)
}

func (l *Library) maxClock(d Device, domain clock) (mhz int, r Result) {
	return l.numberOf(fnDeviceGetMaxClockInfo, d, int(domain), maxMHz)
}

func (l *Library) clockReasons(d Device) (Reasons, Result) {
	var reasons Reasons
	r := l.get(fnDeviceGetCurrentClocksEventReasons, d, unsafe.Pointer(&reasons))
	return reasons, r
}

func (l *Library) temperature(d Device) (celsius int, r Result) {
	const chip = 0 // NVML_TEMPERATURE_GPU
	return l.numberOf(fnDeviceGetTemperature, d, chip, 1000)
}

func (l *Library) slowdown(d Device) (celsius int, r Result) {
	const slowdown = 1 // NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
	return l.numberOf(fnDeviceGetTemperatureThreshold, d, slowdown, 1000)
}

func (l *Library) power(d Device) (milliwatts int, r Result) {
	return l.number(fnDeviceGetPowerUsage, d, math.MaxInt32)
}

func (l *Library) powerLimit(d Device) (milliwatts int, r Result) {
	return l.number(fnDeviceGetEnforcedPowerLimit, d, math.MaxInt32)
}

func (l *Library) eccMode(d Device) (on, pending bool, r Result) { return l.two(fnDeviceGetEccMode, d) }

func (l *Library) eccErrors(d Device, uncorrected, ever bool) (count uint64, r Result) {
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

func (l *Library) remappedRows(d Device) (RemappedRows, Result) {
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

func (l *Library) processes(d Device) ([]Process, Result) {
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

func (l *Library) migMode(d Device) (on, pending bool, r Result) { return l.two(fnDeviceGetMigMode, d) }

func (l *Library) maxMIGDevices(d Device) (int, Result) {
	return l.number(fnDeviceGetMaxMigDeviceCount, d, maxDevices)
}

func (l *Library) migDevice(d Device, index int) (Device, Result) {
	var mig Device
	r := l.getOf(fnDeviceGetMigDeviceHandleByIndex, d, index, unsafe.Pointer(&mig))
	return handle(mig, r)
}

func (l *Library) parent(mig Device) (Device, Result) {
	var parent Device
	r := l.get(fnDeviceGetDeviceHandleFromMigDeviceHandle, mig, unsafe.Pointer(&parent))
	return handle(parent, r)
}

func (l *Library) nvLink(d Device, link int) (active bool, r Result) {
	state, r := l.numberOf(fnDeviceGetNvLinkState, d, link, math.MaxInt32)
	return state != 0, r
}

func (l *Library) nvLinkRemote(d Device, link int) (pciBusID string, r Result) {
	var info cPCIInfo
	r = l.getOf(fnDeviceGetNvLinkRemotePciInfo_v2, d, link, unsafe.Pointer(&info))
	return textOf(info.busID[:]), r
}

func (l *Library) pcie(d Device) (PCIe, Result) {
	return l.link(d, fnDeviceGetCurrPcieLinkGeneration, fnDeviceGetCurrPcieLinkWidth)
}

func (l *Library) maxPCIe(d Device) (PCIe, Result) {
	return l.link(d, fnDeviceGetMaxPcieLinkGeneration, fnDeviceGetMaxPcieLinkWidth)
}

func (l *Library) link(d Device, generation, width function) (p PCIe, r Result) {
	if p.Generation, r = l.number(generation, d, 100); r == Success {
		p.Width, r = l.number(width, d, 100)
	}
	return p, r
}

func (l *Library) supportedEvents(d Device) (EventType, Result) {
	var types EventType
	r := l.get(fnDeviceGetSupportedEventTypes, d, unsafe.Pointer(&types))
	return types, r
}

func (l *Library) createEventSet() (eventSet, Result) {
	var set eventSet
	var c struct {
		ffi.Frame
		out *eventSet
		_   [ffi.RegisterWords - 1]uintptr
	}
	c.out = &set
	r := l.call(fnEventSetCreate, &c.Frame, 1)
	return handle(set, r)
}

func (l *Library) registerEvents(d Device, types EventType, set eventSet) Result {
	var c struct {
		ffi.Frame
		device Device
		types  EventType
		set    eventSet
		_      [ffi.RegisterWords - 3]uintptr
	}
	c.device, c.types, c.set = d, types, set
	return l.call(fnDeviceRegisterEvents, &c.Frame, 3)
}

func (l *Library) freeEventSet(set eventSet) Result {
	var c struct {
		ffi.Frame
		set eventSet
		_   [ffi.RegisterWords - 1]uintptr
	}
	c.set = set
	return l.call(fnEventSetFree, &c.Frame, 1)
}

func (l *Library) waitEvent(set eventSet, milliseconds int) (Event, Result) {
	if milliseconds < 0 || milliseconds > math.MaxInt32 {
		return Event{}, ResultInvalidArgument
	}
	var e cEvent
	var c struct {
		ffi.Frame
		set          eventSet
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
