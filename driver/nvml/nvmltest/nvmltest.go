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
	"context"
	"slices"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/internal/contain"
)

// Machine is a simulated NVML. It implements [nvml.API] and is safe for concurrent use.
type Machine struct {
	mu      sync.Mutex
	all     []nvml.Status // a handle is the place in it, from 1 on
	lost    map[string]bool
	faults  map[string]nvml.Result
	watches map[*watch]bool
}

// watch is one call of Watch.
type watch struct {
	devices []nvml.Device // that are not lost
	queue   []nvml.Event
	changed chan struct{} // has a value after each event
}

var _ nvml.API = (*Machine)(nil)

// functions are those of NVML that errors of the methods name.
var functions = map[string]string{"Find": "nvmlDeviceGetHandleByUUID", "Memory": "nvmlDeviceGetMemoryInfo",
	"Read": "nvmlDeviceGetHandleByIndex_v2", "ReadAll": "nvmlDeviceGetCount_v2", "Watch": "nvmlEventSetWait_v2"}

// New makes a machine of devices. One with a Parent is a MIG instance of it. A device does not have what is nil in
// its Status.
func New(devices ...nvml.Status) *Machine {
	return &Machine{all: slices.Clone(devices), lost: map[string]bool{}, faults: map[string]nvml.Result{}, watches: map[*watch]bool{}}
}

// Update changes a device. What f puts into the Status must not be changed afterwards.
func (m *Machine) Update(uuid string, f func(*nvml.Status)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.find(uuid); d != 0 {
		f(&m.all[d-1])
	}
}

// Fail makes a method fail with a result from now on: "Find", "Memory", "Read", "ReadAll" or "Watch". A Watch that has
// begun goes on. Success ends that.
func (m *Machine) Fail(method string, r nvml.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults[method] = r
}

// Vanish makes a device fall off the bus, with its Xid 79: all calls about it fail with ResultGPUIsLost.
func (m *Machine) Vanish(uuid string) {
	m.mu.Lock()
	m.lost[uuid] = true
	m.mu.Unlock()
	m.Emit(uuid, nvml.EventXid, 79)
}

// Emit makes a device tell of an event to all calls of Watch that hear of it.
func (m *Machine) Emit(uuid string, kind nvml.EventType, xid nvml.Xid) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.find(uuid)
	for w := range m.watches {
		if slices.Contains(w.devices, d) {
			w.queue = append(w.queue, nvml.Event{Device: d, Type: kind, Xid: xid})
			select {
			case w.changed <- struct{}{}:
			default: // it has not looked since the last one
			}
		}
	}
}

// Watches returns how many calls of Watch there are, and how many devices they hear of. A test waits for the devices
// before it emits, and for 0 when all should have ended.
func (m *Machine) Watches() (calls, devices int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for w := range m.watches {
		devices += len(w.devices)
	}
	return len(m.watches), devices
}

// DriverVersion implements [nvml.API].
func (m *Machine) DriverVersion() string { return "580.159.03" }

// Find implements [nvml.API].
func (m *Machine) Find(uuid string) (nvml.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, prefix := range []string{"GPU-", "MIG-", ""} {
		if d := m.find(prefix + uuid); d != 0 {
			return d, m.failure("Find", d)
		}
	}
	return 0, driver.Errorf(driver.ErrInvalidArgument, "NVML has no device with UUID %q: %w", uuid, nvml.ResultNotFound)
}

// Read implements [nvml.API].
func (m *Machine) Read(d nvml.Device) nvml.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.read(d)
}

// ReadAll implements [nvml.API].
func (m *Machine) ReadAll() (all []nvml.Status, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.faults["ReadAll"]; r != nvml.Success {
		return nil, failed("ReadAll", r)
	}
	for _, d := range m.parts("") {
		all = append(all, m.read(d))
		if m.failure("Read", d) == nil {
			for _, mig := range m.parts(m.all[d-1].UUID) {
				all = append(all, m.read(mig))
			}
		}
	}
	return all, nil
}

// Memory implements [nvml.API].
func (m *Machine) Memory(d nvml.Device) (nvml.Memory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.failure("Memory", d); err != nil {
		return nvml.Memory{}, err
	}
	if memory := m.all[d-1].Memory; memory != nil {
		return *memory, nil
	}
	return nvml.Memory{}, failed("Memory", nvml.ResultNotSupported)
}

// Watch implements [nvml.API]. MIG instances have no events.
func (m *Machine) Watch(ctx context.Context, f func(nvml.Event) error, devices ...nvml.Device) error {
	if ctx == nil || f == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "Watch takes a context and a function that are not nil")
	}
	w, err := m.begin(devices)
	if err != nil {
		return err
	}
	defer m.end(w)
	for ctx.Err() == nil {
		event, ok, err := m.next(w)
		switch {
		case err != nil:
			return err
		case ok:
			if err := contain.Do(func() error { return f(event) }); err != nil {
				return err
			}
			continue
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

func (m *Machine) begin(devices []nvml.Device) (*watch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(devices) == 0 {
		devices = m.parts("")
	}
	w := &watch{changed: make(chan struct{}, 1)}
	for _, d := range devices {
		if err := m.failure("Watch", d); err != nil {
			return nil, err
		}
		if m.all[d-1].Parent == "" {
			w.devices = append(w.devices, d)
		}
	}
	if len(w.devices) == 0 {
		return nil, driver.Errorf(driver.ErrUnsupported, "none of %d devices tells of events: %w", len(devices), nvml.ResultNotSupported)
	}
	m.watches[w] = true
	return w, nil
}

func (m *Machine) end(w *watch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watches, w)
}

// next takes the first event. A device whose events are all taken is left out once it is lost; the loss of the last one
// is an error.
func (m *Machine) next(w *watch) (e nvml.Event, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(w.queue) > 0 {
		e, w.queue = w.queue[0], w.queue[1:]
		return e, true, nil
	}
	for _, d := range w.devices {
		err = m.failure("Watch", d)
	}
	w.devices = slices.DeleteFunc(w.devices, func(d nvml.Device) bool { return m.lost[m.all[d-1].UUID] })
	if len(w.devices) == 0 {
		return e, false, err
	}
	return e, false, nil
}

// find is the handle of a UUID, or 0. m.mu is held.
func (m *Machine) find(uuid string) nvml.Device {
	return nvml.Device(1 + slices.IndexFunc(m.all, func(s nvml.Status) bool { return s.UUID == uuid }))
}

// parts are the devices without a parent, or with one. m.mu is held.
func (m *Machine) parts(parent string) (all []nvml.Device) {
	for i, s := range m.all {
		if s.Parent == parent {
			all = append(all, nvml.Device(i+1))
		}
	}
	return all
}

// read is Read. m.mu is held.
func (m *Machine) read(d nvml.Device) nvml.Status {
	if err := m.failure("Read", d); err != nil {
		return nvml.Status{Unknown: []error{err}}
	}
	s := m.all[d-1]
	if r := m.faults["Memory"]; r != nvml.Success {
		s.Memory, s.Unknown = nil, append(slices.Clone(s.Unknown), failed("Memory", r))
	}
	return s
}

// failure is why a call about a device fails, or nil. m.mu is held.
func (m *Machine) failure(method string, d nvml.Device) error {
	switch r := m.faults[method]; {
	case r != nvml.Success:
		return failed(method, r)
	case d < 1 || int(d) > len(m.all):
		return failed(method, nvml.ResultInvalidArgument)
	case m.lost[m.all[d-1].UUID] || m.lost[m.all[d-1].Parent]:
		return failed(method, nvml.ResultGPUIsLost)
	}
	return nil
}

// failed is the error of a method, of the kind that the real NVML's has.
func failed(method string, r nvml.Result) error {
	kind := driver.ErrDriverCallFailed
	if r == nvml.ResultNotSupported {
		kind = driver.ErrUnsupported
	}
	e := driver.Errorf(kind, "%s: %w", functions[method], r)
	e.Op = functions[method]
	return e
}
