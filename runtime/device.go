package runtime

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/cleantext"
	"github.com/purecuda/purecuda/internal/contain"
)

// Device describes a GPU. Sizes are in bytes, clock rates in kHz.
type Device struct {
	Ordinal    int // as the driver counts, after CUDA_VISIBLE_DEVICES
	Name       string
	UUID       driver.UUID
	PCIBusID   string // "0000:3b:00.0"
	Capability Capability

	Multiprocessors         int
	MaxThreadsPerSM         int
	MaxThreadsPerBlock      int
	MaxBlocksPerSM          int // 0: the driver does not tell
	WarpSize                int
	RegistersPerSM          int // of 32 bits
	RegistersPerBlock       int
	MaxGrid, MaxBlock       [3]int
	SharedPerBlock          int // without asking
	SharedPerBlockOptin     int // when a kernel asks for it
	L2Bytes                 int
	MemoryBusBits           int
	TotalBytes              uint64
	FreeBytes               uint64 // when its context was opened; 0 before. See Runtime.Budget for now
	ECC, Integrated         bool
	MIG                     bool
	ComputeMode             ComputeMode
	MemoryPools             bool
	CooperativeLaunch       bool
	ClusterLaunch           bool
	UnifiedAddressing       bool
	TensorMaps              bool // copies of tiles by hardware, which CUDA calls TMA
	ManagedMemory           bool
	ConcurrentManagedAccess bool // managed memory can be used by the host while the device works
	CopyEngines             int
	// Links are the ordinals of the other devices that reach its memory, and whose memory it reaches, directly: over NVLink or PCIe. See [Islands].
	Links                    []int
	ClockKHz, MemoryClockKHz int
	Score                    float64
	// Err is why the device cannot be used, or nil: its queries failed, it was lost, or its context
	// could not be opened when that was tried last. See [Runtime.Revive].
	Err error
	// Quarantine is why a pool leaves the device out for a while, or nil. Nobody else is kept from using
	// it. See [Runtime.Quarantine].
	Quarantine error

	handle driver.Device
}

// ComputeMode says who may have a context on a device.
type ComputeMode int

// The compute modes of CUDA.
const (
	ComputeModeDefault          ComputeMode = 0 // all processes
	ComputeModeProhibited       ComputeMode = 2 // none
	ComputeModeExclusiveProcess ComputeMode = 3 // one process at a time
)

func (m ComputeMode) String() string {
	switch m {
	case ComputeModeDefault:
		return "default"
	case ComputeModeProhibited:
		return "prohibited"
	case ComputeModeExclusiveProcess:
		return "exclusive process"
	}
	return fmt.Sprintf("compute mode %d", int(m))
}

// Features are the names of what the device can do and others cannot, for people. They are "tensor cores", "cooperative launch",
// "clusters", "tensor maps", "managed memory", "concurrent managed access", "memory pools" and "unified addressing".
func (d Device) Features() []string {
	var names []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"tensor cores", d.Capability.Major >= 7}, // the instructions; the driver has no attribute for the cores
		{"cooperative launch", d.CooperativeLaunch},
		{"clusters", d.ClusterLaunch},
		{"tensor maps", d.TensorMaps},
		{"managed memory", d.ManagedMemory},
		{"concurrent managed access", d.ConcurrentManagedAccess},
		{"memory pools", d.MemoryPools},
		{"unified addressing", d.UnifiedAddressing},
	} {
		if f.has {
			names = append(names, f.name)
		}
	}
	return names
}

// Capability is a compute capability, such as 9.0.
type Capability struct{ Major, Minor int }

func (c Capability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }

// Arch is the capability as compilers count it: 90 for 9.0.
func (c Capability) Arch() int { return c.Major*10 + c.Minor }

const gib = 1 << 30

// Score orders devices. It is the number of multiprocessors, plus 4 for each GiB of free memory. That is what NVML tells when
// the devices are listed. Where NVML does not tell it of all devices, all memory counts. From compute capability 8.0 on it adds 100, and 50 for
// asynchronous copies within a kernel.
func Score(d Device) float64 {
	memory := d.FreeBytes
	if memory == 0 {
		memory = d.TotalBytes
	}
	score := float64(d.Multiprocessors) + 4*float64(memory)/gib
	if d.Capability.Major >= 8 {
		score += 100 + 50
	}
	return score
}

// Budget is the memory that one job may plan with: the free memory, but at most
// half of all.
func Budget(d Device) uint64 {
	half := d.TotalBytes / 2
	if d.FreeBytes != 0 && d.FreeBytes < half {
		return d.FreeBytes
	}
	return half
}

// devices lists what the driver has, best score first. It opens no context: that
// costs about 125 ms and hundreds of MB for each device. A device that fails its
// queries is listed last with the reason.
func listDevices(api driver.API, cfg *config) ([]Device, error) {
	count, r := api.DeviceGetCount()
	if r != driver.Success {
		return nil, machine(api).Fault("cuDeviceGetCount", r)
	}
	var devices []Device
	for i := range int(count) {
		devices = append(devices, queryDevice(api, i))
	}
	devices, err := filterDevices(devices, cfg.devices)
	if err != nil {
		return nil, err
	}
	findLinks(api, devices)
	for i, d := range forScore(cfg.nvml, devices) {
		if devices[i].Score, err = cfg.scoreOf(d); err != nil {
			return nil, err
		}
	}
	sortDevices(devices)
	return devices, nil
}

// scoreOf calls the score, which may be the program's.
func (cfg *config) scoreOf(d Device) (score float64, err error) {
	err = contain.Do(func() error { score = cfg.score(d); return nil })
	if err != nil {
		err = fmt.Errorf("scoring the devices: %w", err)
	}
	return score, err
}

func sortDevices(devices []Device) {
	sort.SliceStable(devices, func(i, j int) bool {
		a, b := devices[i], devices[j]
		if (a.Err == nil) != (b.Err == nil) {
			return a.Err == nil
		}
		return a.Score > b.Score
	})
}

func queryDevice(api driver.API, ordinal int) Device {
	d := Device{Ordinal: ordinal}
	q := query{api: api}
	var r driver.Result
	if d.handle, r = api.DeviceGet(int32(ordinal)); !q.ok("cuDeviceGet", r) {
		d.Err = q.failed(ordinal)
		return d
	}
	q.device = d.handle
	name, r := api.DeviceGetName(d.handle)
	q.ok("cuDeviceGetName", r)
	d.Name = cleantext.String(name)
	d.TotalBytes, r = api.DeviceTotalMem(d.handle)
	q.ok("cuDeviceTotalMem", r)
	// Identity is for people and logs: a device without it works as well.
	d.UUID, _ = api.DeviceGetUUID(d.handle)
	id, _ := api.DeviceGetPCIBusID(d.handle)
	d.PCIBusID = cleantext.String(id)

	d.Capability.Major = q.attribute(driver.DeviceAttributeComputeCapabilityMajor)
	d.Capability.Minor = q.attribute(driver.DeviceAttributeComputeCapabilityMinor)
	d.Multiprocessors = q.attribute(driver.DeviceAttributeMultiprocessorCount)
	d.MaxThreadsPerSM = q.attribute(driver.DeviceAttributeMaxThreadsPerMultiprocessor)
	d.MaxThreadsPerBlock = q.attribute(driver.DeviceAttributeMaxThreadsPerBlock)
	d.MaxGrid = [3]int{
		q.attribute(driver.DeviceAttributeMaxGridDimX),
		q.attribute(driver.DeviceAttributeMaxGridDimY),
		q.attribute(driver.DeviceAttributeMaxGridDimZ),
	}
	d.MaxBlock = [3]int{
		q.attribute(driver.DeviceAttributeMaxBlockDimX),
		q.attribute(driver.DeviceAttributeMaxBlockDimY),
		q.attribute(driver.DeviceAttributeMaxBlockDimZ),
	}
	d.SharedPerBlock = q.attribute(driver.DeviceAttributeMaxSharedMemoryPerBlock)
	d.WarpSize = q.attribute(driver.DeviceAttributeWarpSize)
	d.MaxBlocksPerSM = q.optional(driver.DeviceAttributeMaxBlocksPerMultiprocessor)
	d.RegistersPerSM = q.optional(driver.DeviceAttributeMaxRegistersPerMultiprocessor)
	d.RegistersPerBlock = q.optional(driver.DeviceAttributeMaxRegistersPerBlock)
	d.L2Bytes = q.optional(driver.DeviceAttributeL2CacheSize)
	d.MemoryBusBits = q.optional(driver.DeviceAttributeGlobalMemoryBusWidth)
	d.ComputeMode = ComputeMode(q.optional(driver.DeviceAttributeComputeMode))
	d.TensorMaps = q.optional(driver.DeviceAttributeTensorMapAccessSupported) != 0
	d.ManagedMemory = q.optional(driver.DeviceAttributeManagedMemory) != 0
	d.SharedPerBlockOptin = q.optional(driver.DeviceAttributeMaxSharedMemoryPerBlockOptin)
	d.ECC = q.optional(driver.DeviceAttributeECCEnabled) != 0
	d.Integrated = q.optional(driver.DeviceAttributeIntegrated) != 0
	d.MemoryPools = q.optional(driver.DeviceAttributeMemoryPoolsSupported) != 0
	d.CooperativeLaunch = q.optional(driver.DeviceAttributeCooperativeLaunch) != 0
	d.ClusterLaunch = q.optional(driver.DeviceAttributeClusterLaunch) != 0
	d.UnifiedAddressing = q.optional(driver.DeviceAttributeUnifiedAddressing) != 0
	d.ConcurrentManagedAccess = q.optional(driver.DeviceAttributeConcurrentManagedAccess) != 0
	d.CopyEngines = q.optional(driver.DeviceAttributeAsyncEngineCount)
	d.ClockKHz = q.optional(driver.DeviceAttributeClockRate)
	d.MemoryClockKHz = q.optional(driver.DeviceAttributeMemoryClockRate)
	// The driver API has no attribute for MIG; instances carry it in their name.
	d.MIG = strings.Contains(d.Name, " MIG ")
	if q.result != driver.Success {
		d.Err = q.failed(ordinal)
	}
	return d
}

// query asks for properties of one device and keeps the first failure.
type query struct {
	api    driver.API
	device driver.Device
	op     string
	result driver.Result
}

func (q *query) ok(op string, r driver.Result) bool {
	if r != driver.Success && q.result == driver.Success {
		q.op, q.result = op, r
	}
	return r == driver.Success
}

func (q *query) attribute(a driver.DeviceAttribute) int {
	v, r := q.api.DeviceGetAttribute(a, q.device)
	q.ok("cuDeviceGetAttribute", r)
	return int(v)
}

// optional gives 0 for what the driver does not know.
func (q *query) optional(a driver.DeviceAttribute) int {
	v, _ := q.api.DeviceGetAttribute(a, q.device)
	return int(v)
}

func (q *query) failed(ordinal int) error {
	err := machine(q.api).Fault(q.op, q.result)
	err.Device = ordinal
	return err
}

// filterDevices keeps the named ones, in the driver's order.
func filterDevices(devices []Device, names []string) ([]Device, error) {
	if len(names) == 0 {
		return devices, nil
	}
	keep := make([]bool, len(devices))
	for _, name := range names {
		found := false
		for i, d := range devices {
			if d.named(name) {
				keep[i], found = true, true
			}
		}
		if !found {
			known := make([]string, len(devices))
			for i, d := range devices {
				known[i] = fmt.Sprintf("%d (GPU-%v)", d.Ordinal, d.UUID)
			}
			return nil, driver.Errorf(driver.ErrInvalidArgument,
				"no device %q: want an ordinal or the beginning of a UUID; there are: %s", name, strings.Join(known, ", "))
		}
	}
	var kept []Device
	for i, d := range devices {
		if keep[i] {
			kept = append(kept, d)
		}
	}
	return kept, nil
}

func (d Device) named(name string) bool {
	if n, err := strconv.Atoi(name); err == nil {
		return n == d.Ordinal
	}
	name = strings.ToLower(name)
	for _, prefix := range []string{"gpu-", "mig-"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name != "" && strings.HasPrefix(d.UUID.String(), name)
}

// String is the form of a device in a report: "0: NVIDIA H100 80GB HBM3 (9.0)".
func (d Device) String() string {
	return fmt.Sprintf("%d: %s (%v)", d.Ordinal, d.Name, d.Capability)
}
