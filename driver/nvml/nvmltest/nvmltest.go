// Package nvmltest has an NVML for tests: devices that a test describes and changes, faults, and events.
//
//	machine := nvmltest.New(nvml.Status{
//		UUID:   "GPU-00000000-0000-0000-0000-000000000001",
//		Memory: &nvml.Memory{Total: 80 << 30, Free: 79 << 30, Used: 1 << 30},
//	})
//	machine.Emit("GPU-00000000-0000-0000-0000-000000000001", nvml.EventXid, 79)
//	watch(machine) // the program under test
package nvmltest

import (
	"slices"
	"sync"
	"time"

	"github.com/purecuda/purecuda/driver/nvml"
)

// Machine is a simulated NVML. It implements [nvml.API] and is safe for concurrent use.
type Machine struct {
	mu      sync.Mutex
	all     []nvml.Status // a handle is the place in it, from 1 on
	lost    map[string]bool
	faults  map[string]nvml.Result
	sets    map[nvml.EventSet]map[nvml.Device]nvml.EventType
	nextSet nvml.EventSet
	queue   []queued
	changed chan struct{} // closed and made again with every event
}

type queued struct {
	set   nvml.EventSet
	event nvml.Event
}

var _ nvml.API = (*Machine)(nil)

// New makes a machine of devices. One with a Parent is a MIG instance of it. What is nil in a Status the
// device does not have: ErrorNotSupported.
func New(devices ...nvml.Status) *Machine {
	return &Machine{
		all: slices.Clone(devices), lost: map[string]bool{}, faults: map[string]nvml.Result{},
		sets: map[nvml.EventSet]map[nvml.Device]nvml.EventType{}, changed: make(chan struct{}),
	}
}

// Update changes a device. What f puts into the Status must not be changed afterwards.
func (m *Machine) Update(uuid string, f func(*nvml.Status)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.all {
		if m.all[i].UUID == uuid {
			f(&m.all[i])
		}
	}
}

// Fail makes a method, such as "Memory", return a result from now on. Success ends that.
func (m *Machine) Fail(method string, r nvml.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults[method] = r
}

// Vanish makes a device fall off the bus, with its Xid 79: all calls about it return ErrorGPUIsLost, and so
// do waits of an event set that hears of it.
func (m *Machine) Vanish(uuid string) {
	m.Emit(uuid, nvml.EventXid, 79)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost[uuid] = true
}

// Emit makes a device tell of an event those sets that are registered for it.
func (m *Machine) Emit(uuid string, kind nvml.EventType, xid nvml.Xid) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.find(uuid)
	for set, of := range m.sets {
		if of[d]&kind != 0 {
			m.queue = append(m.queue, queued{set, nvml.Event{Device: d, Type: kind, Xid: xid}})
		}
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// EventSets returns how many event sets are there: 0 when all watches have ended.
func (m *Machine) EventSets() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sets)
}

// Registered returns how many devices all event sets hear of. A test that emits waits for that.
func (m *Machine) Registered() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.sets {
		n += len(of)
	}
	return n
}

// find is the handle of a UUID, or 0. m.mu is held.
func (m *Machine) find(uuid string) nvml.Device {
	return nvml.Device(1 + slices.IndexFunc(m.all, func(s nvml.Status) bool { return s.UUID == uuid }))
}

// parts are the places of the devices without a parent, or with one. m.mu is held.
func (m *Machine) parts(parent string) (all []nvml.Device) {
	for i, s := range m.all {
		if s.Parent == parent {
			all = append(all, nvml.Device(i+1))
		}
	}
	return all
}

// ask reads a property of a device that may not have it.
func ask[T any](m *Machine, method string, d nvml.Device, f func(s *nvml.Status) *T) (v T, r nvml.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, r := m.device(method, d)
	if r != nvml.Success {
		return v, r
	}
	if p := f(s); p != nil {
		return *p, nvml.Success
	}
	return v, nvml.ResultNotSupported
}

// device returns the device of a handle. m.mu is held.
func (m *Machine) device(method string, d nvml.Device) (*nvml.Status, nvml.Result) {
	switch {
	case m.faults[method] != nvml.Success:
		return nil, m.faults[method]
	case d < 1 || int(d) > len(m.all):
		return nil, nvml.ResultInvalidArgument
	case m.lost[m.all[d-1].UUID] || m.lost[m.all[d-1].Parent]:
		return nil, nvml.ResultGPUIsLost
	}
	return &m.all[d-1], nvml.Success
}

func pointer[T any](v T) *T { return &v }

// field is ask for a property of a part of the Status that may be nil.
func field[P, T any](of *P, f func(P) T) *T {
	if of == nil {
		return nil
	}
	return pointer(f(*of))
}

// DriverVersion implements [nvml.API].
func (m *Machine) DriverVersion() (string, nvml.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return "580.159.03", m.faults["DriverVersion"]
}

// DeviceCount implements [nvml.API].
func (m *Machine) DeviceCount() (int, nvml.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.parts("")), m.faults["DeviceCount"]
}

// DeviceByIndex implements [nvml.API].
func (m *Machine) DeviceByIndex(index int) (nvml.Device, nvml.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.parts("")
	if index < 0 || index >= len(all) {
		return 0, nvml.ResultInvalidArgument
	}
	if _, r := m.device("DeviceByIndex", all[index]); r != nvml.Success {
		return 0, r
	}
	return all[index], nvml.Success
}

// DeviceByUUID implements [nvml.API].
func (m *Machine) DeviceByUUID(uuid string) (nvml.Device, nvml.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.find(uuid)
	if d == 0 {
		return 0, nvml.ResultNotFound
	}
	if _, r := m.device("DeviceByUUID", d); r != nvml.Success {
		return 0, r
	}
	return d, nvml.Success
}

// UUID implements [nvml.API].
func (m *Machine) UUID(d nvml.Device) (string, nvml.Result) {
	return ask(m, "UUID", d, func(s *nvml.Status) *string { return &s.UUID })
}

// Name implements [nvml.API].
func (m *Machine) Name(d nvml.Device) (string, nvml.Result) {
	return ask(m, "Name", d, func(s *nvml.Status) *string { return &s.Name })
}

// PCIBusID implements [nvml.API].
func (m *Machine) PCIBusID(d nvml.Device) (string, nvml.Result) {
	return ask(m, "PCIBusID", d, func(s *nvml.Status) *string { return &s.PCIBusID })
}

// Memory implements [nvml.API].
func (m *Machine) Memory(d nvml.Device) (nvml.Memory, nvml.Result) {
	return ask(m, "Memory", d, func(s *nvml.Status) *nvml.Memory { return s.Memory })
}

// Utilization implements [nvml.API].
func (m *Machine) Utilization(d nvml.Device) (nvml.Utilization, nvml.Result) {
	return ask(m, "Utilization", d, func(s *nvml.Status) *nvml.Utilization { return s.Utilization })
}

// Clock implements [nvml.API].
func (m *Machine) Clock(d nvml.Device, domain nvml.Clock) (int, nvml.Result) {
	return ask(m, "Clock", d, func(s *nvml.Status) *int {
		return field(s.Clocks, func(c nvml.Clocks) int {
			if domain == nvml.ClockMemory {
				return c.Memory
			}
			return c.SM
		})
	})
}

// MaxClock implements [nvml.API].
func (m *Machine) MaxClock(d nvml.Device, domain nvml.Clock) (int, nvml.Result) {
	return ask(m, "MaxClock", d, func(s *nvml.Status) *int {
		return field(s.Clocks, func(c nvml.Clocks) int {
			if domain == nvml.ClockMemory {
				return c.MaxMemory
			}
			return c.MaxSM
		})
	})
}

// ClockReasons implements [nvml.API].
func (m *Machine) ClockReasons(d nvml.Device) (nvml.Reasons, nvml.Result) {
	return ask(m, "ClockReasons", d, func(s *nvml.Status) *nvml.Reasons {
		return field(s.Clocks, func(c nvml.Clocks) nvml.Reasons { return c.Reasons })
	})
}

// Temperature implements [nvml.API].
func (m *Machine) Temperature(d nvml.Device) (int, nvml.Result) {
	return ask(m, "Temperature", d, func(s *nvml.Status) *int {
		return field(s.Temperature, func(t nvml.Temperature) int { return t.Now })
	})
}

// Slowdown implements [nvml.API].
func (m *Machine) Slowdown(d nvml.Device) (int, nvml.Result) {
	return ask(m, "Slowdown", d, func(s *nvml.Status) *int {
		return field(s.Temperature, func(t nvml.Temperature) int { return t.Slowdown })
	})
}

// Power implements [nvml.API].
func (m *Machine) Power(d nvml.Device) (int, nvml.Result) {
	return ask(m, "Power", d, func(s *nvml.Status) *int {
		return field(s.Power, func(p nvml.Power) int { return p.Now })
	})
}

// PowerLimit implements [nvml.API].
func (m *Machine) PowerLimit(d nvml.Device) (int, nvml.Result) {
	return ask(m, "PowerLimit", d, func(s *nvml.Status) *int {
		return field(s.Power, func(p nvml.Power) int { return p.Limit })
	})
}

// ECCMode implements [nvml.API].
func (m *Machine) ECCMode(d nvml.Device) (on, pending bool, r nvml.Result) {
	ecc, r := ask(m, "ECCMode", d, func(s *nvml.Status) *nvml.ECC { return s.ECC })
	return ecc.On, ecc.Pending, r
}

// ECCErrors implements [nvml.API].
func (m *Machine) ECCErrors(d nvml.Device, uncorrected, ever bool) (uint64, nvml.Result) {
	return ask(m, "ECCErrors", d, func(s *nvml.Status) *uint64 {
		return field(s.ECC, func(e nvml.ECC) uint64 {
			switch {
			case uncorrected && ever:
				return e.EverUncorrected
			case uncorrected:
				return e.Uncorrected
			case ever:
				return e.EverCorrected
			}
			return e.Corrected
		})
	})
}

// RemappedRows implements [nvml.API].
func (m *Machine) RemappedRows(d nvml.Device) (nvml.RemappedRows, nvml.Result) {
	return ask(m, "RemappedRows", d, func(s *nvml.Status) *nvml.RemappedRows { return s.Rows })
}

// Processes implements [nvml.API].
func (m *Machine) Processes(d nvml.Device) ([]nvml.Process, nvml.Result) {
	all, r := ask(m, "Processes", d, func(s *nvml.Status) *[]nvml.Process { return s.Processes })
	return slices.Clone(all), r
}

// MIGMode implements [nvml.API].
func (m *Machine) MIGMode(d nvml.Device) (on, pending bool, r nvml.Result) {
	mig, r := ask(m, "MIGMode", d, func(s *nvml.Status) *nvml.MIG { return s.MIG })
	return mig.On, mig.Pending, r
}

// MaxMIGDevices implements [nvml.API].
func (m *Machine) MaxMIGDevices(d nvml.Device) (int, nvml.Result) {
	return ask(m, "MaxMIGDevices", d, func(s *nvml.Status) *int {
		return field(s.MIG, func(nvml.MIG) int { return 7 })
	})
}

// MIGDevice implements [nvml.API].
func (m *Machine) MIGDevice(d nvml.Device, index int) (nvml.Device, nvml.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, r := m.device("MIGDevice", d)
	if r != nvml.Success {
		return 0, r
	}
	all := m.parts(s.UUID)
	if index < 0 || index >= len(all) {
		return 0, nvml.ResultNotFound
	}
	return all[index], nvml.Success
}

// Parent implements [nvml.API].
func (m *Machine) Parent(mig nvml.Device) (nvml.Device, nvml.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, r := m.device("Parent", mig)
	if r != nvml.Success {
		return 0, r
	}
	if s.Parent == "" {
		return 0, nvml.ResultInvalidArgument
	}
	return m.find(s.Parent), nvml.Success
}

// NVLink implements [nvml.API].
func (m *Machine) NVLink(d nvml.Device, link int) (bool, nvml.Result) {
	return ask(m, "NVLink", d, func(s *nvml.Status) *bool {
		if len(s.NVLinks) == 0 {
			return nil
		}
		return pointer(slices.ContainsFunc(s.NVLinks, func(l nvml.NVLink) bool { return l.Number == link }))
	})
}

// NVLinkRemote implements [nvml.API].
func (m *Machine) NVLinkRemote(d nvml.Device, link int) (string, nvml.Result) {
	return ask(m, "NVLinkRemote", d, func(s *nvml.Status) *string {
		for _, l := range s.NVLinks {
			if l.Number == link {
				return &l.Remote
			}
		}
		return nil
	})
}

// PCIe implements [nvml.API].
func (m *Machine) PCIe(d nvml.Device) (nvml.PCIe, nvml.Result) {
	return ask(m, "PCIe", d, func(s *nvml.Status) *nvml.PCIe {
		return field(s.PCIe, func(l nvml.Link) nvml.PCIe { return l.Now })
	})
}

// MaxPCIe implements [nvml.API].
func (m *Machine) MaxPCIe(d nvml.Device) (nvml.PCIe, nvml.Result) {
	return ask(m, "MaxPCIe", d, func(s *nvml.Status) *nvml.PCIe {
		return field(s.PCIe, func(l nvml.Link) nvml.PCIe { return l.Max })
	})
}

// SupportedEvents implements [nvml.API]: all, and none of a MIG instance.
func (m *Machine) SupportedEvents(d nvml.Device) (nvml.EventType, nvml.Result) {
	return ask(m, "SupportedEvents", d, func(s *nvml.Status) *nvml.EventType {
		if s.Parent != "" {
			return nil
		}
		return pointer(nvml.EventXid | nvml.EventSingleBitECC | nvml.EventDoubleBitECC)
	})
}

// CreateEventSet implements [nvml.API].
func (m *Machine) CreateEventSet() (nvml.EventSet, nvml.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.faults["CreateEventSet"]; r != nvml.Success {
		return 0, r
	}
	m.nextSet++
	m.sets[m.nextSet] = map[nvml.Device]nvml.EventType{}
	return m.nextSet, nvml.Success
}

// RegisterEvents implements [nvml.API].
func (m *Machine) RegisterEvents(d nvml.Device, types nvml.EventType, set nvml.EventSet) nvml.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, r := m.device("RegisterEvents", d); r != nvml.Success {
		return r
	}
	of, ok := m.sets[set]
	if !ok {
		return nvml.ResultInvalidArgument
	}
	of[d] |= types
	return nvml.Success
}

// FreeEventSet implements [nvml.API].
func (m *Machine) FreeEventSet(set nvml.EventSet) nvml.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.sets[set]; !ok {
		return nvml.ResultInvalidArgument
	}
	delete(m.sets, set)
	return nvml.Success
}

// WaitEvent implements [nvml.API].
func (m *Machine) WaitEvent(set nvml.EventSet, milliseconds int) (nvml.Event, nvml.Result) {
	late := time.After(time.Duration(milliseconds) * time.Millisecond)
	for {
		event, r, changed := m.next(set)
		if r != nvml.ResultTimeout {
			return event, r
		}
		select {
		case <-changed:
		case <-late:
			return nvml.Event{}, nvml.ResultTimeout
		}
	}
}

// next takes the first event of a set, or returns what is closed when there are more.
func (m *Machine) next(set nvml.EventSet) (nvml.Event, nvml.Result, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.faults["WaitEvent"]; r != nvml.Success {
		return nvml.Event{}, r, nil
	}
	if _, ok := m.sets[set]; !ok {
		return nvml.Event{}, nvml.ResultInvalidArgument, nil
	}
	i := slices.IndexFunc(m.queue, func(q queued) bool { return q.set == set })
	if i < 0 {
		for d := range m.sets[set] {
			if m.lost[m.all[d-1].UUID] {
				return nvml.Event{}, nvml.ResultGPUIsLost, nil
			}
		}
		return nvml.Event{}, nvml.ResultTimeout, m.changed
	}
	event := m.queue[i].event
	m.queue = slices.Delete(m.queue, i, i+1)
	return event, nvml.Success, nil
}
