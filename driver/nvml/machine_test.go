package nvml

import (
	"slices"
	"sync"
	"time"
)

// machine is a simulated NVML. It implements calls and is safe for concurrent use.
type machine struct {
	mu      sync.Mutex
	all     []Status // a handle is the place in it, from 1 on
	lost    map[string]bool
	faults  map[string]Result
	sets    map[eventSet]map[Device]EventType
	nextSet eventSet
	queue   []queued
	changed chan struct{} // closed and made again with every event
}

type queued struct {
	set   eventSet
	event Event
}

var _ calls = (*machine)(nil)

// newMachine makes a machine of devices. One with a Parent is a MIG instance of it. What is nil in a Status the
// device does not have: ResultNotSupported.
func newMachine(devices ...Status) *machine {
	return &machine{
		all: slices.Clone(devices), lost: map[string]bool{}, faults: map[string]Result{},
		sets: map[eventSet]map[Device]EventType{}, changed: make(chan struct{}),
	}
}

// fail makes a method, such as "memory", return a result from now on. Success ends that.
func (m *machine) fail(method string, r Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults[method] = r
}

// vanish makes a device fall off the bus, with its Xid 79: all calls about it return ResultGPUIsLost, and so
// do waits of an event set that hears of it.
func (m *machine) vanish(uuid string) {
	m.emit(uuid, EventXid, 79)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost[uuid] = true
}

// emit makes a device tell of an event those sets that are registered for it.
func (m *machine) emit(uuid string, kind EventType, xid Xid) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.find(uuid)
	for set, of := range m.sets {
		if of[d]&kind != 0 {
			m.queue = append(m.queue, queued{set, Event{Device: d, Type: kind, Xid: xid}})
		}
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// eventSets returns how many event sets are there: 0 when all watches have ended.
func (m *machine) eventSets() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sets)
}

// registered returns how many devices all event sets hear of. A test that emits waits for that.
func (m *machine) registered() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.sets {
		n += len(of)
	}
	return n
}

// find is the handle of a UUID, or 0. m.mu is held.
func (m *machine) find(uuid string) Device {
	return Device(1 + slices.IndexFunc(m.all, func(s Status) bool { return s.UUID == uuid }))
}

// parts are the places of the devices without a parent, or with one. m.mu is held.
func (m *machine) parts(parent string) (all []Device) {
	for i, s := range m.all {
		if s.Parent == parent {
			all = append(all, Device(i+1))
		}
	}
	return all
}

// ask reads a property of a device that may not have it.
func ask[T any](m *machine, method string, d Device, f func(s *Status) *T) (v T, r Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, r := m.device(method, d)
	if r != Success {
		return v, r
	}
	if p := f(s); p != nil {
		return *p, Success
	}
	return v, ResultNotSupported
}

// device returns the device of a handle. m.mu is held.
func (m *machine) device(method string, d Device) (*Status, Result) {
	switch {
	case m.faults[method] != Success:
		return nil, m.faults[method]
	case d < 1 || int(d) > len(m.all):
		return nil, ResultInvalidArgument
	case m.lost[m.all[d-1].UUID] || m.lost[m.all[d-1].Parent]:
		return nil, ResultGPUIsLost
	}
	return &m.all[d-1], Success
}

func pointer[T any](v T) *T { return &v }

// field is ask for a property of a part of the Status that may be nil.
func field[P, T any](of *P, f func(P) T) *T {
	if of == nil {
		return nil
	}
	return pointer(f(*of))
}

func (m *machine) driverVersion() (string, Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return "580.159.03", m.faults["driverVersion"]
}

func (m *machine) deviceCount() (int, Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.parts("")), m.faults["deviceCount"]
}

func (m *machine) deviceByIndex(index int) (Device, Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.parts("")
	if index < 0 || index >= len(all) {
		return 0, ResultInvalidArgument
	}
	if _, r := m.device("deviceByIndex", all[index]); r != Success {
		return 0, r
	}
	return all[index], Success
}

func (m *machine) deviceByUUID(uuid string) (Device, Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.find(uuid)
	if d == 0 {
		return 0, ResultNotFound
	}
	if _, r := m.device("deviceByUUID", d); r != Success {
		return 0, r
	}
	return d, Success
}

func (m *machine) uuid(d Device) (string, Result) {
	return ask(m, "uuid", d, func(s *Status) *string { return &s.UUID })
}

func (m *machine) name(d Device) (string, Result) {
	return ask(m, "name", d, func(s *Status) *string { return &s.Name })
}

func (m *machine) pciBusID(d Device) (string, Result) {
	return ask(m, "pciBusID", d, func(s *Status) *string { return &s.PCIBusID })
}

func (m *machine) memory(d Device) (Memory, Result) {
	return ask(m, "memory", d, func(s *Status) *Memory { return s.Memory })
}

func (m *machine) utilization(d Device) (Utilization, Result) {
	return ask(m, "utilization", d, func(s *Status) *Utilization { return s.Utilization })
}

func (m *machine) clock(d Device, domain clock) (int, Result) {
	return ask(m, "clock", d, func(s *Status) *int {
		return field(s.Clocks, func(c Clocks) int {
			if domain == clockMemory {
				return c.Memory
			}
			return c.SM
		})
	})
}

func (m *machine) maxClock(d Device, domain clock) (int, Result) {
	return ask(m, "maxClock", d, func(s *Status) *int {
		return field(s.Clocks, func(c Clocks) int {
			if domain == clockMemory {
				return c.MaxMemory
			}
			return c.MaxSM
		})
	})
}

func (m *machine) clockReasons(d Device) (Reasons, Result) {
	return ask(m, "clockReasons", d, func(s *Status) *Reasons {
		return field(s.Clocks, func(c Clocks) Reasons { return c.Reasons })
	})
}

func (m *machine) temperature(d Device) (int, Result) {
	return ask(m, "temperature", d, func(s *Status) *int {
		return field(s.Temperature, func(t Temperature) int { return t.Now })
	})
}

func (m *machine) slowdown(d Device) (int, Result) {
	return ask(m, "slowdown", d, func(s *Status) *int {
		return field(s.Temperature, func(t Temperature) int { return t.Slowdown })
	})
}

func (m *machine) power(d Device) (int, Result) {
	return ask(m, "power", d, func(s *Status) *int {
		return field(s.Power, func(p Power) int { return p.Now })
	})
}

func (m *machine) powerLimit(d Device) (int, Result) {
	return ask(m, "powerLimit", d, func(s *Status) *int {
		return field(s.Power, func(p Power) int { return p.Limit })
	})
}

func (m *machine) eccMode(d Device) (on, pending bool, r Result) {
	ecc, r := ask(m, "eccMode", d, func(s *Status) *ECC { return s.ECC })
	return ecc.On, ecc.Pending, r
}

func (m *machine) eccErrors(d Device, uncorrected, ever bool) (uint64, Result) {
	return ask(m, "eccErrors", d, func(s *Status) *uint64 {
		return field(s.ECC, func(e ECC) uint64 {
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

func (m *machine) remappedRows(d Device) (RemappedRows, Result) {
	return ask(m, "remappedRows", d, func(s *Status) *RemappedRows { return s.Rows })
}

func (m *machine) processes(d Device) ([]Process, Result) {
	all, r := ask(m, "processes", d, func(s *Status) *[]Process { return s.Processes })
	return slices.Clone(all), r
}

func (m *machine) migMode(d Device) (on, pending bool, r Result) {
	mig, r := ask(m, "migMode", d, func(s *Status) *MIG { return s.MIG })
	return mig.On, mig.Pending, r
}

func (m *machine) maxMIGDevices(d Device) (int, Result) {
	return ask(m, "maxMIGDevices", d, func(s *Status) *int {
		return field(s.MIG, func(MIG) int { return 7 })
	})
}

func (m *machine) migDevice(d Device, index int) (Device, Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, r := m.device("migDevice", d)
	if r != Success {
		return 0, r
	}
	all := m.parts(s.UUID)
	if index < 0 || index >= len(all) {
		return 0, ResultNotFound
	}
	return all[index], Success
}

func (m *machine) parent(mig Device) (Device, Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, r := m.device("parent", mig)
	if r != Success {
		return 0, r
	}
	if s.Parent == "" {
		return 0, ResultInvalidArgument
	}
	return m.find(s.Parent), Success
}

func (m *machine) nvLink(d Device, link int) (bool, Result) {
	return ask(m, "nvLink", d, func(s *Status) *bool {
		if len(s.NVLinks) == 0 {
			return nil
		}
		return pointer(slices.ContainsFunc(s.NVLinks, func(l NVLink) bool { return l.Number == link }))
	})
}

func (m *machine) nvLinkRemote(d Device, link int) (string, Result) {
	return ask(m, "nvLinkRemote", d, func(s *Status) *string {
		for _, l := range s.NVLinks {
			if l.Number == link {
				return &l.Remote
			}
		}
		return nil
	})
}

func (m *machine) pcie(d Device) (PCIe, Result) {
	return ask(m, "pcie", d, func(s *Status) *PCIe {
		return field(s.PCIe, func(l Link) PCIe { return l.Now })
	})
}

func (m *machine) maxPCIe(d Device) (PCIe, Result) {
	return ask(m, "maxPCIe", d, func(s *Status) *PCIe {
		return field(s.PCIe, func(l Link) PCIe { return l.Max })
	})
}

func (m *machine) supportedEvents(d Device) (EventType, Result) {
	return ask(m, "supportedEvents", d, func(s *Status) *EventType {
		if s.Parent != "" {
			return nil
		}
		return pointer(EventXid | EventSingleBitECC | EventDoubleBitECC)
	})
}

func (m *machine) createEventSet() (eventSet, Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.faults["createEventSet"]; r != Success {
		return 0, r
	}
	m.nextSet++
	m.sets[m.nextSet] = map[Device]EventType{}
	return m.nextSet, Success
}

func (m *machine) registerEvents(d Device, types EventType, set eventSet) Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, r := m.device("registerEvents", d); r != Success {
		return r
	}
	of, ok := m.sets[set]
	if !ok {
		return ResultInvalidArgument
	}
	of[d] |= types
	return Success
}

func (m *machine) freeEventSet(set eventSet) Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.sets[set]; !ok {
		return ResultInvalidArgument
	}
	delete(m.sets, set)
	return Success
}

func (m *machine) waitEvent(set eventSet, milliseconds int) (Event, Result) {
	late := time.After(time.Duration(milliseconds) * time.Millisecond)
	for {
		event, r, changed := m.next(set)
		if r != ResultTimeout {
			return event, r
		}
		select {
		case <-changed:
		case <-late:
			return Event{}, ResultTimeout
		}
	}
}

// next takes the first event of a set, or returns what is closed when there are more.
func (m *machine) next(set eventSet) (Event, Result, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.faults["waitEvent"]; r != Success {
		return Event{}, r, nil
	}
	if _, ok := m.sets[set]; !ok {
		return Event{}, ResultInvalidArgument, nil
	}
	i := slices.IndexFunc(m.queue, func(q queued) bool { return q.set == set })
	if i < 0 {
		for d := range m.sets[set] {
			if m.lost[m.all[d-1].UUID] {
				return Event{}, ResultGPUIsLost, nil
			}
		}
		return Event{}, ResultTimeout, m.changed
	}
	event := m.queue[i].event
	m.queue = slices.Delete(m.queue, i, i+1)
	return event, Success, nil
}
